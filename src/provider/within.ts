import { BelayError, type RetryClass } from '../base/error.ts';
import type { Millis } from '../base/units.ts';
import type { Clock } from '../engine/ports.ts';

/** A7.1: one observation takes at most this long … */
export const OBSERVATION_LIMIT: Millis = 4_000;
/** … and an effect this long: the agent's own limit is shorter, so this only catches a channel that hangs. */
export const EFFECT_LIMIT: Millis = 30_000;
/** How long a member's database may take for one command, elections included. */
export const COMMAND_LIMIT: Millis = 15_000;

/** The promise's result, or `NoAnswer` when the time has run out; the late result is dropped. */
export function within<T>(
  clock: Clock,
  limit: Millis,
  what: string,
  promise: Promise<T>,
  retry: RetryClass = 'later',
): Promise<T> {
  return new Promise((resolve, reject) => {
    const cancel = clock.at(clock.now() + limit, () =>
      reject(new BelayError('NoAnswer', `${what}: no answer within ${limit / 1000} s`, { retry })),
    );
    promise.then(resolve, reject).finally(cancel);
  });
}
