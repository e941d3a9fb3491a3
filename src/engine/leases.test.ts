import { expect, test } from 'vitest';
import { BelayError } from '../base/error.ts';
import { SECOND } from '../base/units.ts';
import { openMemoryStore } from '../store/memory.ts';
import { LeaseKeeper } from './leases.ts';
import type { Store } from './ports.ts';
import { silentLog } from './testing/bench.ts';
import { ManualClock } from './testing/clock.ts';

function scene() {
  const clock = new ManualClock();
  const store = openMemoryStore({ clock });
  const events: string[] = [];
  const keeper = (
    holder: string,
    over: Pick<Store, 'acquireLeases' | 'releaseLeases'> = store,
  ): LeaseKeeper =>
    new LeaseKeeper({
      store: over,
      clock,
      log: silentLog,
      holder,
      partitions: 4,
      onGained: (partitions) => events.push(`${holder} gained ${partitions.size}`),
      onLost: (partitions) => events.push(`${holder} lost ${partitions.size}`),
    });
  return { clock, store, events, keeper };
}

/** A store that can be cut off. */
function cuttable(store: Store) {
  const state = { down: false };
  const acquireLeases: Store['acquireLeases'] = async (...args) => {
    if (state.down) throw new BelayError('StoreUnavailable', 'cut off');
    return store.acquireLeases(...args);
  };
  return { state, store: { acquireLeases, releaseLeases: () => Promise.resolve() } };
}

test('one write renews all leases, and the epoch stays while the holder does', async () => {
  const { clock, store, keeper } = scene();
  const one = keeper('one');
  await one.open();
  const fence = one.fence('x');
  const { writes } = store;
  await clock.advance(15 * SECOND);
  expect(store.writes - writes).toBe(10);
  expect(one.fence('x')).toEqual(fence);
  await one.close();
});

test('S9 a holder that cannot renew stops before anybody else may start', async () => {
  const { clock, store, events, keeper } = scene();
  const cut = cuttable(store);
  const one = keeper('one', cut.store);
  const two = keeper('two');
  await one.open();
  await two.open();
  await clock.advance(3 * SECOND);
  cut.state.down = true;
  let gap = 0;
  for (let i = 0; i < 100; i++) {
    await clock.advance(100);
    const first = one.fence('x');
    const second = two.fence('x');
    expect(first !== null && second !== null).toBe(false);
    if (first === null && second === null) gap++;
  }
  expect(gap).toBeGreaterThan(0);
  expect(two.fence('x')?.epoch).toBe(2);
  expect(events).toEqual(['one gained 4', 'one lost 4', 'two gained 4']);
});

test('a short outage of the store costs nothing', async () => {
  const { clock, store, events, keeper } = scene();
  const cut = cuttable(store);
  const one = keeper('one', cut.store);
  await one.open();
  cut.state.down = true;
  await clock.advance(2 * SECOND);
  cut.state.down = false;
  await clock.advance(10 * SECOND);
  expect(one.fence('x')?.epoch).toBe(1);
  expect(events).toEqual(['one gained 4']);
});

test('L1 a lease that lapsed for a moment announces itself again, since wake-ups were turned away meanwhile', async () => {
  const { clock, store, events, keeper } = scene();
  let slow = 0;
  const acquireLeases: Store['acquireLeases'] = async (...args) => {
    if (slow > 0) await new Promise<void>((resolve) => clock.at(clock.now() + slow, resolve));
    return store.acquireLeases(...args);
  };
  const one = keeper('one', { acquireLeases, releaseLeases: () => Promise.resolve() });
  await one.open();
  slow = 3 * SECOND;
  await clock.advance(4 * SECOND);
  expect(one.fence('x')).toBeNull();
  slow = 0;
  await clock.advance(1 * SECOND);
  expect(one.fence('x')?.epoch).toBe(1);
  expect(events).toEqual(['one gained 4', 'one gained 4']);
});

test('a clock that is set back does not make a lease longer', async () => {
  const { clock, store, keeper } = scene();
  const cut = cuttable(store);
  let shift = 0;
  const jumping = {
    now: () => clock.now() + shift,
    monotonic: () => clock.now(),
    at: (time: number, call: () => void) => clock.at(time - shift, call),
  };
  const one = new LeaseKeeper({
    store: cut.store,
    clock: jumping,
    log: silentLog,
    holder: 'one',
    onGained: () => {},
    onLost: () => {},
  });
  await one.open();
  const two = keeper('two');
  cut.state.down = true;
  shift = -3600 * SECOND;
  await clock.advance(4 * SECOND);
  expect(one.fence('x')).toBeNull();
  await two.open();
});

test('leases given back are free at once', async () => {
  const { keeper, events } = scene();
  const one = keeper('one');
  await one.open();
  await one.close();
  const two = keeper('two');
  await two.open();
  expect(two.held).toBe(4);
  expect(events).toEqual(['one gained 4', 'two gained 4']);
});
