import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import SqliteDatabase from 'better-sqlite3';
import { openStore } from '../src/store/open.ts';
import { type BenchResult, compared } from './lib.ts';

export const name = 'store';

const COMMITS = 600;
const ROUNDS = 3;
const WRITERS = 32;
const OBJECTS = 10_000;

/** Small durable commits per second through the Store on SQLite against the bare library, and reading a big fleet. */
export async function run(): Promise<readonly BenchResult[]> {
  const folder = mkdtempSync(join(tmpdir(), 'belay-bench-'));
  try {
    const store = await openStore(join(folder, 'store.db'), { clock });
    const raw = openRaw(join(folder, 'raw.db'));
    const uid = 'u1';
    const rates = { port: 0, raw: 0 };
    let version = 0;
    // In turns, and the best of each, so that a busy moment of the machine hits neither side alone.
    for (let round = 0; round < ROUNDS; round++) {
      rates.raw = Math.max(rates.raw, await perSecond(COMMITS, async (i) => raw(round * COMMITS + i)));
      const commit = async (i: number): Promise<void> => {
        const value = { phase: 'Ready', i, round };
        version = (await store.commit({ state: { uid, version, value } })).stateVersion ?? 0;
      };
      rates.port = Math.max(rates.port, await perSecond(COMMITS, commit));
    }
    const together = await perSecond(COMMITS / WRITERS, async (i) => {
      const some = Array.from({ length: WRITERS }, (_, w) => ({ uid: `w${w}`, version: i, value: { i } }));
      await Promise.all(some.map((state) => store.commit({ state })));
    }).then((rate) => rate * WRITERS);
    const writes = store.writes;
    const same = { phase: 'Ready', i: COMMITS - 1, round: ROUNDS - 1 };
    const equal = await perSecond(COMMITS, async () => {
      await store.commit({ state: { uid, version, value: same } });
    });
    if (store.writes !== writes) throw new Error('an equal commit was written');
    const creates = await perSecond(OBJECTS / WRITERS, async (i) => {
      const some = Array.from({ length: WRITERS }, (_, w) => `c${i * WRITERS + w}`);
      await Promise.all(
        some.map((object) =>
          store.create({ kind: 'MongoDB', namespace: 'bench', name: object, spec: { members: 3 } }),
        ),
      );
    }).then((rate) => rate * WRITERS);
    const started = performance.now();
    const { items } = await store.list({ kind: 'MongoDB' });
    const listed = (items.length / (performance.now() - started)) * 1_000;
    await store.close();
    const detail = { against: 'one-row transactions of better-sqlite3, WAL, synchronous=FULL' };
    const result = (what: string, value: number, ratioAtLeast?: number): BenchResult =>
      compared(`store: ${what}`, value, 'per second', rates.raw, {
        detail,
        ...(ratioAtLeast === undefined ? {} : { ratioAtLeast }),
      });
    return [
      result('small commits, one after the other', rates.port),
      result('small commits, 32 writers at once', together, 1),
      result('commits that change nothing (not written)', equal),
      result('objects created, 32 writers at once', creates),
      result(`objects listed of ${items.length}`, listed),
    ];
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const clock = { now: () => Date.now(), at: () => () => undefined };

function openRaw(path: string): (i: number) => void {
  const database = new SqliteDatabase(path);
  database.pragma('journal_mode = WAL');
  database.pragma('synchronous = FULL');
  database.exec('create table states (uid text primary key, version integer not null, value text not null)');
  database.exec(`insert into states values ('u1', 0, '')`);
  const update = database.prepare('update states set version = ?, value = ? where uid = ?');
  const commit = database.transaction((i: number) =>
    update.run(i, JSON.stringify({ phase: 'Ready', i }), 'u1'),
  );
  return (i) => void commit(i);
}

async function perSecond(count: number, call: (i: number) => Promise<void>): Promise<number> {
  const times = Math.floor(count);
  const started = performance.now();
  for (let i = 0; i < times; i++) await call(i);
  return (times / (performance.now() - started)) * 1_000;
}
