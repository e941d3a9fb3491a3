/** What is said in the status of each member and of each replica set, and where clients reach them. */
import type { MemberHealth, MemberStatus, ReplicaSetStatus } from '../model/kinds/mongodbStatus.ts';
import type { Plan, Step } from './decisions.ts';
import type { ConfigMember, ProcessFacts, ReplSetConfig } from './facts.ts';
import { configRowOf, isHealthy, lagOf, type MemberView, primaryOf, quorumOf } from './interpret.ts';
import { holderOf, maintenanceText } from './maintained.ts';
import { withoutClock } from './planners/planner.ts';
import { pendingOf } from './state.ts';
import { isRouter, memberHost } from './topology.ts';
import type { Desired, InMaintenance, MemberState, Observed, ReplicaSetState, State } from './types.ts';
import { newestRunOf } from './versions.ts';

interface Scene {
  readonly observed: Observed;
  readonly desired: Desired;
  readonly state: State;
  readonly plan: Plan;
}

/** Roles as people say them. */
const ROLES = {
  replicaSet: 'replica',
  shardServer: 'shard',
  configServer: 'config',
  router: 'router',
} as const;

/** A member as it is recorded, and as it was last seen. */
export function memberStatus(
  view: MemberView,
  all: readonly MemberView[],
  { desired, state, plan, observed }: Scene,
): MemberStatus {
  const { member, database, facts } = view;
  const holder = holderOf(observed, member.name);
  const row = configRowOf(view, all) ?? shownRow(view, all);
  const lag = lagOf(view, all);
  const health: MemberHealth = facts === null ? 'unknown' : isHealthy(view, all) ? 'healthy' : 'unhealthy';
  const shown =
    database?.state ??
    (facts === null
      ? null
      : facts.process.kind !== 'running'
        ? 'DOWN'
        : isRouter(member)
          ? 'ROUTER'
          : 'STARTUP');
  const message =
    holder !== null && health !== 'healthy' ? maintenanceText(holder) : memberMessage(view, plan);
  return {
    name: member.name,
    index: member.index,
    role: ROLES[member.role],
    ...(isRouter(member) ? {} : { replicaSet: member.replicaSet }),
    ...(member.serviceId === null ? {} : { serviceId: member.serviceId }),
    ...(member.serviceId === null && isPlaced(member, state, plan) ? { importSent: true } : {}),
    ...(member.host === null ? {} : { hostName: member.host }),
    ...(member.address === null ? {} : { host: member.address }),
    ...(member.port === null ? {} : { port: member.port }),
    ...(shown === null ? {} : { state: shown }),
    health,
    ...(database === null ? {} : { version: database.binaryVersion }),
    ...startedAt(facts?.process),
    ...(facts === null ? {} : { configVersion: facts.configVersion }),
    ...(row ? settingsOf(row) : {}),
    ...(row?.votes !== 1 && getsVote(member, plan) ? { voteSent: true } : {}),
    ...(member.activated === null ? {} : { tlsMode: member.activated.tlsMode }),
    ...volumeSize(state, member),
    ...(newestRunOf(view) === null ? {} : { newestRun: newestRunOf(view) as string }),
    ...(lag === null ? {} : { lagMillis: lag }),
    stage: desired.suspend && member.serviceId === null ? 'suspended' : member.stage,
    ...(member.replacement === undefined ? {} : { replaces: member.replacement.of }),
    ...(message === null ? {} : { message }),
    ...(holder === null ? {} : { maintenance: maintenanceStatus(holder) }),
    ...(database?.initialSyncPercent == null ? {} : { progressPercent: database.initialSyncPercent }),
    ...(facts === null && view.observed?.observedAt
      ? { lastSeen: new Date(view.observed.observedAt).toISOString() }
      : {}),
  };
}

/** From the transaction of the intent on: admission must know of it before anything is there (A6.5). */
const isPlaced = ({ name }: MemberState, state: State, plan: Plan): boolean =>
  pendingOf(state, name)?.action === 'import' ||
  plan.act?.steps.some((s) => (s.kind === 'import' || s.kind === 'adopt') && s.member === name) === true;

/** A volume that is growing counts as grown: what was asked of its host may be there at any moment. */
function volumeSize(state: State, { name, volumeId, volumeBytes }: MemberState): Partial<MemberStatus> {
  const growing = pendingOf(state, name)?.volumeBytes ?? 0;
  const size = Math.max(growing, volumeBytes ?? 0);
  return volumeId === null || size === 0 ? {} : { volumeBytes: size };
}

const startedAt = (process: ProcessFacts | undefined): Partial<MemberStatus> =>
  process?.kind === 'running' ? { startedAt: new Date(process.since).toISOString() } : {};

/** What a row of the set's configuration says; tags and delay where there are any. */
function settingsOf({ votes, priority, hidden = false, secondaryDelaySecs = 0, tags = {} }: ConfigMember) {
  return {
    votes,
    priority,
    hidden,
    ...(secondaryDelaySecs > 0 ? { secondaryDelaySecs } : {}),
    ...(Object.keys(tags).length > 0 ? { tags } : {}),
  };
}

/** It was given its vote, or is now, and no reading shows it: whoever asks what the set can spare must know (C5.3). */
function getsVote(member: MemberState, plan: Plan): boolean {
  const votes = (step: Step): boolean =>
    step.kind === 'reconfig' &&
    step.config.members.some((row) => row.host === memberHost(member) && row.votes === 1);
  return member.voteSent === true || (plan.act?.steps.some(votes) ?? false);
}

const maintenanceStatus = ({ task, owner, until }: InMaintenance): MemberStatus['maintenance'] => ({
  task,
  owner,
  ...(until === null ? {} : { until: new Date(until).toISOString() }),
});

/** Without a primary: its row in the newest configuration that any member of its set shows. */
function shownRow({ member }: MemberView, all: readonly MemberView[]): ConfigMember | undefined {
  const configs = all
    .filter((v) => v.member.replicaSet === member.replicaSet)
    .flatMap((v) => v.database?.config ?? []);
  const newest = configs.reduce<ReplSetConfig | undefined>(
    (best, config) => (best === undefined || config.version > best.version ? config : best),
    undefined,
  );
  return newest?.members.find((m) => m.host === memberHost(member));
}

function memberMessage(view: MemberView, plan: Plan): string | null {
  const wait = plan.waits.find((w) => w.member === view.member.name);
  if (wait) return withoutClock(wait.detail);
  if (view.facts?.configError) return view.facts.configError;
  if (view.facts?.process.kind === 'exited') return view.facts.process.message;
  return view.member.replacement === undefined ? null : `replaces ${view.member.replacement.of}`;
}

/** A set as its primary shows it, and what it can spare. */
export function replicaSetStatus(set: ReplicaSetState, all: readonly MemberView[]): ReplicaSetStatus {
  const { name, stage, role, registered } = set;
  const members = all.filter((v) => v.member.replicaSet === name);
  const primary = primaryOf(members);
  const q = quorumOf(members);
  const config = primary?.database?.config ?? null;
  return {
    name,
    role: ROLES[role] as Exclude<(typeof ROLES)[keyof typeof ROLES], 'router'>,
    ...(role === 'shardServer' ? { registered } : {}),
    stage: stage === 'ready' ? 'ready' : stage === 'users' ? 'users' : 'planned',
    ...(primary?.database?.term == null ? {} : { term: primary.database.term }),
    ...(config === null ? {} : { configVersion: config.version }),
    ...(primary === null ? {} : { primary: primary.member.name }),
    voters: q.voters,
    healthyVoters: q.healthyVoters,
    majority: q.needed,
    ...(primary?.database?.featureCompatibilityVersion
      ? { featureCompatibilityVersion: primary.database.featureCompatibilityVersion }
      : {}),
  };
}

/** Where clients reach a member; none: it has no place yet. */
export function endpoint(
  view: MemberView,
): { kind: 'private'; member: string; host: string; port: number }[] {
  const { member } = view;
  return member.address === null || member.port === null
    ? []
    : [{ kind: 'private', member: member.name, host: member.address, port: member.port }];
}
