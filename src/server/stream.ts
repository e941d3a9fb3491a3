/** Watches as server-sent events: `event` is the type, `id` the resourceVersion to resume from, `data` the object. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { ObjectEvent, Store } from '../engine/ports.ts';
import { parseSelector } from '../store/selector.ts';
import { presentObject } from './present.ts';

/** A comment this often keeps proxies from closing a quiet stream. */
const KEEP_ALIVE_MILLIS = 20_000;

export interface WatchQuery {
  readonly kind: string;
  readonly namespace: string | undefined;
  readonly since: string | undefined;
  readonly labelSelector: string | undefined;
  readonly present?: (event: ObjectEvent) => Readonly<Record<string, unknown>>;
}

/** Streams until the client goes. Without `since` what exists comes first, as ADDED. */
export async function streamWatch(
  store: Store,
  request: FastifyRequest,
  reply: FastifyReply,
  query: WatchQuery,
): Promise<void> {
  const stop = new AbortController();
  request.raw.on('close', () => stop.abort());
  const present = query.present ?? ((event: ObjectEvent) => presentObject(event.object));
  const matches = query.labelSelector === undefined ? null : parseSelector(query.labelSelector);
  const start = query.since === undefined ? await existing(store, query) : { events: [], since: query.since };
  // The first change is asked for before the head is sent, so that `Gone` can still be a proper answer.
  const changes = store
    .watch({
      kinds: [query.kind],
      ...(query.namespace === undefined ? {} : { namespace: query.namespace }),
      since: start.since,
      signal: stop.signal,
    })
    [Symbol.asyncIterator]();
  const first = changes.next();
  const early = await Promise.race([
    first.then(
      () => null,
      (error: unknown) => error,
    ),
    new Promise<null>((resolve) => setImmediate(() => resolve(null))),
  ]);
  if (early !== null) throw early;
  reply.hijack();
  const { raw } = reply;
  raw.writeHead(200, {
    'content-type': 'text/event-stream',
    'cache-control': 'no-store',
    connection: 'keep-alive',
  });
  raw.write(': watching\n\n');
  const beat = setInterval(() => raw.write(': \n\n'), KEEP_ALIVE_MILLIS);
  const send = (event: ObjectEvent): void => {
    if (matches !== null && !matches(event.object.metadata.labels)) return;
    raw.write(
      `event: ${event.type}\nid: ${event.object.metadata.resourceVersion}\ndata: ${JSON.stringify(present(event))}\n\n`,
    );
  };
  try {
    for (const event of start.events) send(event);
    for (let next = await first; next.done !== true; next = await changes.next()) send(next.value);
  } catch {
    // The client watches again from the last id; a stream that broke says nothing.
  } finally {
    clearInterval(beat);
    raw.end();
  }
}

async function existing(
  store: Store,
  query: WatchQuery,
): Promise<{ events: readonly ObjectEvent[]; since: string }> {
  const events: ObjectEvent[] = [];
  let next: string | null = null;
  let since: string | null = null;
  do {
    const page = await store.list({
      kind: query.kind,
      ...(query.namespace === undefined ? {} : { namespace: query.namespace }),
      limit: 500,
      ...(next === null ? {} : { continue: next }),
    });
    since ??= page.resourceVersion;
    events.push(...page.items.map((object): ObjectEvent => ({ type: 'ADDED', object })));
    next = page.continue;
  } while (next !== null);
  return { events, since: since ?? '0' };
}
