/** Which version this stand-in plays. */
import { basename, dirname } from 'node:path';
import { DEFAULT_VERSION } from '../wire/versions.ts';

const VERSION = /^\d+\.\d+\.\d+(-\w+)?$/;

/**
 * BELAY_SIM_VERSION, or the folder above `bin` in the path the executable was called by (`BIN_DIR/<version>/bin/mongod`),
 * or the default.
 */
export function playedVersion(env: NodeJS.ProcessEnv): string {
  const named = env['BELAY_SIM_VERSION'];
  if (named !== undefined && VERSION.test(named)) return named;
  const folder = basename(dirname(dirname(env['BELAY_SIM_CALLED_AS'] ?? '')));
  return VERSION.test(folder) ? folder : DEFAULT_VERSION;
}
