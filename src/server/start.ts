/** The server process: a control plane and the API in front of it. */
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { createServer as createHttpsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { BelayError } from '../base/error.ts';
import type { Log } from '../engine/ports.ts';
import type { Endpoint } from '../grpc/index.ts';
import { atomicWriteFile } from '../security/files.ts';
import { loadMasterKey } from '../security/master-key.ts';
import type { MasterKey } from '../security/seal.ts';
import { hasMasterKey } from '../security/secrets.ts';
import { openStore } from '../store/open.ts';
import { namesOf } from './agentListener.ts';
import { buildApi, type ServerFactory } from './api.ts';
import { systemClock } from './clock.ts';
import { type ControlPlane, openControlPlane } from './controlplane.ts';
import type { ApiDeps, JoinInvitation } from './deps.ts';
import { HostMembers } from './hostMembers.ts';
import { masterKeyFile, storeUrlOf } from './masterKey.ts';
import { makeMetrics } from './metrics.ts';
import { isWildcard, ownCertificate } from './ownCertificate.ts';

export interface Address {
  readonly host: string;
  readonly port: number;
}

export interface ServerOptions {
  readonly dataDir: string;
  readonly storeUrl?: string;
  readonly listen: Address;
  readonly agentListen: Address;
  /** What joining agents are told to connect to. */
  readonly publicUrls?: readonly string[];
  readonly masterKeyFile?: string;
  /** How urgent the control plane's own work is beside people's maintenance tasks; a smaller number is more urgent. */
  readonly maintenancePriority?: number;
  /** YDB's maintenance service over gRPC; not served without it. */
  readonly maintenance?: Address & { readonly compat: boolean; readonly topology?: string };
  /** Serve the API over TLS with a certificate of the installation's CA. Needed off loopback. */
  readonly tls: boolean;
  readonly version: string;
  readonly log: Log;
}

export interface RunningServer {
  readonly url: string;
  readonly agentUrls: readonly string[];
  readonly caFingerprint: string;
  readonly caPem: string;
  /** The same in a file, for clients that connect over TLS. */
  readonly caFile: string;
  /** File with an admin token, made at the first start. */
  readonly tokenFile: string;
  /** Port of the maintenance service; null: it is not served. */
  readonly maintenancePort: number | null;
  readonly controlPlane: ControlPlane;
  createJoinToken(host: string, ttlMillis: number): Promise<JoinInvitation>;
  close(): Promise<void>;
}

/** `host:port`, `[::1]:port` or `:port` (all addresses). */
export function parseAddress(text: string): Address {
  const match = /^(?:\[([^\]]+)\]|([^:]*)):(\d{1,5})$/.exec(text);
  const port = Number(match?.[3]);
  if (match === null || port > 65_535) {
    throw new BelayError('Usage', `${text} is not an address to listen on`, {
      retry: 'never',
      fix: 'write host:port, 127.0.0.1:7717 for example',
    });
  }
  return { host: match[1] ?? (match[2] === '' || match[2] === undefined ? '0.0.0.0' : match[2]), port };
}

/** Whether an address to listen on is reached from this machine only. */
export const isLoopback = (host: string): boolean => /^(localhost|::1|127(\.\d+){3})$/.test(host);

/** Opens everything; when the API cannot listen, everything is closed again. */
export async function startServer(options: ServerOptions): Promise<RunningServer> {
  const { dataDir, listen, log } = options;
  for (const [what, at] of [
    ['the API', listen],
    ['maintenance', options.maintenance],
  ] as const) {
    if (options.tls || at === undefined || isLoopback(at.host)) continue;
    throw new BelayError('Usage', `${what} would be served without TLS on ${at.host}`, {
      retry: 'never',
      fix: 'add --tls, or listen on 127.0.0.1',
    });
  }
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const storeUrl = options.storeUrl ?? storeUrlOf(dataDir);
  const masterKey = await findMasterKey(options, storeUrl);
  const { maintenancePriority } = options;
  const controlPlane = await openControlPlane({
    ...(maintenancePriority === undefined ? {} : { maintenancePriority }),
    storeUrl,
    dataDir,
    masterKey,
    log,
    agentListen: options.agentListen,
    ...(options.publicUrls === undefined ? {} : { agentUrls: options.publicUrls }),
    version: options.version,
  });
  try {
    return await serve(options, controlPlane);
  } catch (error) {
    await controlPlane.close();
    throw error;
  }
}

/** A new key could not open what is sealed already: a key file is made only for a store that never had a key. */
async function findMasterKey(options: ServerOptions, storeUrl: string): Promise<MasterKey> {
  const file = options.masterKeyFile ?? masterKeyFile(options.dataDir);
  const sources = { file, environment: process.env };
  if (existsSync(file) || options.masterKeyFile !== undefined) return loadMasterKey(sources);
  const store = await openStore(storeUrl, { clock: systemClock });
  const known = await hasMasterKey(store).finally(() => store.close());
  return loadMasterKey({ ...sources, create: !known });
}

async function serve(options: ServerOptions, controlPlane: ControlPlane): Promise<RunningServer> {
  const { listen, log } = options;
  const { caPem } = controlPlane.ca;
  const deps = apiDeps(options, controlPlane);
  const tokenFile = await ensureAdminToken(options.dataDir, controlPlane);
  const caFile = path.join(options.dataDir, 'ca.pem');
  await atomicWriteFile(caFile, caPem, 0o644);
  // Clients on this machine trust what is in the file: it follows a replaced authority.
  const leave = controlPlane.ca.onChange(() => void atomicWriteFile(caFile, controlPlane.ca.caPem, 0o644));
  // For every name this machine is known by: people connect to the API by the same ones as agents.
  const names = [listen.host, ...namesOf(options.publicUrls ?? [])];
  const own = options.tls
    ? await ownCertificate(controlPlane, { commonName: 'belay-api', names, clients: false })
    : null;
  let stop = (): void => {};
  const factory: ServerFactory | null =
    own === null
      ? null
      : (handler) => {
          const server = createHttpsServer({ key: own.pem, cert: own.pem }, handler);
          stop = own.keep(server);
          return server;
        };
  const app = buildApi(deps, () => controlPlane.ca.caPem, factory);
  try {
    await app.listen({ host: listen.host, port: listen.port });
  } catch (failure) {
    const taken = (failure as NodeJS.ErrnoException).code === 'EADDRINUSE';
    throw new BelayError(
      taken ? 'PortTaken' : 'CannotListen',
      `the API cannot be served on ${listen.host}:${listen.port}: ${(failure as Error).message}`,
      {
        retry: 'never',
        fix: 'choose another address with --listen HOST:PORT, or stop what listens there',
        cause: failure,
      },
    );
  }
  const port = (app.server.address() as AddressInfo).port;
  // An address that stands for all is none to connect to; on this machine localhost always is.
  const reached = isWildcard(listen.host) ? 'localhost' : listen.host;
  const host = reached.includes(':') ? `[${reached}]` : reached;
  const url = `${own === null ? 'http' : 'https'}://${host}:${port}`;
  const endpoint = await maintenanceEndpoint(options, controlPlane).catch(async (failure) => {
    await app.close();
    throw failure;
  });
  log.info('serving', { url, listen: `${listen.host}:${port}`, agents: controlPlane.agentUrls });
  return {
    url,
    agentUrls: controlPlane.agentUrls,
    caFingerprint: controlPlane.caFingerprint,
    caPem,
    caFile,
    tokenFile,
    maintenancePort: endpoint?.port ?? null,
    controlPlane,
    createJoinToken: deps.createJoinToken,
    close: async () => {
      leave();
      stop();
      await endpoint?.close();
      await app.close();
      await controlPlane.close();
    },
  };
}

async function maintenanceEndpoint(
  { maintenance, tls, publicUrls }: ServerOptions,
  controlPlane: ControlPlane,
): Promise<Endpoint | null> {
  if (maintenance === undefined) return null;
  const { openMaintenanceEndpoint } = await import('./maintenanceEndpoint.ts');
  return openMaintenanceEndpoint(controlPlane, { ...maintenance, tls, names: namesOf(publicUrls ?? []) });
}

function apiDeps(options: ServerOptions, controlPlane: ControlPlane): ApiDeps {
  const { store, secrets, agents, clock, log, tokens, engine, provider, caRotation, maintenance } =
    controlPlane;
  const members = new HostMembers(engine.informer);
  const metrics = makeMetrics({ engine, agents, store });
  return {
    store,
    secrets,
    agents,
    clock,
    log,
    tokens,
    maintenance,
    caRotation,
    provider: provider.provider,
    authenticate: (token) => tokens.verifyApiToken(token),
    createJoinToken: async (host, ttlMillis) => {
      const made = await tokens.createJoinToken({ host, validFor: ttlMillis });
      const expiresAt = new Date(made.expiresAt ?? 0).toISOString();
      return {
        token: made.token.reveal(),
        expiresAt,
        urls: controlPlane.agentUrls,
        caFingerprint: controlPlane.caFingerprint,
      };
    },
    membersOn: (host) => [...new Set([...members.on(host), ...provider.membersOn(host)])],
    metrics: () => metrics.text(),
    counted: metrics.counted,
    ready: () => controlPlane.ready(),
    version: options.version,
  };
}

/** The first token: an admin's, in a file that only this user may read. One that was revoked or lost is made anew. */
async function ensureAdminToken(dataDir: string, { tokens }: ControlPlane): Promise<string> {
  const file = path.join(dataDir, 'admin.token');
  if (existsSync(file)) {
    try {
      await tokens.verifyApiToken(readFileSync(file, 'utf8').trim());
      return file;
    } catch {
      // Of another store, or revoked.
    }
  }
  const made = await tokens.createApiToken({ name: 'first admin', role: 'admin', validFor: null });
  await atomicWriteFile(file, `${made.token.reveal()}\n`, 0o600);
  return file;
}
