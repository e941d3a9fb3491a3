/** Routes of objects: the same for every kind of the language, one row per kind and verb. */
import { MIB } from '../base/units.ts';
import { KINDS, type KindInfo } from '../model/index.ts';
import type { ApiDeps } from './deps.ts';
import {
  apply,
  etag,
  keyOfCall,
  list,
  listEvents,
  patch,
  read,
  remove,
  store,
  view,
} from './objectHandlers.ts';
import { getObject } from './objects.ts';
import { ref } from './openapi.ts';
import { askForOperation, cancelOperation } from './operationHandlers.ts';
import { type Json, limitOf, PAGE_LIMIT, type Parameter, type Route } from './routes.ts';

const query = (name: string, description: string, schema: Json = { type: 'string' }): Parameter => ({
  name,
  in: 'query',
  description,
  schema,
});
const header = (name: string, description: string): Parameter => ({
  name,
  in: 'header',
  description,
  schema: { type: 'string' },
});

const LIMIT = query('limit', 'Most items of a page', { type: 'integer', minimum: 1, maximum: PAGE_LIMIT });
const WATCH = [
  query('watch', 'true: changes as server-sent events instead of a list', { type: 'boolean' }),
  query('resourceVersion', 'Watch from here on; the header Last-Event-ID does the same'),
];
const LIST = [
  LIMIT,
  query('continue', 'Where the next page begins, as the last one said'),
  query('labelSelector', 'Equality and set selectors as Kubernetes has them'),
  query('fieldSelector', 'metadata.name=NAME: only this object'),
  ...WATCH,
];
const DRY_RUN = query('dryRun', 'validate: check only; plan: every step it would take; nothing is written', {
  type: 'string',
  enum: ['validate', 'plan'],
});
const IF_MATCH = header(
  'If-Match',
  'resourceVersion the change is based on, or * for any object that is there',
);
/** Types documents may be sent in. */
export const DOCUMENT_TYPES = ['application/json', 'application/yaml'];

/** A thousand nodes with ninety virtual disks each are two megabytes; no stored value is larger than four. */
const TOPOLOGY_LIMIT = 5 * MIB;

/** Routes of all kinds. */
export const objectRoutes = (deps: ApiDeps): readonly Route[] => [
  applyRoute(deps),
  ...KINDS.flatMap((info) => (info.kind === 'Event' ? eventRoutes(deps, info) : kindRoutes(deps, info))),
];

// ── apply ──────────────────────────────────────────────────────────────────────────────────────────────────────────

const applyRoute = (deps: ApiDeps): Route => ({
  method: 'POST',
  path: '/api/v1/apply',
  id: 'apply',
  tag: 'documents',
  summary: 'Create or change what a document of any accepted API version asks for',
  role: 'operator',
  parameters: [query('namespace', 'Namespace of documents that name none'), DRY_RUN],
  body: { schema: { type: 'object' }, types: DOCUMENT_TYPES, required: true },
  answers: { 200: { description: 'What became of it: created, configured or unchanged; or the plan' } },
  handle: (call) => apply(deps, call),
});

// ── one kind ───────────────────────────────────────────────────────────────────────────────────────────────────────

function kindRoutes(deps: ApiDeps, info: KindInfo): readonly Route[] {
  const { kind, plural } = info;
  const collection = `/api/v1/namespaces/{ns}/${plural}`;
  const all = `/api/v1/${plural}`;
  const routes = [
    listRoute(deps, info, all, 'All'),
    listRoute(deps, info, collection, ''),
    ...oneRoutes(deps, info, `${collection}/{name}`, ''),
    // Cluster-wide kinds have no namespace; the path with one is served too, so that all kinds can be asked for alike.
    ...(info.scope === 'cluster' ? oneRoutes(deps, info, `${all}/{name}`, 'ByName') : []),
  ];
  if (info.kind === 'Operation') return [...routes, ...operationRoutes(deps, info)];
  if (info.readOnly) return routes;
  const create: Route = {
    method: 'POST',
    path: collection,
    id: `create${kind}`,
    tag: kind,
    summary: `Create a ${kind}; one that exists already is refused`,
    role: 'operator',
    parameters: [DRY_RUN],
    body: { schema: ref(kind), types: DOCUMENT_TYPES, required: true },
    answers: {
      201: { description: 'Created', schema: ref(kind) },
      200: { description: 'What a dry run found' },
    },
    handle: (call) => store(deps, call, info, { absent: 'create' }),
  };
  return [...routes, create];
}

function listRoute(deps: ApiDeps, info: KindInfo, path: string, suffix: string): Route {
  return {
    method: 'GET',
    path,
    id: `list${suffix}${info.kind}`,
    tag: info.kind,
    summary: `List or watch ${info.kind} objects${suffix === '' ? ' of a namespace' : ''}`,
    role: 'viewer',
    parameters: LIST,
    answers: { 200: { description: 'One page, or a stream of events', schema: ref(`${info.kind}List`) } },
    handle: (call) => list(deps, call, info),
  };
}

function oneRoutes(deps: ApiDeps, info: KindInfo, path: string, suffix: string): readonly Route[] {
  const { kind } = info;
  const base = { tag: kind, role: 'viewer' as const };
  const one: Route = {
    ...base,
    method: 'GET',
    path,
    id: `read${kind}${suffix}`,
    summary: `One ${kind}; its resourceVersion is the ETag`,
    parameters: [header('If-None-Match', 'ETag that is known already: answers 304 when it still holds')],
    answers: { 200: { description: kind, schema: ref(kind) }, 304: { description: 'Unchanged' } },
    handle: (call) => read(deps, call, info),
  };
  const status: Route = {
    ...base,
    method: 'GET',
    path: `${path}/status`,
    id: `read${kind}Status${suffix}`,
    summary: `Status of one ${kind}`,
    answers: { 200: { description: 'Status' } },
    handle: async (call) => view(deps, await getObject(deps, keyOfCall(call, info)))['status'] ?? {},
  };
  const events: Route = {
    ...base,
    method: 'GET',
    path: `${path}/events`,
    id: `list${kind}Events${suffix}`,
    summary: `What happened to one ${kind}, the newest last; or a stream`,
    parameters: [LIMIT, ...WATCH],
    answers: { 200: { description: 'Events', schema: ref('EventList') } },
    handle: async (call) => {
      const { metadata } = await getObject(deps, keyOfCall(call, info));
      return listEvents(deps, call, { namespace: metadata.namespace, uid: metadata.uid });
    },
  };
  const operations: Route = {
    ...base,
    method: 'GET',
    path: `${path}/operations`,
    id: `list${kind}Operations${suffix}`,
    summary: `Journal of the steps done for one ${kind}, the newest last`,
    parameters: [LIMIT],
    answers: { 200: { description: 'Steps with intent, reason and outcome' } },
    handle: async (call) => {
      const { metadata } = await getObject(deps, keyOfCall(call, info));
      return { items: await deps.store.journal({ clusterUid: metadata.uid, limit: limitOf(call) }) };
    },
  };
  const looks = [one, status, events, operations];
  if (info.kind === 'Operation') return [...looks, deleteRoute(deps, info, path, suffix)];
  return info.readOnly ? looks : [...looks, ...changeRoutes(deps, info, path, suffix)];
}

function changeRoutes(deps: ApiDeps, info: KindInfo, path: string, suffix: string): readonly Route[] {
  const { kind } = info;
  const base = { tag: kind, role: 'operator' as const, path };
  const done = { 200: { description: 'Changed, or as it was', schema: ref(kind) } };
  return [
    {
      ...base,
      method: 'PUT',
      ...(kind === 'Topology' ? { bodyLimit: TOPOLOGY_LIMIT } : {}),
      id: `replace${kind}${suffix}`,
      summary: `Create or replace a ${kind}; a resourceVersion in the document must be the current one`,
      parameters: [DRY_RUN, IF_MATCH, header('If-None-Match', '*: only create')],
      body: { schema: ref(kind), types: DOCUMENT_TYPES, required: true },
      answers: { ...done, 201: { description: 'Created', schema: ref(kind) } },
      handle: (call) =>
        store(deps, call, info, {
          ifMatch: etag(call.header('if-match')),
          absent: call.header('if-none-match')?.trim() === '*' ? 'if-none-match' : undefined,
        }),
    },
    {
      ...base,
      method: 'PATCH',
      id: `patch${kind}${suffix}`,
      summary: `Change fields of a ${kind} by a JSON merge patch (RFC 7386)`,
      parameters: [DRY_RUN, IF_MATCH],
      body: { schema: { type: 'object' }, types: ['application/merge-patch+json'], required: true },
      answers: done,
      handle: (call) => patch(deps, call, info),
    },
    deleteRoute(deps, info, path, suffix),
  ];
}

const DELETES: Readonly<Record<string, string>> = {
  MongoDB: ' with its data, unless volumes are to be kept',
  Operation: '; one that has not ended is cancelled by it and goes when it has',
};

const deleteRoute = (deps: ApiDeps, info: KindInfo, path: string, suffix: string): Route => ({
  tag: info.kind,
  role: 'operator',
  path,
  method: 'DELETE',
  id: `delete${info.kind}${suffix}`,
  summary: `Delete a ${info.kind}${DELETES[info.kind] ?? ''}`,
  parameters:
    info.kind === 'MongoDB'
      ? [IF_MATCH, query('keepVolumes', 'true: only remove runtimes', { type: 'boolean' })]
      : [IF_MATCH],
  answers: { 202: { description: 'Under way', schema: ref(info.kind) }, 204: { description: 'Gone' } },
  handle: (call) => remove(deps, call, info),
});

// ── operations ─────────────────────────────────────────────────────────────────────────────────────────────────────

function operationRoutes(deps: ApiDeps, { kind, plural }: KindInfo): readonly Route[] {
  const collection = `/api/v1/namespaces/{ns}/${plural}`;
  return [
    {
      method: 'POST',
      path: collection,
      id: `create${kind}`,
      tag: kind,
      summary: 'Ask for an operation; without a name it gets one, such as orders-restart-x7k2',
      role: 'operator',
      parameters: [DRY_RUN],
      body: { schema: ref(kind), types: DOCUMENT_TYPES, required: true },
      answers: {
        201: { description: 'Asked for', schema: ref(kind) },
        200: { description: 'What a dry run found' },
      },
      handle: (call) => askForOperation(deps, call),
    },
    {
      method: 'POST',
      path: `${collection}/{name}/cancel`,
      id: `cancel${kind}`,
      tag: kind,
      summary: 'Stop an operation where it can be left safely; one that has ended is refused',
      role: 'operator',
      answers: { 202: { description: 'It will stop', schema: ref(kind) } },
      handle: (call) => cancelOperation(deps, call),
    },
  ];
}

// ── events ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const eventRoutes = (deps: ApiDeps, info: KindInfo): readonly Route[] =>
  [`/api/v1/${info.plural}`, `/api/v1/namespaces/{ns}/${info.plural}`].map((path, index) => ({
    method: 'GET',
    path,
    id: index === 0 ? 'listAllEvent' : 'listEvent',
    tag: info.kind,
    summary: 'What happened, the newest last; or a stream',
    role: 'viewer',
    parameters: [LIMIT, ...WATCH],
    answers: { 200: { description: 'Events', schema: ref('EventList') } },
    handle: (call) => listEvents(deps, call, { namespace: call.param('ns') || undefined }),
  }));
