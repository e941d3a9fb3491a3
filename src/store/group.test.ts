import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { NewObject, Store } from '../engine/ports.ts';
import type { Dialect, Tx } from './dialect.ts';
import { STORE_LIMITS } from './limits.ts';
import { SqlStore } from './sql-store.ts';
import { openSqlite } from './sqlite.ts';
import { ManualClock } from './testing/clock.ts';

let folder: string;
let dialect: Dialect;
let store: Store;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'belay-group-'));
  const clock = new ManualClock();
  dialect = await openSqlite(join(folder, 'belay.db'), { clock });
  store = await SqlStore.open(dialect, clock, STORE_LIMITS);
});
afterEach(async () => {
  await store.close();
  rmSync(folder, { recursive: true, force: true });
});

const object = (name: string): NewObject => ({ kind: 'MongoDB', namespace: 'prod', name, spec: { name } });
const names = async (): Promise<readonly string[]> =>
  (await store.list({ kind: 'MongoDB' })).items.map((item) => item.metadata.name);

test('writers that wait at once share transactions, in the order they came', async () => {
  const transactions = vi.spyOn(dialect.db, 'transaction');
  const made = await Promise.all(Array.from({ length: 40 }, (_, i) => store.create(object(`o${i}`))));
  expect(transactions.mock.calls.length).toBeLessThan(5);
  expect(store.writes).toBe(40);
  const versions = made.map((one) => Number(one.metadata.resourceVersion));
  expect(versions).toEqual([...versions].sort((a, b) => a - b));
});

test('a writer that fails takes nothing of the others with it, and nothing of it stays', async () => {
  await store.create(object('taken'));
  const state = { uid: 'u1', version: 7, value: { never: true } };
  const outcomes = await Promise.allSettled([
    store.create(object('a')),
    store.create(object('taken')),
    store.commit({ state, events: [] }),
    store.create(object('b')),
  ]);
  expect(outcomes.map((outcome) => outcome.status)).toEqual([
    'fulfilled',
    'rejected',
    'rejected',
    'fulfilled',
  ]);
  expect(outcomes[1]).toMatchObject({ reason: { code: 'AlreadyExists' } });
  expect(outcomes[2]).toMatchObject({ reason: { code: 'StateConflict' } });
  expect(await names()).toEqual(['a', 'b', 'taken']);
  expect(await store.loadState('u1')).toBeNull();
});

test('a common commit that fails is acknowledged to nobody, and the line goes on after it', async () => {
  const real = dialect.db.transaction();
  const failing = vi.spyOn(dialect.db, 'transaction').mockReturnValueOnce({
    execute: (work: (tx: Tx) => Promise<unknown>) =>
      real.execute(async (tx) => {
        await work(tx);
        throw new Error('the disk is gone');
      }),
  } as unknown as ReturnType<typeof dialect.db.transaction>);
  const first = await Promise.allSettled([store.create(object('a')), store.create(object('b'))]);
  failing.mockRestore();
  expect(first.map((outcome) => outcome.status)).toEqual(['rejected', 'rejected']);
  await store.create(object('c'));
  expect(await names()).toEqual(['c']);
});
