/**
 * The last word before an effect, on a fresh reading, with the planner's own predicates. One file holds every "may I?".
 * Unknown never agrees.
 */
import type { Millis } from '../base/units.ts';
import { hasExpired } from './certificates.ts';
import type { Step } from './decisions.ts';
import type { ConfigMember } from './facts.ts';
import {
  configOf,
  doubterOf,
  initiated,
  isBehind,
  isHealthy,
  isNewcomer,
  isOut,
  type MemberView,
  mayLeadByNow,
  primaryOf,
  replicaSetIds,
  runsItsSnapshot,
  stateOf,
  takesOver,
  views,
} from './interpret.ts';
import { MAX_VOTERS } from './limits.ts';
import { notOfSeries } from './planners/fcv.ts';
import { lostItsPort } from './planners/infrastructure.ts';
import { healthyMajorities } from './planners/membership.ts';
import { lostQuorum } from './planners/quorum.ts';
import { heirOf, isDown } from './planners/rollout.ts';
import { isIndispensable, leadsAlone, unwellBeside, votesWithout } from './planners/sparing.ts';
import { goalHash, restartToken } from './snapshotInputs.ts';
import { everyMember, losesItsRuntime, memberOf, pendingOf } from './state.ts';
import { memberHost, untouched } from './topology.ts';
import type { Desired, Observed, State } from './types.ts';
import { majorStep, newestRunOf } from './versions.ts';

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
    | 'NotPlaced'
    | 'WouldInterrupt'
    | 'WouldLoseMajority'
    | 'NotSecondary'
    | 'NoHeir'
    | 'RouterNotReady'
    | 'BalancerRuns'
    | 'VersionsDiffer'
    | 'VotesChanged'
    | 'NotAcknowledged';
  readonly detail: string;
}

const no = (reason: Refusal['reason'], detail: string): Refusal => ({ reason, detail });

/** Null: go ahead. `stepId`: the step's own pending record does not stand in its way. */
export function guard(
  step: Step,
  fresh: Observed,
  desired: Desired,
  state: State,
  now: Millis,
  stepId?: string,
): Refusal | null {
  if (desired.paused && desired.deleting === null)
    return no('Paused', 'the cluster was paused meanwhile (S11)');
  switch (step.kind) {
    case 'ensureCredentials':
      return null;
    case 'adopt':
      return guardAdopt(step, fresh, state);
    case 'import':
    case 'growVolume':
      return guardInfrastructure(step.member, desired, state, stepId);
    case 'deploy':
      return (
        guardInfrastructure(step.member, desired, state, stepId) ??
        guardVersion(step.member, step.version, fresh, state)
      );
    case 'reload':
      return guardDisruption(step.member, fresh, desired, state, stepId);
    case 'upgrade':
      return (
        guardDisruption(step.member, fresh, desired, state, stepId) ??
        guardVersion(step.member, step.version, fresh, state)
      );
    case 'stageLogins':
    case 'keepLogins':
      return null;
    case 'giveLogins':
      return guardInfrastructure(step.member, desired, state, stepId) ?? guardNothingElse(step.member, state);
    case 'rotateUsers':
      return guardPrimary(step.via, fresh, state);
    case 'rotateCertificate':
      return guardRotation(step.member, fresh, desired, state, { stepId, now });
    case 'setFcv':
      return guardFcv(step, fresh, desired, state);
    case 'setSuspend':
      return desired.deleting === null ? null : no('Stale', 'deletion was asked for meanwhile');
    case 'stepDown':
      return guardStepDown(step.member, fresh, state);
    case 'publish':
      return (
        guardInfrastructure(step.member, desired, state, stepId) ?? guardPublish(step.member, fresh, state)
      );
    case 'initiate':
      return guardInitiate(step, fresh, state);
    case 'createFirstUser':
    case 'reconcileSystemUsers':
      return guardPrimary(step.via, fresh, state);
    case 'applyUser':
    case 'dropUser':
      return desired.sharded === null
        ? guardPrimary(step.via, fresh, state)
        : guardRouter(step.via, fresh, state);
    case 'addShard':
      return guardRouter(step.via, fresh, state);
    case 'stopBalancer':
    case 'startBalancer':
    case 'switchBalancer':
      return guardRouter(step.via, fresh, state);
    case 'reconfig':
      return guardReconfig(step, fresh, state);
    case 'deleteRuntime':
      if (hasLeft(step.member, fresh, state) || mayMove(step.member, fresh, desired, state)) return null;
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

/**
 * A remembered list may still name a runtime whose removal has just been seen to end; taken over, it would be deployed
 * to for ever. Only one that is there now, with our marker, is taken.
 */
function guardAdopt(
  step: Extract<Step, { readonly kind: 'adopt' }>,
  fresh: Observed,
  state: State,
): Refusal | null {
  const { member, serviceId } = step;
  if (fresh.services === null) return no('Stale', 'the platform has not listed its services');
  const listed = fresh.services.find((s) => s.kind === 'runtime' && s.id === serviceId);
  if (listed === undefined) return no('Stale', `service ${serviceId} of ${member} is gone`);
  const ours = listed.owner?.clusterUid === state.uid && listed.owner.member === member;
  return ours ? null : no('NotOwned', `service ${serviceId} does not carry our marker`);
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

/** S7: no data is opened by an older major than has run on it, as far as anybody knows by now. */
function guardVersion(member: string, version: string, fresh: Observed, state: State): Refusal | null {
  const view = views(state, fresh).find((v) => v.member.name === member);
  const newest = view === undefined ? null : newestRunOf(view);
  return newest !== null && majorStep(newest, version) === 'down'
    ? no('VersionsDiffer', `${newest} has run on the data of ${member}`)
    : null;
}

/** A member that was marked for removal and is out of the set's configuration on this reading (A6.4, S4). */
function hasLeft(member: string, fresh: Observed, state: State): boolean {
  const record = memberOf(state, member);
  return record?.stage === 'removing' && isOut({ all: views(state, fresh), state }, record);
}

/** A member nobody knows yet whose port somebody else has: it is made anew elsewhere on its host. */
function mayMove(member: string, fresh: Observed, desired: Desired, state: State): boolean {
  const all = views(state, fresh);
  const view = all.find((v) => v.member.name === member);
  return view !== undefined && lostItsPort(view, all, state, desired);
}

/** S5: built on the configuration of now, at most one vote changed, majorities on both sides, not forced. */
function guardReconfig(
  step: Extract<Step, { kind: 'reconfig' }>,
  fresh: Observed,
  state: State,
): Refusal | null {
  if (step.forcedBy !== undefined) return guardForced(step, step.forcedBy, fresh, state);
  const moved = guardPrimary(step.via, fresh, state);
  if (moved !== null) return moved;
  const members = views(state, fresh).filter((v) => v.member.replicaSet === step.replicaSet);
  const config = configOf(members);
  if (
    config === null ||
    config.version + 1 !== step.config.version ||
    isOlder(step.replicaSet, state, members)
  )
    return no('Stale', 'the set has another configuration by now');
  if (changedVotes(config.members, step.config.members) > 1)
    return no('VotesChanged', 'more than one vote would change at once (S5)');
  if (step.config.members.filter((r) => r.votes === 1).length > MAX_VOTERS)
    return no('VotesChanged', `a set has at most ${MAX_VOTERS} voters (A13.3)`);
  const primary = primaryOf(members);
  if (primary !== null && !step.config.members.some((r) => r.host === memberHost(primary.member)))
    return no('NotSecondary', `${primary.member.name} is primary: it hands over first (S3)`);
  const safe = healthyMajorities(state, members, config.members, step.config.members);
  return safe ? null : no('WouldLoseMajority', 'no healthy majority before or after the change');
}

/** S5: the acknowledged operation runs, the loss is still plain on this reading, and nobody but the lost ones goes. */
function guardForced(
  step: Extract<Step, { kind: 'reconfig' }>,
  operation: string,
  fresh: Observed,
  state: State,
): Refusal | null {
  const { work, uid } = state.operation ?? {};
  if (uid !== operation || work?.kind !== 'ForceReconfig')
    return no('NotAcknowledged', 'nobody asked for a forced reconfiguration any more');
  const members = views(state, fresh).filter((v) => v.member.replicaSet === step.replicaSet);
  const lost = lostQuorum(members);
  if (lost === null) return no('NotAcknowledged', 'the set is not known to be without a majority any more');
  const via = members.find((v) => v.member.name === step.via)?.database?.config ?? null;
  if (via === null || via.version + 1 !== step.config.version)
    return no('Stale', `${step.via} has another configuration by now`);
  const kept = new Set(step.config.members.map((row) => row.host));
  const dropped = lost.up.find((v) => !kept.has(memberHost(v.member) ?? ''));
  return dropped === undefined
    ? null
    : no('NotAcknowledged', `${dropped.member.name} has come back meanwhile`);
}

/** Voters added, removed or changed, by host. */
function changedVotes(before: readonly ConfigMember[], after: readonly ConfigMember[]): number {
  const voters = (rows: readonly ConfigMember[]): readonly string[] =>
    rows.filter((r) => r.votes === 1).map((r) => r.host);
  const [old, next] = [voters(before), voters(after)];
  return old.filter((h) => !next.includes(h)).length + next.filter((h) => !old.includes(h)).length;
}

/** S1, S2: a changed snapshot restarts its member; it goes directly only to one that does not count in a set yet. */
function guardPublish(member: string, fresh: Observed, state: State): Refusal | null {
  const all = views(state, fresh);
  const view = all.find((v) => v.member.name === member);
  if (!view?.member.serviceId) return no('NotPlaced', `${member} has no service`);
  if (view.member.activated === null || view.member.role === 'router') return null;
  const set = state.replicaSets.find((r) => r.name === view.member.replicaSet);
  const counts = set !== undefined && !untouched(set) && !isNewcomer(view, all);
  return counts ? no('OperationPending', `${member} may vote by now: it is changed like the others`) : null;
}

/** Another that is down or coming back because of us (S2). */
const underWayBeside = (view: MemberView, all: readonly MemberView[], state: State): MemberView | undefined =>
  all.find(
    (v) =>
      v !== view &&
      (v.member.stage === 'reloading' ||
        v.member.stage === 'upgrading' ||
        losesItsRuntime(state, v.member) ||
        takesOver(v, all)),
  );

const isOlder = (set: string, { replicaSets }: State, members: readonly MemberView[]): boolean =>
  replicaSets.some((r) => r.name === set && isBehind(r, members));

/** S1, S2: one member at a time, a healthy majority without it. A member that is down already takes nobody along. */
function guardDisruption(
  member: string,
  fresh: Observed,
  desired: Desired,
  state: State,
  stepId: string | undefined,
): Refusal | null {
  const stopped = guardInfrastructure(member, desired, state, stepId);
  if (stopped !== null) return stopped;
  const all = views(state, fresh);
  const view = all.find((v) => v.member.name === member);
  if (view === undefined) return no('NotPlaced', `there is no member ${member}`);
  const members = all.filter((v) => v.member.replicaSet === view.member.replicaSet);
  const other = underWayBeside(view, all, state);
  if (other !== undefined) return no('OperationPending', `${other.member.name} is under way (S2)`);
  if (isOlder(view.member.replicaSet, state, members))
    return no('Stale', 'the set has another configuration by now');
  if (view.facts === null) return no('Stale', `nothing is known of ${member}`);
  if (view.member.stage === 'active' && mayLeadByNow(view, members))
    return no('NotSecondary', `nobody is known to be primary, so ${member} may be by now (S3)`);
  // A8.3: nothing of a set is worked on while chunks move, except what is down already.
  const isOfSet = desired.sharded !== null && view.member.role !== 'router';
  if (isOfSet && !isDown(view) && state.balancer?.confirmed !== true)
    return no('BalancerRuns', 'the balancer was not stopped yet');
  if (!isHealthy(view, members)) {
    // One that is handing over takes no writes for a while and may lead on after all.
    if (stateOf(view) === 'PRIMARY' && members.length > 1 && !leadsAlone(view, members))
      return no('NotSecondary', `${member} is primary: it hands over first (S3)`);
    // One that runs may be well by now, or the vote that brings a majority back: it is not taken down while there is none
    // without it.
    const { left, needed, voters } = votesWithout(view, members);
    if (!isDown(view) && !isIndispensable(view, members) && left < needed)
      return no('WouldLoseMajority', `healthy voters ${left} of ${voters}, majority ${needed}`);
    return null;
  }
  if (isIndispensable(view, members)) return guardInterruption(view, members, desired);
  if (view.database?.writablePrimary)
    return no('NotSecondary', `${member} is primary: it hands over first (S3)`);
  const { left, needed, healthyVoters, voters } = votesWithout(view, members);
  // One that its own set does not count on yet is not there for the others either (ROL-07).
  const doubted = members.filter(
    (v) => v !== view && isHealthy(v, members) && doubterOf(v, members) !== null,
  ).length;
  if (left - doubted < needed)
    return no(
      'WouldLoseMajority',
      `healthy voters ${healthyVoters - doubted} of ${voters}, majority ${needed}`,
    );
  return null;
}

/** S1: without it the set stands still, however well the others are; only the spec may say that it may. */
function guardInterruption(
  view: MemberView,
  members: readonly MemberView[],
  desired: Desired,
): Refusal | null {
  const { name } = view.member;
  if (!desired.interruption) return no('WouldInterrupt', `the set takes no writes without ${name}`);
  const sick = unwellBeside(view, members)[0];
  if (sick !== undefined) return no('WouldLoseMajority', `${sick.member.name} is not well`);
  const handsOver = members.length > 1 && view.database?.writablePrimary && !leadsAlone(view, members);
  return handsOver ? no('NotSecondary', `${name} is primary: it hands over first (S3)`) : null;
}

/** CRD-11, S1: nothing but secrets may be new in what it is given, so that no process restarts for them. */
function guardNothingElse(member: string, state: State): Refusal | null {
  const record = memberOf(state, member);
  if (record === null || record.activated === null || record.serviceId === null)
    return no('NotPlaced', `${member} has no service`);
  const { activated } = record;
  const same = state.goal === null || activated.configHash === goalHash(state.goal, record.role);
  return same && activated.restartToken === restartToken(state, record)
    ? null
    : no('OperationPending', `${member} gets another change first`);
}

/** A9.4: a running process, nobody else under way, and healthy peers unless it is refused by them anyway. */
function guardRotation(
  member: string,
  fresh: Observed,
  desired: Desired,
  state: State,
  { stepId, now }: { readonly stepId: string | undefined; readonly now: Millis },
): Refusal | null {
  const stopped = guardInfrastructure(member, desired, state, stepId) ?? guardNothingElse(member, state);
  if (stopped !== null) return stopped;
  const all = views(state, fresh);
  const view = all.find((v) => v.member.name === member);
  if (view?.facts?.process.kind !== 'running') return no('MemberNotReady', `${member} does not run`);
  const other = underWayBeside(view, all, state);
  if (other !== undefined) return no('OperationPending', `${other.member.name} is under way (S2)`);
  const members = all.filter((v) => v.member.replicaSet === view.member.replicaSet);
  if (members.length === 1 || hasExpired(view.member, now)) return null;
  const sick = members.find((v) => v !== view && !isHealthy(v, members));
  return sick === undefined ? null : no('WouldLoseMajority', `${sick.member.name} is not healthy`);
}

/** S7, A8.5: asked for, and every binary of that series; what is not known is not. */
function guardFcv(
  step: Extract<Step, { kind: 'setFcv' }>,
  fresh: Observed,
  desired: Desired,
  state: State,
): Refusal | null {
  const work = state.operation?.work;
  if (work?.kind !== 'RaiseFCV' || work.version !== step.version)
    return no('Stale', 'no operation asks for it any more');
  const differs = notOfSeries(views(state, fresh), step.version);
  if (differs !== null) return no('VersionsDiffer', differs);
  return desired.sharded === null
    ? guardPrimary(step.via, fresh, state)
    : guardRouter(step.via, fresh, state);
}

/** S3: to a caught-up electable member only. */
function guardStepDown(member: string, fresh: Observed, state: State): Refusal | null {
  const all = views(state, fresh);
  const view = all.find((v) => v.member.name === member);
  if (view === undefined || !view.database?.writablePrimary)
    return no('NotPrimary', `${member} is not the primary any more`);
  const members = all.filter((v) => v.member.replicaSet === view.member.replicaSet);
  return heirOf(view, members) === null
    ? no('NoHeir', `no caught-up electable member could take over from ${member}`)
    : null;
}

/** S6: once, and only when every member of the set says that it belongs to none and holds no users. */
function guardInitiate(
  { replicaSet: set, via }: Extract<Step, { readonly kind: 'initiate' }>,
  fresh: Observed,
  state: State,
): Refusal | null {
  // Surplus members that never joined are none of this set (A6.7).
  const members = views(state, fresh).filter(
    (v) => v.member.replicaSet === set && v.member.stage !== 'removing',
  );
  const record = state.replicaSets.find((r) => r.name === set);
  if (record === undefined || record.stage !== 'bootstrap' || record.replicaSetId !== null)
    return no('AlreadyInitiated', `${set} was initiated before`);
  const before = record.initiatedVia ?? via;
  if (before !== via)
    return no('AlreadyInitiated', `${before} was asked before, and may be about to form ${set}`);
  if (!members.every(runsItsSnapshot)) return no('MemberNotReady', `not every member of ${set} is up`);
  const busy = members.find((v) => pendingOf(state, v.member.name) !== null);
  if (busy !== undefined) return no('OperationPending', `the platform works on ${busy.member.name}`);
  if (initiated(members) !== false)
    return no('AlreadyInitiated', `a member of ${set} belongs to a set already`);
  if (members.some((v) => v.database?.usersExist === true))
    return no('AlreadyInitiated', `a member of ${set} holds data`);
  return null;
}

function guardRouter(via: string, fresh: Observed, state: State): Refusal | null {
  const all = views(state, fresh);
  const router = all.find((v) => v.member.name === via && v.member.role === 'router');
  return router !== undefined && isHealthy(router, all)
    ? null
    : no('RouterNotReady', `router ${via} does not reach the config servers`);
}

function guardPrimary(via: string, fresh: Observed, state: State): Refusal | null {
  const set = memberOf(state, via)?.replicaSet;
  const members = views(state, fresh).filter((v) => v.member.replicaSet === set);
  if (replicaSetIds(members, null).length > 1)
    return no('NotOwned', 'members of two different sets are seen (INI-06)');
  return primaryOf(members)?.member.name === via
    ? null
    : no('NotPrimary', `${via} is not the primary any more`);
}

/** S4: asked for, out of service, ours by marker. The agent or platform checks the marker once more on the volume itself. */
function guardDeleteVolume(member: string, fresh: Observed, desired: Desired, state: State): Refusal | null {
  if ((desired.deleting === null || desired.deleting.keepVolumes) && !hasLeft(member, fresh, state))
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
  return everyMember(state).some((m) => m.serviceId !== null) ? no('NotDeleting', 'runtimes are left') : null;
}
