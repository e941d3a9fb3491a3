import { type Document, Int32, Long, ObjectId, Timestamp, UUID } from 'bson';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { DataStore, OplogEntry } from '../contracts.ts';
import { plain } from './bson.ts';
import { openMemoryStore } from './store.ts';
import { act, contents, contextWithClock, read, refused, set, steps } from './test-values.ts';

// ── documents ──────────────────────────────────────────────────────────────────────────────────────────────────────

test('SIM documents are inserted, found, updated and deleted; each change is one log entry', () => {
  const store = openMemoryStore();
  const clock = contextWithClock();
  const made = store.insert('db.c', { a: 1 }, clock);
  expect(made.entries.map(({ op }) => op)).toEqual(['c', 'i']);
  const [document] = store.find('db.c', {});
  expect(Object.keys(document!)).toEqual(['_id', 'a']);
  expect(document!['_id']).toBeInstanceOf(ObjectId);
  const updated = store.update('db.c', set({ a: 1 }, { $set: { b: 2 } }), clock);
  expect(updated).toMatchObject({ matched: 1, modified: 1 });
  expect(plain(updated.after)).toMatchObject({ a: 1, b: 2 });
  expect(updated.entries[0]).toMatchObject({
    op: 'u',
    o2: { _id: document!['_id'] },
    o: { diff: { i: { b: new Int32(2) } } },
  });
  expect(store.update('db.c', set({ a: 1 }, { $set: { b: 2 } }), clock)).toMatchObject({
    matched: 1,
    modified: 0,
    entries: [],
  });
  expect(store.delete('db.c', { filter: { b: 2 }, limit: 0 }, clock)).toMatchObject({ deleted: 1 });
  expect(store.count('db.c')).toBe(0);
  expect(store.lastApplied()).toEqual(clock.last());
  expect(store.oplogAfter(null, 100).map(({ op }) => op)).toEqual(['c', 'i', 'u', 'd']);
});

test("SIM documents handed out don't change when the store does", () => {
  const store = openMemoryStore();
  const clock = contextWithClock();
  store.insert('db.c', { _id: 1, a: { b: 1 } }, clock);
  const [before] = store.find('db.c', {});
  store.update('db.c', set({ _id: 1 }, { $set: { 'a.b': 2 } }), clock);
  expect(plain(before)).toEqual({ _id: 1, a: { b: 1 } });
});

test('SIM an upsert tells its id; a replacement upsert takes only the id from the filter', () => {
  const store = openMemoryStore();
  const clock = contextWithClock();
  const first = store.update(
    'db.c',
    set({ a: 1 }, { $set: { b: 2 }, $setOnInsert: { c: 3 } }, { upsert: true }),
    clock,
  );
  expect(first.upsertedId).toBeInstanceOf(ObjectId);
  expect(read(store, 'db.c')[0]).toMatchObject({ a: 1, b: 2, c: 3 });
  store.update('db.c', set({ _id: 9, a: 5 }, { b: 1 }, { upsert: true }), clock);
  expect(read(store, 'db.c', { _id: 9 })).toEqual([{ _id: 9, b: 1 }]);
});

test('SIM sorted updates and deletes take the first in that order', () => {
  const store = openMemoryStore();
  const clock = contextWithClock();
  for (const n of [2, 3, 1]) store.insert('db.c', { _id: n, n }, clock);
  store.update('db.c', set({}, { $set: { hit: true } }, { sort: { n: 1 } }), clock);
  store.delete('db.c', { filter: {}, limit: 1, sort: { n: -1 } }, clock);
  expect(read(store, 'db.c')).toEqual([
    { _id: 2, n: 2 },
    { _id: 1, n: 1, hit: true },
  ]);
});

test('SIM find sorts, skips, limits, hints, bounds and shows keys', () => {
  const store = openMemoryStore();
  const clock = contextWithClock();
  for (const n of [4, 2, 3, 1]) store.insert('db.c', { _id: n, n, ...(n > 2 && { s: n }) }, clock);
  store.createIndexes('db.c', [{ key: { n: -1 } }, { key: { s: 1 }, sparse: true }], clock);
  const ids = (spec: Document) => store.find('db.c', spec).map((document) => plain(document['_id']));
  expect(ids({ sort: { n: 1 }, skip: 1, limit: 2 })).toEqual([2, 3]);
  expect(ids({ hint: 'n_-1' })).toEqual([4, 3, 2, 1]);
  expect(ids({ hint: { s: 1 } })).toEqual([3, 4]);
  expect(ids({ hint: { $natural: -1 } })).toEqual([1, 3, 2, 4]);
  expect(ids({ min: { n: 3 }, max: { n: 1 }, hint: { n: -1 } })).toEqual([3, 2]);
  expect(ids({ filter: { _id: { $in: [3, 1] } } })).toEqual([1, 3]);
  expect(store.find('db.c', { filter: { n: 4 }, returnKey: true })).toEqual([{ n: new Int32(4) }]);
  expect(refused(() => ids({ hint: 'nope' })).message).toContain(
    'hint provided does not correspond to an existing index',
  );
});

// ── constraints ────────────────────────────────────────────────────────────────────────────────────────────────────

test("SIM a duplicate key is refused with the server's words and leaves no trace", () => {
  const store = openMemoryStore();
  const clock = contextWithClock();
  store.insert('db.c', { _id: 1, u: 'x' }, clock);
  store.createIndexes('db.c', [{ key: { u: 1 }, name: 'u_1', unique: true }], clock);
  const before = contents(store);
  const byId = refused(() => store.insert('db.c', { _id: Long.fromNumber(1) }, clock));
  expect(byId.message).toBe('E11000 duplicate key error collection: db.c index: _id_ dup key: { _id: 1 }');
  expect(byId).toMatchObject({
    code: 11000,
    extra: { keyPattern: { _id: 1 }, keyValue: { _id: Long.fromNumber(1) } },
  });
  const byIndex = refused(() => store.insert('db.c', { _id: 2, u: 'x' }, clock));
  expect(byIndex.message).toBe('E11000 duplicate key error collection: db.c index: u_1 dup key: { u: "x" }');
  expect(contents(store)).toEqual(before);
  store.insert('db.c', { _id: 2, u: 'y' }, clock);
  expect(refused(() => store.update('db.c', set({ _id: 2 }, { $set: { u: 'x' } }), clock)).code).toBe(11000);
  expect(store.update('db.c', set({ _id: 2 }, { $set: { u: 'y', v: 1 } }), clock).modified).toBe(1);
});

test('SIM unique indexes: missing counts as null, sparse and partial ones skip, arrays give several keys', () => {
  const store = openMemoryStore();
  const clock = contextWithClock();
  const insert = (document: Document) => store.insert('db.c', document, clock);
  store.createIndexes(
    'db.c',
    [
      { key: { a: 1 }, unique: true },
      { key: { s: 1 }, unique: true, sparse: true },
      { key: { p: 1 }, unique: true, partialFilterExpression: { p: { $gt: 5 } } },
      { key: { m: 1, n: 1 }, unique: true, sparse: true },
    ],
    clock,
  );
  insert({ _id: 1 });
  expect(refused(() => insert({ _id: 2 })).message).toContain('dup key: { a: null }');
  insert({ _id: 3, a: [1, 2], p: 1 });
  insert({ _id: 4, a: 3, p: 1 });
  expect(refused(() => insert({ _id: 5, a: [7, 2] })).message).toContain('dup key: { a: 2 }');
  insert({ _id: 6, a: 6, p: 6, m: 1, n: 1 });
  expect(refused(() => insert({ _id: 7, a: 7, p: 6 })).code).toBe(11000);
  expect(refused(() => insert({ _id: 8, a: 8, m: 1, n: [2, 1] })).message).toContain(
    'dup key: { m: 1, n: 1 }',
  );
  expect(refused(() => insert({ _id: 9, a: 9, m: [1], n: [1] })).code).toBe(171);
  insert({ _id: 10, a: 10, m: [1, 2], n: 3 });
  expect(refused(() => insert({ _id: 11, a: 11, m: 2, n: 3 })).message).toContain('dup key: { m: 2, n: 3 }');
  store.delete('db.c', { filter: { _id: 3 }, limit: 1 }, clock);
  insert({ _id: 5, a: [7, 2] });
});

test("SIM a unique index can't be built over duplicates", () => {
  const store = openMemoryStore();
  const clock = contextWithClock();
  store.insert('db.c', { _id: 1, a: 1 }, clock);
  store.insert('db.c', { _id: 2, a: 1 }, clock);
  const error = refused(() => store.createIndexes('db.c', [{ key: { a: 1 }, unique: true }], clock));
  expect(error.code).toBe(11000);
  expect(error.message).toContain('dup key: { a: 1 }');
  expect(store.indexes('db.c')).toHaveLength(1);
});

test('SIM index definitions clash by name and by options', () => {
  const store = openMemoryStore();
  const clock = contextWithClock();
  expect(store.createIndexes('db.c', [{ key: { a: 1, b: -1 } }], clock).created).toEqual(['a_1_b_-1']);
  expect(store.createIndexes('db.c', [{ key: { a: 1, b: -1 } }], clock).created).toEqual([]);
  const create = (index: Document) => () => store.createIndexes('db.c', [index], clock);
  expect(refused(create({ key: { z: 1 }, name: 'a_1_b_-1' })).code).toBe(86);
  expect(refused(create({ key: { a: 1, b: -1 }, name: 'other' })).code).toBe(85);
  expect(refused(create({ key: { a: 1, b: -1 }, unique: true })).code).toBe(85);
  expect(refused(create({ key: { a: 'nope' } })).code).toBe(67);
  expect(refused(() => store.dropIndexes('db.c', '_id_', clock)).code).toBe(72);
  expect(refused(() => store.dropIndexes('db.c', 'nope', clock)).message).toBe(
    'index not found with name [nope]',
  );
  expect(store.dropIndexes('db.c', '*', clock).nIndexesWas).toBe(2);
});

test('SIM validators refuse with 121 and say what broke', () => {
  const store = openMemoryStore();
  const clock = contextWithClock();
  const validator = { $jsonSchema: { required: ['a'], properties: { a: { bsonType: 'int', minimum: 3 } } } };
  store.create('db.c', { validator }, clock);
  const error = refused(() => store.insert('db.c', { _id: 1, a: 1 }, clock));
  expect(error).toMatchObject({ code: 121, message: 'Document failed validation' });
  expect(plain(error.extra['errInfo'])).toMatchObject({
    failingDocumentId: 1,
    details: { operatorName: '$jsonSchema', schemaRulesNotSatisfied: [{ operatorName: 'properties' }] },
  });
  store.insert('db.c', { _id: 1, a: 1 }, { ...clock, bypassDocumentValidation: true });
  expect(refused(() => store.update('db.c', set({ _id: 1 }, { $set: { a: 2 } }), clock)).code).toBe(121);
  store.collMod('db.c', { validationLevel: 'moderate' }, clock);
  store.update('db.c', set({ _id: 1 }, { $set: { a: 2 } }), clock);
});

test.each<[Document, number]>([
  [{ _id: [1] }, 53],
  [{ _id: /x/ }, 53],
  [{ _id: { $a: 1 } }, 52],
  [{ _id: 1, a: 'x'.repeat(16 * 1024 * 1024) }, 10334],
])("SIM a document that can't be stored is refused (%#)", (document, code) => {
  expect(refused(() => openMemoryStore().insert('db.c', document, contextWithClock())).code).toBe(code);
});

// ── collections ────────────────────────────────────────────────────────────────────────────────────────────────────

test('SIM capped collections let the oldest go', () => {
  const store = openMemoryStore();
  const clock = contextWithClock();
  store.create('db.c', { capped: true, size: 4096, max: 3 }, clock);
  for (let n = 1; n <= 5; n++) store.insert('db.c', { _id: n }, clock);
  expect(read(store, 'db.c')).toEqual([{ _id: 3 }, { _id: 4 }, { _id: 5 }]);
  store.create('db.d', { capped: true, size: 256 }, clock);
  for (let n = 1; n <= 9; n++) store.insert('db.d', { _id: n, pad: 'x'.repeat(80) }, clock);
  expect(store.sizeBytes('db.d')).toBeLessThanOrEqual(256);
  expect(read(store, 'db.d').at(-1)).toMatchObject({ _id: 9 });
});

test('SIM creating, renaming and dropping', () => {
  const store = openMemoryStore();
  const clock = contextWithClock();
  store.create('db.a', {}, clock);
  expect(store.create('db.a', {}, clock).entries).toEqual([]);
  expect(refused(() => store.create('db.a', { capped: true, size: 1 }, clock)).code).toBe(48);
  store.insert('db.a', { _id: 1 }, clock);
  store.insert('db.b', { _id: 2 }, clock);
  const uuid = store.info('db.a')!.uuid;
  expect(refused(() => store.rename('db.a', 'db.b', false, clock)).code).toBe(48);
  expect(refused(() => store.rename('db.zzz', 'db.b', false, clock)).code).toBe(26);
  store.rename('db.a', 'db.b', true, clock);
  expect(store.info('db.a')).toBeUndefined();
  expect(store.info('db.b')!.uuid).toEqual(uuid);
  expect(read(store, 'db.b')).toEqual([{ _id: 1 }]);
  expect(store.drop('db.b', clock).nIndexesWas).toBe(1);
  expect(store.drop('db.b', clock)).toEqual({ entries: [], nIndexesWas: 0 });
  store.insert('db.c', { _id: 1 }, clock);
  expect(store.dropDatabase('db', clock).entries.map(({ o }) => Object.keys(o)[0])).toEqual([
    'drop',
    'dropDatabase',
  ]);
  expect(store.databases()).toEqual(['local']);
  expect(refused(() => store.insert('db.a$b', {}, clock)).code).toBe(73);
});

test('SIM views read through their pipeline and refuse writes', () => {
  const store = openMemoryStore();
  const clock = contextWithClock();
  for (let n = 1; n <= 4; n++) store.insert('db.c', { _id: n, n }, clock);
  store.create(
    'db.v',
    { viewOn: 'c', pipeline: [{ $match: { n: { $gt: 2 } } }, { $set: { m: { $multiply: ['$n', 2] } } }] },
    clock,
  );
  store.create('db.w', { viewOn: 'v', pipeline: [{ $project: { m: 1 } }] }, clock);
  expect(read(store, 'db.w', { m: 8 })).toEqual([{ _id: 4, m: 8 }]);
  expect(store.countMatching('db.v', {})).toBe(2);
  expect(store.info('db.v')).toMatchObject({ type: 'view' });
  expect(refused(() => store.insert('db.v', {}, clock)).code).toBe(166);
});

test('SIM collections with a default collation compare their strings by it', () => {
  const store = openMemoryStore();
  const clock = contextWithClock();
  store.create('db.c', { collation: { locale: 'en', strength: 2 } }, clock);
  store.insert('db.c', { _id: 'A' }, clock);
  expect(read(store, 'db.c', { _id: 'a' })).toEqual([{ _id: 'A' }]);
  expect(read(store, 'db.c', { _id: 'a' }, { collation: { locale: 'simple' } })).toEqual([]);
  expect(refused(() => store.insert('db.c', { _id: 'a' }, clock)).code).toBe(11000);
});

test('SIM the local database: documents by key, the log, unreplicated collections', () => {
  const store = openMemoryStore();
  const clock = contextWithClock();
  store.setLocal('system.replset', { _id: 'rs0', version: 1 });
  store.insert('db.c', { _id: 1 }, clock);
  const before = store.lastApplied();
  expect(store.insert('local.mine', { _id: 1 }, clock).entries).toEqual([]);
  expect(store.lastApplied()).toEqual(before);
  expect(read(store, 'local.system.replset')).toEqual([{ _id: 'rs0', version: 1 }]);
  expect(read(store, 'local.oplog.rs', { op: 'i' })).toMatchObject([{ ns: 'db.c', v: 2, o: { _id: 1 } }]);
  expect(store.collections('local').map(({ name }) => name)).toEqual(['mine', 'system.replset', 'oplog.rs']);
});

// ── the log ────────────────────────────────────────────────────────────────────────────────────────────────────────

test('SIM rollback restores exactly the earlier state', () => {
  fc.assert(
    fc.property(steps, steps, (first, second) => {
      const store = openMemoryStore();
      const clock = contextWithClock();
      store.appendNoop({ msg: 'initiating set' }, clock);
      for (const step of first) act(store, clock, step);
      const [before, point] = [contents(store), clock.last()];
      for (const step of second) act(store, clock, step);
      const after = store.oplogAfter(point, 10_000);
      expect(store.rollbackTo(point).undone).toEqual(after);
      expect(contents(store)).toEqual(before);
    }),
    { numRuns: 150 },
  );
});

test('SIM a member that applies the log has the same data', () => {
  fc.assert(
    fc.property(steps, (all) => {
      const primary = openMemoryStore();
      const clock = contextWithClock();
      for (const step of all) act(primary, clock, step);
      const secondary = openMemoryStore();
      const entries = primary.oplogAfter(null, 10_000);
      secondary.apply(entries);
      expect(contents(secondary)).toEqual(contents(primary));
      secondary.apply(entries.slice(-3));
      expect(contents(secondary)).toEqual(contents(primary));
    }),
    { numRuns: 150 },
  );
});

test('SIM an initial sync that copied later data and then applies the log from an earlier point ends the same', () => {
  fc.assert(
    fc.property(steps, steps, (first, second) => {
      const primary = openMemoryStore();
      const clock = contextWithClock();
      primary.appendNoop({ msg: 'initiating set' }, clock);
      for (const step of first) act(primary, clock, step);
      const begin = clock.last();
      for (const step of second) act(primary, clock, step);
      const copy = openMemoryStore();
      copy.resetForInitialSync();
      for (const info of primary.collections('db')) {
        const ns = `db.${info.name}`;
        copy.loadCollection({ ...info, ns, indexes: primary.indexes(ns) }, primary.find(ns, {}));
      }
      copy.setOplogStart(begin);
      copy.apply(primary.oplogAfter(begin, 10_000));
      const data = (store: DataStore) =>
        store.collections('db').map((info) => [
          { ...info, uuid: String(info.uuid) },
          info.options['capped'] ? [] : store.find(`db.${info.name}`, { sort: { _id: 1 } }),
          store
            .indexes(`db.${info.name}`)
            .map(({ name }) => name)
            .toSorted(),
        ]);
      expect(data(copy)).toEqual(data(primary));
      expect(copy.lastApplied()).toEqual(primary.lastApplied());
    }),
    { numRuns: 150 },
  );
});

test('SIM rolling back behind the stable point is refused', () => {
  const store = openMemoryStore();
  const clock = contextWithClock();
  store.insert('db.c', { _id: 1 }, clock);
  const early = clock.last();
  store.insert('db.c', { _id: 2 }, clock);
  store.setStable(clock.last());
  store.insert('db.c', { _id: 3 }, clock);
  expect(refused(() => store.rollbackTo(early)).codeName).toBe('UnrecoverableRollbackError');
  expect(store.count('db.c')).toBe(3);
});

test('SIM the log window is bounded; its beginning moves', () => {
  const store = openMemoryStore({ oplogLimits: { entries: 10, bytes: 1_000_000 } });
  const clock = contextWithClock();
  for (let n = 0; n < 100; n++) store.insert('db.c', { _id: n }, clock);
  const entries = store.oplogAfter(null, 1_000);
  expect(entries.length).toBeLessThanOrEqual(11);
  expect(store.oldestOplog()).toEqual({ ts: entries[0]!.ts, t: entries[0]!.t });
  expect(store.oplogFind({ ts: new Timestamp({ t: 1, i: 0 }), t: Long.ONE })).toBeUndefined();
  expect(store.oplogFind(clock.last())).toBe(entries.at(-1));
  expect(store.oplogAfter(store.oldestOplog(), 3)).toEqual(entries.slice(1, 4));
});

test('SIM listeners see every entry in order', () => {
  const store = openMemoryStore();
  const clock = contextWithClock();
  const seen: OplogEntry[] = [];
  const stop = store.onApplied((entry) => seen.push(entry));
  store.insert('db.c', { _id: 1 }, clock);
  store.insert('db.c', { _id: 2 }, clock);
  stop();
  store.insert('db.c', { _id: 3 }, clock);
  expect(seen).toEqual(store.oplogAfter(null, 3));
});

test('SIM session fields go into the entries of the statement', () => {
  const store = openMemoryStore();
  const clock = contextWithClock();
  const session = { lsid: { id: new UUID() }, txnNumber: Long.fromNumber(4), stmtId: 2 };
  const { entries } = store.insert('db.c', { _id: 1 }, { ...clock, session });
  expect(entries[0]!.lsid).toBeUndefined();
  expect(entries[1]).toMatchObject(session);
});

test('SIM pre-images are kept where the collection asks for them', () => {
  const store = openMemoryStore();
  const clock = contextWithClock();
  store.create('db.c', { changeStreamPreAndPostImages: { enabled: true } }, clock);
  store.insert('db.c', { _id: 1, a: 1 }, clock);
  const { entries } = store.update('db.c', set({ _id: 1 }, { $set: { a: 2 } }), clock);
  expect(plain(entries[0]!.preImage)).toEqual({ _id: 1, a: 1 });
});

test('SIM initial sync starts over with the given collections and log', () => {
  const store = openMemoryStore();
  const clock = contextWithClock();
  store.setLocal('system.replset', { _id: 'rs0' });
  store.insert('db.old', { _id: 1 }, clock);
  store.resetForInitialSync();
  expect([store.databases(), store.lastApplied()]).toEqual([['local'], null]);
  const source = openMemoryStore();
  const other = contextWithClock(1, 500);
  source.createIndexes('db.c', [{ key: { u: 1 }, unique: true }], other);
  source.insert('db.c', { _id: 1, u: 1 }, other);
  const info = source.info('db.c')!;
  store.loadCollection({ ...info, ns: 'db.c', indexes: source.indexes('db.c') }, source.find('db.c', {}));
  store.setOplogStart(other.last());
  expect(store.lastApplied()).toEqual(other.last());
  expect(store.info('db.c')).toEqual(info);
  expect(refused(() => store.insert('db.c', { _id: 2, u: 1 }, other)).code).toBe(11000);
  expect(plain(store.getLocal('system.replset'))).toEqual({ _id: 'rs0' });
});
