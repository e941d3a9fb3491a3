/** What a desk is asked and what it answers. */
import type { Millis } from '../base/units.ts';
import { PRIORITY_RANGE } from '../model/index.ts';
import { refuse } from './rules/look.ts';
import type { Action, Code, Entry, Mode, Pending, Permission, Refusal } from './types.ts';

/** What somebody asks for. Actions of an atomic request (`partial: false`) are granted all or none. */
export interface RequestInput {
  readonly uid?: string | null;
  readonly owner: string;
  readonly description?: string;
  readonly mode: Mode;
  readonly priority?: number;
  readonly partial: boolean;
  readonly maxInFlight?: number;
  readonly duration?: Millis | null;
  readonly ignoreTenants?: boolean;
  readonly evict?: boolean;
  readonly stepDown?: boolean;
  readonly compat?: boolean;
  readonly actions: readonly { readonly action: Action; readonly at: readonly [number, number] }[];
  /** Keep what cannot be granted now as pending. */
  readonly schedule: boolean;
  readonly dry?: boolean;
}

/** The outcome of one pass. */
export interface Answer {
  readonly code: Code;
  /** Granted by this pass, in the order it was looked at. */
  readonly granted: readonly Permission[];
  /** What waits, or would wait, in the order of the request. */
  readonly pending: readonly Pending[];
  /** First refusal, when nothing else explains the code. */
  readonly refusal: Refusal | null;
  /** When to ask again; null: something was granted, or nothing waits. */
  readonly retryAt: Millis | null;
  readonly entry: Entry | null;
}

/** What is wrong with a priority, if anything (C3.1). */
export function priorityProblem(priority: number, enabled: boolean): string | null {
  if (!Number.isInteger(priority) || priority < PRIORITY_RANGE.least || priority > PRIORITY_RANGE.most)
    return `priority ${priority} is not a whole number from ${PRIORITY_RANGE.least} to ${PRIORITY_RANGE.most}`;
  return priority !== 0 && !enabled ? 'priorities are switched off here: leave it out' : null;
}

/** An owner's name as a part of identities, which people copy into command lines. */
export const slug = (owner: string): string => owner.replace(/[^\w.@-]+/g, '-');

/** The number at the end of an identity. */
export const numberOf = (id: string): number => Number(/-(\d+)$/.exec(id)?.[1] ?? 0);

/** In the order of the request. */
export const inOrder = (pending: readonly Pending[]): readonly Pending[] =>
  [...pending].sort((a, b) => a.at[0] - b.at[0] || a.at[1] - b.at[1]);

export const disabledRefusal = (): Refusal =>
  refuse(
    'ERROR_TEMP',
    'Disabled',
    'maintenance is switched off: nothing new is granted until it is switched on again',
  );

/** An answer that is only a refusal. */
export const refused = (refusal: Refusal, retryAt: Millis | null): Answer => ({
  code: refusal.code,
  granted: [],
  pending: [],
  refusal,
  retryAt,
  entry: null,
});
