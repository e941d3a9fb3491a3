import type { Millis } from '../base/units.ts';
import type { Clock } from '../engine/ports.ts';

/** Longest wait a timer takes; a later time is waited for in pieces. */
const LONGEST: Millis = 2 ** 31 - 1;

/** Real time. Its timers do not keep the process alive. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  at: (time, call) => {
    let timer: NodeJS.Timeout;
    const arm = (): void => {
      const wait = Math.max(0, time - Date.now());
      timer = setTimeout(wait > LONGEST ? arm : call, Math.min(wait, LONGEST));
      timer.unref();
    };
    arm();
    return () => clearTimeout(timer);
  },
};
