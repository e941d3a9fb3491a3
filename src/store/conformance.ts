/** One suite for every Store: what the engine and the faces may rely on, whichever database is below. */
import { afterEach, beforeEach, describe } from 'vitest';
import type { StoreLimits } from './limits.ts';
import { another, type Bench, type PlaceOptions, type StorePlace } from './testing/bench.ts';
import { ManualClock } from './testing/clock.ts';
import { eventTests, journalTests, leaseTests, stateTests } from './testing/engine-suite.ts';
import { listTests, objectTests, watchTests } from './testing/object-suite.ts';
import { securityTests } from './testing/security-suite.ts';
import { sharedTests } from './testing/shared-suite.ts';

/** Small limits, so that tests reach them quickly. */
const LIMITS: Partial<StoreLimits> = {
  changes: 20,
  eventsPerObject: 5,
  events: 20,
  journalPerCluster: 5,
  slack: 2,
  rowsPerHousekeeping: 10,
  valueBytes: 10_000,
  listChunk: 3,
  watchChunk: 4,
};

/** Runs the suite; `place` makes an empty place. `skip`: why it cannot run here, shown in the title. */
export function describeStore(
  name: string,
  place: (options: PlaceOptions) => Promise<StorePlace>,
  skip?: string,
): void {
  const title = skip === undefined ? `store: ${name}` : `store: ${name} (skipped: ${skip})`;
  describe.skipIf(skip !== undefined)(title, () => {
    const at: Bench = {
      clock: new ManualClock(),
      place: undefined as never,
      store: undefined as never,
      opened: [],
    };
    beforeEach(async () => {
      at.clock = new ManualClock();
      at.place = await place({ clock: at.clock, limits: LIMITS });
      at.opened = [];
      at.store = await another(at);
    });
    afterEach(async () => {
      for (const store of at.opened) await store.close();
      await at.place.remove();
    });
    objectTests(at);
    listTests(at);
    watchTests(at);
    stateTests(at);
    leaseTests(at);
    journalTests(at);
    eventTests(at);
    securityTests(at);
    sharedTests(at);
  });
}
