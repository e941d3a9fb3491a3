/** The REST API over a whole control plane in memory: real engine, provider, secrets and tokens; pretended hosts and time. */
import type { FastifyInstance } from 'fastify';
import { Authority, FLEET_KINDS, InformerFleet } from '../../authority/index.ts';
import { HOUR } from '../../base/units.ts';
import { Informer } from '../../engine/informer.ts';
import type { Log } from '../../engine/ports.ts';
import { makeRig, type Rig, type Running } from '../../provider/testing/rig.ts';
import { openTokens, type Role, type Tokens } from '../../security/tokens.ts';
import { buildApi } from '../api.ts';
import type { ApiDeps } from '../deps.ts';
import { HostMembers } from '../hostMembers.ts';

export type Json = Record<string, unknown>;

export interface Answer {
  readonly status: number;
  readonly type: string;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of any shape
  readonly body: any;
}
export interface Sent {
  readonly as?: Role | null;
  readonly token?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  readonly type?: string;
}

export interface ApiRig extends Rig {
  readonly control: Running;
  readonly tokens: Tokens;
  readonly app: FastifyInstance;
  readonly deps: ApiDeps;
  readonly lines: readonly string[];
  readonly token: Readonly<Record<Role, string>>;
  /** One request, as an admin unless told otherwise. */
  call(method: string, url: string, sent?: Sent): Promise<Answer>;
  close(): Promise<void>;
}

export const CA_PEM = '-----BEGIN CERTIFICATE-----\nnot a real one\n-----END CERTIFICATE-----\n';

const noAuthority = (): never => {
  throw new Error('this rig replaces no authority');
};

/** Opens it; `change` replaces what a test wants to behave otherwise. */
export async function makeApi(
  change: (deps: ApiDeps) => Partial<ApiDeps> = () => ({}),
  hosts?: readonly string[],
): Promise<ApiRig> {
  const rig = makeRig(hosts);
  const lines: string[] = [];
  const log = collectingLog(lines);
  const control = await rig.start('one', rig.store, log);
  const members = new HostMembers(control.engine.informer);
  const tokens = openTokens(rig.store, rig.clock);
  const objects = new Informer({ store: rig.store, clock: rig.clock, log, kinds: FLEET_KINDS });
  await objects.open();
  const fleet = new InformerFleet(objects, rig.fleet);
  const maintenance = new Authority({ store: rig.store, clock: rig.clock, log, source: fleet });
  await maintenance.open();
  const made = async (role: Role): Promise<string> =>
    (await tokens.createApiToken({ name: `the ${role}`, role, validFor: null })).token.reveal();
  const token = {
    admin: await made('admin'),
    operator: await made('operator'),
    viewer: await made('viewer'),
  };
  const base: ApiDeps = {
    store: rig.store,
    secrets: control.secrets,
    agents: rig.fleet,
    clock: rig.clock,
    log,
    provider: control.provider.provider,
    authenticate: (text) => tokens.verifyApiToken(text),
    createJoinToken: async (host, validFor) => ({
      token: (await tokens.createJoinToken({ host, validFor: validFor || HOUR })).token.reveal(),
      expiresAt: new Date(rig.clock.now() + validFor).toISOString(),
      urls: ['https://plane:7718'],
      caFingerprint: 'sha256:00',
    }),
    tokens,
    maintenance,
    caRotation: { status: noAuthority, introduce: noAuthority, switchOver: noAuthority },
    membersOn: (host) => members.on(host),
    metrics: async () => 'belay_hosts 3\n',
    ready: async () => true,
    version: '1.2.3',
  };
  const deps = { ...base, ...change(base) };
  const app = buildApi(deps, () => CA_PEM);
  const call = async (method: string, url: string, sent: Sent = {}): Promise<Answer> => {
    const { as = 'admin', headers, body, type } = sent;
    const bearer = sent.token ?? (as === null ? undefined : token[as]);
    const payload = body === undefined || typeof body === 'string' ? body : JSON.stringify(body);
    const response = await app.inject({
      method: method as 'GET',
      url,
      headers: {
        ...(bearer === undefined ? {} : { authorization: `Bearer ${bearer}` }),
        ...(payload === undefined ? {} : { 'content-type': type ?? 'application/json' }),
        ...headers,
      },
      ...(payload === undefined ? {} : { payload }),
    });
    const contentType = String(response.headers['content-type'] ?? '');
    return {
      status: response.statusCode,
      type: contentType,
      headers: response.headers,
      text: response.body,
      body: contentType.includes('json') && response.body !== '' ? JSON.parse(response.body) : undefined,
    };
  };
  const close = async (): Promise<void> => {
    await app.close();
    await maintenance.close();
    fleet.close();
    await objects.close();
    await control.close();
  };
  return { ...rig, control, tokens, app, deps, lines, token, call, close };
}

function collectingLog(lines: string[]): Log {
  const line = (message: string, fields?: Readonly<Record<string, unknown>>): void => {
    lines.push(`${message} ${JSON.stringify(fields ?? {})}`);
  };
  return { debug: line, info: line, warn: line, error: line };
}

/** A document of a three-member set. */
export const orders = (spec: Json = {}, metadata: Json = {}): Json => ({
  apiVersion: 'belay.dev/v1',
  kind: 'MongoDB',
  metadata: { name: 'orders', ...metadata },
  spec: { type: 'ReplicaSet', version: '8.0.32-14', members: 3, ...spec },
});

/** A document of a user of it. */
export const app = (spec: Json = {}, metadata: Json = {}): Json => ({
  apiVersion: 'belay.dev/v1',
  kind: 'MongoDBUser',
  metadata: { name: 'orders-app', ...metadata },
  spec: {
    username: 'app',
    db: 'admin',
    mongodbResourceRef: { name: 'orders' },
    roles: [{ name: 'readWrite', db: 'shop' }],
    ...spec,
  },
});

export const ORDERS = '/api/v1/namespaces/default/mongodb/orders';

/** A document of a host: nothing works on it, so its version stands still. */
export const host = (name = 'db9', spec: Json = {}, metadata: Json = {}): Json => ({
  apiVersion: 'belay.dev/v1',
  kind: 'Host',
  metadata: { name, ...metadata },
  spec,
});
