/** The REST API (interfaces, REST). Thin: admission and the store decide, this file speaks HTTP. */
import { randomUUID } from 'node:crypto';
import type { RequestListener, Server } from 'node:http';
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import { BelayError } from '../base/error.ts';
import { DAY, HOUR } from '../base/units.ts';
import type { ObjectKey, StoredObject } from '../engine/ports.ts';
import { findKind, KINDS, type KindInfo } from '../model/index.ts';
import { namedSecretPrefix } from '../provider/names.ts';
import { ROLES } from '../security/tokens.ts';
import { keyOf, withNamespace } from './admission.ts';
import { connectionOf } from './connection.ts';
import type { ApiDeps, Identity } from './deps.ts';
import { applyDocument, deleteObject, getObject } from './objects.ts';
import { openApiDocument } from './openapi.ts';
import { planDocument } from './planning.ts';
import { presentEvent, presentHost, presentList, presentObject } from './present.ts';
import { sendProblem } from './problem.ts';
import { streamWatch } from './stream.ts';

/** Largest request body: documents of people are a thousand times smaller. */
const BODY_LIMIT = 1024 * 1024;
/** Most items of one page of a list. */
const PAGE_LIMIT = 1000;
/** How long a join token is good for when nobody says. */
const JOIN_TOKEN_LIFE = HOUR;

interface Params {
  readonly ns?: string;
  readonly plural: string;
  readonly name?: string;
}
type Query = Readonly<Record<string, string | undefined>>;

/** Makes the HTTP server behind the app: plain HTTP when absent. */
export type ServerFactory = (handler: RequestListener) => Server;

/** The app, not yet listening. `caPem` is handed to clients that connect. */
export function buildApi(
  deps: ApiDeps,
  caPem: string,
  serverFactory: ServerFactory | null = null,
): FastifyInstance {
  const app = fastify({
    logger: false,
    bodyLimit: BODY_LIMIT,
    genReqId: () => randomUUID(),
    forceCloseConnections: true,
    ...(serverFactory === null
      ? {}
      : { serverFactory: (handler: RequestListener) => serverFactory(handler) }),
  });
  app.addContentTypeParser(
    ['application/merge-patch+json', 'application/strategic-merge-patch+json'],
    { parseAs: 'string' },
    app.getDefaultJsonParser('error', 'error'),
  );
  app.setErrorHandler((error, request, reply) => sendProblem(reply, request, error, deps.log));
  app.setNotFoundHandler((request, reply) => {
    const error = new BelayError(
      'NotFound',
      `there is nothing at ${request.method} ${request.url.split('?')[0]}`,
      { retry: 'never', fix: 'see /openapi.json' },
    );
    sendProblem(reply, request, error, deps.log);
  });
  openRoutes(app, deps);
  app.register(async (api) => {
    api.addHook('onRequest', async (request) => authorise(deps, request));
    objectRoutes(api, deps, caPem);
    otherRoutes(api, deps, caPem);
  });
  return app;
}

// ── who may do what ────────────────────────────────────────────────────────────────────────────────────────────────

const identities = new WeakMap<FastifyRequest, Identity>();

/** Viewers read, operators change, admins also see passwords and let hosts join. */
async function authorise(deps: ApiDeps, request: FastifyRequest): Promise<void> {
  const header = request.headers.authorization ?? '';
  const token = /^Bearer (.+)$/.exec(header)?.[1];
  if (token === undefined) {
    throw new BelayError('Unauthorized', 'no token was sent', {
      retry: 'never',
      fix: 'give one with --token, BELAY_TOKEN, or the profile that belay up writes',
    });
  }
  const identity = await deps.authenticate(token);
  identities.set(request, identity);
  if (request.method !== 'GET' && request.method !== 'HEAD' && identity.role === 'viewer')
    throw forbidden(identity, 'change anything');
}

const forbidden = (identity: Identity, what: string): BelayError =>
  new BelayError('Forbidden', `token ${identity.name} (${identity.role}) may not ${what}`, {
    retry: 'never',
    fix: 'use a token with a stronger role',
  });

function needAdmin(request: FastifyRequest, what: string): void {
  const identity = identities.get(request);
  if (identity !== undefined && identity.role !== 'admin') throw forbidden(identity, what);
}

// ── open ───────────────────────────────────────────────────────────────────────────────────────────────────────────

function openRoutes(app: FastifyInstance, deps: ApiDeps): void {
  app.get('/healthz', async () => ({ status: 'ok' }));
  app.get('/readyz', async (_, reply) => {
    const ready = await deps.ready();
    return reply.status(ready ? 200 : 503).send({ status: ready ? 'ok' : 'not ready' });
  });
  app.get('/openapi.json', async () => openApiDocument(deps.version));
  app.get('/metrics', async (_, reply) => reply.type('text/plain; version=0.0.4').send(await deps.metrics()));
}

// ── objects ────────────────────────────────────────────────────────────────────────────────────────────────────────

function objectRoutes(api: FastifyInstance, deps: ApiDeps, caPem: string): void {
  for (const base of ['/api/v1/:plural', '/api/v1/namespaces/:ns/:plural']) {
    api.get(base, (request, reply) => list(deps, request, reply));
  }
  const base = '/api/v1/namespaces/:ns/:plural';
  api.post(base, (request, reply) => put(deps, request, reply, true));
  api.get(`${base}/:name`, (request, reply) => read(deps, request, reply));
  api.put(`${base}/:name`, (request, reply) => put(deps, request, reply, false));
  api.patch(`${base}/:name`, (request, reply) => patch(deps, request, reply));
  api.delete(`${base}/:name`, (request, reply) => remove(deps, request, reply));
  api.get(`${base}/:name/status`, async (request) => {
    const object = await getObject(deps, keyOfRequest(request));
    return object.status ?? {};
  });
  api.get(`${base}/:name/events`, async (request) => {
    const object = await getObject(deps, keyOfRequest(request));
    const items = await deps.store.events({ uid: object.metadata.uid, limit: limitOf(request) });
    return presentList('Event', items.map(presentEvent), object.metadata.resourceVersion, null);
  });
  api.get(`${base}/:name/operations`, async (request) => {
    const object = await getObject(deps, keyOfRequest(request));
    const items = await deps.store.journal({ clusterUid: object.metadata.uid, limit: limitOf(request) });
    return { items };
  });
  api.get(`${base}/:name/connection`, async (request) =>
    connectionOf(deps, await getObject(deps, keyOfRequest(request, 'MongoDB')), caPem, undefined),
  );
  api.post(`${base}/:name/connection`, async (request) => {
    needAdmin(request, 'see passwords');
    const user = (request.body as { user?: unknown } | null)?.user;
    if (typeof user !== 'string')
      throw new BelayError('Malformed', 'send {"user": NAME}', { retry: 'never' });
    return connectionOf(deps, await getObject(deps, keyOfRequest(request, 'MongoDB')), caPem, user);
  });
}

/** The kind of a path, or NotFound with the list. */
function kindOfPath(plural: string): KindInfo {
  const info = findKind(plural);
  if (info !== undefined && info.plural === plural) return info;
  throw new BelayError('NotFound', `there is no kind ${plural}`, {
    retry: 'never',
    fix: `kinds: ${KINDS.map((k) => k.plural).join(', ')}`,
  });
}

function keyOfRequest(request: FastifyRequest, only?: string): ObjectKey & { readonly name: string } {
  const { ns, plural, name } = request.params as Params;
  const info = kindOfPath(plural);
  if (only !== undefined && info.kind !== only)
    throw new BelayError('NotFound', `${plural} have no connection`, { retry: 'never' });
  return {
    kind: info.kind,
    namespace: info.scope === 'cluster' ? 'default' : (ns ?? 'default'),
    name: name ?? '',
  };
}

function limitOf(request: FastifyRequest): number {
  const text = (request.query as Query)['limit'];
  const limit = text === undefined ? 100 : Number(text);
  if (!Number.isInteger(limit) || limit < 1 || limit > PAGE_LIMIT)
    throw new BelayError('Malformed', `limit must be a whole number from 1 to ${PAGE_LIMIT}`, {
      retry: 'never',
    });
  return limit;
}

async function list(deps: ApiDeps, request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
  const { ns, plural } = request.params as Params;
  const query = request.query as Query;
  if (plural === 'secrets') return listSecrets(deps, ns ?? 'default');
  const info = kindOfPath(plural);
  const namespace = info.scope === 'cluster' ? undefined : ns;
  if (info.kind === 'Event') {
    const items = await deps.store.events({
      ...(ns === undefined ? {} : { namespace: ns }),
      limit: limitOf(request),
    });
    return presentList('Event', items.map(presentEvent), '0', null);
  }
  if (query['watch'] === 'true') {
    await streamWatch(deps.store, request, reply, {
      kind: info.kind,
      namespace,
      since: query['resourceVersion'] ?? (request.headers['last-event-id'] as string | undefined),
      labelSelector: query['labelSelector'],
      ...(info.kind === 'Host' ? { present: (event) => hostView(deps, event.object) } : {}),
    });
    return reply;
  }
  const page = await deps.store.list({
    kind: info.kind,
    ...(namespace === undefined ? {} : { namespace }),
    ...(query['labelSelector'] === undefined ? {} : { labelSelector: query['labelSelector'] }),
    ...(query['continue'] === undefined ? {} : { continue: query['continue'] }),
    limit: limitOf(request),
  });
  return presentList(
    info.kind,
    page.items.map((o) => view(deps, o)),
    page.resourceVersion,
    page.continue,
  );
}

const view = (deps: ApiDeps, object: StoredObject): Readonly<Record<string, unknown>> =>
  object.kind === 'Host' ? hostView(deps, object) : presentObject(object);

const hostView = (deps: ApiDeps, object: StoredObject): Readonly<Record<string, unknown>> =>
  presentHost(object, deps.agents.host(object.metadata.name), deps.membersOn(object.metadata.name));

async function read(deps: ApiDeps, request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
  const { ns, plural, name } = request.params as Params;
  if (plural === 'secrets') return readSecret(deps, ns ?? 'default', name ?? '');
  const object = await getObject(deps, keyOfRequest(request));
  return reply.header('etag', `"${object.metadata.resourceVersion}"`).send(view(deps, object));
}

const ifMatch = (request: FastifyRequest): string | undefined =>
  request.headers['if-match']?.replace(/^(W\/)?"|"$/g, '');

/** The document of a request body must be about the object of its path. */
function bodyFor(request: FastifyRequest): unknown {
  const { ns, name } = request.params as Params;
  const document = withNamespace(request.body, ns ?? 'default');
  const key = keyOf(document, ns ?? 'default');
  const path = keyOfRequest(request);
  if (
    key !== null &&
    (key.kind !== path.kind || key.namespace !== path.namespace || (name !== undefined && key.name !== name))
  ) {
    throw new BelayError(
      'Malformed',
      `the document is about ${key.kind} ${key.namespace}/${key.name}, the path about ${path.kind} ${path.namespace}/${path.name || '…'}`,
      { retry: 'never' },
    );
  }
  return document;
}

async function put(
  deps: ApiDeps,
  request: FastifyRequest,
  reply: FastifyReply,
  createOnly: boolean,
): Promise<unknown> {
  const { ns } = request.params as Params;
  return store(deps, request, reply, bodyFor(request), ns ?? 'default', createOnly);
}

async function store(
  deps: ApiDeps,
  request: FastifyRequest,
  reply: FastifyReply,
  document: unknown,
  namespace: string,
  createOnly: boolean,
): Promise<unknown> {
  const mode = dryRunOf(request);
  const key = keyOf(document, namespace);
  const current = mode === 'plan' && key !== null ? await deps.store.get(key) : null;
  const applied = await applyDocument(deps, document, namespace, {
    dryRun: mode !== null,
    expect: ifMatch(request),
    createOnly,
  });
  if (mode === 'plan') return planDocument(deps, applied, current);
  const status = applied.outcome === 'created' && mode === null ? 201 : 200;
  if (applied.object === null)
    return reply
      .status(status)
      .send({ outcome: applied.outcome, ...applied.name, warnings: applied.warnings });
  return reply
    .status(status)
    .header('etag', `"${applied.object.metadata.resourceVersion}"`)
    .send(presentObject(applied.object));
}

function dryRunOf(request: FastifyRequest): 'validate' | 'plan' | null {
  const value = (request.query as Query)['dryRun'];
  if (value === undefined || value === 'validate' || value === 'plan') return value ?? null;
  throw new BelayError('Malformed', 'dryRun is validate or plan', { retry: 'never' });
}

/** JSON merge patch (RFC 7386) of spec, labels and annotations. */
async function patch(deps: ApiDeps, request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
  const object = await getObject(deps, keyOfRequest(request));
  const { status: _, ...whole } = presentObject(object);
  const merged = mergePatch(whole, request.body) as { metadata?: Record<string, unknown> };
  if (merged.metadata && ifMatch(request) !== undefined)
    merged.metadata['resourceVersion'] = ifMatch(request);
  return store(deps, request, reply, merged, object.metadata.namespace, false);
}

function mergePatch(target: unknown, change: unknown): unknown {
  if (typeof change !== 'object' || change === null || Array.isArray(change)) return change;
  const base: Record<string, unknown> =
    typeof target === 'object' && target !== null && !Array.isArray(target) ? { ...target } : {};
  for (const [key, value] of Object.entries(change)) {
    if (value === null) delete base[key];
    else base[key] = mergePatch(base[key], value);
  }
  return base;
}

async function remove(deps: ApiDeps, request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
  const { ns, plural, name } = request.params as Params;
  if (plural === 'secrets') return removeSecret(deps, reply, ns ?? 'default', name ?? '');
  const keepVolumes = (request.query as Query)['keepVolumes'] === 'true';
  const object = await deleteObject(deps, keyOfRequest(request), { keepVolumes, expect: ifMatch(request) });
  return object === null ? reply.status(204).send() : reply.status(202).send(presentObject(object));
}

// ── secrets: names only ────────────────────────────────────────────────────────────────────────────────────────────

async function listSecrets(deps: ApiDeps, namespace: string): Promise<unknown> {
  const names = await deps.secrets.list(`users/${namespace}/`);
  const secrets = new Map<string, string[]>();
  for (const path of names) {
    const [, , secret = '', ...key] = path.split('/');
    if (!key.join('/').startsWith('.')) secrets.set(secret, [...(secrets.get(secret) ?? []), key.join('/')]);
  }
  return presentList(
    'Secret',
    [...secrets].map(([name, keys]) => secretView(namespace, name, keys)),
    '0',
    null,
  );
}

const secretView = (
  namespace: string,
  name: string,
  keys: readonly string[],
): Readonly<Record<string, unknown>> => ({
  apiVersion: 'v1',
  kind: 'Secret',
  metadata: {
    namespace,
    name,
    uid: '',
    generation: 1,
    resourceVersion: '0',
    creationTimestamp: new Date(0).toISOString(),
  },
  spec: { keys },
});

async function readSecret(deps: ApiDeps, namespace: string, name: string): Promise<unknown> {
  const names = await deps.secrets.list(namedSecretPrefix(namespace, name));
  if (names.length === 0)
    throw new BelayError('NotFound', `secrets ${namespace}/${name} does not exist`, { retry: 'never' });
  return secretView(
    namespace,
    name,
    names.map((n) => n.slice(namedSecretPrefix(namespace, name).length)),
  );
}

async function removeSecret(
  deps: ApiDeps,
  reply: FastifyReply,
  namespace: string,
  name: string,
): Promise<unknown> {
  await readSecret(deps, namespace, name);
  await deps.secrets.delete(namedSecretPrefix(namespace, name));
  return reply.status(204).send();
}

// ── the rest ───────────────────────────────────────────────────────────────────────────────────────────────────────

function otherRoutes(api: FastifyInstance, deps: ApiDeps, caPem: string): void {
  api.post('/api/v1/apply', async (request) => {
    const namespace = (request.query as Query)['namespace'] ?? 'default';
    const mode = dryRunOf(request);
    const key = keyOf(withNamespace(request.body, namespace), namespace);
    const current = mode === 'plan' && key !== null ? await deps.store.get(key) : null;
    const applied = await applyDocument(deps, request.body, namespace, { dryRun: mode !== null });
    if (mode === 'plan') return planDocument(deps, applied, current);
    const objects = applied.object === null ? [] : [presentObject(applied.object)];
    return { outcome: applied.outcome, name: applied.name, objects, warnings: applied.warnings };
  });
  api.get('/api/v1/ca', async () => ({ caPem }));
  api.get('/api/v1/whoami', async (request) => identities.get(request));
  tokenRoutes(api, deps);
  api.post('/api/v1/join-tokens', async (request) => {
    needAdmin(request, 'let hosts join');
    const body = (request.body ?? {}) as { host?: unknown; ttlSeconds?: unknown };
    const host = body.host === undefined ? '*' : String(body.host);
    const ttl = body.ttlSeconds === undefined ? JOIN_TOKEN_LIFE : Number(body.ttlSeconds) * 1000;
    if (!(ttl > 0 && ttl <= 30 * DAY))
      throw new BelayError('Malformed', 'ttlSeconds must be more than 0 and at most 30 days', {
        retry: 'never',
      });
    return deps.createJoinToken(host, ttl);
  });
}

/** API tokens: made, listed without their secrets, taken back. Admins only. */
function tokenRoutes(api: FastifyInstance, deps: ApiDeps): void {
  api.post('/api/v1/tokens', async (request) => {
    needAdmin(request, 'make tokens');
    const body = (request.body ?? {}) as { name?: unknown; role?: unknown; ttlSeconds?: unknown };
    const role = ROLES.find((r) => r === body.role);
    if (typeof body.name !== 'string' || body.name === '' || role === undefined) {
      throw new BelayError('Malformed', 'send {"name": TEXT, "role": "admin" | "operator" | "viewer"}', {
        retry: 'never',
      });
    }
    const ttl = body.ttlSeconds === undefined ? null : Number(body.ttlSeconds) * 1000;
    if (ttl !== null && !(ttl > 0))
      throw new BelayError('Malformed', 'ttlSeconds must be more than 0', { retry: 'never' });
    const made = await deps.tokens.createApiToken({ name: body.name, role, validFor: ttl });
    return { id: made.id, token: made.token.reveal(), expiresAt: iso(made.expiresAt) };
  });
  api.get('/api/v1/tokens', async (request) => {
    needAdmin(request, 'list tokens');
    const rows = await deps.tokens.list('api');
    return {
      items: rows.map((r) => ({
        id: r.id,
        name: r.name,
        role: r.role,
        createdAt: iso(r.createdAt),
        expiresAt: iso(r.expiresAt),
      })),
    };
  });
  api.delete('/api/v1/tokens/:id', async (request, reply) => {
    needAdmin(request, 'revoke tokens');
    await deps.tokens.revoke((request.params as { id: string }).id);
    return reply.status(204).send();
  });
}

const iso = (time: number | null): string | null => (time === null ? null : new Date(time).toISOString());
