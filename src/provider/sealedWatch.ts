/**
 * Notices named secrets that another control plane on the same store wrote: one look at the marks of all rows now and
 * then. Without it every pass of every cluster would read its users' passwords again.
 */
import { asBelayError } from '../base/error.ts';
import { type Millis, SECOND } from '../base/units.ts';
import type { Clock, Log, Store } from '../engine/ports.ts';
import { NAMED_SECRETS } from './names.ts';

/** A password written elsewhere is noticed this late at the latest. */
const LOOK_EVERY: Millis = 30 * SECOND;

export interface SealedWatchOptions {
  readonly store: Pick<Store, 'sealedMarks'>;
  readonly clock: Clock;
  readonly log: Log;
  /** Told of every name that came, changed or went since the look before. */
  readonly changed: (name: string) => void;
  /** The first look is done: what was read before it may be of any age. */
  readonly ready: () => void;
}

/** Starts looking; returns a stopper. */
export function watchSealed(options: SealedWatchOptions): () => void {
  const { store, clock, log, changed, ready } = options;
  let known: ReadonlyMap<string, string> | null = null;
  let stopped = false;
  let cancel = (): void => {};
  const look = async (): Promise<void> => {
    try {
      const marks = await store.sealedMarks(NAMED_SECRETS);
      if (stopped) return;
      if (known === null) ready();
      else for (const name of differences(known, marks)) changed(name);
      known = marks;
    } catch (failure) {
      const { code, message } = asBelayError(failure);
      if (!stopped) log.warn('secrets could not be looked at', { code, error: message });
    }
    if (!stopped) cancel = clock.at(clock.now() + LOOK_EVERY, () => void look());
  };
  void look();
  return () => {
    stopped = true;
    cancel();
  };
}

function differences(
  before: ReadonlyMap<string, string>,
  after: ReadonlyMap<string, string>,
): readonly string[] {
  const came = [...after].filter(([name, mark]) => before.get(name) !== mark).map(([name]) => name);
  return [...came, ...[...before.keys()].filter((name) => !after.has(name))];
}
