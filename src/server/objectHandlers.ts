/** What the routes of objects do. Thin: admission and the store decide, this file speaks HTTP. */
import { BelayError } from '../base/error.ts';
import type { ObjectKey, StoredObject } from '../engine/ports.ts';
import { DEFAULT_NAMESPACE, type KindInfo } from '../model/index.ts';
import { keyOf, withNamespace } from './admission.ts';
import type { ApiDeps } from './deps.ts';
import {
  type Applied,
  applyDocument,
  type Conditions,
  deleteObject,
  getObject,
  patchObject,
} from './objects.ts';
import { planDocument } from './planning.ts';
import { presentEvent, presentHost, presentList, presentObject, presentTopology } from './present.ts';
import { type Call, dryRunOf, flag, type Json, limitOf } from './routes.ts';
import { streamEvents, streamWatch } from './stream.ts';

/** Key of the object in a request's path. */
export function keyOfCall(call: Call, info: KindInfo): ObjectKey {
  const namespace = info.scope === 'cluster' ? DEFAULT_NAMESPACE : call.param('ns');
  return { kind: info.kind, namespace, name: call.param('name') };
}

/** An object as the API gives it; a host with what its agent says now, a topology with how old its health is now. */
export function view(deps: ApiDeps, object: StoredObject): Json {
  const { name } = object.metadata;
  if (object.kind === 'Host') {
    const held = deps.maintenance.hostHolderOf(name);
    return presentHost(object, deps.agents.host(name), deps.membersOn(name), held);
  }
  return object.kind === 'Topology' ? presentTopology(object, deps.clock.now()) : presentObject(object);
}

/** A page of objects, or their changes as a stream. */
export async function list(deps: ApiDeps, call: Call, info: KindInfo): Promise<unknown> {
  const { kind } = info;
  const namespace = info.scope === 'cluster' ? DEFAULT_NAMESPACE : call.param('ns') || undefined;
  const name = nameSelector(call.query['fieldSelector']);
  const labelSelector = call.query['labelSelector'];
  const limit = limitOf(call);
  if (flag(call, 'watch') && call.request.method === 'GET') {
    await streamWatch(deps, call.request, call.reply, {
      kind,
      namespace,
      name,
      labelSelector,
      since: sinceOf(call),
      present: (object) => view(deps, object),
      ...(kind === 'Host' ? { nudges: (look) => hostNudges(deps, look) } : {}),
    });
    return call.reply;
  }
  const next = call.query['continue'];
  const page = await deps.store.list({
    kind,
    ...(namespace === undefined ? {} : { namespace }),
    ...(labelSelector === undefined ? {} : { labelSelector }),
    ...(next === undefined ? {} : { continue: next }),
    // One object of many: the page's limit must not cut it off.
    ...(name === undefined ? { limit } : {}),
  });
  const items = name === undefined ? page.items : page.items.filter((o) => o.metadata.name === name);
  return presentList(
    kind,
    items.map((object) => view(deps, object)),
    page.resourceVersion,
    name === undefined ? page.continue : null,
  );
}

const hostNudges = (deps: ApiDeps, look: (name: string) => void): (() => void) =>
  both(
    deps.agents.onChange((change) => {
      if (change.kind === 'host') look(change.host);
    }),
    heldNudges(deps, look),
  );

const both = (one: () => void, other: () => void) => (): void => {
  one();
  other();
};

/** Hosts that a task has taken or given back. */
function heldNudges({ maintenance }: ApiDeps, look: (name: string) => void): () => void {
  const heldNow = (): ReadonlyMap<string, string> =>
    new Map([...maintenance.heldHosts()].map(([host, { task, until }]) => [host, `${task} ${until}`]));
  let before = heldNow();
  return maintenance.onChange(() => {
    const now = heldNow();
    for (const name of new Set([...before.keys(), ...now.keys()]))
      if (before.get(name) !== now.get(name)) look(name);
    before = now;
  });
}

const sinceOf = (call: Call): string | undefined =>
  call.header('last-event-id') ?? call.query['resourceVersion'];

function nameSelector(text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  const name = /^metadata\.name==?([^,=!]+)$/.exec(text)?.[1];
  if (name !== undefined) return name;
  throw new BelayError('InvalidSelector', `field selector '${text}' is not understood`, {
    retry: 'never',
    fix: 'only metadata.name=NAME can be selected',
  });
}

/** One object with its version as ETag. */
export async function read(deps: ApiDeps, call: Call, info: KindInfo): Promise<unknown> {
  const object = await getObject(deps, keyOfCall(call, info));
  const tag = object.metadata.resourceVersion;
  call.reply.header('etag', `"${tag}"`);
  // What a host reports is not part of its version, so it cannot be called unchanged.
  if (info.kind !== 'Host' && etag(call.header('if-none-match')) === tag)
    return call.reply.status(304).send();
  return view(deps, object);
}

/** The version in an ETag: `"17"`, `W/"17"` or plain `17`. */
export const etag = (text: string | undefined): string | undefined =>
  text?.trim().replace(/^(W\/)?"|"$/g, '');

/** Create or replace. */
export async function store(
  deps: ApiDeps,
  call: Call,
  info: KindInfo,
  conditions: Omit<Conditions, 'dryRun' | 'by'>,
): Promise<unknown> {
  const mode = dryRunOf(call);
  const namespace = call.param('ns') || DEFAULT_NAMESPACE;
  const document = bodyFor(call, info, namespace);
  const key = keyOf(document, namespace);
  const current = mode === 'plan' && key !== null ? await deps.store.get(key) : null;
  const applied = await applyDocument(deps, document, namespace, {
    ...conditions,
    by: call.identity,
    dryRun: mode !== null,
  });
  if (mode === 'plan') return planDocument(deps, applied, current);
  return answer(call, applied, mode !== null);
}

/** Merge patch. */
export async function patch(deps: ApiDeps, call: Call, info: KindInfo): Promise<unknown> {
  const mode = dryRunOf(call);
  const key = keyOfCall(call, info);
  const current = mode === 'plan' ? await deps.store.get(key) : null;
  const ifMatch = etag(call.header('if-match'));
  const applied = await patchObject(deps, key, call.body, {
    ifMatch,
    by: call.identity,
    dryRun: mode !== null,
  });
  if (mode === 'plan') return planDocument(deps, applied, current);
  return answer(call, applied, mode !== null);
}

function answer(call: Call, applied: Applied, dry: boolean): unknown {
  const { object, outcome, warnings } = applied;
  if (object === null)
    throw new BelayError('Malformed', 'the document is of another kind', { retry: 'never' });
  if (!dry) call.reply.header('etag', `"${object.metadata.resourceVersion}"`);
  for (const { path, message } of warnings)
    call.reply.header('warning', warningHeader(`${path}: ${message}`));
  return call.reply.status(outcome === 'created' && !dry ? 201 : 200).send(presentObject(object));
}

/** RFC 7234's form, as kubectl prints it; headers hold no other characters than these. */
const warningHeader = (text: string): string =>
  `299 belay "${text.replace(/[^\x20-\x7e]/g, '?').replace(/["\\]/g, '\\$&')}"`;

/** The document of a request body must be about the object of its path. */
function bodyFor(call: Call, info: KindInfo, namespace: string): unknown {
  const document = withNamespace(call.body, namespace);
  const kind = (document as { readonly kind?: unknown } | null)?.kind;
  const key = keyOf(document, namespace);
  const path = keyOfCall(call, info);
  const otherKind = typeof kind === 'string' && kind !== info.kind;
  const otherPlace =
    key !== null && (key.namespace !== path.namespace || (path.name !== '' && key.name !== path.name));
  if (!otherKind && !otherPlace) return document;
  const about = otherKind ? kind : `${info.kind} ${key?.namespace}/${key?.name}`;
  throw new BelayError(
    'Malformed',
    `the document is about ${about}, the path about ${path.kind} ${path.namespace}/${path.name || '…'}`,
    { retry: 'never', fix: 'send it to its own path, or to /api/v1/apply' },
  );
}

/** Delete, or suspend when volumes are to be kept. */
export async function remove(deps: ApiDeps, call: Call, info: KindInfo): Promise<unknown> {
  const object = await deleteObject(deps, keyOfCall(call, info), {
    keepVolumes: flag(call, 'keepVolumes'),
    ifMatch: etag(call.header('if-match')),
    ...(call.identity === null ? {} : { by: call.identity.name }),
  });
  return object === null ? call.reply.status(204).send() : call.reply.status(202).send(presentObject(object));
}

/** Events of an object, a namespace or all, as a list or a stream. */
export async function listEvents(
  deps: ApiDeps,
  call: Call,
  about: { readonly namespace: string | undefined; readonly uid?: string },
): Promise<unknown> {
  const limit = limitOf(call);
  if (flag(call, 'watch') && call.request.method === 'GET') {
    await streamEvents(deps, call.request, call.reply, { ...about, since: sinceOf(call) });
    return call.reply;
  }
  const { namespace, uid } = about;
  const items = await deps.store.events({
    ...(namespace === undefined ? {} : { namespace }),
    ...(uid === undefined ? {} : { uid }),
    limit,
  });
  const newest = Math.max(0, ...items.map((event) => event.at));
  return presentList('Event', items.map(presentEvent), String(newest), null);
}

/** A document of any kind: what became of it, or the plan. */
export async function apply(deps: ApiDeps, call: Call): Promise<unknown> {
  const namespace = call.query['namespace'] ?? DEFAULT_NAMESPACE;
  const mode = dryRunOf(call);
  const key = keyOf(withNamespace(call.body, namespace), namespace);
  const current = mode === 'plan' && key !== null ? await deps.store.get(key) : null;
  const applied = await applyDocument(deps, call.body, namespace, {
    by: call.identity,
    dryRun: mode !== null,
  });
  if (mode === 'plan') return planDocument(deps, applied, current);
  const objects = applied.object === null ? [] : [presentObject(applied.object)];
  return { outcome: applied.outcome, name: applied.name, objects, warnings: applied.warnings };
}
