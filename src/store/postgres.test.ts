import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { describeStore } from './conformance.ts';
import { openStore } from './open.ts';
import { expectAlike, LIMITS } from './testing/alike.ts';
import { ManualClock } from './testing/clock.ts';
import { postgresMissing, startPostgres, type TestPostgres } from './testing/postgres.ts';

const skip = postgresMissing();
let server: TestPostgres;
let places = 0;

beforeAll(async () => {
  if (skip === undefined) server = await startPostgres();
});
afterAll(async () => {
  if (skip === undefined) await server.stop();
});

/** Runs SQL as the administrator. */
async function admin(text: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client(server.url);
  await client.connect();
  try {
    return (await client.query(text)).rows as Record<string, unknown>[];
  } finally {
    await client.end();
  }
}

describeStore(
  'PostgreSQL',
  async ({ clock, limits }) => {
    const schema = `place_${++places}`;
    return {
      open: () => openStore(`${server.url}?schema=${schema}`, { clock, limits }),
      remove: async () => void (await admin(`drop schema if exists ${schema} cascade`)),
    };
  },
  skip,
);

const title = skip === undefined ? 'PostgreSQL alone' : `PostgreSQL alone (skipped: ${skip})`;
describe.skipIf(skip !== undefined)(title, () => {
  const key = (name: string) => ({ kind: 'MongoDB', namespace: 'prod', name });
  const codeOf = (work: Promise<unknown>): Promise<unknown> =>
    work.then(
      () => 'no failure',
      (failure) => failure.code,
    );
  const open = (schema: string, clock = new ManualClock()) =>
    openStore(`${server.url}?schema=${schema}`, { clock });

  test('lost connections are made anew without a failed call; watches go on by themselves', async () => {
    const clock = new ManualClock();
    const store = await open('lost', clock);
    const stop = new AbortController();
    const events = store.watch({ since: '0', signal: stop.signal })[Symbol.asyncIterator]();
    await store.create({ ...key('a'), spec: {} });
    expect((await events.next()).value.object.metadata.name).toBe('a');
    const next = events.next();
    await Promise.all([1, 2, 3, 4].map(() => store.get(key('a'))));
    await admin(`select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'belay'`);
    expect((await Promise.all([1, 2, 3].map(() => store.get(key('a'))))).filter(Boolean)).toHaveLength(3);
    await store.create({ ...key('b'), spec: {} });
    clock.advance(5_000);
    expect((await next).value.object.metadata.name).toBe('b');
    stop.abort();
    await store.close();
  });

  test('memory and PostgreSQL answer alike to the same calls', async () => {
    const clock = new ManualClock();
    const store = await openStore(`${server.url}?schema=alike`, { clock, limits: LIMITS });
    await expectAlike(7, clock, store);
    await store.close();
  });

  test('two schemas in one database are two stores', async () => {
    const [one, two] = [await open('one'), await open('two')];
    await one.create({ ...key('a'), spec: {} });
    expect(await two.get(key('a'))).toBeNull();
    expect((await two.create({ ...key('a'), spec: {} })).metadata.resourceVersion).toBe('1');
    await one.close();
    await two.close();
  });

  test('a database that is not there, or does not let us in, is named without the password', async () => {
    const url = new URL(server.url);
    const password = url.password;
    url.pathname = '/nowhere';
    const refused = await openStore(url.toString(), { clock: new ManualClock() }).catch((failure) => failure);
    expect(refused).toMatchObject({ code: 'StoreRefused', retry: 'never' });
    url.password = 'wrong-canary';
    const wrong = await openStore(url.toString(), { clock: new ManualClock() }).catch((failure) => failure);
    expect(wrong.code).toBe('StoreRefused');
    expect(`${refused.message}${wrong.message}${refused.fix}`).not.toMatch(
      new RegExp(`${password}|wrong-canary`),
    );
    const nobody = 'postgres://belay:secret-canary@127.0.0.1:1/postgres';
    const away = await openStore(nobody, { clock: new ManualClock() }).catch((failure) => failure);
    expect(away).toMatchObject({ code: 'StoreUnavailable', retry: 'later' });
    expect(away.message).not.toContain('canary');
  });

  test('a commit whose answer is lost is an unknown outcome, a statement that fails is not', async () => {
    const store = await open('unknown');
    await admin(`create function unknown.die() returns trigger language plpgsql as $$ begin
      perform pg_terminate_backend(pg_backend_pid()); perform pg_sleep(5); return null; end $$;
      create constraint trigger die after insert on unknown.settings deferrable initially deferred
      for each row execute function unknown.die()`);
    const lost = await store.initSetting('id', 'x').catch((failure) => failure);
    expect(lost).toMatchObject({ code: 'StoreUnavailable', retry: 'unknown-outcome' });
    await admin('drop trigger die on unknown.settings; drop table unknown.tokens');
    expect(await store.initSetting('id', 'y')).toBe('y');
    expect(await codeOf(store.useToken('t', 1))).toBe('StoreFailed');
    await store.close();
  });

  test('an idle store keeps commits durable even where the server is told not to', async () => {
    await admin(`alter role belay set synchronous_commit = off`);
    const store = await open('durable');
    await admin(`create table durable.seen as select ''::text as value; create function durable.note() returns trigger
      language plpgsql as $$ begin update durable.seen set value = current_setting('synchronous_commit'); return new; end $$;
      create trigger note before insert on durable.settings for each row execute function durable.note()`);
    await store.initSetting('id', 'x');
    expect(await admin('select value from durable.seen')).toEqual([{ value: 'on' }]);
    await admin('alter role belay reset synchronous_commit');
    await store.close();
  });
});
