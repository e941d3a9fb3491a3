import { type ChildProcess, spawn } from 'node:child_process';
import { chmodSync, existsSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import SqliteDatabase from 'better-sqlite3';
import { sql } from 'kysely';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { makeRng } from '../base/rng.ts';
import type { Store } from '../engine/ports.ts';
import { describeStore } from './conformance.ts';
import type { Tx } from './dialect.ts';
import { STORE_LIMITS } from './limits.ts';
import { MIGRATIONS, migrate } from './migrations.ts';
import { openStore } from './open.ts';
import { SqlStore } from './sql-store.ts';
import { openSqlite } from './sqlite.ts';
import { ManualClock } from './testing/clock.ts';

const temporary = (): string => mkdtempSync(join(tmpdir(), 'belay-store-'));

describeStore('SQLite', async ({ clock, limits }) => {
  const folder = temporary();
  return {
    open: () => openStore(`sqlite:${join(folder, 'data', 'belay.db')}`, { clock, limits }),
    remove: async () => rmSync(folder, { recursive: true, force: true }),
  };
});

describe('SQLite alone', () => {
  let folder: string;
  let file: string;
  let clock: ManualClock;
  let opened: Store[];
  beforeEach(() => {
    folder = temporary();
    file = join(folder, 'data', 'belay.db');
    clock = new ManualClock();
    opened = [];
  });
  afterEach(async () => {
    for (const store of opened) await store.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const open = async (url = file): Promise<Store> => {
    const store = await openStore(url, { clock });
    opened.push(store);
    return store;
  };
  const failureOf = (work: Promise<unknown>) =>
    work.then(
      () => ({ code: 'no failure' }),
      (failure) => failure,
    );
  const object = (name: string) => ({
    kind: 'MongoDB',
    namespace: 'prod',
    name,
    spec: { text: 'x'.repeat(2_000) },
  });
  const key = (name: string) => ({ kind: 'MongoDB', namespace: 'prod', name });

  test('S8 only the owner can read the file and its side files; a loose mode is tightened', async () => {
    const store = await open(`sqlite:${file}`);
    await store.create(object('a'));
    expect(statSync(join(folder, 'data')).mode & 0o777).toBe(0o700);
    for (const name of readdirSync(join(folder, 'data'))) {
      expect(`${name} ${(statSync(join(folder, 'data', name)).mode & 0o777).toString(8)}`).toBe(
        `${name} 600`,
      );
    }
    await store.close();
    chmodSync(file, 0o644);
    await open();
    expect(statSync(file).mode & 0o777).toBe(0o600);
  });

  test('a commit is on the disk when it is acknowledged, also when the power goes', async () => {
    const { db } = await openSqlite(file, { clock });
    const { rows } = await sql<{ synchronous: number }>`pragma synchronous`.execute(db);
    const mode = await sql<{ journal_mode: string }>`pragma journal_mode`.execute(db);
    // 2: FULL, which syncs the log at every commit; 1 (NORMAL) would lose acknowledged ones.
    expect([rows[0]?.synchronous, mode.rows[0]?.journal_mode]).toEqual([2, 'wal']);
    await db.destroy();
  });

  test('it works in memory, and a URL that is none of ours is refused without repeating it', async () => {
    const store = await open('sqlite::memory:');
    await store.create(object('a'));
    expect((await store.list({ kind: 'MongoDB' })).items).toHaveLength(1);
    const failure = await failureOf(openStore('mysql://root:canary@db/x', { clock }));
    expect(failure.code).toBe('InvalidStoreUrl');
    expect(failure.message).not.toContain('canary');
    expect((await failureOf(openStore('sqlite:', { clock }))).code).toBe('InvalidStoreUrl');
  });

  test('a store of the first schema is taken up with what is in it', async () => {
    const dialect = await openSqlite(file, { clock });
    await migrate(dialect, MIGRATIONS.slice(0, 1));
    await sql`insert into journal (id, cluster_uid, step, target, reason, epoch, at, detail)
      values ('s1', 'u1', 'reload', 'orders-0', 'Rolled', 1, 5, '{}')`.execute(dialect.db);
    await dialect.db.destroy();
    const store = await open();
    const before = { id: 's1', clusterUid: 'u1', step: 'reload', target: 'orders-0', reason: 'Rolled' };
    expect(await store.openIntents('u1')).toEqual([
      { ...before, epoch: 1, at: 5, detail: {}, outcome: null },
    ]);
  });

  test('a store written by a newer program is refused and left alone', async () => {
    await (await open()).close();
    const raw = new SqliteDatabase(file);
    raw.exec('update belay_schema set version = 99');
    const failure = await failureOf(openStore(file, { clock }));
    expect(failure).toMatchObject({ code: 'StoreNewer', retry: 'never' });
    expect(failure.fix).toContain('newer version');
    expect(raw.prepare('select version from belay_schema').get()).toEqual({ version: 99 });
    raw.close();
  });

  test('a step of the schema that fails leaves the store as it was; the next start goes on from there', async () => {
    await (await open()).close();
    const step = async (tx: Tx): Promise<void> => void (await sql`create table later (id text)`.execute(tx));
    const failing = async (tx: Tx): Promise<void> => {
      await step(tx);
      throw new Error('no');
    };
    const dialect = await openSqlite(file, { clock });
    const version = MIGRATIONS.length + 1;
    const next = (up: typeof step) => migrate(dialect, [...MIGRATIONS, { version, what: 'later', up }]);
    await expect(next(failing)).rejects.toThrow('no');
    await next(step);
    await next(failing);
    await dialect.db.destroy();
    expect((await failureOf(openStore(file, { clock }))).code).toBe('StoreNewer');
  });

  test('what is no database, or cannot be opened, is named with a way out', async () => {
    writeFileSync(join(folder, 'text'), 'this is not a database, and long enough to be looked at'.repeat(50));
    expect((await failureOf(openStore(join(folder, 'text'), { clock }))).code).toBe('StoreDamaged');
    const below = await failureOf(openStore(join(folder, 'text', 'belay.db'), { clock }));
    expect(below).toMatchObject({ code: 'StoreUnavailable', retry: 'later' });
    expect(below.fix).toBeTruthy();
  });

  test('a full disk refuses the write as a whole, and work goes on once there is space', async () => {
    const dialect = await openSqlite(file, { clock, maxPages: 60 });
    const store = await SqlStore.open(dialect, clock, STORE_LIMITS);
    opened.push(store);
    let made = 0;
    let failure = { code: 'no failure' };
    while (failure.code === 'no failure' && made < 500) {
      failure = await failureOf(store.create(object(`c${made}`)));
      if (failure.code === 'no failure') made += 1;
    }
    expect(failure).toMatchObject({ code: 'StoreFull', retry: 'later' });
    expect((await store.list({ kind: 'MongoDB' })).items).toHaveLength(made);
    expect(await store.get(key(`c${made}`))).toBeNull();
    await sql`pragma max_page_count = 1000`.execute(dialect.db);
    await store.create(object('after'));
    expect(await store.get(key('after'))).not.toBeNull();
  });

  test('while another process holds the lock, a writer waits without stopping this one, then goes on', async () => {
    const store = await open();
    const other = new SqliteDatabase(file);
    other.exec('begin immediate');
    const write = store.create(object('waiting'));
    let turns = 0;
    for (; turns < 20; turns++) await new Promise((resolve) => setImmediate(resolve));
    expect(turns).toBe(20);
    other.exec('commit');
    other.close();
    expect((await write).metadata.name).toBe('waiting');
  });

  test('a lock that is never given back is named: StoreLocked', async () => {
    await (await open()).close();
    const other = new SqliteDatabase(file);
    other.exec('begin immediate');
    const failure = await failureOf(
      openSqlite(file, { clock, lockPatience: 0 }).then((dialect) =>
        SqlStore.open(dialect, clock, STORE_LIMITS),
      ),
    );
    expect(failure).toMatchObject({ code: 'StoreLocked', retry: 'later' });
    other.close();
  });

  test('many writers at once let the loop turn, and closing waits for them', async () => {
    const dialect = await openSqlite(file, { clock, turn: 0 });
    const store = await SqlStore.open(dialect, clock, STORE_LIMITS);
    let turns = 0;
    let busy = true;
    const count = (): void => {
      turns += 1;
      if (busy) setImmediate(count);
    };
    setImmediate(count);
    const writes = Array.from({ length: 300 }, (_, i) => store.create(object(`c${i}`)));
    await store.close();
    busy = false;
    expect(await Promise.all(writes)).toHaveLength(300);
    expect(turns).toBeGreaterThan(2);
  });

  test('a long list gives others their turn', async () => {
    const store = await open();
    const limits = { ...STORE_LIMITS, listChunk: 5 };
    const chunked = await SqlStore.open(await openSqlite(file, { clock }), clock, limits);
    opened.push(chunked);
    for (let i = 0; i < 30; i++) await store.create(object(`c${i}`));
    let turns = 0;
    let listing = true;
    const count = (): void => {
      turns += 1;
      if (listing) setImmediate(count);
    };
    setImmediate(count);
    expect((await chunked.list({ kind: 'MongoDB' })).items).toHaveLength(30);
    listing = false;
    expect(turns).toBeGreaterThanOrEqual(5);
  });

  test('every acknowledged write is there after kill -9 at any moment', async () => {
    const rng = makeRng(20_261_129);
    let last = 0;
    for (let round = 0; round < 4; round++) {
      last = await writeUntilKilled(file, 1 + rng.below(40), last);
      const store = await open();
      for (let i = 1; i <= last; i++) {
        expect((await store.get(key(`w${i}`)))?.spec).toEqual({ i });
        expect(await store.loadState(`u${i}`)).toEqual({ version: 1, value: { i } });
      }
      await store.close();
    }
    expect(last).toBeGreaterThanOrEqual(4);
    expect(existsSync(file)).toBe(true);
  });
});

/** Starts a writer and kills it after so many acknowledged writes; gives the number of the last acknowledged one. */
async function writeUntilKilled(file: string, acknowledged: number, first: number): Promise<number> {
  const script = fileURLToPath(new URL('./testing/writer.ts', import.meta.url));
  const child: ChildProcess = spawn(process.execPath, [script, file, String(first + 1)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = new Promise((resolve) => child.once('exit', resolve));
  let last = first;
  for await (const line of createInterface({ input: child.stdout as NodeJS.ReadableStream })) {
    last = Number(line);
    // It goes on writing until the signal arrives, in the middle of whatever it does then.
    if (last >= first + acknowledged) child.kill('SIGKILL');
  }
  await ended;
  return last;
}
