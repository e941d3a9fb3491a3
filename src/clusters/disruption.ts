/** Which steps take something down, and what: the question to the maintenance authority (C3.2, S2, S13). */

import type { Step } from './decisions.ts';
import { configOf, hasEnded, views } from './interpret.ts';
import { pendingOf } from './state.ts';
import { memberHost } from './topology.ts';
import type { Desired, HandOverRequest, Observed, State } from './types.ts';

export interface Disruption {
  readonly member: string;
  /** For people: what is done to it. */
  readonly why: string;
  /** `force` where a person asked for an outage in so many words; locks of others count even then. */
  readonly mode: HandOverRequest['mode'];
  /** How urgent it is; absent: as urgent as the control plane's own work is. */
  readonly priority?: number;
}

/** Members that this step takes out of service, or makes ready for it; empty: nobody notices it. */
export function disruptionsOf(
  step: Step,
  state: State,
  observed: Observed,
  desired: Desired,
): readonly Disruption[] {
  switch (step.kind) {
    case 'reload':
      return [strong(step.member, `restart with configuration ${step.configVersion}`)];
    case 'upgrade':
      return [strong(step.member, `restart with ${step.version}`)];
    case 'stepDown':
      return changesPlaces(step.replicaSet, state, observed) ? [] : [handingOver(step.member, observed)];
    case 'reconfig':
      return leaving(step, state, observed).map((member) => strong(member, 'leaves the set'));
    case 'stopBalancer':
      // It does not rest while what it rests for waits for somebody else's lock.
      return step.before === undefined ? [] : disruptionsOf(step.before, state, observed, desired);
    case 'deleteRuntime':
      if (isLeavingRouter(step.member, state, desired)) return [strong(step.member, 'leaves')];
      return goesToSleep(step.member, state, desired) ? sleepers(state, desired) : [];
    default:
      return [];
  }
}

const strong = (member: string, why: string): Disruption => ({ member, why, mode: 'strong' });

/** For a person's task it is as urgent as that task, or it would wait for the task that waits for it. */
function handingOver(member: string, { handOvers = [] }: Observed): Disruption {
  const asked = handOvers.find((request) => request.member === member);
  if (asked === undefined) return strong(member, 'hands over; writes pause for an election');
  const { task, owner, mode, priority } = asked;
  // Whoever forces an outage still has no reason to hand over to a set that could not elect anybody.
  const asks = mode === 'force' ? 'weak' : mode;
  return { member, why: `hands over for task ${task} of ${owner}`, mode: asks, priority };
}

/**
 * A set of two voters can spare nobody, and yet one has to go where the only member is being replaced (A13.3) or a set
 * shrinks to one (A6.4). Nothing goes down: the old one serves until the other does, and leaves by a configuration that
 * both accept.
 */
function changesPlaces(set: string, state: State, observed: Observed): boolean {
  const members = views(state, observed).filter((v) => v.member.replicaSet === set);
  const voters = configOf(members)?.members.filter((row) => row.votes === 1) ?? [];
  const leaves = (v: (typeof members)[number]): boolean =>
    v.member.replacement !== undefined || v.member.stage === 'removing';
  return voters.length <= 2 && members.some(leaves);
}

/** A deletion asks nobody: there is nothing left to be kept available. One that left its set serves nobody any more. */
function goesToSleep(member: string, state: State, desired: Desired): boolean {
  return sleepers(state, desired).some((sleeper) => sleeper.member === member);
}

/**
 * Nobody is stopped before all may be: a cluster that stood still half way, because one of its hosts is somebody else's for
 * an hour, would be neither here nor there.
 */
function sleepers(state: State, desired: Desired): readonly Disruption[] {
  if (desired.deleting !== null || !desired.suspend) return [];
  return state.members
    .filter((m) => m.stage !== 'removing' && m.activated !== null)
    .map(({ name }) => ({ member: name, why: 'is suspended', mode: 'force' }));
}

/** C2.5: no configuration says that a router leaves; it serves until its runtime goes. */
function isLeavingRouter(member: string, state: State, desired: Desired): boolean {
  if (desired.deleting !== null || desired.suspend) return false;
  // One whose place another has taken is no part of the cluster any more.
  const record = state.members.find((m) => m.name === member);
  return record?.role === 'router' && record.stage === 'removing' && record.activated !== null;
}

/** Voting members that are in the set's configuration and not in the new one. One that does not run serves nobody (STK-05). */
function leaving(
  step: Extract<Step, { readonly kind: 'reconfig' }>,
  state: State,
  observed: Observed,
): readonly string[] {
  if (changesPlaces(step.replicaSet, state, observed)) return [];
  const members = views(state, observed).filter((v) => v.member.replicaSet === step.replicaSet);
  const stay = new Set(step.config.members.map((row) => row.host));
  const gone = new Set(
    (configOf(members)?.members ?? [])
      .filter((row) => row.votes === 1 && !stay.has(row.host))
      .map((r) => r.host),
  );
  return members
    .filter((v) => v.member.serviceId !== null && !hasEnded(v) && gone.has(memberHost(v.member) ?? ''))
    .map((v) => v.member.name);
}

/**
 * Members that are down or coming back because of a step of ours: their grants are kept until they are back. Those of a
 * suspension are kept until it is done.
 */
export function underWay(state: State, desired: Desired): readonly string[] {
  const changed = state.members
    .filter(
      (m) =>
        m.stage === 'reloading' || m.stage === 'upgrading' || pendingOf(state, m.name)?.action === 'upgrade',
    )
    .map((m) => m.name);
  const stopping = state.pending.some((p) => p.action === 'deleteRuntime');
  return stopping ? [...changed, ...sleepers(state, desired).map(({ member }) => member)] : changed;
}
