/** Keeping times of conditions, so that a status is equal when nothing happened. */
import type { Millis } from '../base/units.ts';

interface ConditionLike {
  readonly type?: unknown;
  readonly status?: unknown;
  readonly [other: string]: unknown;
}

/**
 * The status with `lastTransitionTime` on every condition: the time its `status` last changed, kept from the status
 * before while it is the same.
 */
export function withTransitionTimes(
  status: Readonly<Record<string, unknown>>,
  before: unknown,
  now: Millis,
): Readonly<Record<string, unknown>> {
  const next = conditionsOf(status);
  if (next === null) return status;
  const known = new Map((conditionsOf(before) ?? []).map((c) => [c.type, c]));
  const conditions = next.map((condition) => {
    const was = known.get(condition.type);
    const kept = was?.status === condition.status ? was?.['lastTransitionTime'] : undefined;
    return { ...condition, lastTransitionTime: kept ?? new Date(now).toISOString() };
  });
  return { ...status, conditions };
}

/** The conditions of a status as it may be stored, also by another version; null: there are none in the form of a list. */
export function conditionsOf(status: unknown): readonly ConditionLike[] | null {
  const conditions = (status as { conditions?: unknown } | null)?.conditions;
  return Array.isArray(conditions) ? (conditions as readonly ConditionLike[]) : null;
}
