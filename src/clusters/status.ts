/** Status, phase, message and conditions: computed here from one reading and one plan, never set by a step (A7.4). */
import type { Millis } from '../base/units.ts';
import type { MongoDBStatus } from '../model/kinds/mongodbStatus.ts';
import type { Condition, Phase } from '../model/meta.ts';
import { certificateCondition } from './certificateStatus.ts';
import type { Decision, Plan } from './decisions.ts';
import { configRowOf, isHealthy, type MemberView, primaryOf, quorumOf, stateOf, views } from './interpret.ts';
import { ELECTION_PATIENCE, RETRY_KEEPS_FAILING } from './limits.ts';
import { holderOf, maintenanceText } from './maintained.ts';
import { endpoint, memberStatus, replicaSetStatus } from './memberStatus.ts';
import { operationsTold } from './operations/told.ts';
import { saidOf, withoutClock } from './planners/planner.ts';
import { workingRouter } from './planners/routers.ts';
import { promisedTooMuch, spaceOf } from './space.ts';
import { leftBehind, placementWarnings } from './statusWarnings.ts';
import { connectionString, isRouter, isSubstitute, wantedMember, wantedMembers } from './topology.ts';
import type { Desired, Observed, ReplicaSetState, State } from './types.ts';
import { activeOverride } from './windows.ts';

export interface StatusInput {
  readonly observed: Observed;
  readonly desired: Desired;
  readonly state: State;
  readonly plan: Plan;
  readonly now: Millis;
  /** Warnings found at admission (deprecated version, ignored front-door fields). */
  readonly warnings: readonly string[];
  /** The status before, for transition times. */
  readonly before: MongoDBStatus | null;
}

/**
 * A status read back, when it has the shape of one; else null: one that another version wrote differently is simply
 * written anew (STA-03).
 */
export function knownStatus(value: unknown): MongoDBStatus | null {
  const status = value as Partial<MongoDBStatus> | null | undefined;
  const listed = [status?.conditions, status?.members].every((list) => Array.isArray(list));
  return listed && status?.conditions?.every((c) => c?.type !== undefined) ? (value as MongoDBStatus) : null;
}

/** The whole status of a MongoDB. Equal inputs but for `now` give an equal status, so that a quiet cluster writes nothing. */
export function status(input: StatusInput): MongoDBStatus {
  const { desired, state, plan } = input;
  const all = views(state, input.observed);
  const phase = phaseOf(input, all);
  const primary = desired.sharded === null ? primaryOf(all) : null;
  const own = all.filter((v) => !isStray(v, state));
  const uri = connectionString(
    own.length === all.length ? state : { ...state, members: own.map((v) => v.member) },
    desired,
  );
  const versions = new Set(all.map((v) => v.database?.binaryVersion ?? null));
  const version = versions.size === 1 ? [...versions][0] : null;
  const fcvs = new Set(
    state.replicaSets.map((r) => fcvOf(all.filter((v) => v.member.replicaSet === r.name)) ?? r.fcv ?? null),
  );
  const fcv = fcvs.size === 1 ? ([...fcvs][0] ?? null) : null;
  const balancer = workingRouter(all)?.database?.router?.balancer ?? null;
  const nowDoing = doing(plan);
  return {
    observedGeneration: desired.generation,
    phase,
    message: messageOf(input, phase, all),
    conditions: conditions(input, phase, all),
    warnings: [
      ...input.warnings,
      ...placementWarnings(input),
      ...promisedTooMuch(all, input.observed),
      ...leftBehind(input),
    ],
    ...(nowDoing === null ? {} : { now: nowDoing }),
    ...(version ? { version } : {}),
    ...(fcv === null ? {} : { featureCompatibilityVersion: fcv }),
    readyMembers: counted(all, state, desired).filter((v) => isHealthy(v, all)).length,
    totalMembers: wantedMembers(desired),
    ...(primary === null ? {} : { primary: primary.member.name }),
    members: all.map((v) => memberStatus(v, all, input)),
    replicaSets: state.replicaSets.map((r) => replicaSetStatus(r, all)),
    ...(balancer === null ? {} : { balancer: balancer === 'off' ? ('off' as const) : ('on' as const) }),
    ...(state.balancer === null ? {} : { balancerBefore: state.balancer.wasEnabled ? 'on' : 'off' }),
    endpoints: own.filter((v) => desired.sharded === null || isRouter(v.member)).flatMap((v) => endpoint(v)),
    ...(uri === null ? {} : { connectionString: uri }),
    ...operationsTold(state, input.observed, input.before),
    ...overrideStatus(input),
  };
}

function overrideStatus({ desired, state, now }: StatusInput): Pick<MongoDBStatus, 'windowOverride'> {
  const override = activeOverride(desired, state, now);
  return override === null
    ? {}
    : { windowOverride: { ...override, until: new Date(override.until).toISOString() } };
}

const fcvOf = (members: readonly MemberView[]): string | null =>
  primaryOf(members)?.database?.featureCompatibilityVersion ?? null;

/** INI-06: a member that shows another set's id is listed for no client. */
const isStray = ({ member, database }: MemberView, state: State): boolean => {
  const known = state.replicaSets.find((r) => r.name === member.replicaSet)?.replicaSetId ?? null;
  const shown = database?.replicaSetId ?? null;
  return known !== null && shown !== null && known !== shown;
};

/** STA-01: the members the spec asks for, by identity; those that leave are listed with their stage and count for nothing. */
const counted = (all: readonly MemberView[], state: State, desired: Desired): readonly MemberView[] =>
  all.filter((v) => !isSubstitute(state, v.member) && wantedMember(state, desired, v.member) !== null);

/** It is to go, and its set does without it already, or is just learning to: that it ends is no loss. */
const isOnItsWayOut = (view: MemberView, all: readonly MemberView[]): boolean =>
  view.member.stage === 'removing' && (configRowOf(view, all) === null || view.database?.state === 'REMOVED');

/** Stages before a member first ran. */
const STARTING: ReadonlySet<string> = new Set(['planned', 'imported', 'deployed']);

/** Stages in which a member is not well because of us, and costs the set no vote it had. */
const UNDER_WAY: ReadonlySet<string> = new Set(['reloading', 'upgrading', 'healthy', 'syncing']);

// ── phase and message ──────────────────────────────────────────────────────────────────────────────────────────────

function phaseOf(input: StatusInput, all: readonly MemberView[]): Phase {
  const { desired, state, plan } = input;
  if (desired.deleting !== null) return 'Deleting';
  if (state.suspended && desired.suspend) return 'Suspended';
  if (plan.converged && !desired.suspend) return 'Ready';
  // Who is on the way to a place that is still taken changes nothing of how the set is.
  const own = all.filter((v) => !isSubstitute(state, v.member));
  const ran =
    state.replicaSets.every((r) => r.stage === 'ready') && own.every((v) => !STARTING.has(v.member.stage));
  if (ran) {
    if (isLeaderless(input, all)) return 'Degraded';
    // A member that restarts because we asked for it is work in progress, unless it does not come back.
    const sick = own.filter((v) => !isHealthy(v, all) && !isOnItsWayOut(v, all));
    const ours = sick.every((v) => isAwaited(input, v, all));
    return sick.length > 0 && (!ours || plan.blocks.length > 0) ? 'Degraded' : 'Reconciling';
  }
  const works = plan.act !== null || state.pending.length > 0;
  // What serves and only cannot grow has not failed.
  if (plan.blocks.length > 0 && !works) return state.replicaSets.some(serves) ? 'Reconciling' : 'Failed';
  return state.members.every((m) => m.serviceId === null) && plan.act === null ? 'Pending' : 'Reconciling';
}

/** Clients can use it: config servers alone, and shards that no router knows, hold nobody's data yet. */
const serves = ({ role, stage, registered }: ReplicaSetState): boolean =>
  stage === 'ready' && (role === 'replicaSet' || registered);

/**
 * A set that ran and shows no primary takes no writes, whatever its members say of themselves (QRM-01). The election after
 * a hand-over of ours is work in progress; one that takes too long is not.
 */
function isLeaderless({ state, now }: StatusInput, all: readonly MemberView[]): boolean {
  return state.replicaSets.some((set) => {
    const members = all.filter((v) => v.member.replicaSet === set.name);
    if (primaryOf(members) !== null || members.every((v) => v.database === null)) return false;
    return !isHandingOver(set, members, now);
  });
}

/** A primary of the set was asked by us to hand over, and the election that follows is not over (S3). */
const isHandingOver = (
  { handedOverAt }: ReplicaSetState,
  members: readonly MemberView[],
  now: Millis,
): boolean =>
  handedOverAt !== undefined &&
  Math.abs(now - handedOverAt) <= ELECTION_PATIENCE &&
  primaryOf(members) === null;

/** Not well because of us or of a person's task, and so no fault. */
const isAwaited = (input: StatusInput, view: MemberView, all: readonly MemberView[]): boolean =>
  UNDER_WAY.has(view.member.stage) ||
  holderOf(input.observed, view.member.name) !== null ||
  isElecting(input, view, all);

/** Nobody's distance to the primary is known while there is none, which we asked for. */
function isElecting({ state, now }: StatusInput, view: MemberView, all: readonly MemberView[]): boolean {
  if (stateOf(view) !== 'SECONDARY') return false;
  const members = all.filter((v) => v.member.replicaSet === view.member.replicaSet);
  return state.replicaSets.some(
    (set) => set.name === view.member.replicaSet && isHandingOver(set, members, now),
  );
}

/**
 * Members whose restart or election we brought about: what happens to them is no warning. One that does not come back is
 * told of by what then blocks or degrades the set.
 */
export function causedByUs(input: StatusInput): ReadonlySet<string> {
  const all = views(input.state, input.observed);
  const ours = all.filter((v) => RESTARTED.has(v.member.stage) || isElecting(input, v, all));
  return new Set(ours.map((v) => v.member.name));
}
const RESTARTED: ReadonlySet<string> = new Set(['reloading', 'upgrading']);

function messageOf(input: StatusInput, phase: Phase, all: readonly MemberView[]): string {
  const { plan, state, desired } = input;
  if (phase === 'Ready') return `${all.length} of ${wantedMembers(desired)} members healthy`;
  if (phase === 'Suspended') return 'runtimes removed, volumes and credentials kept; apply again to resume';
  if (phase === 'Degraded') return degraded(all, state);
  const block = plan.blocks[0];
  if (block) return `${block.detail}; ${block.fix}`;
  return onlyMaintenance(input, all) ?? doing(plan) ?? 'waiting';
}

/** One sentence about the worst of what is not well: of a set, or of the routers. */
function degraded(all: readonly MemberView[], state: State): string {
  const groups = [...new Set(all.map((v) => v.member.replicaSet))];
  if (groups.length <= 1) return degradedSet(all, state);
  const members = groups.map((name) => all.filter((v) => v.member.replicaSet === name));
  const sick = members.filter((group) => group.some((v) => !isHealthy(v, all) && !isOnItsWayOut(v, all)));
  const spare = (group: readonly MemberView[]): number =>
    quorumOf(group).healthyVoters - quorumOf(group).needed;
  const worst = sick.sort((a, b) => spare(a) - spare(b))[0] ?? all;
  const name = worst[0]?.member.replicaSet ?? '';
  const more = sick.length > 1 ? ` (and ${sick.length - 1} more)` : '';
  if (!worst.every((v) => isRouter(v.member))) return `${name}: ${degradedSet(worst, state)}${more}`;
  const { voters, healthyVoters } = quorumOf(worst);
  return `${healthyVoters} of ${voters} routers reach the config servers${more}`;
}

function degradedSet(all: readonly MemberView[], state: State): string {
  const q = quorumOf(all);
  const spare = q.healthyVoters - q.needed;
  // Without its agent a member is not known, which is no reason to say that it is down: databases go on without us.
  const unknown = all.filter((v) => v.facts === null).length;
  const next =
    spare >= 0 && primaryOf(all) === null
      ? `no primary is ${unknown === 0 ? 'elected' : 'known'}, so writes ${unknown === 0 ? 'are stopped' : 'may be stopped'}`
      : spare < 0
        ? spare + unknown < 0
          ? 'writes are stopped'
          : `${unknown} not known, so nothing can be said of writes`
        : spare === 0
          ? 'one more loss stops writes'
          : `${spare} more may be lost`;
  return `${q.healthyVoters} of ${q.voters || state.members.length} voters healthy, majority ${q.needed}: ${next}`;
}

/** What is being done, blocked or waited for, in a few words. Times that change by themselves are left out. */
function doing(plan: Plan): string | null {
  if (plan.act !== null) return `${verb(plan.act)}: ${plan.act.detail}`;
  const [block] = plan.blocks;
  if (block !== undefined) return `${block.by}: ${block.detail}; ${block.fix}`;
  const wait = plan.waits[0];
  return wait ? withoutClock(wait.detail) : null;
}

const verb = (act: Extract<Decision, { kind: 'act' }>): string => act.steps[0]?.kind ?? 'working';

/** What is down because somebody works on it, when nothing else is missing; null: something else is, or nothing. */
function onlyMaintenance({ observed, state }: StatusInput, all: readonly MemberView[]): string | null {
  const sick = all.filter((v) => !isSubstitute(state, v.member) && !isHealthy(v, all));
  const held = sick.flatMap((v) => {
    const holder = holderOf(observed, v.member.name);
    return holder === null ? [] : [`${v.member.name} ${maintenanceText(holder)}`];
  });
  return sick.length > 0 && held.length === sick.length ? held.join('; ') : null;
}

// ── conditions ─────────────────────────────────────────────────────────────────────────────────────────────────────

type Draft = Pick<Condition, 'type' | 'status' | 'reason' | 'message'>;

function conditions(input: StatusInput, phase: Phase, all: readonly MemberView[]): Condition[] {
  const drafts = [
    ready(input, phase, all),
    progressing(input, phase),
    blockedCondition(input),
    systemUsers(input),
    certificateCondition(input, all),
    { type: 'DiskSpace', ...spaceOf(all, input.observed) },
    backupReady(),
    exposed(),
  ];
  return drafts.map((draft) => {
    const old = input.before?.conditions.find((c) => c.type === draft.type);
    const lastTransitionTime =
      old && old.status === draft.status ? old.lastTransitionTime : new Date(input.now).toISOString();
    return { ...draft, lastTransitionTime, observedGeneration: input.desired.generation };
  });
}

/** S15: only for this generation and a fresh reading: `converged` is false while anything is unknown. */
function ready(input: StatusInput, phase: Phase, all: readonly MemberView[]): Draft {
  if (phase === 'Ready')
    return {
      type: 'Ready',
      status: 'True',
      reason: 'AllMembersHealthy',
      message: messageOf(input, phase, all),
    };
  const unreachable = all.some((v) => v.member.activated !== null && v.facts === null);
  const maintained = phase === 'Reconciling' && onlyMaintenance(input, all) !== null;
  const bad = phase === 'Degraded' && unreachable ? 'MemberUnreachable' : phase;
  const reason = maintained ? 'InMaintenance' : bad;
  return { type: 'Ready', status: 'False', reason, message: messageOf(input, phase, all) };
}

function progressing(input: StatusInput, phase: Phase): Draft {
  const { plan } = input;
  if (plan.act)
    return { type: 'Progressing', status: 'True', reason: plan.act.because, message: plan.act.detail };
  const stuck = stuckMembers(input);
  const wait = plan.waits.find((w) => w.member === undefined || !stuck.has(w.member));
  if (wait)
    return { type: 'Progressing', status: 'True', reason: wait.on, message: withoutClock(wait.detail) };
  const [block] = plan.blocks;
  if (block) return { type: 'Progressing', status: 'False', reason: block.by, message: block.detail };
  return {
    type: 'Progressing',
    status: 'False',
    reason: phase === 'Ready' ? 'Converged' : phase,
    message: 'nothing to do',
  };
}

/** Members that do not come by themselves: waiting for them is no progress while something is blocked. */
function stuckMembers({ plan, state, observed }: StatusInput): ReadonlySet<string> {
  if (plan.blocks.length === 0) return new Set();
  const stuck = views(state, observed).filter(
    ({ facts }) => facts !== null && (facts.configError !== null || facts.process.kind === 'exited'),
  );
  return new Set(stuck.map((v) => v.member.name));
}

function blockedCondition(input: StatusInput): Draft {
  const block = input.plan.blocks[0];
  if (block) {
    const all = input.plan.blocks.map((b) => `${b.detail}; ${b.fix}`).join(' · ');
    return { type: 'Blocked', status: 'True', reason: block.by, message: all };
  }
  const failing = input.state.retries.find((r) => r.failures >= RETRY_KEEPS_FAILING);
  if (failing) {
    const message = `${failing.action} of ${failing.member} keeps failing (${failing.failures} times): ${saidOf(failing)}`;
    return { type: 'Blocked', status: 'True', reason: 'KeepsFailing', message };
  }
  return {
    type: 'Blocked',
    status: 'False',
    reason: 'NothingInTheWay',
    message: 'nothing stands in the way',
  };
}

/** A5.4. */
function systemUsers(input: StatusInput): Draft {
  const type = 'ManagedSystemUsers';
  const retry = input.state.retries.find(
    (r) => r.action === 'reconcileSystemUsers' || r.action === 'createFirstUser',
  );
  if (retry?.code === 'CredentialRepairRequired')
    return { type, status: 'False', reason: 'CredentialRepairRequired', message: retry.message };
  if (retry)
    return {
      type,
      status: 'Unknown',
      reason: 'RepairRetrying',
      message: `failed ${retry.failures === 1 ? 'once' : `${retry.failures} times`}: ${retry.message}`,
    };
  const done = input.state.replicaSets.every((r) => r.stage === 'ready');
  return done
    ? { type, status: 'True', reason: 'Confirmed', message: 'all five system users log in' }
    : {
        type,
        status: 'False',
        reason: 'NotCreated',
        message: 'system users are made after the set is initiated',
      };
}

const backupReady = (): Draft => ({
  type: 'BackupReady',
  status: 'False',
  reason: 'NotConfigured',
  message: 'backups are not part of this version',
});
const exposed = (): Draft => ({
  type: 'Exposed',
  status: 'False',
  reason: 'Private',
  message: 'reachable where the hosts are reachable',
});
