/** A clock for tests: real time, or time that only moves when told. */
import type { Millis } from '../../base/units.ts';
import type { Clock } from '../../engine/ports.ts';

export const realClock: Clock = {
  now: () => Date.now(),
  at: (time, call) => {
    const timer = setTimeout(call, Math.max(0, time - Date.now()));
    timer.unref();
    return () => clearTimeout(timer);
  },
};

export interface ManualClock extends Clock {
  /** Moves on, calling what is due in order; calls made meanwhile are due too when their time has come. */
  advance(duration: Millis): void;
}

export function manualClock(start: Millis = 1_000_000): ManualClock {
  let now = start;
  const due: { time: Millis; call: () => void }[] = [];
  return {
    now: () => now,
    at: (time, call) => {
      const entry = { time, call };
      due.push(entry);
      return () => {
        const index = due.indexOf(entry);
        if (index >= 0) due.splice(index, 1);
      };
    },
    advance: (duration) => {
      const end = now + duration;
      for (;;) {
        due.sort((a, b) => a.time - b.time);
        const next = due[0];
        if (!next || next.time > end) break;
        due.shift();
        now = Math.max(now, next.time);
        next.call();
      }
      now = end;
    },
  };
}
