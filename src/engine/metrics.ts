/** What the engine counts; the server renders it. Plain numbers, so that counting costs nothing. */
import type { Millis } from '../base/units.ts';

export interface EngineMetrics {
  passes: number;
  passFailures: number;
  passMillis: number;
  /** Writes of passes to the store: an unchanged world makes none. */
  passWrites: number;
  /** Objects whose last pass found nothing to do; after a start it grows as they are looked at. */
  converged: number;
  /** Effects by outcome. */
  readonly effects: { done: number; failed: number; unknown: number };
  /** Guard refusals by reason. */
  readonly refusals: Map<string, number>;
  /** Passes that ended in a wait or block, by reason. */
  readonly waits: Map<string, number>;
  /** Effects by kind of step: how long they took together and how many there were. */
  readonly steps: Map<string, { count: number; millis: Millis }>;
}

export const newMetrics = (): EngineMetrics => ({
  passes: 0,
  passFailures: 0,
  passMillis: 0,
  passWrites: 0,
  converged: 0,
  effects: { done: 0, failed: 0, unknown: 0 },
  refusals: new Map(),
  waits: new Map(),
  steps: new Map(),
});

/** Adds one to a counter by name. */
export function count(counters: Map<string, number>, name: string): void {
  counters.set(name, (counters.get(name) ?? 0) + 1);
}

export function countStep(metrics: EngineMetrics, kind: string, millis: Millis): void {
  const step = metrics.steps.get(kind) ?? { count: 0, millis: 0 };
  step.count++;
  step.millis += millis;
  metrics.steps.set(kind, step);
}
