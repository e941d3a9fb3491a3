/** A store in memory with the real one's rules (fences, versions, one transaction per commit): for tests and the deterministic world. */
import { BelayError } from '../../base/error.ts';
import type { Millis } from '../../base/units.ts';
import { equalValues } from '../equal.ts';
import type {
  Batch,
  Clock,
  JournalEntry,
  Lease,
  ListQuery,
  NewEvent,
  NewObject,
  ObjectChange,
  ObjectEvent,
  ObjectKey,
  ObjectList,
  SealedRow,
  Store,
  StoredEvent,
  StoredObject,
  TokenRow,
} from '../ports.ts';

const keyText = (key: ObjectKey): string => `${key.kind}/${key.namespace}/${key.name}`;
const copy = <T>(value: T): T => (value === undefined ? value : (JSON.parse(JSON.stringify(value)) as T));

/** See the head of this file. `labelSelector` takes `a=b` only. */
export class MemoryStore implements Store {
  readonly #clock: Clock;
  readonly #objects = new Map<string, StoredObject>();
  readonly #feed: { readonly version: number; readonly event: ObjectEvent }[] = [];
  readonly #watchers = new Set<() => void>();
  readonly #states = new Map<string, { version: number; value: unknown }>();
  readonly #leases = new Map<string, Lease>();
  readonly #journal: JournalEntry[] = [];
  readonly #events: StoredEvent[] = [];
  readonly #sealed = new Map<string, SealedRow>();
  readonly #tokens = new Map<string, TokenRow>();
  readonly #settings = new Map<string, string>();
  #version = 0;
  #uids = 0;
  writes = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  // ── objects ────────────────────────────────────────────────────────────────────────────────────────────────────

  async get(key: ObjectKey): Promise<StoredObject | null> {
    return copy(this.#objects.get(keyText(key)) ?? null);
  }

  async list(query: ListQuery): Promise<ObjectList> {
    const items = [...this.#objects.values()].filter(
      (o) =>
        o.kind === query.kind &&
        (query.namespace === undefined || o.metadata.namespace === query.namespace) &&
        (query.labelSelector ?? '')
          .split(',')
          .filter((part) => part !== '')
          .every((part) => o.metadata.labels[part.split('=')[0] as string] === part.split('=')[1]),
    );
    return { items: copy(items), continue: null, resourceVersion: String(this.#version) };
  }

  async create(object: NewObject): Promise<StoredObject> {
    const key = keyText(object);
    if (this.#objects.has(key)) throw new BelayError('AlreadyExists', `${key} exists`, { retry: 'never' });
    this.writes++;
    this.#uids++;
    return this.#put('ADDED', {
      kind: object.kind,
      metadata: {
        namespace: object.namespace,
        name: object.name,
        uid: `${String(this.#uids).padStart(8, '0')}-0000-4000-8000-000000000000`,
        generation: 1,
        resourceVersion: '0',
        labels: object.labels ?? {},
        annotations: object.annotations ?? {},
        creationTimestamp: new Date(this.#clock.now()).toISOString(),
        deletionTimestamp: null,
        finalizers: object.finalizers ?? [],
      },
      spec: object.spec,
      status: object.status ?? null,
    });
  }

  async update(key: ObjectKey, change: ObjectChange, expect?: string): Promise<StoredObject | null> {
    const before = this.#objects.get(keyText(key));
    if (before === undefined)
      throw new BelayError('NotFound', `${keyText(key)} is not there`, { retry: 'never' });
    if (expect !== undefined && expect !== before.metadata.resourceVersion) {
      throw new BelayError('Conflict', `${keyText(key)} has changed`, { retry: 'never' });
    }
    const { metadata } = before;
    const spec = change.spec === undefined ? before.spec : change.spec;
    const after: StoredObject = {
      ...before,
      spec,
      metadata: {
        ...metadata,
        generation: metadata.generation + (equalValues(spec, before.spec) ? 0 : 1),
        labels: change.labels ?? metadata.labels,
        annotations: change.annotations ?? metadata.annotations,
        finalizers: change.finalizers ?? metadata.finalizers,
        deletionTimestamp:
          metadata.deletionTimestamp ?? (change.delete ? new Date(this.#clock.now()).toISOString() : null),
      },
    };
    if (equalValues(after, before)) return copy(before);
    this.writes++;
    return this.#putOrRemove(after);
  }

  #putOrRemove(object: StoredObject): StoredObject | null {
    if (object.metadata.deletionTimestamp === null || object.metadata.finalizers.length > 0) {
      return this.#put('MODIFIED', object);
    }
    this.#put('DELETED', object);
    return null;
  }

  #put(type: ObjectEvent['type'], object: StoredObject): StoredObject {
    this.#version++;
    const stored = copy({
      ...object,
      metadata: { ...object.metadata, resourceVersion: String(this.#version) },
    });
    const key = keyText({
      kind: object.kind,
      namespace: object.metadata.namespace,
      name: object.metadata.name,
    });
    if (type === 'DELETED') this.#objects.delete(key);
    else this.#objects.set(key, stored);
    this.#feed.push({ version: this.#version, event: { type, object: stored } });
    for (const wake of this.#watchers) wake();
    return copy(stored);
  }

  async *watch(query: {
    readonly kinds?: readonly string[];
    readonly namespace?: string;
    readonly since?: string;
    readonly signal: AbortSignal;
  }): AsyncIterable<ObjectEvent> {
    let since = query.since === undefined ? this.#version : Number(query.since);
    while (!query.signal.aborted) {
      const next = this.#feed.find((row) => row.version > since);
      if (next === undefined) {
        await this.#news(query.signal);
        continue;
      }
      since = next.version;
      if (query.kinds === undefined || query.kinds.includes(next.event.object.kind)) yield copy(next.event);
    }
  }

  #news(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const wake = (): void => {
        this.#watchers.delete(wake);
        resolve();
      };
      this.#watchers.add(wake);
      signal.addEventListener('abort', wake);
    });
  }

  // ── engine ─────────────────────────────────────────────────────────────────────────────────────────────────────

  async commit(batch: Batch): Promise<{ readonly stateVersion: number | null; readonly wrote: boolean }> {
    if (batch.fence !== undefined && this.#leases.get(batch.fence.lease)?.epoch !== batch.fence.epoch) {
      throw new BelayError('LeaseLost', `${batch.fence.lease} has another holder`, { retry: 'never' });
    }
    if (batch.state !== undefined) {
      const version = this.#states.get(batch.state.uid)?.version ?? 0;
      if (version !== batch.state.version) {
        throw new BelayError('StateConflict', `state of ${batch.state.uid} has changed`, { retry: 'later' });
      }
    }
    this.writes++;
    const stateVersion =
      batch.state === undefined ? null : this.#writeState(batch.state.uid, batch.state.value);
    for (const intent of batch.intents ?? []) this.#intend(intent);
    for (const outcome of batch.outcomes ?? []) this.#conclude(outcome);
    for (const status of batch.status ?? []) this.#writeStatus(status);
    await this.#addEvents(batch.events ?? []);
    for (const release of batch.releases ?? []) this.#release(release);
    for (const prefix of batch.secretPrefixesToDelete ?? []) await this.deleteSealed(prefix);
    return { stateVersion, wrote: true };
  }

  #writeState(uid: string, value: unknown): number | null {
    if (value === null) {
      this.#states.delete(uid);
      return null;
    }
    const version = (this.#states.get(uid)?.version ?? 0) + 1;
    this.#states.set(uid, { version, value: copy(value) });
    return version;
  }

  #intend(intent: Omit<JournalEntry, 'outcome'>): void {
    if (this.#journal.some((entry) => entry.id === intent.id)) {
      throw new BelayError('InvariantBroken', `S16: step id ${intent.id} is used twice`, { retry: 'never' });
    }
    this.#journal.push({ ...copy(intent), outcome: null });
  }

  #conclude(outcome: NonNullable<JournalEntry['outcome']>): void {
    const index = this.#journal.findIndex((entry) => entry.id === outcome.id);
    const entry = this.#journal[index];
    if (entry !== undefined) this.#journal[index] = { ...entry, outcome: copy(outcome) };
  }

  #writeStatus(status: { readonly key: ObjectKey; readonly uid: string; readonly value: unknown }): void {
    const object = this.#objects.get(keyText(status.key));
    if (object?.metadata.uid !== status.uid || equalValues(object.status, status.value)) return;
    this.#put('MODIFIED', { ...object, status: status.value });
  }

  #release(release: { readonly key: ObjectKey; readonly uid: string; readonly finalizer: string }): void {
    const object = this.#objects.get(keyText(release.key));
    if (object?.metadata.uid !== release.uid) return;
    const finalizers = object.metadata.finalizers.filter((f) => f !== release.finalizer);
    if (finalizers.length === object.metadata.finalizers.length) return;
    this.#putOrRemove({ ...object, metadata: { ...object.metadata, finalizers } });
  }

  async loadState(uid: string): Promise<{ readonly version: number; readonly value: unknown } | null> {
    return copy(this.#states.get(uid) ?? null);
  }

  async acquireLeases(
    names: readonly string[],
    holder: string,
    ttl: Millis,
    now: Millis,
  ): Promise<readonly Lease[]> {
    this.writes++;
    const held: Lease[] = [];
    for (const name of names) {
      const lease = this.#leases.get(name);
      if (lease !== undefined && lease.holder !== holder && lease.expiresAt > now) continue;
      const epoch = lease === undefined ? 1 : lease.holder === holder ? lease.epoch : lease.epoch + 1;
      const taken = { name, holder, epoch, expiresAt: now + ttl };
      this.#leases.set(name, taken);
      held.push(taken);
    }
    return held;
  }

  async releaseLeases(holder: string): Promise<void> {
    this.writes++;
    for (const [name, lease] of this.#leases) {
      if (lease.holder === holder) this.#leases.set(name, { ...lease, holder: '', expiresAt: 0 });
    }
  }

  async openIntents(clusterUid: string): Promise<readonly JournalEntry[]> {
    return copy(this.#journal.filter((e) => e.clusterUid === clusterUid && e.outcome === null));
  }

  async journal(query: {
    readonly clusterUid: string;
    readonly limit: number;
  }): Promise<readonly JournalEntry[]> {
    return copy(this.#journal.filter((e) => e.clusterUid === query.clusterUid).slice(-query.limit));
  }

  async events(query: { readonly uid?: string; readonly limit: number }): Promise<readonly StoredEvent[]> {
    return copy(
      this.#events
        .filter((e) => query.uid === undefined || e.regarding.uid === query.uid)
        .slice(-query.limit),
    );
  }

  async recordEvents(events: readonly NewEvent[]): Promise<void> {
    this.writes++;
    await this.#addEvents(events);
  }

  async #addEvents(events: readonly NewEvent[]): Promise<void> {
    for (const event of events) {
      const index = this.#events.findIndex(
        (e) =>
          e.regarding.uid === event.regarding.uid &&
          e.type === event.type &&
          e.reason === event.reason &&
          e.message === event.message,
      );
      const known = this.#events[index];
      if (known === undefined) {
        this.#events.push({
          ...copy(event),
          id: String(this.#events.length + 1),
          count: 1,
          firstAt: event.at,
        });
      } else this.#events[index] = { ...known, count: known.count + 1, at: event.at };
    }
  }

  // ── secrets, tokens, settings ──────────────────────────────────────────────────────────────────────────────────

  async getSealed(name: string): Promise<SealedRow | null> {
    return this.#sealed.get(name) ?? null;
  }

  async listSealed(prefix: string): Promise<readonly SealedRow[]> {
    return [...this.#sealed.values()].filter((row) => row.name.startsWith(prefix));
  }

  async putSealed(name: string, sealed: Uint8Array, expect: number | null): Promise<number> {
    const version = this.#sealed.get(name)?.version ?? 0;
    if (expect !== null && expect !== version) throw new BelayError('Conflict', `${name} has changed`);
    this.writes++;
    this.#sealed.set(name, { name, sealed, version: version + 1 });
    return version + 1;
  }

  async replaceSealed(rows: readonly SealedRow[]): Promise<void> {
    for (const row of rows) await this.putSealed(row.name, row.sealed, row.version);
  }

  async deleteSealed(prefix: string): Promise<number> {
    const names = [...this.#sealed.keys()].filter((name) => name.startsWith(prefix));
    for (const name of names) this.#sealed.delete(name);
    return names.length;
  }

  async putToken(row: TokenRow): Promise<void> {
    this.#tokens.set(row.id, row);
  }

  async getToken(id: string): Promise<TokenRow | null> {
    return this.#tokens.get(id) ?? null;
  }

  async listTokens(kind: 'api' | 'join'): Promise<readonly TokenRow[]> {
    return [...this.#tokens.values()].filter((t) => t.kind === kind);
  }

  async useToken(id: string, now: Millis): Promise<boolean> {
    const token = this.#tokens.get(id);
    if (token === undefined || token.usedAt !== null) return false;
    this.#tokens.set(id, { ...token, usedAt: now });
    return true;
  }

  async deleteToken(id: string): Promise<void> {
    this.#tokens.delete(id);
  }

  async getSetting(name: string): Promise<string | null> {
    return this.#settings.get(name) ?? null;
  }

  async initSetting(name: string, value: string): Promise<string> {
    const standing = this.#settings.get(name) ?? value;
    this.#settings.set(name, standing);
    return standing;
  }

  async close(): Promise<void> {}
}
