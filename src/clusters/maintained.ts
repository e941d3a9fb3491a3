/** Members that a person's maintenance task holds (C6.4): how that is found, and what is said of it, alike everywhere. */
import { formatMoment } from '../base/units.ts';
import type { Decision } from './decisions.ts';
import type { InMaintenance, Observed } from './types.ts';

/** Whose task holds a member now; null: nobody's. */
export const holderOf = ({ maintenance = [] }: Observed, member: string): InMaintenance | null =>
  maintenance.find((held) => held.member === member) ?? null;

/** `task m-1 of eve until 2026-01-01T00:00:00Z` */
export const taskText = ({ task, owner, until }: Omit<InMaintenance, 'member'>): string =>
  `task ${task} of ${owner}${until === null ? '' : ` until ${formatMoment(until)}`}`;

/** What is said of a member that is not well meanwhile. */
export const maintenanceText = (held: InMaintenance): string => `is in maintenance: ${taskText(held)}`;

/**
 * Whoever works on a machine reboots it, and its agent with it: that nobody reports the member is waited for as what it is, and is
 * the agent's fault only when the lock has ended.
 */
export function asMaintenance(observed: Observed, decision: Decision): Decision {
  if (decision.kind !== 'wait' || decision.on !== 'AgentNotConnected' || decision.member === undefined)
    return decision;
  const holder = holderOf(observed, decision.member);
  if (holder === null) return decision;
  return { ...decision, on: 'InMaintenance', detail: `${decision.member} ${maintenanceText(holder)}` };
}
