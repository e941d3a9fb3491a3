/** What the record learns from readings. Pure reducers; they replace every field they own (A2.5, A7.5). */
import { unreachable } from '../base/error.ts';
import type { Millis } from '../base/units.ts';
import { presentsItsCertificate } from './certificates.ts';
import type { OperationFacts } from './facts.ts';
import {
  configRowOf,
  doubterOf,
  initiated,
  isAboutToRestart,
  isHealthy,
  isOut,
  isUnanswered,
  type MemberView,
  primaryOf,
  replicaSetIds,
  runsItsSnapshot,
  views,
} from './interpret.ts';
import { holdsMembership, learnOperations } from './operations/index.ts';
import { learnRefusals } from './refusals.ts';
import { learnReplacements } from './replacements.ts';
import { goalOf } from './snapshotInputs.ts';
import {
  everyMember,
  forgetMembers,
  memberOf,
  pendingOf,
  plannedMember,
  plannedSet,
  withFailure,
  withMember,
  withoutPending,
  withoutRetry,
  withReplicaSet,
} from './state.ts';
import {
  componentOf,
  type Group,
  groupsOf,
  isBeingReplaced,
  isRouter,
  isSubstitute,
  placeOf,
  untouched,
  wantedMember,
} from './topology.ts';
import type { Desired, Goal, MemberState, Observed, PendingOperation, State } from './types.ts';
import { newestRunOf } from './versions.ts';

/**
 * What the record learns from a reading, before anything is planned: finished infrastructure operations, members that
 * became healthy, the set's identity, the phase. Pure; an unchanged world gives the same object back, so nothing is written.
 */
export function advance(state: State, desired: Desired, observed: Observed, now: Millis): State {
  let next = state;
  // One thing learnt leads to the next: a reading is used up before anything is planned on it, so that no plan is called
  // converged on half of what is known.
  for (let turn = 0; turn < LEARNING_TURNS; turn++) {
    const learnt = learn(next, desired, observed, now);
    if (learnt === next) break;
    next = learnt;
  }
  return next;
}

/** A member's longest way through its stages on one reading. */
const LEARNING_TURNS = 6;

function learn(state: State, desired: Desired, observed: Observed, now: Millis): State {
  let next = state;
  for (const pending of state.pending) next = learnOperation(next, pending, observed, now);
  next = learnSizes(next, desired);
  next = learnVanished(next, observed);
  next = learnMembers(next, desired, observed, now);
  next = learnReplicaSets(next, observed);
  next = learnReplacements(next, observed);
  next = learnGoal(next, desired, observed);
  next = learnPhase(next, desired, observed);
  next = learnOperations(next, desired, observed, now);
  next = learnRefusals(next, desired, observed);
  return learnGone(learnMembership(next, desired, observed), observed);
}

function learnOperation(state: State, pending: PendingOperation, observed: Observed, now: Millis): State {
  const facts: OperationFacts | undefined =
    observed.operations[pending.stepId] ??
    (pending.operationId === null ? undefined : observed.operations[pending.operationId]);
  if (facts === undefined || facts.kind === 'running') return state;
  if (facts.kind === 'succeeded') return operationSucceeded(state, pending, facts.result);
  // A4.6: the platform has no memory of it: look at the services again and do what is missing.
  if (facts.kind === 'unknown') return withoutPending(state, pending.member);
  const code = facts.kind === 'failed' ? facts.code : 'Cancelled';
  return withFailure(
    withoutPending(state, pending.member),
    pending.action,
    pending.member,
    code,
    facts.message,
    now,
  );
}

function operationSucceeded(
  state: State,
  pending: PendingOperation,
  result: Readonly<Record<string, string | number>>,
): State {
  const cleared = withoutRetry(withoutPending(state, pending.member), pending.action, pending.member);
  const text = (key: string): string | null => (result[key] === undefined ? null : String(result[key]));
  const leaves = memberOf(cleared, pending.member)?.stage === 'removing';
  switch (pending.action) {
    case 'import':
      return withMember(cleared, pending.member, {
        stage: leaves ? 'removing' : 'imported',
        serviceId: text('serviceId'),
        volumeId: text('volumeId'),
        host: text('host'),
        address: text('address'),
        port: result['port'] === undefined ? null : Number(result['port']),
        volumeBytes: result['volumeBytes'] === undefined ? null : Number(result['volumeBytes']),
      });
    case 'deploy':
      return withMember(cleared, pending.member, {
        stage: leaves ? 'removing' : 'deployed',
        deployedVersion: pending.version,
      });
    case 'upgrade':
      // A8.1: an accepted deployment is no proof that a process changed.
      return withMember(cleared, pending.member, {
        stage: leaves ? 'removing' : 'upgrading',
        deployedVersion: pending.version,
        unproven: true,
      });
    case 'deleteRuntime':
      return withMember(withoutRetry(cleared, 'deploy', pending.member), pending.member, {
        stage: leaves ? 'removing' : 'planned',
        serviceId: null,
        deployedVersion: null,
        activated: null,
        unanswered: [],
        // A member's port is its name in the set; before there is a set it may get another one.
        ...(isUnknownToSet(cleared, pending.member) ? { port: null } : {}),
      });
    case 'deleteVolume':
      return withoutRuns(
        withMember(cleared, pending.member, { volumeId: null, volumeBytes: null }),
        pending.member,
      );
    case 'growVolume':
      return withMember(cleared, pending.member, { volumeBytes: pending.volumeBytes ?? null });
    default:
      return unreachable(pending.action);
  }
}

/** What has run on a volume goes with it. */
function withoutRuns(state: State, name: string): State {
  const bare = ({ newestRun: _, ...member }: MemberState): MemberState => member;
  return { ...state, members: state.members.map((m) => (m.name === name ? bare(m) : m)) };
}

/**
 * A runtime that its connected host neither reports nor lists is gone, whoever took it (A4.6): it is made anew at its
 * place on its volume. Silence alone proves nothing.
 */
function learnVanished(state: State, observed: Observed): State {
  const { services } = observed;
  if (services === null) return state;
  let next = state;
  for (const { name, stage, host, serviceId } of state.members) {
    const seen = observed.members.find((m) => m.name === name);
    const listed = observed.hosts.some((h) => h.name === host && h.connected);
    if (
      serviceId === null ||
      pendingOf(state, name) !== null ||
      seen?.facts !== null ||
      !seen.connected ||
      !listed
    )
      continue;
    if (services.some((s) => s.kind === 'runtime' && s.id === serviceId)) continue;
    next = withMember(next, name, {
      stage: stage === 'removing' ? stage : 'planned',
      serviceId: null,
      deployedVersion: null,
      activated: null,
      unanswered: [],
      ...(isUnknownToSet(state, name) ? { port: null } : {}),
    });
  }
  return next;
}

/** A volume of which no size is known was made with the one that was wanted then: changes of it had no effect before. */
function learnSizes(state: State, desired: Desired): State {
  let next = state;
  for (const member of state.members) {
    const wanted = componentOf(desired, member.role)?.volumeBytes ?? null;
    const known = member.volumeBytes ?? null;
    if (member.volumeId === null || known !== null || wanted === null) continue;
    next = withMember(next, member.name, { volumeBytes: wanted });
  }
  return next;
}

function learnMembers(state: State, desired: Desired, observed: Observed, now: Millis): State {
  let next = state;
  const all = views(state, observed);
  for (const view of all) {
    const stage = view.member.stage;
    const ran = newestRunOf(view);
    if (ran !== null && ran !== view.member.newestRun)
      next = withMember(next, view.member.name, { newestRun: ran });
    if (stage === 'deployed' && runsItsSnapshot(view))
      next = withMember(next, view.member.name, {
        stage: 'healthy',
        ...(view.member.lostPorts === undefined ? {} : { lostPorts: [] }),
      });
    if (stage === 'healthy' && isRouter(view.member) && isHealthy(view, all))
      next = withMember(next, view.member.name, { stage: 'active' });
    const set = state.replicaSets.find((r) => r.name === view.member.replicaSet);
    if ((stage === 'healthy' || stage === 'syncing') && set?.stage === 'ready')
      next = learnJoining(next, desired, view, all, now);
    // Somebody took it out of the set, or a change of places was given up too late: it comes back like a new one.
    const settled = stage === 'active' || stage === 'reloading' || stage === 'upgrading';
    if (settled && set?.stage === 'ready' && wasLeftOut(state, view, all)) {
      next = withMember(next, view.member.name, { stage: 'healthy', caughtUpSince: null });
      continue;
    }
    if ((stage === 'reloading' || stage === 'upgrading') && isBack(view, all)) {
      // One on its way to another's place goes on with that; it may have been given its vote already.
      const onItsWay = isRouter(view.member) ? 'healthy' : 'syncing';
      const back = isSubstitute(state, view.member) ? onItsWay : 'active';
      next = withMember(next, view.member.name, { stage: back, unanswered: [], unproven: false });
    }
  }
  return next;
}

/** It says so itself, and the primary too: a reading from before it joined would show one of them only. */
const wasLeftOut = (state: State, view: MemberView, all: readonly MemberView[]): boolean =>
  (view.database?.state === 'REMOVED' || view.database?.initiated === false) &&
  isOut({ all, state }, view.member) &&
  !isBeingReplaced(state, view.member);

/**
 * A6.3: a member that is in the set's configuration without its vote is syncing; one that has what the spec gives it is
 * active. While it syncs, since when it has kept up is remembered.
 */
function learnJoining(
  state: State,
  desired: Desired,
  view: MemberView,
  all: readonly MemberView[],
  now: Millis,
): State {
  const row = configRowOf(view, all);
  const wanted = wantedMember(state, desired, view.member);
  if (row === null) return state;
  const { name, stage, caughtUpSince } = view.member;
  // One the spec has no place for any more was a full member; it leaves when the set runs.
  if (wanted === null || (row.votes === wanted.votes && !isSubstitute(state, view.member)))
    return withMember(state, name, { stage: 'active', caughtUpSince: null, voteSent: false });
  const since = isHealthy(view, all) ? (caughtUpSince ?? now) : null;
  // Its vote was seen: what was sent needs not be remembered.
  const sent = view.member.voteSent === true && row.votes === 1 ? { voteSent: false } : {};
  if (stage === 'syncing' && since === caughtUpSince && sent.voteSent === undefined) return state;
  return withMember(state, name, { stage: 'syncing', caughtUpSince: since, ...sent });
}

/**
 * A6.3, A6.4: too few members of a group get new ones with new indexes; too many are marked from the highest place down.
 * A new shard is a new set (A6.5).
 */
function learnMembership(state: State, desired: Desired, observed: Observed): State {
  if (desired.suspend && desired.deleting === null) return stayForNow(state, observed);
  if (desired.deleting !== null) return state;
  // A13.6: a change of scale waits for the end of a replacement.
  const replacing =
    state.operation?.work.kind === 'Replace' ||
    state.members.some((m) => m.replacement !== undefined && m.stage !== 'removing');
  if (replacing) return withMoreRouters(state, desired);
  return groupsOf(desired)
    .filter(({ name }) => !holdsMembership(state, desired, name))
    .reduce((next, group) => learnGroup(next, group, observed), learnTakenBack(state, desired));
}

/**
 * A config server that was replaced leaves when the routers know the new one, and the only router takes no new list before
 * there is another: more of them do not wait for the end of a replacement that may wait for them.
 */
function withMoreRouters(state: State, desired: Desired): State {
  const routers = groupsOf(desired).find(({ role }) => role === 'router');
  const own = state.members.filter((m) => m.replicaSet === routers?.name);
  if (routers === undefined || own.some((m) => isBeingReplaced(state, m) || m.replacement !== undefined))
    return state;
  const missing = routers.component.members.length - own.filter((m) => m.stage !== 'removing').length;
  return missing > 0 ? withNewMembers(state, routers, missing) : state;
}

/**
 * A6.5, A6.7: a shard that was taken back before anything of it was made is forgotten. What an import on its way still makes
 * of it is taken down first; nothing ever joined.
 */
function learnTakenBack(state: State, desired: Desired): State {
  const wanted = new Set(groupsOf(desired).map(({ name }) => name));
  const isGoing = (m: MemberState): boolean => m.stage === 'removing' || isUnmade(m);
  const backed = state.replicaSets
    .filter((set) => !wanted.has(set.name) && untouched(set) && !set.registered)
    .map(({ name }) => ({ name, members: everyMember(state).filter((m) => m.replicaSet === name) }))
    .filter(({ name, members }) => !holdsMembership(state, desired, name) && members.every(isGoing));
  const going = backed.flatMap(({ members }) => members.filter((m) => m.stage !== 'removing'));
  const gone = new Set(backed.filter(({ members }) => members.length === 0).map(({ name }) => name));
  const next = going.reduce((s, { name }) => withMember(s, name, { stage: 'removing' }), state);
  if (gone.size === 0) return next;
  return { ...next, replicaSets: next.replicaSets.filter(({ name }) => !gone.has(name)) };
}

/** It was never heard to be placed, and holds nothing from before: nobody needs what an import may have left of it (`learnGone`). */
const isUnmade = ({ stage, host, serviceId, volumeId }: MemberState): boolean =>
  stage === 'planned' && host === null && serviceId === null && volumeId === null;

/**
 * Who is to leave and has not left goes to sleep with the others: on the way back the set may need its vote, and only one
 * that runs can let it go.
 */
function stayForNow(state: State, observed: Observed): State {
  const all = views(state, observed);
  const stays = (m: MemberState): boolean =>
    m.stage === 'removing' && m.serviceId !== null && !isOut({ all, state }, m);
  if (!state.members.some(stays)) return state;
  // Its place is that of another who stays: it is the first to be one too many on the way back (A13.3).
  const isTaken = (m: MemberState): boolean =>
    state.members.some(
      (o) => o.stage !== 'removing' && o.replicaSet === m.replicaSet && placeOf(o) === placeOf(m),
    );
  const staying = ({ replacement: _, ...member }: MemberState): MemberState => ({
    ...member,
    ...(isTaken(member) ? { place: Number.MAX_SAFE_INTEGER } : {}),
    // What it is in its set, if anything, is seen when the set is.
    stage: member.activated !== null ? 'healthy' : member.deployedVersion !== null ? 'deployed' : 'imported',
  });
  return { ...state, members: state.members.map((m) => (stays(m) ? staying(m) : m)) };
}

function learnGroup(state: State, group: Group, observed: Observed): State {
  const staying = state.members.filter((m) => m.stage !== 'removing' && m.replicaSet === group.name);
  const missing = group.component.members.length - staying.length;
  if (missing > 0) return withNewMembers(state, group, missing);
  const set = state.replicaSets.find((r) => r.name === group.name);
  // After a suspension all members come back first: only a set that runs can let one go (A6.4, S4).
  // A suspension that was taken back half way leaves some without a runtime, and the phase as it was.
  const isThere = (m: MemberState): boolean =>
    m.activated !== null && pendingOf(state, m.name)?.action !== 'deleteRuntime';
  const runs = state.phase === 'running' && staying.every(isThere);
  if (!runs && set !== undefined && !untouched(set)) return withoutUnmade(state, staying, -missing);
  // S2: what was begun with a member is seen to its end first, or another one would be taken down beside it.
  const all = views(state, observed);
  const busy = new Set(
    all.filter((v) => isHealthy(v, all) && isAboutToRestart(v, state)).map((v) => v.member.name),
  );
  const surplus = new Set(
    [...staying]
      .sort((a, b) => placeOf(b) - placeOf(a))
      .slice(0, -missing || 0)
      .map((m) => m.name)
      .filter((name) => !busy.has(name)),
  );
  if (surplus.size === 0) return state;
  return {
    ...state,
    members: state.members.map((m) => (surplus.has(m.name) ? { ...m, stage: 'removing' as const } : m)),
  };
}

/**
 * A6.7: who was to come and is not wanted any more, before anything was sent for it, is not made first. One whose import is on its
 * way is made, and leaves like any other (S10).
 */
function withoutUnmade(state: State, staying: readonly MemberState[], surplus: number): State {
  const unmade = staying
    .filter((m) => isUnmade(m) && pendingOf(state, m.name) === null)
    .sort((a, b) => placeOf(b) - placeOf(a))
    .slice(0, surplus);
  return unmade.reduce((next, { name }) => withMember(next, name, { stage: 'removing' }), state);
}

function withNewMembers(state: State, group: Group, missing: number): State {
  const first = state.nextMemberIndex[group.name] ?? 0;
  const added = Array.from({ length: missing }, (_, i) => plannedMember(group, first + i));
  const set = state.replicaSets.some((r) => r.name === group.name) ? null : plannedSet(group);
  return {
    ...state,
    members: [...state.members, ...added],
    replicaSets: set === null ? state.replicaSets : [...state.replicaSets, set],
    nextMemberIndex: { ...state.nextMemberIndex, [group.name]: first + missing },
  };
}

/**
 * A removed member of which nothing is left is forgotten with everything kept about it. One that was never heard to be placed may
 * have been all the same: the answer of its import may be lost, and what lies on the platform with its marker is taken down.
 */
function learnGone(state: State, observed: Observed): State {
  const { services } = observed;
  const gone = everyMember(state).filter(
    (m) =>
      m.stage === 'removing' &&
      m.serviceId === null &&
      m.volumeId === null &&
      pendingOf(state, m.name) === null &&
      (m.host !== null || services !== null),
  );
  if (gone.length === 0) return state;
  const found = gone.flatMap((m) => {
    const ours = (services ?? []).filter(
      ({ owner }) => owner?.clusterUid === state.uid && owner.member === m.name,
    );
    return m.host !== null || ours.length === 0 ? [] : [{ name: m.name, ours }];
  });
  const left = new Set(found.map(({ name }) => name));
  const kept = found.reduce((next, { name, ours }) => {
    const runtime = ours.find(({ kind }) => kind === 'runtime');
    const volume = ours.find(({ kind }) => kind === 'volume');
    const host = runtime?.host ?? volume?.host ?? null;
    return withMember(next, name, { serviceId: runtime?.id ?? null, volumeId: volume?.id ?? null, host });
  }, state);
  const names = gone.map((m) => m.name).filter((name) => !left.has(name));
  return names.length === 0 ? kept : forgetMembers(kept, new Set(names));
}

/** A8.1, A9.4: it runs the binary and the snapshot it was given, has caught up, and its peers count on it. */
function isBack(view: MemberView, all: readonly MemberView[]): boolean {
  const members = all.filter((v) => v.member.replicaSet === view.member.replicaSet);
  if (doubterOf(view, members) !== null) return false;
  const binary =
    view.member.deployedVersion === null || view.database?.binaryVersion === view.member.deployedVersion;
  return (
    binary &&
    !isUnanswered(view.member) &&
    runsItsSnapshot(view) &&
    presentsItsCertificate(view) &&
    isHealthy(view, members)
  );
}

/** No set knows the member by its port yet, so it may come back with another one. */
function isUnknownToSet(state: State, member: string): boolean {
  const record = memberOf(state, member);
  const set = state.replicaSets.find((r) => r.name === record?.replicaSet);
  return set !== undefined && untouched(set);
}

/** The goal of this spec and phase; a new one gets a new version (A9.1). */
function learnGoal(state: State, desired: Desired, observed: Observed): State {
  const all = views(state, observed);
  const isDown = (v: MemberView): boolean =>
    v.facts !== null && (v.facts.process.kind === 'exited' || v.facts.configError !== null);
  const stuck = all.some((v) => v.member.stage === 'reloading' && isDown(v));
  // What a member was given is not yet what it runs with; others speak to it as soon as the set knows it.
  const settling = all.some(
    (v) => v.member.activated !== null && configRowOf(v, all) !== null && !runsItsSnapshot(v) && !isDown(v),
  );
  const goal = goalOf(state, desired, stuck, settling);
  if (state.goal?.hash === goal.hash && sameRoles(state.goal, goal)) return state;
  return {
    ...state,
    goal,
    configVersion: state.goal === null ? state.configVersion : state.configVersion + 1,
  };
}

const sameRoles = (a: Goal, b: Goal): boolean => JSON.stringify(a.roles) === JSON.stringify(b.roles);

function learnReplicaSets(state: State, observed: Observed): State {
  let next = state;
  const all = views(state, observed);
  for (const set of state.replicaSets) {
    const members = all.filter((v) => v.member.replicaSet === set.name);
    const ids = replicaSetIds(members, null);
    if (
      set.replicaSetId === null &&
      ids.length === 1 &&
      initiated(members) === true &&
      primaryOf(members) !== null
    ) {
      next = withReplicaSet(next, set.name, { replicaSetId: ids[0] as string });
    }
    const fcv = primaryOf(members)?.database?.featureCompatibilityVersion ?? null;
    if (fcv !== null && fcv !== set.fcv) next = withReplicaSet(next, set.name, { fcv });
    const listed = all.some((v) => v.database?.router?.shards?.some((s) => s.name === set.name) === true);
    if (!set.registered && set.role === 'shardServer' && listed)
      next = withReplicaSet(next, set.name, { registered: true });
  }
  return next;
}

function learnPhase(state: State, desired: Desired, observed: Observed): State {
  const running =
    state.replicaSets.every((r) => r.stage === 'ready' && (r.role !== 'shardServer' || r.registered)) &&
    state.members.every((m) => m.stage === 'active');
  const atRest = (m: MemberState): boolean => m.stage === 'planned' || m.stage === 'removing';
  // What is left of replaced members goes too, where it can be reached (A13.3).
  const left = (state.retired ?? []).some(
    (m) => m.serviceId !== null && observed.hosts.some((h) => h.name === m.host && h.connected),
  );
  const gone =
    state.members.every((m) => m.serviceId === null && atRest(m)) && state.pending.length === 0 && !left;
  const suspended = desired.suspend && gone;
  const phase =
    desired.deleting !== null
      ? 'deleting'
      : suspended
        ? 'suspended'
        : running
          ? 'running'
          : state.phase === 'deleting'
            ? 'creating'
            : state.phase;
  const settledPhase = phase === 'suspended' && !desired.suspend ? 'creating' : phase;
  return settledPhase === state.phase && suspended === state.suspended
    ? state
    : { ...state, phase: settledPhase, suspended };
}
