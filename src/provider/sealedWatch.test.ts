import { expect, test } from 'vitest';
import { SECOND } from '../base/units.ts';
import { silentLog } from '../engine/testing/bench.ts';
import { ManualClock, settle } from '../engine/testing/clock.ts';
import { openMemoryStore } from '../store/memory.ts';
import { watchSealed } from './sealedWatch.ts';

async function scene() {
  const clock = new ManualClock();
  const store = openMemoryStore({ clock });
  const put = (name: string, byte: number) =>
    store.putSealed(name, new Uint8Array(32).fill(byte), null).then(() => undefined);
  await put('users/default/app/password', 1);
  await put('clusters/u1/keyfile', 1);
  const told: string[] = [];
  let firstLooks = 0;
  const stop = watchSealed({
    store,
    clock,
    log: silentLog,
    changed: (name) => told.push(name),
    ready: () => firstLooks++,
  });
  await settle();
  return { clock, store, put, told, stop, firstLooks: () => firstLooks };
}

test('secrets that came, changed or went elsewhere are told within half a minute, and only those people name', async () => {
  const { clock, store, put, told, stop, firstLooks } = await scene();
  await clock.advance(60 * SECOND);
  expect([told, firstLooks()]).toEqual([[], 1]);
  await put('users/default/app/password', 2);
  await put('users/default/new/password', 1);
  await put('clusters/u1/keyfile', 2);
  await clock.advance(30 * SECOND);
  expect(told.splice(0).sort()).toEqual(['users/default/app/password', 'users/default/new/password']);
  await store.deleteSealed('users/default/new/');
  await clock.advance(30 * SECOND);
  expect(told).toEqual(['users/default/new/password']);
  stop();
});

test('a store that does not answer is looked at again, and nothing is forgotten meanwhile', async () => {
  const { clock, store, put, told, stop } = await scene();
  const marks = store.sealedMarks.bind(store);
  store.sealedMarks = () => Promise.reject(new Error('down'));
  await put('users/default/app/password', 3);
  await clock.advance(60 * SECOND);
  store.sealedMarks = marks;
  await clock.advance(30 * SECOND);
  expect(told).toEqual(['users/default/app/password']);
  stop();
});
