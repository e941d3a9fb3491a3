import {
  copyFileSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Document } from 'bson';
import fc from 'fast-check';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { DataStore } from '../contracts.ts';
import { plain } from './bson.ts';
import { type DataStoreOptions, openDataStore } from './store.ts';
import { act, contents, contextWithClock, steps } from './test-values.ts';
import { AppendFile, StorageFailure, unframe } from './wal-file.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sim-data-'));
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

const open = (path = folder, options: DataStoreOptions = {}): DataStore =>
  openDataStore({ dbPath: path, ...options });
const set = (filter: Document, update: Document) => ({ filter, update, multi: false, upsert: false });
/** Copies the files as they are: what a process killed now would leave. */
function killedCopy(name: string): string {
  const path = `${folder}-${name}`;
  mkdirSync(path);
  for (const file of readdirSync(folder)) copyFileSync(join(folder, file), join(path, file));
  return path;
}

function writeABit(store: DataStore, clock = contextWithClock()): ReturnType<typeof contextWithClock> {
  store.setLocal('replset.election', { term: 3 });
  store.createIndexes('db.c', [{ key: { u: 1 }, unique: true, name: 'u_1' }], clock);
  for (let n = 0; n < 20; n++) store.insert('db.c', { _id: n, u: n, list: [n] }, clock);
  store.update('db.c', set({ _id: 3 }, { $set: { 'a.b': 1 }, $push: { list: 7 } }), clock);
  store.update('db.c', set({ _id: 4 }, { replaced: true }), clock);
  store.delete('db.c', { filter: { _id: 5 }, limit: 1 }, clock);
  store.insert('local.mine', { _id: 1 }, clock);
  store.create('db.view', { viewOn: 'c', pipeline: [] }, clock);
  const view = store.beginTransaction();
  view.insert('db.c', { _id: 'tx', u: 'tx' }, clock);
  view.commit(clock);
  return clock;
}

const KEYS = ['replset.election'];

test('SIM what was acknowledged is there after the process was killed', () => {
  const store = open();
  writeABit(store);
  const path = killedCopy('killed');
  const again = open(path);
  expect(contents(again, KEYS)).toEqual(contents(store, KEYS));
  rmSync(path, { recursive: true });
});

test('SIM rollback, reset, load and log start replay as they happened', async () => {
  const store = open();
  const clock = writeABit(store);
  const point = clock.last();
  store.insert('db.c', { _id: 'lost', u: 'lost' }, clock);
  store.drop('db.c', clock);
  store.rollbackTo(point);
  const source = contents(store, KEYS);
  await store.close();
  const second = open();
  expect(contents(second, KEYS)).toEqual(source);
  const [info, documents, indexes] = [second.info('db.c')!, second.find('db.c', {}), second.indexes('db.c')];
  second.resetForInitialSync();
  second.loadCollection({ ...info, ns: 'db.c', indexes }, documents);
  second.setOplogStart(point);
  const loaded = contents(second, KEYS);
  await second.close();
  const third = open();
  expect(contents(third, KEYS)).toEqual(loaded);
  expect(third.count('db.c')).toBe(documents.length);
  await third.close();
});

test('SIM a log torn at any byte loses only the torn record', async () => {
  const store = open();
  const clock = contextWithClock();
  const sizes: number[] = [];
  const wal = () => join(folder, readdirSync(folder).find((name) => name.includes('wal'))!);
  for (let n = 0; n < 6; n++) {
    store.insert('db.c', { _id: n, text: 'x'.repeat(n) }, clock);
    sizes.push(readFileSync(wal()).length);
  }
  await store.close();
  const bytes = readFileSync(wal());
  const whole = (length: number) => sizes.filter((size) => size <= length).length;
  for (let length = sizes[1]!; length <= bytes.length; length++) {
    const { records, end } = unframe(bytes.subarray(0, length));
    expect(records.length).toBe(whole(length) + 1);
    expect(end).toBeLessThanOrEqual(length);
  }
  for (const length of [sizes[2]! + 3, sizes[3]! + 9, sizes[4]! - 1]) {
    const path = killedCopy(`torn-${length}`);
    truncateSync(join(path, readdirSync(path)[0]!), length);
    const torn = open(path);
    expect(torn.count('db.c')).toBe(whole(length));
    torn.insert('db.c', { _id: 'after' }, contextWithClock(1, 100));
    await torn.close();
    const again = open(path);
    expect(again.find('db.c', { filter: { _id: 'after' } })).toHaveLength(1);
    await again.close();
    rmSync(path, { recursive: true });
  }
});

test('SIM a wrong byte in the last record is found by its checksum', async () => {
  const store = open();
  const clock = contextWithClock();
  for (let n = 0; n < 3; n++) store.insert('db.c', { _id: n }, clock);
  await store.close();
  const path = join(folder, readdirSync(folder)[0]!);
  const bytes = readFileSync(path);
  bytes[bytes.length - 3]! ^= 0xff;
  writeFileSync(path, bytes);
  const again = open();
  expect(again.find('db.c', {}).map((document) => plain(document))).toEqual([{ _id: 0 }, { _id: 1 }]);
  await again.close();
});

async function untilSnapshot(): Promise<void> {
  while (!readdirSync(folder).includes('sim-data.snapshot')) await nextTurn();
}

test('SIM a checkpoint bounds the log and changes nothing, whenever the process dies', async () => {
  const options = { checkpointBytes: 4_000 };
  const store = open(folder, options);
  const clock = writeABit(store);
  store.setStable(clock.last());
  const point = clock.last();
  store.drop('db.c', clock);
  for (let n = 0; n < 50; n++) store.insert('db.d', { _id: n, pad: 'x'.repeat(50) }, clock);
  const during = killedCopy('during');
  const expected = contents(store, KEYS);
  const copy = open(during);
  expect(contents(copy, KEYS)).toEqual(expected);
  await untilSnapshot();
  await store.close();
  const again = open(folder, options);
  expect(contents(again, KEYS)).toEqual(expected);
  // What undoes the drop came through the snapshot too.
  again.rollbackTo(point);
  copy.rollbackTo(point);
  expect(contents(again, KEYS)).toEqual(contents(copy, KEYS));
  expect(again.count('db.c')).toBe(20);
  await again.close();
  await copy.close();
  rmSync(during, { recursive: true });
});

test('SIM old log segments go when the snapshot has its name', async () => {
  const store = open(folder, { checkpointBytes: 2_000 });
  const clock = contextWithClock();
  for (let n = 0; n < 200; n++) {
    store.insert('db.c', { _id: n, pad: 'x'.repeat(50) }, clock);
    if (n % 50 === 0) await nextTurn();
  }
  await untilSnapshot();
  await store.close();
  const segments = readdirSync(folder).filter((name) => name.startsWith('sim-data.wal'));
  expect(segments.length).toBeLessThanOrEqual(2);
  expect(segments).not.toContain('sim-data.wal.000001');
  const again = open();
  expect(again.count('db.c')).toBe(200);
  await again.close();
});

test('SIM a damaged snapshot is not taken for an empty folder', async () => {
  writeFileSync(join(folder, 'sim-data.snapshot'), 'not a snapshot');
  expect(() => open()).toThrow(/sim-data\.snapshot is damaged/);
});

test('SIM a gap in the log is not passed over in silence', async () => {
  const store = open();
  const clock = contextWithClock();
  for (let n = 0; n < 3; n++) store.insert('db.c', { _id: n }, clock);
  await store.close();
  const path = join(folder, readdirSync(folder)[0]!);
  const bytes = readFileSync(path);
  const first = 8 + bytes.readUInt32LE(0);
  const second = first + 8 + bytes.readUInt32LE(first);
  writeFileSync(path, Buffer.concat([bytes.subarray(0, first), bytes.subarray(second)]));
  expect(() => open()).toThrow(/gap/);
});

test('SIM a full disk is a clear failure', () => {
  const full = new AppendFile('/dev/full');
  try {
    full.append(Buffer.from('x'));
  } catch (error) {
    expect(error).toBeInstanceOf(StorageFailure);
    expect(error).toMatchObject({ code: 14031, codeName: 'OutOfDiskSpace', fatal: true });
    return;
  } finally {
    full.close();
  }
  throw new Error('not refused');
});

test('SIM whatever was written, a process killed at any point finds it again, through any number of checkpoints', async () => {
  let run = 0;
  await fc.assert(
    fc.asyncProperty(steps, steps, fc.boolean(), async (first, second, rollback) => {
      const path = join(folder, `run-${run++}`);
      const store = open(path, { checkpointBytes: 1_500 });
      const clock = contextWithClock();
      store.appendNoop({ msg: 'initiating set' }, clock);
      for (const step of first) act(store, clock, step);
      const point = clock.last();
      await nextTurn();
      for (const step of second) act(store, clock, step);
      if (rollback) store.rollbackTo(point);
      const copy = `${path}-killed`;
      cpSync(path, copy, { recursive: true });
      const again = open(copy);
      expect(contents(again)).toEqual(contents(store));
      if (!rollback) {
        again.rollbackTo(point);
        store.rollbackTo(point);
        expect(contents(again)).toEqual(contents(store));
      }
      await Promise.all([store.close(), again.close()]);
    }),
    { numRuns: 60 },
  );
});
