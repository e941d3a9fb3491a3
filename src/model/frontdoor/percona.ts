import { API_VERSION } from '../meta.ts';
import type { Foreign } from './foreign.ts';

/** API version of the Percona operator's resources. */
export const PERCONA_COM = 'psmdb.percona.com/v1';

/** Documents of the Percona operator are refused for now, with what to do instead. */
export function convertPercona(): Foreign {
  const message = `${PERCONA_COM} is not supported yet; declare a MongoDB of ${API_VERSION}, see belay explain mongodb`;
  return { problems: [{ path: 'apiVersion', message }], warnings: [], report: [], origin: (path) => path };
}
