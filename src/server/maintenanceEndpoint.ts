/** The gRPC port of the maintenance authority, beside the API: plain on this machine, with the API's kind of certificate elsewhere. */
import { Secret } from '../base/secret.ts';
import { type Endpoint, serveMaintenance } from '../grpc/index.ts';
import { BETTER, ORIGINAL } from '../maintenance/index.ts';
import type { ControlPlane } from './controlplane.ts';
import { ownCertificate } from './ownCertificate.ts';

export interface MaintenanceEndpointOptions {
  readonly host: string;
  readonly port: number;
  readonly tls: boolean;
  /** Names this machine is reached by. */
  readonly names: readonly string[];
  /** Judge tasks that come this way as YDB's own service does. */
  readonly compat: boolean;
  /** Topology a client speaks of that names none. */
  readonly topology?: string;
}

/** Serves it until closed. `PortTaken`, `CannotListen` (never). */
export async function openMaintenanceEndpoint(
  controlPlane: ControlPlane,
  options: MaintenanceEndpointOptions,
): Promise<Endpoint> {
  const { maintenance: authority, tokens, engine, log } = controlPlane;
  const { host, port, topology } = options;
  const own = options.tls
    ? await ownCertificate(controlPlane, {
        commonName: 'belay-maintenance',
        names: [host, ...options.names],
        clients: false,
      })
    : null;
  const endpoint = await serveMaintenance({
    host,
    port,
    authority,
    log,
    authenticate: (token) => tokens.verifyApiToken(token),
    topologies: () =>
      engine.informer
        .all('Topology')
        .map((o) => o.metadata.name)
        .sort(),
    compat: options.compat ? ORIGINAL : BETTER,
    ...(topology === undefined ? {} : { topology }),
    ...(own === null ? {} : { tls: { pem: new Secret(own.pem) } }),
  });
  const stop = own?.keep({
    setSecureContext: ({ key }) => {
      endpoint.renew(new Secret(String(key))).catch((failure) =>
        log.error('the maintenance endpoint could not take its new certificate', {
          failure: String(failure),
        }),
      );
    },
  });
  log.info('serving maintenance', { port: endpoint.port, tls: options.tls });
  return {
    ...endpoint,
    close: async () => {
      stop?.();
      await endpoint.close();
    },
  };
}
