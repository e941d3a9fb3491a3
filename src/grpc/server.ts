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
  /** Key and certificate, one PEM; without it the endpoint is plain. */
  readonly tls?: { readonly pem: Secret<string> };
}

export interface Endpoint {
  readonly port: number;
  /** Serves with another certificate from now on. Clients that are connected connect again. */
  renew(pem: Secret<string>): Promise<void>;
  close(): Promise<void>;
}

/** Listens. `PortTaken`, `CannotListen` (never). */
export async function serveMaintenance(options: EndpointOptions): Promise<Endpoint> {
  let server = serverOf(options);
  const port = await bind(server, options);
  return {
    port,
    renew: async (pem) => {
      await stop(server);
      server = serverOf(options);
      await bind(server, { ...options, port, tls: { pem } });
    },
    close: () => stop(server),
  };
}

function serverOf(deps: ServiceDeps): Server {
  const server = new Server({
    'grpc.max_receive_message_length': MESSAGE_LIMIT,
    'grpc.max_send_message_length': MESSAGE_LIMIT,
  });
  server.addService(definitionOf(MaintenanceService), maintenanceService(deps));
  server.addService(definitionOf(AuthService), authService(deps));
  server.addService(definitionOf(DiscoveryService), discoveryService(deps));
  server.addService(definitionOf(CmsService), cmsService(deps));
  return server;
}

/** Clients that keep an idle connection open must not hold up the end. */
const stop = (server: Server): Promise<void> =>
  new Promise((resolve) => {
    server.tryShutdown(() => resolve());
    server.forceShutdown();
  });

function bind(server: Server, { host, port, tls }: EndpointOptions): Promise<number> {
  const address = host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
  return new Promise((resolve, reject) => {
    server.bindAsync(address, credentialsOf(tls), (failure, bound) => {
      if (failure === null) return resolve(bound);
      const taken = /EADDRINUSE|address already in use/i.test(failure.message);
      const message = `the maintenance endpoint cannot be served on ${address}: ${failure.message}`;
      const fix = 'choose another address with --maintenance-listen HOST:PORT';
      reject(
        new BelayError(taken ? 'PortTaken' : 'CannotListen', message, {
          retry: 'never',
          fix,
          cause: failure,
        }),
      );
    });
  });
}

function credentialsOf(tls: EndpointOptions['tls']): ServerCredentials {
  if (tls === undefined) return ServerCredentials.createInsecure();
  const pem = Buffer.from(tls.pem.reveal());
  return ServerCredentials.createSsl(null, [{ private_key: pem, cert_chain: pem }]);
}
