/**
 * The last word before an effect, on a fresh reading, with the planner's own predicates. One file holds every "may I?".
 * Unknown never agrees.
 */
import type { Millis } from '../base/units.ts';
import { initiated, primaryOf, replicaSetIds, runsItsSnapshot, views } from './interpret.ts';
import { memberOf, pendingOf } from './state.ts';
import type { Desired, Observed, State, Step } from './types.ts';

/** Why a step may not be done now. Nothing is lost: the next pass plans again. */
export interface Refusal {
  readonly reason:
    | 'Paused'
    | 'Stale'
    | 'AlreadyInitiated'
    | 'NotPrimary'
    | 'MemberNotReady'
    | 'OperationPending'
    | 'NotOwned'
    | 'NotDeleting'
    | 'NotPlaced';
  readonly detail: string;
}

const no = (reason: Refusal['reason'], detail: string): Refusal => ({ reason, detail });

/** Null: go ahead. `stepId`: the step's own pending record does not stand in its way. */
export function guard(
  step: Step,
  fresh: Observed,
  desired: Desired,
  state: State,
  _now: Millis,
  stepId?: string,
): Refusal | null {
  if (desired.paused && desired.deleting === null)
    return no('Paused', 'the cluster was paused meanwhile (S11)');
  switch (step.kind) {
    case 'ensureCredentials':
    case 'adopt':
      return null;
    case 'import':
    case 'deploy':
      return guardInfrastructure(step.member, desired, state, stepId);
    case 'publish':
      return memberOf(state, step.member)?.serviceId
        ? null
        : no('NotPlaced', `${step.member} has no service`);
    case 'initiate':
      return guardInitiate(step.replicaSet, fresh, state);
    case 'createFirstUser':
    case 'reconcileSystemUsers':
      return guardPrimary(step.via, fresh, state);
    case 'applyUser':
    case 'dropUser':
      return guardPrimary(step.via, fresh, state);
    case 'deleteRuntime':
      return desired.deleting !== null || desired.suspend
        ? null
        : no('NotDeleting', 'neither deletion nor suspension is asked for any more');
    case 'deleteVolume':
      return guardDeleteVolume(step.member, fresh, desired, state);
    case 'deleteSecrets':
    case 'forget':
      return guardForget(desired, state);
    default:
      return no('Stale', 'unknown step');
  }
}

function guardInfrastructure(
  member: string,
  desired: Desired,
  state: State,
  stepId: string | undefined,
): Refusal | null {
  if (desired.deleting !== null || desired.suspend)
    return no('Stale', 'deletion or suspension was asked for meanwhile');
  const pending = pendingOf(state, member);
  return pending !== null && pending.stepId !== stepId
    ? no('OperationPending', `${pending.action} of ${member} is under way`)
    : null;
}

/** S6: once, and only when every member of the set says that it belongs to none and holds no users. */
function guardInitiate(set: string, fresh: Observed, state: State): Refusal | null {
  const members = views(state, fresh).filter((v) => v.member.replicaSet === set);
  const record = state.replicaSets.find((r) => r.name === set);
  if (record === undefined || record.stage !== 'bootstrap' || record.replicaSetId !== null)
    return no('AlreadyInitiated', `${set} was initiated before`);
  if (!members.every(runsItsSnapshot)) return no('MemberNotReady', `not every member of ${set} is up`);
  if (initiated(members) !== false)
    return no('AlreadyInitiated', `a member of ${set} belongs to a set already`);
  if (members.some((v) => v.database?.usersExist === true))
    return no('AlreadyInitiated', `a member of ${set} holds data`);
  return null;
}

function guardPrimary(via: string, fresh: Observed, state: State): Refusal | null {
  const all = views(state, fresh);
  if (replicaSetIds(all, null).length > 1)
    return no('NotOwned', 'members of two different sets are seen (INI-06)');
  return primaryOf(all)?.member.name === via ? null : no('NotPrimary', `${via} is not the primary any more`);
}

/** S4: asked for, out of service, ours by marker. The agent or platform checks the marker once more on the volume itself. */
function guardDeleteVolume(member: string, fresh: Observed, desired: Desired, state: State): Refusal | null {
  if (desired.deleting === null || desired.deleting.keepVolumes)
    return no('NotDeleting', 'deletion of volumes was not asked for');
  const record = memberOf(state, member);
  if (record === null || record.serviceId !== null) return no('NotOwned', `${member} still has a runtime`);
  const listed = fresh.services?.find((s) => s.kind === 'volume' && s.id === record.volumeId);
  if (fresh.services === null) return no('Stale', 'the platform has not listed its services');
  if (listed === undefined) return null; // gone already: deleting it again is a no-op
  const ours = listed.owner?.clusterUid === state.uid && listed.owner.member === member;
  return ours ? null : no('NotOwned', `volume ${listed.id} does not carry our marker`);
}

function guardForget(desired: Desired, state: State): Refusal | null {
  if (desired.deleting === null) return no('NotDeleting', 'deletion is not asked for');
  return state.members.some((m) => m.serviceId !== null) ? no('NotDeleting', 'runtimes are left') : null;
}
