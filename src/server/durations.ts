/** How long steps took before, from the journal: what `belay plan` expects of the next ones. */
import { type Bytes, DAY, HOUR, type Millis } from '../base/units.ts';
import type { JournalEntry } from '../engine/ports.ts';

/** By earlier steps of the same kind of this cluster: their median, for a first copy by what they copied in a second. */
export interface Expected {
  readonly millis: Millis;
  /** How many steps it is the median of. */
  readonly of: number;
  /** What is to be copied in that time. */
  readonly bytes?: Bytes;
}

/** Of a step as a plan tells it. */
export interface Planned {
  readonly verb: string;
  readonly detail: string;
  readonly copies: Bytes | null;
}

/** A copy of so many times as much, or of as little, is another thing: what it takes is not known. */
const ALIKE = 10;

/** A step that was followed by another only after this says nothing about itself: something else was waited for. */
const LONGEST: Millis = 6 * HOUR;
/** A first copy of a large database takes days; nothing else of the same change is planned meanwhile. */
const LONGEST_COPY: Millis = 14 * DAY;

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
  'deleteRuntime',
  'deleteVolume',
]);

/** The kind of a step in the history: a reconfiguration that lets members in takes as long as their first copy. */
export const kindOf = (step: string, detail: string): string =>
  step === 'reconfig' && / join without vote/.test(detail) ? 'join' : step;

/** What a planned step is expected to take, by a cluster's journal, oldest first; null: there is nothing to judge by. */
export function expectationsOf(journal: readonly JournalEntry[]): (step: Planned) => Expected | null {
  const [known, copies] = [durationsOf(journal), copiesOf(journal)];
  return ({ verb, detail, copies: bytes }) => {
    const kind = kindOf(verb, detail);
    return kind === 'join' ? copyOf(copies, bytes) : (known.get(kind) ?? null);
  };
}

/** Steps with what each is expected to take; it is left out of one whose time is told with the step before. */
export function withExpected<T extends Planned & { readonly targets: readonly string[] }>(
  steps: readonly T[],
  expected: (step: Planned) => Expected | null,
): readonly (T & { readonly expected?: Expected | null })[] {
  return steps.map((step, i) =>
    isPartOf(step, steps[i - 1]) ? step : { ...step, expected: expected(step) },
  );
}

type Aimed = Pick<Planned, 'verb'> & { readonly targets: readonly string[] };

/** A member that gets another binary and another configuration goes down once for both. */
const isPartOf = (step: Aimed, before: Aimed | undefined): boolean =>
  step.verb === 'reload' && before?.verb === 'upgrade' && before.targets.join() === step.targets.join();

interface Copy {
  readonly bytes: Bytes;
  readonly millis: Millis;
}

/** First copies of which it was known how large they were. */
function copiesOf(journal: readonly JournalEntry[]): readonly Copy[] {
  return journal.flatMap((entry, i) => {
    const { copies } = (entry.detail ?? {}) as { readonly copies?: unknown };
    const isJoin = entry.outcome?.kind === 'done' && kindOf(entry.step, changeOf(entry.detail)) === 'join';
    const millis = isJoin ? untilNext(entry, journal.slice(i + 1)) : null;
    if (millis === null || millis <= 0 || millis > LONGEST_COPY || typeof copies !== 'number') return [];
    return [{ bytes: copies, millis }];
  });
}

function copyOf(known: readonly Copy[], bytes: Bytes | null): Expected | null {
  if (bytes === null) return null;
  const alike = known.filter((copy) => bytes <= copy.bytes * ALIKE && copy.bytes <= bytes * ALIKE);
  if (alike.length === 0) return null;
  const bytesPerMilli = median(alike.map((copy) => copy.bytes / copy.millis));
  return { millis: Math.round(bytes / bytesPerMilli), of: alike.length, bytes };
}

/** By kind, from a cluster's journal, oldest first; first copies are judged by their size instead. */
export function durationsOf(journal: readonly JournalEntry[]): ReadonlyMap<string, Expected> {
  const known = new Map<string, number[]>();
  journal.forEach((entry, i) => {
    if (entry.outcome?.kind !== 'done') return;
    const kind = kindOf(entry.step, changeOf(entry.detail));
    if (kind === 'join') return;
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

/**
 * Until the next step of the same change, without what that one waited for a window or for somebody else's task: by then this
 * one was over. Steps of one moment belong together. Negative: it waited already when a process that knew since when ended.
 */
function untilNext(entry: JournalEntry, later: readonly JournalEntry[]): Millis | null {
  const next = later.find((other) => other.at > entry.at);
  if (next === undefined || next.reason !== entry.reason) return null;
  return next.at - entry.at - (next.heldBack ?? 0);
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? 0;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? 0) + upper) / 2;
}
