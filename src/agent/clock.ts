/** The agent's own time. Timers never keep the process alive. */
import type { Clock } from '../engine/ports.ts';

export const systemClock: Clock = {
  now: () => Date.now(),
  at: (time, call) => {
    const timer = setTimeout(call, Math.min(Math.max(0, time - Date.now()), 2 ** 31 - 1));
    timer.unref();
    return () => clearTimeout(timer);
  },
};
