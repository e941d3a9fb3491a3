/** The maintenance endpoint: one port, plain or TLS, all services a client such as ydbops calls. */
import { Server, ServerCredentials } from '@grpc/grpc-js';
import { BelayError } from '../base/error.ts';
import type { Secret } from '../base/secret.ts';
import { MIB } from '../base/units.ts';
import { definitionOf } from './definition.ts';
import { AuthService } from './gen/auth_v1_pb.js';
import { CmsService } from './gen/cms_v1_pb.js';
import { DiscoveryService } from './gen/discovery_v1_pb.js';
import { MaintenanceService } from './gen/maintenance_v1_pb.js';
import {
  authService,
  cmsService,
  discoveryService,
  maintenanceService,
  type ServiceDeps,
} from './service.ts';

/** Clients send and take as much. */
const MESSAGE_LIMIT = 32 * MIB;

export interface EndpointOptions extends ServiceDeps {
  readonly host: string;
  /** 0: any free one. */
  readonly port: number;
  /** Certificate and key in PEM; without it the endpoint is plain. */
  readonly tls?: { readonly certificatePem: string; readonly keyPem: Secret<string> };
}

export interface Endpoint {
  readonly port: number;
  close(): Promise<void>;
}

/** Listens. `PortTaken`, `CannotListen` (never). */
export async function serveMaintenance(options: EndpointOptions): Promise<Endpoint> {
  const server = new Server({
    'grpc.max_receive_message_length': MESSAGE_LIMIT,
    'grpc.max_send_message_length': MESSAGE_LIMIT,
  });
  server.addService(definitionOf(MaintenanceService), maintenanceService(options));
  server.addService(definitionOf(AuthService), authService(options));
  server.addService(definitionOf(DiscoveryService), discoveryService(options));
  server.addService(definitionOf(CmsService), cmsService(options));
  const port = await bind(server, options);
  return {
    port,
    close: () =>
      new Promise((resolve) => {
        server.tryShutdown(() => resolve());
        // Clients that keep an idle connection open must not hold up the end.
        server.forceShutdown();
      }),
  };
}

function bind(server: Server, { host, port, tls }: EndpointOptions): Promise<number> {
  const credentials =
    tls === undefined
      ? ServerCredentials.createInsecure()
      : ServerCredentials.createSsl(null, [
          { private_key: Buffer.from(tls.keyPem.reveal()), cert_chain: Buffer.from(tls.certificatePem) },
        ]);
  const address = host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
  return new Promise((resolve, reject) => {
    server.bindAsync(address, credentials, (failure, bound) => {
      if (failure === null) return resolve(bound);
      const taken = /EADDRINUSE|address already in use/i.test(failure.message);
      reject(
        new BelayError(
          taken ? 'PortTaken' : 'CannotListen',
          `the maintenance endpoint cannot be served on ${address}: ${failure.message}`,
          {
            retry: 'never',
            fix: 'choose another address with --maintenance-listen HOST:PORT',
            cause: failure,
          },
        ),
      );
    });
  });
}
