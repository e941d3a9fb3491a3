import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import SqliteDatabase from 'better-sqlite3';
import { openStore } from '../src/store/open.ts';

/** One measured number beside a baseline measured in the same run, so that machines compare. */
export interface BenchResult {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  /** What `baseline` is. */
  readonly against: string;
  readonly baseline: number;
  /** value / baseline. */
  readonly ratio: number;
}

const COMMITS = 2_000;
const ROUNDS = 3;
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
    const writes = store.writes;
    const same = { phase: 'Ready', i: COMMITS - 1, round: ROUNDS - 1 };
    const equal = await perSecond(COMMITS, async () => {
      await store.commit({ state: { uid, version, value: same } });
    });
    if (store.writes !== writes) throw new Error('an equal commit was written');
    const creates = await perSecond(OBJECTS, async (i) => {
      await store.create({ kind: 'MongoDB', namespace: 'bench', name: `c${i}`, spec: { members: 3 } });
    });
    const started = performance.now();
    const { items } = await store.list({ kind: 'MongoDB' });
    const listed = (items.length / (performance.now() - started)) * 1_000;
    await store.close();
    const against = 'one-row transactions of better-sqlite3, WAL, synchronous=FULL';
    const result = (name: string, value: number, unit = 'per second'): BenchResult => {
      return { name, value, unit, against, baseline: rates.raw, ratio: value / rates.raw };
    };
    return [
      result('store: small commits', rates.port),
      result('store: commits that change nothing (not written)', equal),
      result('store: objects created, one transaction each', creates),
      result(`store: objects listed of ${items.length}`, listed),
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

async function perSecond(times: number, call: (i: number) => Promise<void>): Promise<number> {
  const started = performance.now();
  for (let i = 0; i < times; i++) await call(i);
  return (times / (performance.now() - started)) * 1_000;
}
