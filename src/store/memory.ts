import { randomUUID } from 'node:crypto';
import { equalValues } from '../base/equal.ts';
import type {
  Batch,
  Clock,
  Fence,
  JournalEntry,
  JournalIntent,
  JournalOutcome,
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
} from '../engine/ports.ts';
import * as errors from './errors.ts';
import { Feed } from './feed.ts';
import { encodeJson, plainJson } from './json.ts';
import { STORE_LIMITS, type StoreLimits } from './limits.ts';
import { type MemoryDisk, MemoryWrite, memoryDisk } from './memory-tables.ts';
import { decodePosition, encodePosition } from './paging.ts';
import * as rules from './rules.ts';
import { parseSelector } from './selector.ts';
import { type ChangeFilter, type ChangeSlice, watchChanges } from './watch.ts';

export interface MemoryStoreOptions {
  readonly clock: Clock;
  /** Data that outlives this store; without it the store is empty and its own. */
  readonly disk?: MemoryDisk;
  /** Makes the uids; a deterministic world gives a seeded one. */
  readonly makeUid?: () => string;
  readonly limits?: Partial<StoreLimits>;
}

/**
 * A Store in plain memory for tests and the deterministic world: no I/O, no timers, no randomness but the uids.
 * What it hands out is frozen, so that nobody changes stored values by accident.
 */
export function openMemoryStore(options: MemoryStoreOptions): Store {
  const { clock, disk = memoryDisk(), makeUid = randomUUID } = options;
  return new MemoryStore(disk, clock, makeUid, { ...STORE_LIMITS, ...options.limits });
}

class MemoryStore implements Store {
  readonly #disk: MemoryDisk;
  readonly #clock: Clock;
  readonly #makeUid: () => string;
  readonly #limits: StoreLimits;
  readonly #feed = new Feed();
  readonly #waker = (): void => this.#feed.wake();
  #writes = 0;

  constructor(disk: MemoryDisk, clock: Clock, makeUid: () => string, limits: StoreLimits) {
    this.#disk = disk;
    this.#clock = clock;
    this.#makeUid = makeUid;
    this.#limits = limits;
    disk.wakers.add(this.#waker);
  }

  get writes(): number {
    return this.#writes;
  }

  async close(): Promise<void> {
    this.#disk.wakers.delete(this.#waker);
    this.#feed.close();
  }

  // objects

  async get(key: ObjectKey): Promise<StoredObject | null> {
    return this.#open().objects.get(pathOf(key)) ?? null;
  }

  async list(query: ListQuery): Promise<ObjectList> {
    const { objects, version: head } = this.#open();
    const matches = parseSelector(query.labelSelector);
    const start = query.continue === undefined ? null : decodePosition(query.continue);
    const version = start?.version ?? head;
    const found = [...objects.values()]
      .filter((object) => object.kind === query.kind && matches(object.metadata.labels))
      .filter(({ metadata }) => query.namespace === undefined || metadata.namespace === query.namespace)
      .filter(({ metadata }) => start === null || comparePlaces(metadata, start) > 0)
      .sort((a, b) => comparePlaces(a.metadata, b.metadata));
    const items = found.slice(0, query.limit ?? found.length);
    const last = items.at(-1)?.metadata;
    const more = items.length < found.length && last !== undefined;
    const next = more ? encodePosition({ namespace: last.namespace, name: last.name, version }) : null;
    return { items, continue: next, resourceVersion: String(version) };
  }

  async create(input: NewObject): Promise<StoredObject> {
    return this.#write((write) => {
      if (write.disk.objects.has(pathOf(input))) throw errors.alreadyExists(errors.describeKey(input));
      const draft = rules.draftOf(input, this.#makeUid(), this.#clock.now(), this.#limits.valueBytes);
      return save(write, 'ADDED', draft);
    });
  }

  async update(key: ObjectKey, change: ObjectChange, expect?: string): Promise<StoredObject | null> {
    return this.#write((write) => {
      const current = write.disk.objects.get(pathOf(key));
      const what = errors.describeKey(key);
      if (current === undefined) throw errors.notFound(what);
      const found = current.metadata.resourceVersion;
      if (expect !== undefined && expect !== found) throw errors.conflict(what, expect, found);
      const outcome = rules.applyChange(current, change, this.#clock.now(), this.#limits.valueBytes);
      return settle(write, current, outcome);
    });
  }

  watch(query: Parameters<Store['watch']>[0]): AsyncIterable<ObjectEvent> {
    const read = async (after: number, filter: ChangeFilter, limit: number) =>
      readChanges(this.#open(), after, filter, limit);
    return watchChanges(read, this.#feed, query, this.#limits.watchChunk);
  }

  // engine

  async commit(batch: Batch): Promise<{ readonly stateVersion: number | null; readonly wrote: boolean }> {
    return this.#write((write) => {
      const stateVersion = applyBatch(write, batch, this.#clock.now(), this.#limits);
      return { stateVersion, wrote: write.rows > 0 };
    });
  }

  async loadState(uid: string): Promise<{ readonly version: number; readonly value: unknown } | null> {
    const state = this.#open().states.get(uid);
    return state === undefined ? null : frozen({ version: state.version, value: JSON.parse(state.text) });
  }

  async acquireLeases(
    names: readonly string[],
    holder: string,
    ttl: number,
    now: number,
  ): Promise<readonly Lease[]> {
    return this.#write((write) => {
      const { leases } = write.disk;
      const ask = { holder, expiresAt: Math.trunc(now + ttl), now: Math.trunc(now) };
      const held = rules.decideLeases([...leases.values()], names, ask);
      for (const lease of held) write.set(leases, lease.name, lease);
      return held;
    });
  }

  async releaseLeases(holder: string): Promise<void> {
    this.#write((write) => {
      const { leases } = write.disk;
      for (const lease of [...leases.values()].filter((item) => item.holder === holder)) {
        write.set(leases, lease.name, { ...lease, holder: rules.FREE, expiresAt: 0 });
      }
    });
  }

  async openIntents(clusterUid: string): Promise<readonly JournalEntry[]> {
    return entriesOf(this.#open(), clusterUid).filter((entry) => entry.outcome === null);
  }

  async journal(query: {
    readonly clusterUid: string;
    readonly limit: number;
  }): Promise<readonly JournalEntry[]> {
    return newest(entriesOf(this.#open(), query.clusterUid), query.limit);
  }

  async events(query: Parameters<Store['events']>[0]): Promise<readonly StoredEvent[]> {
    const found = [...this.#open().events.values()]
      .filter(({ event }) => query.namespace === undefined || event.namespace === query.namespace)
      .filter(({ event }) => query.uid === undefined || event.regarding.uid === query.uid)
      .sort((a, b) => a.event.at - b.event.at || a.seq - b.seq)
      .map(({ event }) => event);
    return newest(found, query.limit);
  }

  async recordEvents(events: readonly NewEvent[]): Promise<void> {
    this.#write((write) => addEvents(write, events, this.#limits));
  }

  // secrets, tokens, settings

  async getSealed(name: string): Promise<SealedRow | null> {
    return this.#open().sealed.get(name) ?? null;
  }

  async listSealed(prefix: string): Promise<readonly SealedRow[]> {
    const rows = [...this.#open().sealed.values()].filter((row) => row.name.startsWith(prefix));
    return rows.sort((a, b) => compareText(a.name, b.name));
  }

  async sealedMarks(prefix: string): Promise<ReadonlyMap<string, string>> {
    const rows = await this.listSealed(prefix);
    return new Map(rows.map((row) => [row.name, rules.sealedMark(row.version, rules.nonceOf(row.sealed))]));
  }

  async putSealed(name: string, sealed: Uint8Array, expect: number | null): Promise<number> {
    return this.#write((write) => {
      const found = write.disk.sealed.get(name)?.version ?? 0;
      if (expect !== null && expect !== found) throw staleSecret(name, expect, found);
      write.set(write.disk.sealed, name, { name, sealed: Uint8Array.from(sealed), version: found + 1 });
      return found + 1;
    });
  }

  async replaceSealed(rows: readonly SealedRow[]): Promise<void> {
    this.#write((write) => {
      for (const { name, sealed, version } of rows) {
        const found = write.disk.sealed.get(name)?.version ?? 0;
        if (found !== version) throw staleSecret(name, version, found);
        write.set(write.disk.sealed, name, { name, sealed: Uint8Array.from(sealed), version: version + 1 });
      }
    });
  }

  async deleteSealed(prefix: string): Promise<number> {
    return this.#write((write) => removeSealed(write, prefix));
  }

  async putToken(row: TokenRow): Promise<void> {
    this.#write((write) => {
      if (write.disk.tokens.has(row.id)) throw errors.alreadyExists(`token ${row.id}`);
      write.set(write.disk.tokens, row.id, Object.freeze({ ...row }));
    });
  }

  async getToken(id: string): Promise<TokenRow | null> {
    return this.#open().tokens.get(id) ?? null;
  }

  async listTokens(kind: TokenRow['kind']): Promise<readonly TokenRow[]> {
    const rows = [...this.#open().tokens.values()].filter((row) => row.kind === kind);
    return rows.sort((a, b) => a.createdAt - b.createdAt || compareText(a.id, b.id));
  }

  async useToken(id: string, now: number): Promise<boolean> {
    return this.#write((write) => {
      const row = write.disk.tokens.get(id);
      if (row === undefined || row.usedAt !== null || (row.expiresAt ?? Number.POSITIVE_INFINITY) <= now)
        return false;
      write.set(write.disk.tokens, id, Object.freeze({ ...row, usedAt: Math.trunc(now) }));
      return true;
    });
  }

  async deleteToken(id: string): Promise<void> {
    this.#write((write) => write.remove(write.disk.tokens, id));
  }

  async getSetting(name: string): Promise<string | null> {
    return this.#open().settings.get(name) ?? null;
  }

  async initSetting(name: string, value: string): Promise<string> {
    return this.#write((write) => {
      const found = write.disk.settings.get(name);
      if (found === undefined) write.set(write.disk.settings, name, value);
      return found ?? value;
    });
  }

  #open(): MemoryDisk {
    if (this.#feed.closed) throw errors.storeClosed();
    return this.#disk;
  }

  #write<T>(work: (write: MemoryWrite) => T): T {
    const write = new MemoryWrite(this.#open());
    let result: T;
    try {
      result = work(write);
    } catch (failure) {
      write.rollBack();
      throw failure;
    }
    if (write.rows > 0) this.#committed(write);
    return result;
  }

  #committed(write: MemoryWrite): void {
    this.#writes += 1;
    housekeep(this.#disk, write.rows, this.#limits);
    if (write.changes > 0) for (const wake of this.#disk.wakers) wake();
  }
}

const pathOf = (key: ObjectKey): string => JSON.stringify([key.kind, key.namespace, key.name]);
const staleSecret = (name: string, expect: number, found: number) =>
  errors.conflict(`secret ${name}`, String(expect), String(found));

const compareText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
const comparePlaces = (
  a: { readonly namespace: string; readonly name: string },
  b: { readonly namespace: string; readonly name: string },
): number => compareText(a.namespace, b.namespace) || compareText(a.name, b.name);

const newest = <T>(items: readonly T[], limit: number): readonly T[] =>
  items.slice(Math.max(0, items.length - limit));

function frozen<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const part of Object.values(value)) frozen(part);
  }
  return value;
}

function save(write: MemoryWrite, type: ObjectEvent['type'], draft: rules.Draft): StoredObject {
  const { object } = write.change((version) => frozen({ type, object: rules.numbered(draft, version) }));
  const path = pathOf({ kind: object.kind, ...object.metadata });
  if (type === 'DELETED') write.remove(write.disk.objects, path);
  else write.set(write.disk.objects, path, object);
  return object;
}

function settle(write: MemoryWrite, current: StoredObject, outcome: rules.Outcome): StoredObject | null {
  switch (outcome.kind) {
    case 'same':
      return current;
    case 'modified':
      return save(write, 'MODIFIED', outcome.draft);
    case 'removed':
      save(write, 'DELETED', current);
      return null;
  }
}

function readChanges(disk: MemoryDisk, after: number, filter: ChangeFilter, limit: number): ChangeSlice {
  // Numbers have no gaps, so the place of the first wanted change is known.
  const first = Math.max(0, after - disk.kept);
  const changes: ChangeSlice['changes'][number][] = [];
  for (let i = first; i < disk.changes.length && changes.length < limit; i++) {
    const change = disk.changes[i] as (typeof disk.changes)[number];
    const { kind, metadata } = change.event.object;
    if (filter.kinds !== undefined && !filter.kinds.includes(kind)) continue;
    if (filter.namespace !== undefined && filter.namespace !== metadata.namespace) continue;
    changes.push(change);
  }
  return { head: disk.version, kept: disk.kept, changes };
}

function applyBatch(write: MemoryWrite, batch: Batch, now: number, limits: StoreLimits): number | null {
  const { disk } = write;
  if (batch.fence !== undefined) checkFence(disk, batch.fence);
  const version = batch.state === undefined ? null : putState(write, batch.state, limits);
  if (batch.intents !== undefined) addIntents(write, batch.intents, limits);
  for (const outcome of batch.outcomes ?? []) addOutcome(write, outcome);
  for (const { key, uid, value } of batch.status ?? []) {
    const current = disk.objects.get(pathOf(key));
    if (current?.metadata.uid === uid)
      settle(write, current, rules.applyStatus(current, value, limits.valueBytes));
  }
  for (const { key, uid, finalizer } of batch.releases ?? []) {
    const current = disk.objects.get(pathOf(key));
    if (current?.metadata.uid !== uid) continue;
    settle(write, current, rules.applyRelease(current, finalizer, now, limits.valueBytes));
  }
  addEvents(write, batch.events ?? [], limits);
  for (const prefix of batch.secretPrefixesToDelete ?? []) removeSealed(write, prefix);
  return version;
}

function checkFence(disk: MemoryDisk, fence: Fence): void {
  const broken = rules.fenceBroken(disk.leases.get(fence.lease), fence.epoch);
  if (broken !== null) throw errors.leaseLost(fence.lease, fence.epoch, broken);
}

function putState(
  write: MemoryWrite,
  state: NonNullable<Batch['state']>,
  limits: StoreLimits,
): number | null {
  const { states } = write.disk;
  const current = states.get(state.uid);
  const found = current?.version ?? 0;
  if (found !== state.version) throw errors.stateConflict(state.uid, state.version, found);
  if (state.value === null || state.value === undefined) {
    write.remove(states, state.uid);
    return null;
  }
  const text = encodeJson(state.value, `state of ${state.uid}`, limits.valueBytes);
  if (current !== undefined && sameText(current.text, text)) return found;
  write.set(states, state.uid, { version: found + 1, text });
  return found + 1;
}

/** Equal as JSON; the order of keys does not matter. */
const sameText = (a: string, b: string): boolean =>
  a === b || (a.length === b.length && equalValues(JSON.parse(a), JSON.parse(b)));

function addIntents(write: MemoryWrite, intents: readonly JournalIntent[], limits: StoreLimits): void {
  const { disk } = write;
  for (const intent of intents) {
    if (disk.journal.has(intent.id)) throw errors.alreadyExists(`step ${intent.id}`);
    const detail = plainJson(intent.detail, `detail of step ${intent.id}`, limits.valueBytes);
    const held = intent.heldBack === undefined ? {} : { heldBack: Math.trunc(intent.heldBack) };
    const entry = { ...intent, ...held, at: Math.trunc(intent.at), detail, outcome: null };
    write.set(disk.journal, intent.id, frozen({ seq: ++disk.seq, entry }));
  }
  for (const uid of new Set(intents.map((intent) => intent.clusterUid))) {
    const finished = entriesOf(disk, uid).filter((entry) => entry.outcome !== null);
    if (finished.length <= limits.journalPerCluster + limits.slack) continue;
    for (const { id } of finished.slice(0, -limits.journalPerCluster)) write.trim(disk.journal, id);
  }
}

function addOutcome(write: MemoryWrite, outcome: JournalOutcome): void {
  const { journal } = write.disk;
  const row = journal.get(outcome.id);
  if (row === undefined) throw errors.notFound(`step ${outcome.id}`);
  if (!rules.settles(row.entry.outcome?.kind ?? null, outcome.kind)) return;
  const settled = { ...outcome, at: Math.trunc(outcome.at) };
  write.set(journal, outcome.id, frozen({ seq: row.seq, entry: { ...row.entry, outcome: settled } }));
}

function entriesOf(disk: MemoryDisk, clusterUid: string): readonly JournalEntry[] {
  return [...disk.journal.values()]
    .filter(({ entry }) => entry.clusterUid === clusterUid)
    .sort((a, b) => a.seq - b.seq)
    .map(({ entry }) => entry);
}

function addEvents(write: MemoryWrite, events: readonly NewEvent[], limits: StoreLimits): void {
  const { disk } = write;
  for (const input of events) {
    const { id, ...event } = rules.normalEvent(input, limits.eventMessageChars);
    const known = disk.events.get(id);
    const at = Math.max(known?.event.at ?? event.at, event.at);
    const count = (known?.event.count ?? 0) + 1;
    const next = { ...event, id, at, count, firstAt: known?.event.firstAt ?? event.at };
    const subject = rules.subjectOf(event);
    write.set(disk.events, id, frozen({ seq: known?.seq ?? ++disk.seq, subject, event: next }));
  }
  for (const subject of new Set(events.map(rules.subjectOf))) trimSubject(write, subject, limits);
}

function trimSubject(write: MemoryWrite, subject: string, limits: StoreLimits): void {
  const rows = [...write.disk.events.values()].filter((row) => row.subject === subject);
  if (rows.length <= limits.eventsPerObject + limits.slack) return;
  rows.sort((a, b) => a.event.at - b.event.at || a.seq - b.seq);
  for (const row of rows.slice(0, -limits.eventsPerObject)) write.trim(write.disk.events, row.event.id);
}

function removeSealed(write: MemoryWrite, prefix: string): number {
  const names = [...write.disk.sealed.keys()].filter((name) => name.startsWith(prefix));
  for (const name of names) write.remove(write.disk.sealed, name);
  return names.length;
}

function housekeep(disk: MemoryDisk, rows: number, limits: StoreLimits): void {
  disk.rowsSinceHousekeeping += rows;
  if (disk.rowsSinceHousekeeping < limits.rowsPerHousekeeping) return;
  disk.rowsSinceHousekeeping = 0;
  const floor = disk.version - limits.changes;
  if (floor > disk.kept) {
    disk.changes = disk.changes.slice(floor - disk.kept);
    disk.kept = floor;
  }
  const oldest = [...disk.events.values()].sort((a, b) => b.event.at - a.event.at)[limits.events]?.event.at;
  for (const { event } of [...disk.events.values()]) {
    if (oldest !== undefined && event.at <= oldest) disk.events.delete(event.id);
  }
  const cut = [...disk.journal.values()].sort((a, b) => b.seq - a.seq)[limits.journal]?.seq;
  for (const { seq, entry } of [...disk.journal.values()]) {
    if (cut !== undefined && seq <= cut && entry.outcome !== null) disk.journal.delete(entry.id);
  }
}
