/** Where agents come in: joining with a one-time token, and the channel over mutual TLS. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { hostname } from 'node:os';
import { asBelayError, BelayError } from '../base/error.ts';
import { DAY, type Millis } from '../base/units.ts';
import { type AgentServer, createJoinHandler, type JoinAnswer } from '../channel/index.ts';
import type { CertificateAuthority, Clock, Log, Store } from '../engine/ports.ts';
import type { ReplaceableAuthority } from '../security/ca.ts';
import type { Tokens } from '../security/tokens.ts';
import { isWildcard, ownCertificate } from './ownCertificate.ts';

/** Agents' certificates: renewed by themselves at a third of their life. */
const HOST_CERTIFICATE_LIFE: Millis = 90 * DAY;
/** Body of a join request. */
const JOIN_BODY_LIMIT = 64 * 1024;

export interface ListenOptions {
  /** Where agents connect; port 0 takes a free one. */
  readonly agentListen: { readonly host: string; readonly port: number };
  /** Names agents reach this machine by, besides localhost and the host's name. */
  readonly agentNames?: readonly string[];
  /** What joining agents are told to connect to; without it the address listened on. */
  readonly agentUrls?: readonly string[];
}

export interface AgentListener {
  /** What agents connect to. */
  readonly urls: readonly string[];
  close(): Promise<void>;
}

const hostKey = (name: string) => ({ kind: 'Host', namespace: 'default', name });

/** A certificate counts only while the host's document is there: deleting it locks the host out. */
export async function knownHost(store: Store, name: string): Promise<string | null> {
  return (await store.get(hostKey(name))) === null ? null : name;
}

/** A certificate for the key a host made itself. */
export function certifyHost(
  ca: CertificateAuthority,
  host: string,
  csrPem: string,
): Promise<{ readonly certificatePem: string }> {
  return ca.sign(csrPem, {
    commonName: host,
    organizationalUnit: 'agents',
    names: [],
    usages: ['client'],
    validForMillis: HOST_CERTIFICATE_LIFE,
  });
}

/** A host that joins gets a document, unless somebody wrote one for it before. */
async function rememberHost(store: Store, name: string): Promise<void> {
  if ((await store.get(hostKey(name))) !== null) return;
  const spec = { unschedulable: false, failureDomains: {} };
  await store.create({ ...hostKey(name), spec }).catch((failure: unknown) => {
    if (asBelayError(failure).code !== 'AlreadyExists') throw failure;
  });
}

/** Opens the listener. `PortTaken`, `CannotListen` (never). */
export async function listenForAgents(
  options: ListenOptions,
  parts: {
    readonly store: Store;
    readonly ca: ReplaceableAuthority;
    readonly tokens: Tokens;
    readonly agents: AgentServer;
    readonly clock: Clock;
    readonly log: Log;
  },
): Promise<AgentListener> {
  const { store, ca, tokens, agents } = parts;
  const { host, port } = options.agentListen;
  const own = await ownCertificate(parts, {
    commonName: 'belay',
    names: [host, ...(options.agentNames ?? []), ...namesOf(options.agentUrls ?? [])],
    clients: true,
  });
  const server = createServer({
    key: own.pem,
    cert: own.pem,
    ca: ca.caPem,
    requestCert: true,
    rejectUnauthorized: false,
  });
  let urls = options.agentUrls ?? [];
  const join = createJoinHandler({
    redeem: async (token, name) => {
      await tokens.useJoinToken(token, name);
    },
    sign: async (name, csrPem) => {
      const signed = await certifyHost(ca, name, csrPem);
      await rememberHost(store, name);
      return signed;
    },
    caPem: () => ca.caPem,
    urls: () => urls,
  });
  server.on('request', (request, response) => void answer(request, response, ca.caPem, join));
  await listen(server, host, port);
  if (urls.length === 0)
    urls = [`https://${isWildcard(host) ? hostname() : bracketed(host)}:${portOf(server)}`];
  agents.attachTo(server);
  const stop = own.keep(server);
  return {
    urls,
    close: () => {
      stop();
      return closeServer(server);
    },
  };
}

/** Host names of URLs, as certificates have them: the name that others connect to must be one of them. `Usage` (never). */
export const namesOf = (urls: readonly string[]): readonly string[] =>
  urls.map((url) => {
    if (URL.canParse(url)) return new URL(url).hostname.replace(/^\[|\]$/g, '');
    const fix = 'write it like https://control.example.com:7718';
    throw new BelayError('Usage', `${url} is not a URL`, { retry: 'never', fix });
  });

const bracketed = (host: string): string => (host.includes(':') ? `[${host}]` : host);
const portOf = (server: Server): number => (server.address() as AddressInfo).port;

function listen(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (failure: NodeJS.ErrnoException) => {
      const taken = failure.code === 'EADDRINUSE';
      reject(
        new BelayError(
          taken ? 'PortTaken' : 'CannotListen',
          `agents cannot be served on ${host}:${port}: ${failure.message}`,
          {
            retry: 'never',
            fix: 'Choose another address with --agent-listen HOST:PORT, or stop what listens there.',
          },
        ),
      );
    });
    server.listen(port, host, resolve);
  });
}

function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}

// ── joining ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** The two plain requests of a host that has no certificate yet. */
async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  caPem: string,
  join: (body: unknown) => Promise<JoinAnswer>,
): Promise<void> {
  const path = new URL(request.url ?? '/', 'https://host').pathname;
  if (request.method === 'GET' && path === '/agent/v1/ca') {
    response.writeHead(200, { 'content-type': 'application/x-pem-file' }).end(caPem);
    return;
  }
  if (request.method !== 'POST' || path !== '/agent/v1/join') {
    send(
      response,
      404,
      problemOf(new BelayError('NotFound', `there is nothing at ${path}`, { retry: 'never' })),
    );
    return;
  }
  try {
    send(response, 200, await join(JSON.parse(await bodyOf(request))));
  } catch (failure) {
    const error = failure instanceof SyntaxError ? malformed() : asBelayError(failure);
    send(response, error.retry === 'never' ? 403 : 503, problemOf(error));
  }
}

const malformed = (): BelayError =>
  new BelayError('Malformed', 'the join request is not JSON', { retry: 'never' });

function send(response: ServerResponse, status: number, body: unknown): void {
  const type = status === 200 ? 'application/json' : 'application/problem+json';
  response.writeHead(status, { 'content-type': type, connection: 'close' }).end(JSON.stringify(body));
}

const problemOf = (error: BelayError): unknown => ({
  title: error.code,
  code: error.code,
  detail: error.message,
  ...(error.fix === undefined ? {} : { fix: error.fix }),
});

async function bodyOf(request: IncomingMessage): Promise<string> {
  let body = '';
  request.setEncoding('utf8');
  for await (const chunk of request) {
    body += chunk as string;
    if (body.length > JOIN_BODY_LIMIT) throw malformed();
  }
  return body;
}
