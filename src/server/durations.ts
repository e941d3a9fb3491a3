/** How long steps took before, from the journal: what `belay plan` expects of the next ones. */
import { HOUR, type Millis } from '../base/units.ts';
import type { JournalEntry } from '../engine/ports.ts';

/** The median of earlier steps of the same kind of this cluster. */
export interface Expected {
  readonly millis: Millis;
  /** How many steps it is the median of. */
  readonly of: number;
}

/** A step that was followed by another only after this says nothing about itself: something else was waited for. */
const LONGEST: Millis = 6 * HOUR;

/**
 * Steps that only begin something: they are over when the next one of the same change could be planned. The last of a
 * change has no next one and says nothing.
 */
const BEGINNERS: ReadonlySet<string> = new Set([
  'import',
  'deploy',
  'upgrade',
  'growVolume',
  'publish',
  'reload',
  'stepDown',
  'join',
  'deleteRuntime',
  'deleteVolume',
]);

/** The kind of a step in the history: a reconfiguration that lets members in takes as long as their first copy. */
export const kindOf = (step: string, detail: string): string =>
  step === 'reconfig' && / join without vote/.test(detail) ? 'join' : step;

/** By kind, from a cluster's journal, oldest first. */
export function durationsOf(journal: readonly JournalEntry[]): ReadonlyMap<string, Expected> {
  const known = new Map<string, number[]>();
  journal.forEach((entry, i) => {
    if (entry.outcome?.kind !== 'done') return;
    const kind = kindOf(entry.step, changeOf(entry.detail));
    const took = BEGINNERS.has(kind) ? untilNext(entry, journal.slice(i + 1)) : entry.outcome.at - entry.at;
    if (took === null || took < 0 || took > LONGEST) return;
    known.set(kind, [...(known.get(kind) ?? []), took]);
  });
  return new Map([...known].map(([kind, all]) => [kind, { millis: median(all), of: all.length }]));
}

const changeOf = (detail: unknown): string => {
  const change = (detail as { readonly change?: unknown } | null)?.change;
  return typeof change === 'string' ? change : '';
};

/** Until the next step of the same change; steps of one moment belong together. */
function untilNext(entry: JournalEntry, later: readonly JournalEntry[]): Millis | null {
  const next = later.find((other) => other.at > entry.at);
  return next !== undefined && next.reason === entry.reason ? next.at - entry.at : null;
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? 0;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? 0) + upper) / 2;
}
