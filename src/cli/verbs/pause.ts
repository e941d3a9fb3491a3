import type { Millis } from '../../base/units.ts';
import type { Context } from '../context.ts';

/** Waits so long, or until the signal. */
export const pause = (context: Context, millis: Millis, signal: AbortSignal): Promise<void> =>
  signal.aborted ? Promise.resolve() : context.io.sleep(Math.max(0, millis), signal);
