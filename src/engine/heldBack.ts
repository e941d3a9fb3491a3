/** Time in which an object's change goes on later: it says nothing about how long the change itself takes. */
import type { Millis } from '../base/units.ts';
import { WAIT_FOR_GRANT } from './gate.ts';
import type { AnyPlan, AnyStep } from './provider.ts';
import { conditionsOf } from './status.ts';

/** Waits for leave: for a window, or for what somebody else holds or works on. */
const FOR_LEAVE: ReadonlySet<string> = new Set([WAIT_FOR_GRANT, 'MaintenanceWindow', 'InMaintenance']);

/**
 * Since when all that is planned waits for leave, by what was so before; null: it does not. `working`: work that was begun
 * is not over yet, so that nothing is lost by the wait.
 */
export function heldSince(
  before: Millis | null,
  { act, waits }: Pick<AnyPlan<AnyStep>, 'act' | 'waits'>,
  working: boolean,
  now: Millis,
): Millis | null {
  const held = act === null && !working && waits.length > 0 && waits.every(({ on }) => FOR_LEAVE.has(on));
  return held ? (before ?? now) : null;
}

/** What a status that another process wrote tells of it: not since when, so since ever. */
export function heldBefore(status: unknown): Millis | null {
  const reasons = (conditionsOf(status) ?? []).map((condition) => condition?.['reason']);
  return reasons.some((reason) => typeof reason === 'string' && FOR_LEAVE.has(reason)) ? 0 : null;
}
