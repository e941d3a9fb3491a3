/** The agent's own time. Timers never keep the process alive. */
import type { Millis } from '../base/units.ts';
import type { Clock } from '../engine/ports.ts';
import { OBSERVE_TIMEOUT } from './limits.ts';

export const systemClock: Clock = {
  now: () => Date.now(),
  at: (time, call) => {
    const timer = setTimeout(call, Math.min(Math.max(0, time - Date.now()), 2 ** 31 - 1));
    timer.unref();
    return () => clearTimeout(timer);
  },
};

/** The answer, or a failure after the time one observation may take (A7.1). */
export function bounded<T>(clock: Clock, answer: Promise<T>, limit: Millis = OBSERVE_TIMEOUT): Promise<T> {
  return new Promise((resolve, reject) => {
    const cancel = clock.at(clock.now() + limit, () => reject(new Error(`no answer within ${limit} ms`)));
    answer.then(resolve, reject).finally(cancel);
  });
}
