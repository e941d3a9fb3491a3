/**
 * Watches as server-sent events: `event` is the type, `id` the resourceVersion to resume from, `data` the object.
 * Without a version what exists comes first as ADDED, and a BOOKMARK says that this was all. A watch that cannot go on
 * is answered with a problem, or once it runs ends with an event ERROR whose data is the problem (`Gone`).
 */
import { setTimeout as after } from 'node:timers/promises';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { BelayError } from '../base/error.ts';
import { type Millis, SECOND } from '../base/units.ts';
import type { ObjectEvent, StoredEvent, StoredObject } from '../engine/ports.ts';
import { parseSelector } from '../store/selector.ts';
import type { ApiDeps } from './deps.ts';
import { presentEvent } from './present.ts';
import { problemDocument } from './problem.ts';
import type { Json } from './routes.ts';

/** A comment this often keeps proxies from closing a quiet stream. */
const KEEP_ALIVE_MILLIS = 20 * SECOND;
/** How long a resumed watch is held back to see whether its version is still kept. */
const REFUSAL_WITHIN_MILLIS = 50;
/** Streams at a time; each holds a connection and a cursor. */
export const MAX_STREAMS = 1000;
/** Events have no feed of their own: they are looked for this often, this many at a time. */
const EVENTS_EVERY_MILLIS = SECOND;
const EVENTS_LIMIT = 200;

export interface WatchQuery {
  readonly kind: string;
  readonly namespace: string | undefined;
  readonly name: string | undefined;
  readonly since: string | undefined;
  readonly labelSelector: string | undefined;
  readonly present: (object: StoredObject) => Json;
  /** Tells of changes of a status that is not stored: the name of the object to look at again. */
  readonly nudges?: (look: (name: string) => void) => () => void;
}

type Message =
  | { readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'; readonly id: string; readonly data: Json }
  | { readonly type: 'BOOKMARK'; readonly id: string; readonly data: Json };

// ── objects ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Streams changes of one kind until the client goes. */
export async function streamWatch(
  deps: ApiDeps,
  request: FastifyRequest,
  reply: FastifyReply,
  query: WatchQuery,
): Promise<void> {
  const stop = stopOf(reply);
  const chosen = chooser(query);
  const start = query.since === undefined ? await existing(deps, query) : { events: [], since: query.since };
  const changes = deps.store
    .watch({
      kinds: [query.kind],
      ...(query.namespace === undefined ? {} : { namespace: query.namespace }),
      since: start.since,
      signal: stop.signal,
    })
    [Symbol.asyncIterator]();
  const first = changes.next();
  first.catch(() => undefined);
  if (query.since !== undefined) await refusedAtOnce(first);
  const stream = openStream(deps, request, reply, stop);
  const seen = new Seen(query.nudges !== undefined);
  const send = (event: ObjectEvent): Promise<void> | undefined => {
    const change = chosen(event);
    if (change === null) return undefined;
    // Somebody who resumes may know an object we have not sent; from the start on only what was sent can vanish.
    const vanished = change.type === 'DELETED' && event.type !== 'DELETED';
    if (vanished && query.since === undefined && !seen.has(event.object)) return undefined;
    return stream.send(seen.changed(change, query.present(event.object)));
  };
  const unsubscribe = query.nudges?.((name) => void look(deps, query, seen, stream, name));
  await stream.run(async () => {
    for (const event of start.events) await send(event);
    if (query.since === undefined) await stream.send(bookmark(start.since));
    for (let next = await first; next.done !== true; next = await changes.next()) await send(next.value);
  });
  unsubscribe?.();
}

const bookmark = (id: string): Message => ({
  type: 'BOOKMARK',
  id,
  data: { metadata: { resourceVersion: id } },
});

/** A `since` that is not kept any more must be a proper answer, not a stream that breaks. */
async function refusedAtOnce(first: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const held = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, REFUSAL_WITHIN_MILLIS);
  });
  try {
    await Promise.race([first, held]);
  } finally {
    clearTimeout(timer);
  }
}

/** Which events a watcher gets. One whose labels do not match any more looks deleted to it. */
function chooser(query: WatchQuery): (event: ObjectEvent) => ObjectEvent | null {
  const matches = query.labelSelector === undefined ? null : parseSelector(query.labelSelector);
  return (event) => {
    if (query.name !== undefined && event.object.metadata.name !== query.name) return null;
    if (matches === null || matches(event.object.metadata.labels)) return event;
    return event.type === 'ADDED' ? null : { ...event, type: 'DELETED' };
  };
}

/** What was sent of each object, so that a second look sends only what is new. */
class Seen {
  readonly #sent = new Map<string, string>();
  readonly #withContent: boolean;

  /** Without content only names are kept: a fleet's worth of objects is too much for every watcher to hold. */
  constructor(withContent: boolean) {
    this.#withContent = withContent;
  }

  has(object: StoredObject): boolean {
    return this.#sent.has(keyText(object));
  }

  changed({ type, object }: ObjectEvent, data: Json): Message {
    if (type === 'DELETED') this.#sent.delete(keyText(object));
    else this.#sent.set(keyText(object), this.#withContent ? essence(data) : '');
    return { type, id: object.metadata.resourceVersion, data };
  }

  again(object: StoredObject, data: Json): Message | null {
    const before = this.#sent.get(keyText(object));
    const now = essence(data);
    if (before === undefined || before === now) return null;
    this.#sent.set(keyText(object), now);
    return { type: 'MODIFIED', id: object.metadata.resourceVersion, data };
  }
}

const keyText = ({ metadata }: StoredObject): string => `${metadata.namespace}/${metadata.name}`;

/** What counts as a change of a status that is not stored: not the time it was last heard of, nor free space. */
function essence(data: Json): string {
  const { lastSeen: _, diskFreeBytes: __, ...status } = (data['status'] ?? {}) as Json;
  return JSON.stringify({ ...data, status });
}

async function look(
  deps: ApiDeps,
  query: WatchQuery,
  seen: Seen,
  stream: Stream,
  name: string,
): Promise<void> {
  if (query.name !== undefined && query.name !== name) return;
  const object = await deps.store.get({ kind: query.kind, namespace: 'default', name }).catch(() => null);
  const message = object === null ? null : seen.again(object, query.present(object));
  if (message !== null) await stream.send(message);
}

async function existing(
  { store }: ApiDeps,
  { kind, namespace, name, labelSelector }: WatchQuery,
): Promise<{ readonly events: readonly ObjectEvent[]; readonly since: string }> {
  const events: ObjectEvent[] = [];
  const add = (object: StoredObject): number => events.push({ type: 'ADDED', object });
  const one = name !== undefined && namespace !== undefined;
  let next: string | null = null;
  let since: string | null = null;
  do {
    const page = await store.list({
      kind,
      ...(namespace === undefined ? {} : { namespace }),
      ...(labelSelector === undefined ? {} : { labelSelector }),
      limit: one ? 1 : 500,
      ...(next === null ? {} : { continue: next }),
    });
    since ??= page.resourceVersion;
    if (!one) page.items.forEach(add);
    next = one ? null : page.continue;
  } while (next !== null);
  // One object is read after the version was taken: what changes in between comes again, and nothing is missed.
  const object = one ? await store.get({ kind, namespace, name }) : null;
  if (object !== null) add(object);
  return { events, since };
}

// ── events ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Streams events (the kind), oldest first; an event that happened again comes again with its new count. */
export async function streamEvents(
  deps: ApiDeps,
  request: FastifyRequest,
  reply: FastifyReply,
  query: {
    readonly namespace: string | undefined;
    readonly uid?: string;
    readonly since: string | undefined;
  },
): Promise<void> {
  const stop = stopOf(reply);
  const since = query.since === undefined ? -1 : Number(query.since);
  if (!Number.isFinite(since))
    throw new BelayError('InvalidResourceVersion', `'${query.since}' is not a resourceVersion of an event`, {
      retry: 'never',
    });
  const read = (): Promise<readonly StoredEvent[]> =>
    deps.store.events({
      ...(query.namespace === undefined ? {} : { namespace: query.namespace }),
      ...(query.uid === undefined ? {} : { uid: query.uid }),
      limit: EVENTS_LIMIT,
    });
  const stream = openStream(deps, request, reply, stop);
  const counts = new Map<string, number>();
  let last = since;
  await stream.run(async () => {
    for (let round = 0; !stop.signal.aborted; round++) {
      const found = [...(await read())].sort((a, b) => a.at - b.at);
      for (const event of found) {
        const before = counts.get(event.id);
        if (before === event.count || (round === 0 && event.at <= since)) continue;
        counts.set(event.id, event.count);
        last = Math.max(last, event.at);
        const type = before === undefined ? 'ADDED' : 'MODIFIED';
        await stream.send({ type, id: String(event.at), data: presentEvent(event) });
      }
      if (round === 0 && query.since === undefined) await stream.send(bookmark(String(Math.max(0, last))));
      await pause(EVENTS_EVERY_MILLIS, stop.signal);
    }
  });
}

const pause = (millis: Millis, signal: AbortSignal): Promise<void> =>
  after(millis, undefined, { signal }).catch(() => {});

// ── the stream itself ──────────────────────────────────────────────────────────────────────────────────────────────

interface Stream {
  /** Resolves when the client can take more: a slow one slows its own watch down and nobody else. */
  send(message: Message): Promise<void>;
  /** Runs to the end of the watch, and ends the stream with the failure if there was one. */
  run(watch: () => Promise<void>): Promise<void>;
}

let open = 0;

/** Streams open in this process. */
export const openStreams = (): number => open;

/** Aborted when the client went away. The response's `close` is asked, since a request closes once it was read. */
function stopOf(reply: FastifyReply): AbortController {
  const stop = new AbortController();
  reply.raw.once('close', () => stop.abort());
  return stop;
}

function openStream(
  deps: Pick<ApiDeps, 'log'>,
  request: FastifyRequest,
  reply: FastifyReply,
  stop: AbortController,
): Stream {
  if (open >= MAX_STREAMS) {
    stop.abort();
    throw new BelayError('TooManyWatches', `${MAX_STREAMS} watches are open already`, {
      retry: 'later',
      fix: 'close some, or ask another control plane',
    });
  }
  open += 1;
  reply.hijack();
  const { raw } = reply;
  raw.writeHead(200, {
    'content-type': 'text/event-stream',
    'cache-control': 'no-store',
    'x-accel-buffering': 'no',
    connection: 'keep-alive',
  });
  raw.write(': watching\n\n');
  const beat = setInterval(() => raw.write(': \n\n'), KEEP_ALIVE_MILLIS);
  const write = async (text: string): Promise<void> => {
    if (raw.destroyed || raw.write(text)) return;
    await new Promise<void>((resolve) => {
      raw.once('drain', resolve);
      raw.once('close', resolve);
    });
  };
  const run = async (watch: () => Promise<void>): Promise<void> => {
    try {
      await watch();
    } catch (failure) {
      if (!stop.signal.aborted) {
        const problem = problemDocument(failure, deps.log, request.id);
        await write(`event: ERROR\ndata: ${JSON.stringify(problem)}\n\n`);
      }
    } finally {
      open -= 1;
      clearInterval(beat);
      stop.abort();
      raw.end();
    }
  };
  return {
    send: ({ type, id, data }) => write(`event: ${type}\nid: ${id}\ndata: ${JSON.stringify(data)}\n\n`),
    run,
  };
}
