/**
 * The objects of a few kinds, kept in memory and kept current by the store's feed: reading one costs nothing. It may be
 * behind by moments, so whoever acts reads the one object again from the store first.
 */
import { asBelayError } from '../base/error.ts';
import { WATCH_RETRY } from './limits.ts';
import type { Clock, Log, ObjectEvent, ObjectKey, Store, StoredObject } from './ports.ts';

export interface ObjectChanged {
  readonly before: StoredObject | null;
  readonly after: StoredObject | null;
}

export interface InformerOptions {
  readonly store: Pick<Store, 'list' | 'watch'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly kinds: readonly string[];
}

/** See the head of this file. */
export class Informer {
  readonly #options: InformerOptions;
  readonly #byUid = new Map<string, StoredObject>();
  readonly #uids = new Map<string, string>();
  readonly #listeners = new Set<(change: ObjectChanged) => void>();
  readonly #abort = new AbortController();
  #running: Promise<void> = Promise.resolve();

  constructor(options: InformerOptions) {
    this.#options = options;
  }

  /** Lists everything, then follows the feed until closed. */
  async open(): Promise<void> {
    const since = await this.#load();
    this.#running = this.#follow(since);
  }

  async close(): Promise<void> {
    this.#abort.abort();
    await this.#running;
  }

  get(key: ObjectKey): StoredObject | null {
    return this.#byUid.get(this.#uids.get(keyText(key)) ?? '') ?? null;
  }

  byUid(uid: string): StoredObject | null {
    return this.#byUid.get(uid) ?? null;
  }

  all(kind: string): readonly StoredObject[] {
    return [...this.#byUid.values()].filter((o) => o.kind === kind);
  }

  /** Told of every difference, also those found after the feed broke. */
  onChange(listener: (change: ObjectChanged) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Takes over an object read or written elsewhere, so that one's own write is seen at once. Older ones are ignored. */
  learn(object: StoredObject): void {
    this.#put(object);
  }

  /** Takes out an object that the store no longer has. */
  forget(object: StoredObject): void {
    this.#remove(object);
  }

  /** Everything of the store; gives the version to follow from: the oldest, so that nothing is missed between lists. */
  async #load(): Promise<string> {
    const seen = new Set<string>();
    let since: bigint | null = null;
    for (const kind of this.#options.kinds) {
      let next: string | null = null;
      do {
        const page = await this.#options.store.list({
          kind,
          limit: 500,
          ...(next === null ? {} : { continue: next }),
        });
        for (const object of page.items) {
          seen.add(object.metadata.uid);
          this.#put(object);
        }
        const version = BigInt(page.resourceVersion);
        if (since === null || version < since) since = version;
        next = page.continue;
      } while (next !== null);
    }
    for (const [uid, object] of this.#byUid) if (!seen.has(uid)) this.#remove(object);
    return String(since ?? 0n);
  }

  async #follow(from: string): Promise<void> {
    const { store, kinds, log } = this.#options;
    const { signal } = this.#abort;
    let since: string | null = from;
    while (!signal.aborted) {
      try {
        since ??= await this.#load();
        for await (const event of store.watch({ kinds, since, signal })) {
          this.#apply(event);
          since = event.object.metadata.resourceVersion;
        }
        if (!signal.aborted) await this.#pause();
      } catch (failure) {
        if (signal.aborted) return;
        const error = asBelayError(failure);
        log.warn('the feed of objects broke', { code: error.code, error: error.message });
        since = null;
        await this.#pause();
      }
    }
  }

  #pause(): Promise<void> {
    const { clock } = this.#options;
    return new Promise((resolve) => {
      const cancel = clock.at(clock.now() + WATCH_RETRY, resolve);
      this.#abort.signal.addEventListener('abort', () => {
        cancel();
        resolve();
      });
    });
  }

  #apply(event: ObjectEvent): void {
    if (event.type === 'DELETED') this.#remove(event.object);
    else this.#put(event.object);
  }

  #put(object: StoredObject): void {
    const { uid, resourceVersion } = object.metadata;
    const before = this.#byUid.get(uid) ?? null;
    if (before !== null && BigInt(before.metadata.resourceVersion) >= BigInt(resourceVersion)) return;
    this.#byUid.set(uid, object);
    this.#uids.set(keyText(keyOf(object)), uid);
    this.#tell({ before, after: object });
  }

  #remove(object: StoredObject): void {
    const { uid } = object.metadata;
    const before = this.#byUid.get(uid);
    if (before === undefined) return;
    this.#byUid.delete(uid);
    const text = keyText(keyOf(object));
    if (this.#uids.get(text) === uid) this.#uids.delete(text);
    this.#tell({ before, after: null });
  }

  #tell(change: ObjectChanged): void {
    for (const listener of this.#listeners) listener(change);
  }
}

/** An object's key. */
export const keyOf = (object: StoredObject): ObjectKey => ({
  kind: object.kind,
  namespace: object.metadata.namespace,
  name: object.metadata.name,
});

const keyText = (key: ObjectKey): string => `${key.kind}/${key.namespace}/${key.name}`;

/** What somebody else asked for changed; a status the engine wrote itself is no reason to look again. */
export function askedForMore({ before, after }: ObjectChanged): boolean {
  if (before === null || after === null) return true;
  const was = before.metadata;
  const is = after.metadata;
  return (
    was.generation !== is.generation ||
    was.deletionTimestamp !== is.deletionTimestamp ||
    JSON.stringify(was.annotations) !== JSON.stringify(is.annotations) ||
    JSON.stringify(was.labels) !== JSON.stringify(is.labels)
  );
}
