import type { Clock } from '../engine/ports.ts';

/** Longest delay a timer takes (2^31 − 1 ms); later times are reached in several. */
const MAX_DELAY = 2_147_483_647;

/** The machine's clock. Timers never keep the process alive. */
export const systemClock: Clock = {
  now: () => Date.now(),
  at(time, call) {
    let timer: NodeJS.Timeout;
    const arm = (): void => {
      const delay = Math.max(0, time - Date.now());
      timer = delay > MAX_DELAY ? setTimeout(arm, MAX_DELAY) : setTimeout(call, delay);
      timer.unref();
    };
    arm();
    return () => clearTimeout(timer);
  },
};
