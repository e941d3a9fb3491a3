import { formatDuration } from '../../base/units.ts';
import { seriesOf } from '../../model/index.ts';
import {
  certificateNeed,
  hasExpired,
  nextVersion,
  presentsItsCertificate,
  takesOnline,
} from '../certificates.ts';
import type { Decision, Reason, Step } from '../decisions.ts';
import {
  doubterOf,
  isBehind,
  isHealthy,
  isNewcomer,
  isOut,
  isStopping,
  isUnanswered,
  lagOf,
  type MemberView,
  mayLeadByNow,
  primaryOf,
  runsItsSnapshot,
  stateOf,
  takesOver,
} from '../interpret.ts';
import { LAG_LIMIT } from '../limits.ts';
import { goalHash, restartToken } from '../snapshotInputs.ts';
import { losesItsRuntime, pendingOf, retryOf } from '../state.ts';
import { type Group, groupsOf, isBeingReplaced, isRouter, memberHost } from '../topology.ts';
import type { MemberState, State } from '../types.ts';
import { majorStep, newestRunOf, tellsItsRuns } from '../versions.ts';
import { closedWindow } from '../windows.ts';
import { clientsMiss } from './clients.ts';
import { clusterFcv } from './fcv.ts';
import {
  act,
  backingOff,
  behind,
  blocked,
  helpNeeded,
  type Planner,
  type Scene,
  soon,
  verdict,
  wait,
} from './planner.ts';
import { isIndispensable, lacking, leadsAlone, mayGoDown, unwellBeside, withoutHeir } from './sparing.ts';

/*
 * The roller: brings running members to a new configuration, TLS mode or binary, one at a time.
 *
 *   1. A member under way comes before anything else: until it was seen to run what it was given and to have caught up,
 *      no other member is touched (S2). A newer goal may be given to that same member (A9.2, STK-04).
 *   2. A member that is down already is next: working on it costs nothing, and it may be the cure (STK-07). So is a router
 *      that runs and answers nothing, as one does that looks for config servers where none are any more.
 *   3. Then secondaries, highest index first, each only while all others are healthy and a majority stays (S1).
 *   4. The primary last. It steps down to a caught-up electable member in a step of its own (S3, A7.3) and is then a
 *      secondary like the others.
 *
 * It stops at the first member that does not come back, by rule 1: a spec that cannot work takes one member down.
 */

/** What a member still needs. */
type Need = 'upgrade' | 'reload' | 'certificate' | null;

export const planRollout: Planner = (scene) => {
  if (scene.desired.deleting !== null || scene.desired.suspend) return null;
  const groups = groupsOf(scene.desired).filter((g) => isSetUp(scene, g));
  // One member at a time in the whole cluster, and in the order of A8.2: a group begins when those before it are done.
  const busy = groups.find((g) =>
    scene.state.members.some((m) => m.replicaSet === g.name && isUnderWay(scene, m)),
  );
  if (busy !== undefined) return verdict(roll(scene, busy), false);
  const dead = scene.all.find((v) => lacksItsCure(scene, v));
  for (const group of groups) {
    const decisions = roll(scene, group);
    const later = decisions.length === 0 ? placeBeingTaken(scene, group) : null;
    if (decisions.length === 0 && later === null) continue;
    const first = dead !== undefined && dead.member.replicaSet !== group.name ? dead : null;
    return verdict(first === null ? [...decisions, later] : [give(scene, first, 'reload')], false);
  }
  return null;
};

/**
 * Rule 2 among groups: what is down already comes before what runs, whatever its group, but with the binary it has (A8.2). If
 * it is the only router, nobody else could be worked on anyway: a router tells and stops the balancer.
 */
const lacksItsCure = (scene: Scene, view: MemberView): boolean =>
  view.member.stage === 'active' &&
  (isDown(view) || (isSilentRouter(view) && servesBeside(scene, view))) &&
  needOf(scene, view.member) !== null &&
  lacksSnapshot(scene.state, view.member);

/** A8.2: nobody is taken down for a binary it will not live to run, and yet those that come after its set wait for it to go. */
function placeBeingTaken(scene: Scene, group: Group): Decision | null {
  if (scene.desired.sharded === null) return null;
  const old = scene.state.members.find(
    (m) =>
      m.replicaSet === group.name &&
      isBeingReplaced(scene.state, m) &&
      m.deployedVersion !== null &&
      m.deployedVersion !== scene.desired.version,
  );
  if (old === undefined) return null;
  const detail = `others get ${scene.desired.version} when the place of ${old.name} is taken`;
  return wait('OperationInProgress', soon(scene), detail, old.name);
}

const isSetUp = (scene: Scene, group: Group): boolean =>
  group.role === 'router' ||
  scene.state.replicaSets.some((r) => r.name === group.name && r.stage === 'ready');

/** What this member needs to be as wanted. The binary first: its process restarts once for both where it can. */
export function needOf(scene: Scene, member: MemberState): Need {
  if (member.activated === null || member.stage === 'planned' || member.stage === 'imported') return null;
  const view = scene.all.find((v) => v.member.name === member.name);
  if (view !== undefined && isNewcomer(view, scene.all)) return null;
  // Nobody is taken down for something it will not live to see (A13.3, A6.4).
  if (isBeingReplaced(scene.state, member)) return null;
  if (member.stage === 'removing' && isOut(scene, member)) return null;
  if (member.deployedVersion !== null && member.deployedVersion !== scene.desired.version) return 'upgrade';
  if (lacksSnapshot(scene.state, member)) return 'reload';
  return certificateNeed(scene.state, scene.observed, member, scene.now) === null ? null : 'certificate';
}

/** It runs with another snapshot than it is to have, or nobody knows with which, or it was asked to restart. */
export const lacksSnapshot = (state: State, member: MemberState): boolean =>
  member.activated !== null && (isUnanswered(member) || isStale(state, member));

function isStale(state: State, member: MemberState): boolean {
  const { activated } = member;
  if (activated === null) return false;
  const stale = state.goal !== null && activated.configHash !== goalHash(state.goal, member.role);
  return stale || activated.restartToken !== restartToken(state, member);
}

function roll(scene: Scene, set: Group): readonly (Decision | null)[] {
  const members = scene.all.filter((v) => v.member.replicaSet === set.name);
  const needy = members.filter((v) => needOf(scene, v.member) !== null);
  const underWay = members.filter((v) => isUnderWay(scene, v.member));
  if (underWay.length > 0) return continueWith(scene, set, underWay[0] as MemberView, needy, members);
  if (needy.length === 0) return [];
  const state = scene.state.replicaSets.find((r) => r.name === set.name);
  if (state !== undefined && isBehind(state, members)) return [behind(scene, set.name)];
  const refused = refusal(scene, set, members);
  if (refused !== null) return [renewal(scene, members), refused];
  // Nothing is done to a member nobody reports: unknown is not down.
  const known = needy.filter((v) => v.facts !== null);
  const next =
    known.find(isDown) ?? known.find(isSilentRouter) ?? highestSecondary(known) ?? primaryAmong(known);
  if (next !== undefined) return [stepFor(scene, set, next, members)];
  return needy.map(({ member: { name } }) =>
    wait('AgentNotConnected', soon(scene), `${name} gets its change when its agent reports it`, name),
  );
}

/** A member that is down or coming back because of us, or about to go. */
export const isUnderWay = ({ all, state }: Scene, member: MemberState): boolean =>
  member.stage === 'reloading' ||
  member.stage === 'upgrading' ||
  pendingOf(state, member.name)?.action === 'upgrade' ||
  losesItsRuntime(state, member) ||
  all.some((v) => v.member === member && takesOver(v, all));

/** Known to be down: its agent says that nothing runs or answers. An unknown member is not touched. */
export const isDown = (view: MemberView): boolean =>
  view.facts !== null &&
  (view.facts.process.kind === 'exited' ||
    view.facts.process.kind === 'absent' ||
    view.facts.configError !== null);

/** Another router serves, so that nobody is cut off when this one is just about to open its port. */
const servesBeside = ({ all }: Scene, view: MemberView): boolean =>
  all.some((v) => v !== view && isRouter(v.member) && isHealthy(v, all));

/** It runs, and has opened no port: nobody is served by it, and nothing is copied that a restart would begin anew. */
const isSilentRouter = ({ member, facts, database }: MemberView): boolean =>
  isRouter(member) && facts?.process.kind === 'running' && database === null;

function highestSecondary(views: readonly MemberView[]): MemberView | undefined {
  return views.filter((v) => stateOf(v) !== 'PRIMARY').sort((a, b) => b.member.index - a.member.index)[0];
}
const primaryAmong = (views: readonly MemberView[]): MemberView | undefined =>
  views.find((v) => stateOf(v) === 'PRIMARY');

// ── one member under way ───────────────────────────────────────────────────────────────────────────────────────────

function continueWith(
  scene: Scene,
  set: Group,
  view: MemberView,
  needy: readonly MemberView[],
  members: readonly MemberView[],
): readonly (Decision | null)[] {
  const { member } = view;
  if (pendingOf(scene.state, member.name) !== null) return []; // planPending says what runs
  // It took a newer certificate and the answer was lost: the same one is given again, and this time it is known.
  const newer = (view.facts?.configVersion ?? 0) > (member.activated?.configVersion ?? 0);
  const lost = newer && !isDown(view) && !presentsItsCertificate(view);
  if (lost && takesOnline(scene.state, view)) {
    if (!lacksSnapshot(scene.state, member)) return [rotateOnline(scene, view, members)];
    // Something else was wanted meanwhile, and it runs: to take it down for that is asked like for anybody (S1).
    if (!hasOlderBefore(scene, member))
      return [refusal(scene, set, members) ?? stepFor(scene, set, view, members)];
  }
  // Nobody knows whether it has what it was sent: it is sent something again before anybody else is touched (S2).
  const need = needOf(scene, member);
  if (isUnanswered(member) && view.facts !== null && need !== 'upgrade' && !isStale(scene.state, member)) {
    // What it was sent is not wanted any more. Where it has not taken it, what it runs is, and it need not restart.
    const unheard = view.facts.configVersion <= (member.activated?.configVersion ?? 0) && !isDown(view);
    return [
      unheard && takesOnline(scene.state, view)
        ? rotateOnline(scene, view, members)
        : spared(scene, set, view, members, 'certificate'),
    ];
  }
  // Another certificate is no cure for one that comes back; only for one that does not.
  const cure = need !== 'certificate' || isDown(view);
  // A8.2: it gets its binary when its group's turn has come, but for one that does not come up with what is taken back.
  const early = need === 'upgrade' && hasOlderBefore(scene, member) && !isTakenBack(scene, view);
  if (early)
    return [
      lacksSnapshot(scene.state, member)
        ? spared(scene, set, view, members, 'reload')
        : settling(scene, view, members),
    ];
  if (needy.includes(view) && view.facts !== null && cure) {
    // S7: its newer binary may be running by now, or have run.
    const refused = need === 'upgrade' ? refusal(scene, set, members) : null;
    return [refused ?? spared(scene, set, view, members)];
  }
  return [settling(scene, view, members)];
}

/** Somebody of a group that comes before this member's has not got the wanted binary yet. */
function hasOlderBefore({ desired, state }: Scene, member: MemberState): boolean {
  const groups = groupsOf(desired).map((g) => g.name);
  const place = groups.indexOf(member.replicaSet);
  return state.members.some(
    (m) =>
      groups.indexOf(m.replicaSet) < place &&
      m.deployedVersion !== null &&
      m.deployedVersion !== desired.version,
  );
}

/** Its binary is newer than the wanted one and has never served; what keeps it down is not its configuration. */
const isTakenBack = ({ desired }: Scene, view: MemberView): boolean =>
  isDown(view) &&
  (view.member.unproven === true || view.member.stage === 'upgrading') &&
  view.facts?.configError === null &&
  desired.version.localeCompare(view.member.deployedVersion ?? '', 'en', { numeric: true }) < 0;

/** What a member under way still lacks before the next may be touched. */
function settling(scene: Scene, view: MemberView, members: readonly MemberView[]): Decision {
  const { name, deployedVersion } = view.member;
  const others = 'no other member is touched meanwhile';
  if (view.facts === null)
    return wait(
      'AgentNotConnected',
      soon(scene),
      `${name} was given its change and is not reported; ${others}`,
      name,
    );
  const running = view.database?.binaryVersion;
  if (running !== undefined && running !== deployedVersion) {
    return wait(
      'DisruptionInProgress',
      soon(scene),
      `${name} still runs ${running}, not ${deployedVersion}`,
      name,
    );
  }
  if (!runsItsSnapshot(view) || isStopping(view))
    return wait('DisruptionInProgress', soon(scene), `${name} restarts; ${others}`, name);
  if (!presentsItsCertificate(view))
    return wait('DisruptionInProgress', soon(scene), `${name} presents another certificate; ${others}`, name);
  const doubter = isHealthy(view, members) ? doubterOf(view, members) : null;
  if (doubter !== null) {
    const detail = `${name} is back, but ${doubter.member.name} does not see it yet; ${others}`;
    return wait('DisruptionInProgress', soon(scene), detail, name);
  }
  const lag = lagOf(view, members);
  const behind =
    lag !== null && lag > LAG_LIMIT
      ? `is ${formatDuration(lag)} behind`
      : `is ${stateOf(view) ?? 'not answering'}`;
  return wait('DisruptionInProgress', soon(scene), `${name} ${behind}; ${others}`, name);
}

// ── the next member ────────────────────────────────────────────────────────────────────────────────────────────────

function stepFor(scene: Scene, set: Group, view: MemberView, members: readonly MemberView[]): Decision {
  if (isDown(view)) return give(scene, view);
  if (needOf(scene, view.member) === 'certificate' && takesOnline(scene.state, view))
    return rotateOnline(scene, view, members);
  const busy = stateOf(view);
  if (busy === 'STARTUP2' || busy === 'ROLLBACK') {
    return wait(
      'InitialSync',
      soon(scene),
      `${view.member.name} is ${busy}: a restart now would only start that over`,
      view.member.name,
    );
  }
  const later = outsideWindow(scene, view);
  if (later !== null) return later;
  if (mayLeadByNow(view, members)) {
    const detail = `${view.member.name} may be elected: its restart waits until the set has a primary`;
    return wait('WaitingForPrimary', soon(scene), detail, view.member.name);
  }
  const safe = mayGoDown(scene, view, members);
  return safe ?? spared(scene, set, view, members);
}

/** S3: a primary hands over before it is given anything, also one that was elected while it was under way. */
function spared(
  scene: Scene,
  set: Group,
  view: MemberView,
  members: readonly MemberView[],
  lacks = needOf(scene, view.member),
): Decision {
  if (stateOf(view) !== 'PRIMARY' || members.length === 1) return give(scene, view, lacks);
  // The spec allows the interruption, which a hand-over to nobody would not make shorter.
  if (isIndispensable(view, members) && leadsAlone(view, members)) return give(scene, view, lacks);
  if (heirOf(view, members) === null) return withoutHeir(scene, view, members);
  const held = backingOff(scene, 'stepDown', set.name) ?? clientsMiss(scene, view, members);
  const because = reasonOf(scene, view.member);
  return (
    held ??
    act(
      because,
      [{ kind: 'stepDown', replicaSet: set.name, member: view.member.name }],
      `${view.member.name} hands over; writes pause for an election`,
    )
  );
}

/** C7.1: what is voluntary waits for the next window; a member that is down already is repaired at once. */
function outsideWindow(scene: Scene, { member }: MemberView): Decision | null {
  const closed = closedWindow(scene.desired, scene.state, scene.now);
  if (closed === null) return null;
  const at = new Date(closed.opensAt).toISOString().slice(0, 16).replace('T', ' ');
  const detail = `${member.name} waits for the maintenance window (${closed.text}), which opens at ${at} UTC`;
  return wait('MaintenanceWindow', closed.opensAt, detail, member.name);
}

/** S3: somebody electable who lacks nothing of what the primary acknowledged to a majority. */
export function heirOf(primary: MemberView, members: readonly MemberView[]): MemberView | null {
  const config = primary.database?.config ?? null;
  const electable = (v: MemberView): boolean => {
    const row = config?.members.find((m) => m.host === memberHost(v.member));
    return v !== primary && row !== undefined && row.priority > 0 && row.votes === 1 && isHealthy(v, members);
  };
  return members.find(electable) ?? null;
}

function give(scene: Scene, view: MemberView, lacks = needOf(scene, view.member)): Decision {
  const { member } = view;
  const need = lacks === 'upgrade' ? 'upgrade' : 'reload';
  const configVersion =
    lacks === 'certificate' ? nextVersion(scene.state, member) : scene.state.configVersion;
  const held = backingOff(scene, need, member.name);
  if (held !== null && !(need === 'reload' && supersedes(scene, member)))
    return helpNeeded(scene, need, member.name) ?? held;
  const step: Step =
    need === 'upgrade'
      ? { kind: 'upgrade', member: member.name, version: scene.desired.version }
      : { kind: 'reload', member: member.name, configVersion };
  const alone = scene.all.every((v) => v === view || v.member.replicaSet !== member.replicaSet);
  const leader = alone ? 'the only member' : 'the primary';
  const inSet =
    stateOf(view) === 'PRIMARY' ? leader : stateOf(view) === null ? 'down already' : 'a secondary';
  const role = member.role === 'router' && !isDown(view) ? 'a router' : inSet;
  const what =
    need === 'upgrade'
      ? `${member.deployedVersion} → ${scene.desired.version}`
      : `configuration ${configVersion}${tlsText(scene.state, member)}`;
  return act(reasonOf(scene, member), [step], `${member.name} (${role}): ${what}`);
}

/** Which TLS mode a member gets along with its configuration; nothing where it has that mode. */
function tlsText({ goal }: State, { activated }: MemberState): string {
  if (goal === null || activated === null || activated.tlsMode === goal.tlsMode) return '';
  return `, TLS ${activated.tlsMode} → ${goal.tlsMode}`;
}

/** STK-04: a goal newer than the failed try is tried at once. */
const supersedes = (scene: Scene, member: MemberState): boolean =>
  (retryOf(scene.state, 'reload', member.name)?.tried ?? 0) < scene.state.configVersion;

function reasonOf(scene: Scene, member: MemberState): Reason {
  const need = needOf(scene, member);
  if (need === 'upgrade') return 'VersionChanged';
  if (need === 'certificate') return certificateReason(scene, member);
  const { goal } = scene.state;
  if (goal !== null && member.activated?.configHash === goalHash(goal, member.role))
    return 'RestartRequested';
  return member.activated?.tlsMode !== scene.state.goal?.tlsMode ? 'TlsChanged' : 'ConfigurationChanged';
}

// ── certificates ───────────────────────────────────────────────────────────────────────────────────────────────────

/** A9.4, A13.5: taken by the running process, so nothing goes down; asked for one at a time and among healthy members all the same. */
function rotateOnline(scene: Scene, view: MemberView, members: readonly MemberView[]): Decision {
  const { member } = view;
  const safe = hasExpired(member, scene.now) ? null : amongHealthy(scene, view, members);
  const held = backingOff(scene, 'rotateCertificate', member.name);
  const configVersion = nextVersion(scene.state, member);
  const step: Step = { kind: 'rotateCertificate', member: member.name, configVersion };
  const what = `${member.name}: another certificate, without a restart`;
  return safe ?? held ?? act(certificateReason(scene, member), [step], what);
}

/** Nothing goes down by it, so no vote is lost; what it may break must not meet what is broken already. */
function amongHealthy(scene: Scene, view: MemberView, members: readonly MemberView[]): Decision | null {
  const sick = unwellBeside(view, members);
  if (sick.length === 0) return null;
  const { name } = view.member;
  const detail = `another certificate for ${name} waits for ${lacking(sick, members)}`;
  return wait('WouldLoseMajority', soon(scene), detail, name);
}

/** An upgrade that is refused must not let certificates run out. */
function renewal(scene: Scene, members: readonly MemberView[]): Decision | null {
  // What else has changed would come along, and restart it.
  const due = (v: MemberView): boolean =>
    certificateNeed(scene.state, scene.observed, v.member, scene.now) !== null &&
    takesOnline(scene.state, v) &&
    !lacksSnapshot(scene.state, v.member);
  const next = highestSecondary(members.filter(due)) ?? members.find(due);
  return next === undefined ? null : rotateOnline(scene, next, members);
}

function certificateReason(scene: Scene, member: MemberState): Reason {
  switch (certificateNeed(scene.state, scene.observed, member, scene.now)) {
    case 'issuer':
    case 'trust':
      return 'AuthorityChanged';
    case 'renewal':
      return 'CertificateExpiring';
    default:
      return 'CertificateRotation';
  }
}

// ── versions ───────────────────────────────────────────────────────────────────────────────────────────────────────

/**
 * S7: an upgrade that never came to run is put back, since no data can be newer: each member runs the wanted series, or has
 * ended and its agent vouches that nothing newer ever answered with its data; and the compatibility version is still that of
 * the series. `unsure`: a member is just starting, and may answer yet. What is not known runs, for all we know.
 */
function takesBack(
  wanted: string,
  fcv: string | null,
  members: readonly MemberView[],
): 'yes' | 'no' | 'unsure' {
  if (fcv !== seriesOf(wanted)) return 'no';
  let verdict: 'yes' | 'unsure' = 'yes';
  for (const view of members) {
    const { database, facts } = view;
    if (database !== null && majorStep(database.binaryVersion, wanted) === 'same') continue;
    const newest = tellsItsRuns(view) ? newestRunOf(view) : null;
    const never = database === null && newest !== null && majorStep(newest, wanted) === 'same';
    if (!never) return 'no';
    if (facts?.process.kind !== 'exited') verdict = 'unsure';
  }
  return verdict;
}

/** S7, A8.4: one major at a time, and only from the old major's FCV; never down across majors. */
function refusal(scene: Scene, set: Group, members: readonly MemberView[]): Decision | null {
  const { desired, state } = scene;
  const from = members.map((v) => v.member.deployedVersion).find((v) => v !== null && v !== desired.version);
  if (from === null || from === undefined) return null;
  const step = majorStep(from, desired.version);
  // A router has no compatibility version of its own; it follows the sets that were looked at before it.
  if (step === 'same' || set.role === 'router') return null;
  const primary = primaryOf(members);
  // It is in the data, whether or not anybody is there to tell it.
  const known = primary?.database?.featureCompatibilityVersion ?? null;
  const fcv = known ?? state.replicaSets.find((r) => r.name === set.name)?.fcv ?? null;
  const back = step === 'down' ? takesBack(desired.version, fcv, members) : 'no';
  if (back === 'yes') return null;
  if (back === 'unsure') {
    const detail = `${set.name} is put back to ${desired.version} once it is known that ${from} does not run; once it has, there is no way back`;
    return wait('ProcessStarting', soon(scene), detail);
  }
  if (step !== 'next') {
    const detail =
      step === 'down'
        ? `${from} → ${desired.version} goes down across majors`
        : `${from} → ${desired.version} skips a major`;
    return blocked(
      'VersionStep',
      'spec',
      detail,
      step === 'down'
        ? `set spec.version to ${from} again: no older binary opens data that ${seriesOf(from)} has run on`
        : 'go one major at a time, upwards; put spec.version back meanwhile',
    );
  }
  if (primary === null && fcv === null)
    return wait(
      'WaitingForPrimary',
      soon(scene),
      `${set.name} has no primary to read its compatibility version from`,
    );
  const series = seriesOf(from) ?? '';
  if (fcv === series) return null;
  // A set is given its cluster's when it becomes a shard, and tells of it some seconds later.
  if (set.role === 'shardServer' && clusterFcv(scene.all, state) === series)
    return wait(
      'WaitingForMembers',
      soon(scene),
      `${set.name} still shows compatibility version ${fcv}, and its cluster ${series}; if it stays so: belay raise-fcv ${desired.name}`,
    );
  return blocked(
    'FcvTooOld',
    'person',
    `${desired.version} needs feature compatibility version ${series}, the set has ${fcv ?? 'an unknown one'}`,
    `raise it first: belay raise-fcv ${desired.name}`,
  );
}
