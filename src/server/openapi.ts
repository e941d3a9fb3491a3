/** The API's description (OpenAPI 3.1), made from the same schemas that check documents. */
import { KINDS, openApiComponents } from '../model/index.ts';

type Json = Record<string, unknown>;

const ref = (name: string): Json => ({ $ref: `#/components/schemas/${name}` });
const body = (schema: Json): Json => ({ required: true, content: { 'application/json': { schema } } });
const answer = (description: string, schema?: Json): Json => ({
  description,
  ...(schema === undefined ? {} : { content: { 'application/json': { schema } } }),
});
const problem: Json = {
  description: 'Refused or failed',
  content: { 'application/problem+json': { schema: ref('Problem') } },
};
const parameter = (
  name: string,
  where: 'path' | 'query' | 'header',
  description: string,
  schema: Json = { type: 'string' },
): Json => ({
  name,
  in: where,
  description,
  ...(where === 'path' ? { required: true } : {}),
  schema,
});

const NAMESPACE = parameter('ns', 'path', 'Namespace');
const NAME = parameter('name', 'path', 'Name of the object');
const LIST = [
  parameter('limit', 'query', 'Most items of a page', { type: 'integer', minimum: 1, maximum: 1000 }),
  parameter('continue', 'query', 'Where the next page begins, from the last one'),
  parameter('labelSelector', 'query', 'Equality and set selectors as Kubernetes has them'),
  parameter('watch', 'query', 'true: changes as server-sent events', { type: 'boolean' }),
  parameter('resourceVersion', 'query', 'Watch from here'),
];
const DRY_RUN = parameter('dryRun', 'query', 'validate: check only; plan: every step it would take', {
  enum: ['validate', 'plan'],
});
const IF_MATCH = parameter('If-Match', 'header', 'resourceVersion the change is based on');

/** The whole document. */
export function openApiDocument(version: string): Json {
  const paths: Json = {
    '/healthz': {
      get: {
        operationId: 'health',
        summary: 'The process lives',
        security: [],
        responses: { 200: answer('It does') },
      },
    },
    '/readyz': {
      get: {
        operationId: 'ready',
        summary: 'Store and engine work',
        security: [],
        responses: { 200: answer('They do'), 503: answer('Not yet') },
      },
    },
    '/metrics': {
      get: {
        operationId: 'metrics',
        summary: 'Prometheus text',
        security: [],
        responses: { 200: { description: 'Metrics' } },
      },
    },
    '/api/v1/apply': {
      post: {
        operationId: 'apply',
        summary: 'Create or change from a document of any accepted API version',
        parameters: [parameter('namespace', 'query', 'Namespace of documents that name none'), DRY_RUN],
        requestBody: body({ type: 'object' }),
        responses: { 200: answer('What became of it'), 422: problem, default: problem },
      },
    },
    '/api/v1/join-tokens': {
      post: {
        operationId: 'createJoinToken',
        summary: 'A one-time token for an agent',
        requestBody: {
          content: {
            'application/json': {
              schema: {
                type: 'object',
                properties: { host: { type: 'string' }, ttlSeconds: { type: 'integer' } },
              },
            },
          },
        },
        responses: { 200: answer('The token and how to use it'), default: problem },
      },
    },
    '/api/v1/ca': {
      get: {
        operationId: 'certificateAuthority',
        summary: 'CA of this installation',
        responses: { 200: answer('PEM'), default: problem },
      },
    },
    '/api/v1/whoami': {
      get: {
        operationId: 'whoAmI',
        summary: 'Name and role of the token',
        responses: { 200: answer('Identity'), default: problem },
      },
    },
  };
  for (const info of KINDS) Object.assign(paths, kindPaths(info.kind, info.plural, info.readOnly));
  return {
    openapi: '3.1.0',
    info: { title: 'Belay', version, description: 'Control plane for MongoDB.' },
    security: [{ bearer: [] }],
    paths,
    components: {
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } },
      schemas: { ...openApiComponents().schemas, Problem: PROBLEM },
    },
  };
}

const PROBLEM: Json = {
  type: 'object',
  required: ['title', 'status', 'code', 'detail'],
  properties: {
    type: { type: 'string' },
    title: { type: 'string' },
    status: { type: 'integer' },
    code: { type: 'string' },
    detail: { type: 'string' },
    fix: { type: 'string' },
    errors: {
      type: 'array',
      items: { type: 'object', properties: { path: { type: 'string' }, message: { type: 'string' } } },
    },
  },
};

function kindPaths(kind: string, plural: string, readOnly: boolean): Json {
  const collection = `/api/v1/namespaces/{ns}/${plural}`;
  const one = `${collection}/{name}`;
  const responses = { 200: answer(kind, ref(kind)), default: problem };
  const list = (id: string, parameters: Json[]): Json => ({
    operationId: id,
    parameters,
    responses: { 200: answer(`List of ${kind}`), default: problem },
  });
  const write: Json = readOnly
    ? {}
    : {
        put: {
          operationId: `replace${kind}`,
          parameters: [NAMESPACE, NAME, DRY_RUN, IF_MATCH],
          requestBody: body(ref(kind)),
          responses: { ...responses, 201: answer('Created', ref(kind)), 422: problem },
        },
        patch: {
          operationId: `patch${kind}`,
          parameters: [NAMESPACE, NAME, DRY_RUN, IF_MATCH],
          requestBody: {
            required: true,
            content: { 'application/merge-patch+json': { schema: { type: 'object' } } },
          },
          responses,
        },
        delete: {
          operationId: `delete${kind}`,
          parameters: [
            NAMESPACE,
            NAME,
            IF_MATCH,
            ...(kind === 'MongoDB'
              ? [parameter('keepVolumes', 'query', 'Keep volumes and credentials', { type: 'boolean' })]
              : []),
          ],
          responses: { 202: answer('Under way'), 204: answer('Gone'), default: problem },
        },
      };
  const connection: Json =
    kind === 'MongoDB'
      ? {
          [`${one}/connection`]: {
            get: {
              operationId: 'connection',
              parameters: [NAMESPACE, NAME],
              responses: { 200: answer('Connection string without a user'), default: problem },
            },
            post: {
              operationId: 'connectionWithPassword',
              parameters: [NAMESPACE, NAME],
              requestBody: body({
                type: 'object',
                required: ['user'],
                properties: { user: { type: 'string' } },
              }),
              responses: {
                200: answer('Connection string with the user’s password; admins only'),
                default: problem,
              },
            },
          },
        }
      : {};
  return {
    [`/api/v1/${plural}`]: { get: list(`listAll${kind}`, LIST) },
    [collection]: {
      get: list(`list${kind}`, [NAMESPACE, ...LIST]),
      ...(readOnly
        ? {}
        : {
            post: {
              operationId: `create${kind}`,
              parameters: [NAMESPACE, DRY_RUN],
              requestBody: body(ref(kind)),
              responses: { 201: answer('Created', ref(kind)), default: problem },
            },
          }),
    },
    [one]: { get: { operationId: `read${kind}`, parameters: [NAMESPACE, NAME], responses }, ...write },
    ...(kind === 'Event'
      ? {}
      : {
          [`${one}/status`]: {
            get: {
              operationId: `status${kind}`,
              parameters: [NAMESPACE, NAME],
              responses: { 200: answer('Status'), default: problem },
            },
          },
        }),
    ...(kind === 'Event'
      ? {}
      : {
          [`${one}/events`]: {
            get: {
              operationId: `events${kind}`,
              parameters: [NAMESPACE, NAME],
              responses: { 200: answer('Events'), default: problem },
            },
          },
        }),
    ...(kind === 'Event'
      ? {}
      : {
          [`${one}/operations`]: {
            get: {
              operationId: `journal${kind}`,
              parameters: [NAMESPACE, NAME],
              responses: { 200: answer('Journal of steps'), default: problem },
            },
          },
        }),
    ...connection,
  };
}
