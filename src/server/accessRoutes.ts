/** Routes about who gets in and how: connection strings, secrets, tokens, joining hosts. */
import { z } from 'zod';
import { BelayError } from '../base/error.ts';
import { DAY, HOUR, SECOND } from '../base/units.ts';
import { isDnsName } from '../model/index.ts';
import { ROLES } from '../security/tokens.ts';
import { withNamespace } from './admission.ts';
import { authorityRoutes } from './authorityRoutes.ts';
import { connectionOf } from './connection.ts';
import type { ApiDeps } from './deps.ts';
import { DOCUMENT_TYPES } from './objectRoutes.ts';
import { applyDocument, getObject } from './objects.ts';
import { presentList } from './present.ts';
import type { Body, Call, Json, Route } from './routes.ts';
import { listSecrets, readSecret, removeSecret } from './secretDocuments.ts';

/** How long a join token is good for when nobody says, and at most. */
const JOIN_TOKEN_LIFE = HOUR;
const JOIN_TOKEN_LIMIT = 30 * DAY;
/** Longest life of an API token that has an end. */
const API_TOKEN_LIMIT = 10 * 365 * DAY;

/** A small JSON body, checked and described by one schema. */
const body = (check: z.ZodType, required = true): Body => ({
  check,
  required,
  types: ['application/json'],
  schema: z.toJSONSchema(check, { io: 'input' }) as Json,
});

const seconds = (limit: number) =>
  z
    .number()
    .positive({ error: 'must be more than 0' })
    .max(limit / SECOND, { error: `must be at most ${limit / DAY} days` })
    .optional();

/** Routes of this file. */
export const accessRoutes = (deps: ApiDeps, caPem: () => string): readonly Route[] => [
  ...connectionRoutes(deps, caPem),
  ...secretRoutes(deps),
  ...tokenRoutes(deps),
  joinRoute(deps),
  ...authorityRoutes(deps, caPem),
  {
    method: 'GET',
    path: '/api/v1/whoami',
    id: 'whoAmI',
    tag: 'access',
    summary: 'Name and role of the token',
    role: 'viewer',
    answers: { 200: { description: 'Identity' } },
    handle: (call) => call.identity,
  },
];

// ── connections ────────────────────────────────────────────────────────────────────────────────────────────────────

const CONNECTION = z.strictObject({
  user: z.string({ error: 'is required: name of a MongoDBUser, or of a system user' }),
});

function connectionRoutes(deps: ApiDeps, caPem: () => string): readonly Route[] {
  const path = '/api/v1/namespaces/{ns}/mongodb/{name}/connection';
  const answers = { 200: { description: 'Connection string, whether it needs TLS, and the CA to trust' } };
  const give = async (call: Call, user: string | undefined): Promise<unknown> => {
    const key = { kind: 'MongoDB', namespace: call.param('ns'), name: call.param('name') };
    return connectionOf(deps, await getObject(deps, key), caPem(), user);
  };
  const base = { path, tag: 'MongoDB', answers };
  return [
    {
      ...base,
      method: 'GET',
      id: 'readConnection',
      summary: 'How to reach a database, without a user',
      role: 'viewer',
      handle: (call) => give(call, undefined),
    },
    {
      ...base,
      method: 'POST',
      id: 'readConnectionWithPassword',
      summary: 'How to reach a database as a user, with the password',
      role: 'admin',
      body: body(CONNECTION),
      handle: (call) => give(call, (call.body as z.infer<typeof CONNECTION>).user),
    },
  ];
}

// ── secrets ────────────────────────────────────────────────────────────────────────────────────────────────────────

function secretRoutes(deps: ApiDeps): readonly Route[] {
  const base = { tag: 'Secret', role: 'viewer' as const };
  const collection = '/api/v1/namespaces/{ns}/secrets';
  const list = (path: string, id: string): Route => ({
    ...base,
    method: 'GET',
    path,
    id,
    summary: 'Names and keys of secrets; values are never given',
    answers: { 200: { description: 'Secrets' } },
    handle: async (call) =>
      presentList('Secret', await listSecrets(deps, call.param('ns') || undefined), '0', null),
  });
  return [
    list('/api/v1/secrets', 'listAllSecret'),
    list(collection, 'listSecret'),
    {
      ...base,
      method: 'GET',
      path: `${collection}/{name}`,
      id: 'readSecret',
      summary: 'Keys of one secret; values are never given',
      answers: { 200: { description: 'Secret' } },
      handle: (call) => readSecret(deps, call.param('ns'), call.param('name')),
    },
    {
      ...base,
      method: 'PUT',
      path: `${collection}/{name}`,
      id: 'replaceSecret',
      role: 'operator',
      summary: 'Seal the values of a v1 Secret document',
      body: { schema: { type: 'object' }, types: DOCUMENT_TYPES, required: true },
      answers: { 200: { description: 'Changed, or as it was' }, 201: { description: 'Created' } },
      handle: (call) => putSecret(deps, call),
    },
    {
      ...base,
      method: 'DELETE',
      path: `${collection}/{name}`,
      id: 'deleteSecret',
      role: 'operator',
      summary: 'Delete a secret',
      answers: { 204: { description: 'Gone' } },
      handle: async (call) => {
        await removeSecret(deps, call.param('ns'), call.param('name'));
        return call.reply.status(204).send();
      },
    },
  ];
}

async function putSecret(deps: ApiDeps, call: Call): Promise<unknown> {
  const [namespace, name] = [call.param('ns'), call.param('name')];
  const document = withNamespace(call.body, namespace);
  const { kind, metadata } = (document ?? {}) as {
    readonly kind?: unknown;
    readonly metadata?: { readonly name?: unknown; readonly namespace?: unknown };
  };
  if (kind !== 'Secret' || metadata?.name !== name || metadata.namespace !== namespace)
    throw new BelayError('Malformed', `the document is not Secret ${namespace}/${name}`, { retry: 'never' });
  const { outcome } = await applyDocument(deps, document, namespace, { by: null, dryRun: false });
  const view = await readSecret(deps, namespace, name);
  return call.reply.status(outcome === 'created' ? 201 : 200).send(view);
}

// ── tokens ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const NEW_TOKEN = z.strictObject({
  name: z
    .string({ error: 'is required: who or what the token is for' })
    .min(1, { error: 'must not be empty' })
    .max(253, { error: 'must have at most 253 characters' }),
  role: z.enum(ROLES as readonly ['admin', 'operator', 'viewer'], {
    error: `must be one of ${ROLES.join(', ')}`,
  }),
  ttlSeconds: seconds(API_TOKEN_LIMIT),
});

/** API tokens: made, listed without their secrets, taken back. Admins only. */
function tokenRoutes(deps: ApiDeps): readonly Route[] {
  const base = { tag: 'access', role: 'admin' as const };
  return [
    {
      ...base,
      method: 'POST',
      path: '/api/v1/tokens',
      id: 'createToken',
      summary: 'Make an API token; it is shown this once',
      body: body(NEW_TOKEN),
      answers: { 200: { description: 'id, token, expiresAt' } },
      handle: async (call) => {
        const { name, role, ttlSeconds } = call.body as z.infer<typeof NEW_TOKEN>;
        const validFor = ttlSeconds === undefined ? null : ttlSeconds * SECOND;
        const made = await deps.tokens.createApiToken({ name, role, validFor });
        return { id: made.id, token: made.token.reveal(), expiresAt: iso(made.expiresAt) };
      },
    },
    {
      ...base,
      method: 'GET',
      path: '/api/v1/tokens',
      id: 'listTokens',
      summary: 'List API tokens without their secrets',
      answers: { 200: { description: 'Tokens' } },
      handle: async () => ({
        items: (await deps.tokens.list('api')).map(({ id, name, role, createdAt, expiresAt }) => ({
          id,
          name,
          role,
          createdAt: iso(createdAt),
          expiresAt: iso(expiresAt),
        })),
      }),
    },
    {
      ...base,
      method: 'DELETE',
      path: '/api/v1/tokens/{id}',
      id: 'revokeToken',
      summary: 'Take a token back',
      answers: { 204: { description: 'Gone' } },
      handle: async (call) => {
        const id = call.param('id');
        const known = [...(await deps.tokens.list('api')), ...(await deps.tokens.list('join'))];
        if (!known.some((row) => row.id === id))
          throw new BelayError('NotFound', `there is no token ${id}`, {
            retry: 'never',
            fix: 'see: belay token list',
          });
        await deps.tokens.revoke(id);
        return call.reply.status(204).send();
      },
    },
  ];
}

const iso = (time: number | null): string | null => (time === null ? null : new Date(time).toISOString());

const JOIN = z.strictObject({
  host: z
    .string({ error: 'must be the name of a host' })
    .refine((text) => isDnsName(text), { error: 'must be a DNS name in lower case, as hosts have' })
    .optional(),
  ttlSeconds: seconds(JOIN_TOKEN_LIMIT),
});

const joinRoute = (deps: ApiDeps): Route => ({
  method: 'POST',
  path: '/api/v1/join-tokens',
  id: 'createJoinToken',
  tag: 'access',
  summary: 'Make a one-time token for an agent to join with',
  role: 'admin',
  body: body(JOIN, false),
  answers: {
    200: { description: 'token, expiresAt, urls and caFingerprint: what an agent is started with' },
  },
  handle: (call) => {
    const { host = '*', ttlSeconds } = call.body as z.infer<typeof JOIN>;
    return deps.createJoinToken(host, ttlSeconds === undefined ? JOIN_TOKEN_LIFE : ttlSeconds * SECOND);
  },
});
