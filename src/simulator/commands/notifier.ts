/** Wakes what waits for a change: readers of tailable cursors and change streams. */
import type { Millis } from '../../base/units.ts';

/** A broadcast without memory: `wait` resolves at the next `notify`, at the deadline, or when the signal aborts. */
export class Notifier {
  private waiters = new Set<() => void>();

  /** Wakes every present waiter; they run after the present work is done. */
  notify(): void {
    const present = this.waiters;
    this.waiters = new Set();
    for (const wake of present) wake();
  }

  /** True when something happened, false at the deadline or when aborted. */
  wait(limit: Millis, signal: AbortSignal): Promise<boolean> {
    if (signal.aborted || limit <= 0) return Promise.resolve(false);
    return new Promise((resolve) => {
      const end = (happened: boolean) => {
        clearTimeout(timer);
        signal.removeEventListener('abort', onAbort);
        this.waiters.delete(wake);
        resolve(happened);
      };
      const wake = () => end(true);
      const onAbort = () => end(false);
      const timer = setTimeout(() => end(false), limit);
      timer.unref();
      signal.addEventListener('abort', onAbort);
      this.waiters.add(wake);
    });
  }
}

/** Waits, or ends early when the signal aborts. */
export function pause(duration: Millis, signal: AbortSignal): Promise<void> {
  return new Notifier().wait(duration, signal).then(() => undefined);
}
