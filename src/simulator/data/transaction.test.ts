import type { Document } from 'bson';
import { expect, test } from 'vitest';
import type { DataStore, TransactionView } from '../contracts.ts';
import { openMemoryStore } from './store.ts';
import { contents, contextWithClock, read, refused, set } from './test-values.ts';

test('SIM a transaction sees its own state; outside nothing until one applyOps entry at commit', () => {
  const store = openMemoryStore();
  const clock = contextWithClock();
  store.insert('db.c', { _id: 1, n: 1 }, clock);
  const view = store.beginTransaction();
  store.insert('db.c', { _id: 'outside' }, clock);
  view.insert('db.c', { _id: 2 }, clock);
  view.update('db.c', set({ _id: 1 }, { $inc: { n: 1 } }), clock);
  view.delete('db.c', { filter: { _id: 1, n: 99 }, limit: 1 }, clock);
  expect(read(view, 'db.c')).toEqual([{ _id: 1, n: 2 }, { _id: 2 }]);
  expect(read(store, 'db.c')).toEqual([{ _id: 1, n: 1 }, { _id: 'outside' }]);
  const { entries } = view.commit(clock);
  expect(entries).toHaveLength(1);
  expect(entries[0]).toMatchObject({
    op: 'c',
    ns: 'admin.$cmd',
    o: { applyOps: [{ op: 'i' }, { op: 'u' }] },
  });
  expect(read(store, 'db.c')).toEqual([{ _id: 1, n: 2 }, { _id: 'outside' }, { _id: 2 }]);
});

test('SIM an aborted transaction leaves nothing, and lets go of what it held', () => {
  const store = openMemoryStore();
  const clock = contextWithClock();
  store.insert('db.c', { _id: 1 }, clock);
  const before = contents(store);
  const view = store.beginTransaction();
  view.update('db.c', set({ _id: 1 }, { $set: { a: 1 } }), clock);
  view.abort();
  expect(contents(store)).toEqual(before);
  expect(store.update('db.c', set({ _id: 1 }, { $set: { a: 2 } }), clock).modified).toBe(1);
  expect(refused(() => view.find('db.c', {})).code).toBe(251);
});

test('SIM write conflicts: changed since the begin, held by another, unique keys too', () => {
  const store = openMemoryStore();
  const clock = contextWithClock();
  for (const n of [1, 2, 3]) store.insert('db.c', { _id: n, u: n }, clock);
  store.createIndexes('db.c', [{ key: { u: 1 }, unique: true }], clock);
  const touch = (to: DataStore | TransactionView, id: number, change: Document) =>
    to.update('db.c', set({ _id: id }, { $set: change }), clock);
  const view = store.beginTransaction();
  const other = store.beginTransaction();
  touch(store, 1, { a: 1 });
  expect(refused(() => touch(view, 1, { a: 2 })).codeName).toBe('WriteConflict');
  touch(view, 2, { u: 20 });
  expect(refused(() => touch(other, 2, { a: 1 })).code).toBe(112);
  expect(refused(() => touch(store, 2, { a: 1 })).code).toBe(112);
  expect(refused(() => store.insert('db.c', { _id: 9, u: 20 }, clock)).code).toBe(112);
  expect(refused(() => store.drop('db.c', clock)).code).toBe(112);
  expect(touch(store, 3, { a: 1 }).modified).toBe(1);
  view.commit(clock);
  expect(refused(() => touch(other, 2, { a: 1 })).code).toBe(112);
  expect(refused(() => store.insert('db.c', { _id: 9, u: 20 }, clock)).code).toBe(11000);
});

test("SIM a transaction may create its collection; a snapshot doesn't see a later drop", () => {
  const store = openMemoryStore();
  const clock = contextWithClock();
  store.insert('db.gone', { _id: 1 }, clock);
  const view = store.beginTransaction();
  store.drop('db.gone', clock);
  expect(read(view, 'db.gone')).toEqual([{ _id: 1 }]);
  view.insert('db.fresh', { _id: 1 }, clock);
  expect(store.info('db.fresh')).toBeUndefined();
  view.commit(clock);
  expect(read(store, 'db.fresh')).toEqual([{ _id: 1 }]);
});
