import type { Decision } from '../decisions.ts';
import type { ConfigMember } from '../facts.ts';
import {
  configOf,
  isHealthy,
  isIrreplaceable,
  type MemberView,
  majority,
  primaryOf,
  runsItsSnapshot,
} from '../interpret.ts';
import { MAX_VOTERS } from '../limits.ts';
import { conflict, strangeVolume } from '../planners/ownership.ts';
import { placeAll } from '../planners/placement.ts';
import type { Scene } from '../planners/planner.ts';
import { goalHash } from '../snapshotInputs.ts';
import { memberOf, pendingOf, plannedMember, retryOf } from '../state.ts';
import { isRouter, memberHost, placeOf, wantedMember } from '../topology.ts';
import type {
  DesiredMember,
  MemberState,
  OperationRequest,
  Replacement,
  RunningOperation,
  State,
} from '../types.ts';
import { busyText } from './busy.ts';
import type { OperationRule, Progress } from './rule.ts';

/** Who is to be replaced, and where the new one may come to. */
type Intent = Pick<Replacement, 'host' | 'avoidHosts' | 'because'> & { readonly member: string };

/**
 * Replacement (A13.3): a new member with an index of its own takes the place of another, be that one well, down or on a host
 * that never comes back. The work is done by the membership planner, which looks at `MemberState.replacement`:
 *
 *   1. the new one is imported, deployed, joins without vote and copies the data: the old one is not touched;
 *   2. it has caught up twice: the old one leaves, and from here on there is no way back;
 *   3. the new one gets what the place had.
 *
 * A router has no data and no vote: the new one has the place when it serves, and then the old one goes.
 *
 * What is left of the old one is taken down by the ordinary planner, when its host is there. The operation ends when nothing
 * is left, or says what is.
 */
export function replacing(
  intentOf: (scene: Scene, request: OperationRequest) => Intent | null,
): OperationRule {
  return {
    refuse: (scene, request) => {
      const intent = intentOf(scene, request);
      return intent === null ? 'is not understood' : refusal(scene, intent);
    },
    waitFor: (scene, request) => {
      const intent = intentOf(scene, request);
      return intent === null ? null : obstacle(scene, intent);
    },
    begin: (scene, request) => {
      const substitute = substituteFor(scene, intentOf(scene, request) as Intent) as MemberState;
      const { name, index, replicaSet, replacement } = substitute;
      const { state } = scene;
      return {
        begun: { members: [replacement?.of ?? ''], work: { kind: 'Replace', substitute: name } },
        state: {
          ...state,
          members: [...state.members, substitute],
          nextMemberIndex: { ...state.nextMemberIndex, [replicaSet]: index + 1 },
        },
      };
    },
    progress,
    cancel,
    movesMembers: true,
  };
}

/** Replace: the platform chooses where, hosts without a member of the set first. */
export const REPLACE: OperationRule = replacing((_, { spec }) =>
  spec.type === 'Replace' ? { member: spec.member, host: null, avoidHosts: [], because: 'Replacing' } : null,
);

// ── before it begins ───────────────────────────────────────────────────────────────────────────────────────────────

function refusal(scene: Scene, intent: Intent): string | null {
  const { state, desired } = scene;
  const member = state.members.find((m) => m.name === intent.member);
  if (member === undefined)
    return memberOf(state, intent.member) === null
      ? `there is no member ${intent.member}`
      : `${intent.member} is out of its set already; what is left of it goes when host ${memberOf(state, intent.member)?.host} is back`;
  if (member.stage === 'removing') return `${member.name} leaves the set already`;
  if (wantedMember(state, desired, member) === null)
    return `the spec has no place for ${member.name} any more`;
  if (intent.host !== null && intent.host === member.host)
    return `${member.name} is on host ${member.host} already`;
  const substitute = substituteFor(scene, intent);
  if (substitute === null) return null;
  const config = configOf(membersOf(scene, member));
  const row = config?.members.find((r) => r.host === memberHost(member));
  const voters = config?.members.filter((r) => r.votes === 1).length ?? 0;
  if (config && row && voters >= MAX_VOTERS && isIrreplaceable(config, row))
    return `${member.name} is the only one of ${voters} voters that could be primary: give another a priority first`;
  const nowhere = placement(scene, substitute);
  return nowhere?.kind === 'blocked' ? `${nowhere.detail}; ${nowhere.fix}` : null;
}

/** Others of the set are settled, and enough of them are well to do without the old one (A6.4). */
function obstacle(scene: Scene, intent: Intent): string | null {
  const { state } = scene;
  const member = memberOf(state, intent.member);
  if (member === null) return null;
  if (isRouter(member)) return obstacleOfRouter(scene, intent, member);
  const set = state.replicaSets.find((r) => r.name === member.replicaSet);
  if (set?.stage !== 'ready') return `${member.replicaSet} is not set up yet`;
  const busy = state.members.find((m) => m !== member && m.replicaSet === set.name && m.stage !== 'active');
  if (busy !== undefined) return busyText(busy);
  const pending = state.members.find((m) => m !== member && pendingOf(state, m.name) !== null);
  if (pending !== undefined)
    return `${pendingOf(state, pending.name)?.action} of ${pending.name} is under way`;
  const members = membersOf(scene, member);
  const config = configOf(members);
  if (config === null || primaryOf(members) === null) return `${set.name} has no primary`;
  const lack = majorityWithout(members, config.members, memberHost(member)) ?? rejected(scene, member);
  if (lack !== null) return lack;
  const substitute = substituteFor(scene, intent);
  const nowhere = substitute === null ? null : placement(scene, substitute);
  return nowhere?.kind === 'wait' ? nowhere.detail : null;
}

/** Routers hold no data: the new one serves before the old one goes, and nobody's vote is counted. */
function obstacleOfRouter(scene: Scene, intent: Intent, router: MemberState): string | null {
  const { state } = scene;
  const others = state.members.filter((m) => m !== router);
  const busy = others.find((m) => m.replicaSet === router.replicaSet && m.stage !== 'active');
  if (busy !== undefined) return busyText(busy);
  const config = state.replicaSets.find((r) => r.role === 'configServer');
  if (config?.stage !== 'ready') return `${config?.name} is not set up yet`;
  const pending = others.find((m) => pendingOf(state, m.name) !== null);
  if (pending !== undefined)
    return `${pendingOf(state, pending.name)?.action} of ${pending.name} is under way`;
  const bad = rejected(scene, router);
  if (bad !== null) return bad;
  const substitute = substituteFor(scene, intent);
  const nowhere = substitute === null ? null : placement(scene, substitute);
  return nowhere?.kind === 'wait' ? nowhere.detail : null;
}

/**
 * The new one would get what somebody cannot take and nobody runs: it is the spec that is to be mended. What others run is no
 * fault of the spec, and the one that cannot take it may well be replaced.
 */
function rejected(scene: Scene, member: MemberState): string | null {
  const { goal } = scene.state;
  if (goal === null) return null;
  const given = scene.all.filter(
    ({ member: other }) =>
      other.role === member.role && other.activated?.configHash === goalHash(goal, member.role),
  );
  const bad = given.find(({ facts }) => facts !== null && facts.configError !== null);
  return bad === undefined || given.some(runsItsSnapshot)
    ? null
    : `${bad.member.name} cannot take its configuration, which the new one would get too: correct the spec first`;
}

const membersOf = (scene: Scene, member: MemberState): readonly MemberView[] =>
  scene.all.filter((v) => v.member.replicaSet === member.replicaSet);

/** A member that alone is the set is not lacked before its substitute votes; any other must be done without. */
function majorityWithout(
  members: readonly MemberView[],
  rows: readonly ConfigMember[],
  host: string | null,
): string | null {
  const rest = rows.filter((r) => r.votes === 1 && r.host !== host);
  if (rest.length === 0) return null;
  const healthy = new Set(members.filter((v) => isHealthy(v, members)).map((v) => memberHost(v.member)));
  const well = rest.filter((r) => healthy.has(r.host)).length;
  const needed = majority(rest.length);
  return well >= needed
    ? null
    : `${well} of the ${rest.length} other voters are healthy, and a majority is ${needed}: it would lose the set`;
}

/** The member as it would be planned; null when there is nobody to replace. */
function substituteFor(scene: Scene, intent: Intent): MemberState | null {
  const { state } = scene;
  const old = state.members.find((m) => m.name === intent.member);
  if (old === undefined) return null;
  const { replicaSet: name, role, shardIndex } = old;
  const index = state.nextMemberIndex[name] ?? 0;
  const { host, avoidHosts, because } = intent;
  return {
    ...plannedMember({ name, role, shardIndex }, index),
    place: placeOf(old),
    replacement: { of: old.name, settings: settingsOf(scene, old), host, avoidHosts, because },
  };
}

/** What the place has in the set now, rather than what a newer spec gives it: that is for afterwards. */
function settingsOf(scene: Scene, old: MemberState): DesiredMember {
  const row = configOf(membersOf(scene, old))?.members.find((r) => r.host === memberHost(old));
  const wanted = wantedMember(scene.state, scene.desired, old) ?? NOBODY;
  if (row === undefined) return wanted;
  const { votes, priority, hidden = false, secondaryDelaySecs = 0, tags = {} } = row;
  return { votes, priority, hidden, secondaryDelaySecs, tags };
}
const NOBODY: DesiredMember = { votes: 0, priority: 0, hidden: false, secondaryDelaySecs: 0, tags: {} };

/** Why it cannot be placed now; null when it can. */
function placement(
  scene: Scene,
  substitute: MemberState,
): Extract<Decision, { kind: 'wait' | 'blocked' }> | null {
  const placed = placeAll(scene, [substitute]);
  if (placed.ok || placed.error.kind === 'act' || placed.error.kind === 'converged') return null;
  return placed.error;
}

// ── while it runs ──────────────────────────────────────────────────────────────────────────────────────────────────

/** How much of the way is behind it at each point, in percent; the copy of the data is most of it. */
const [PLACED, STARTED, SYNCED, FREE, TAKEN] = [5, 10, 80, 90, 95] as const;

function progress(scene: Scene, operation: RunningOperation): Progress {
  const { state } = scene;
  const old = operation.members[0] ?? '';
  const substitute = substituteOf(state, operation);
  if (substitute === null)
    return { completed: [], ended: { state: 'Failed', message: `what was to replace ${old} is gone` } };
  const { name, host } = substitute;
  if (substitute.replacement === undefined) {
    const left = whatIsLeft(scene, old);
    if (left === 'goes') return { completed: [], ended: null, current: old, percent: TAKEN };
    const message = `${name} on host ${host} has the place of ${old}${left}`;
    return { completed: [old], ended: { state: 'Succeeded', message } };
  }
  const never = refusedPlace(scene, substitute);
  if (never !== null)
    return {
      completed: [],
      ended: { state: 'Failed', message: `${name} cannot be placed: ${never}; ${old} was not touched` },
      left: giveUp(state, substitute),
    };
  return { completed: [], ended: null, current: name, percent: percentOf(scene, substitute, old) };
}

const substituteOf = (state: State, { work }: RunningOperation): MemberState | null =>
  work.kind === 'Replace' ? (state.members.find((m) => m.name === work.substitute) ?? null) : null;

/** `goes`: the old one is being taken down. Else what is to be said of it: nobody waits for a host that is away or refuses. */
function whatIsLeft({ state, observed, desired }: Scene, old: string): 'goes' | string {
  const left = state.retired?.find((m) => m.name === old);
  if (left === undefined) return '';
  if (desired.suspend) return `; what is left on host ${left.host} goes when the cluster is resumed`;
  if (!observed.hosts.some((h) => h.name === left.host && h.connected))
    return `; what is left on host ${left.host} goes when that host is back`;
  const strange = left.serviceId === null ? strangeVolume({ state, observed }, left) : null;
  if (strange !== null) return `; ${strange}`;
  const refused = retryOf(state, 'deleteRuntime', old) ?? retryOf(state, 'deleteVolume', old);
  return refused === null
    ? 'goes'
    : `; what is left on host ${left.host} could not be removed yet, which is tried again: ${refused.message}`;
}

function percentOf(scene: Scene, { name, stage }: MemberState, old: string): number {
  if (stage === 'planned') return 0;
  if (stage === 'imported') return PLACED;
  if (stage !== 'syncing') return STARTED;
  if (!scene.state.members.some((m) => m.name === old)) return FREE;
  const view = scene.all.find((v) => v.member.name === name);
  const synced = view?.database?.state === 'SECONDARY' ? 100 : (view?.database?.initialSyncPercent ?? 0);
  return Math.round(STARTED + ((SYNCED - STARTED) * synced) / 100);
}

/** Import failures that no waiting mends: the host or the platform said no. */
const DEFINITE: ReadonlySet<string> = new Set([
  'NoExecutables',
  'OwnershipConflict',
  'ForeignData',
  'PortTaken',
  'NoHost',
]);

/** A13.7: a definite refusal to place it, while nothing was done to the old one. */
function refusedPlace(scene: Scene, substitute: MemberState): string | null {
  const { state, observed } = scene;
  if (substitute.stage !== 'planned' || pendingOf(state, substitute.name) !== null) return null;
  const retry = retryOf(state, 'import', substitute.name);
  if (retry !== null && DEFINITE.has(retry.code)) return retry.message;
  const foreign = observed.services === null ? null : conflict(scene, substitute, observed.services);
  if (foreign !== null) return foreign.detail;
  // One that was placed before and came back from a suspension keeps its place.
  if (substitute.host !== null) return null;
  const nowhere = placement(scene, substitute);
  return nowhere?.kind === 'blocked' ? `${nowhere.detail}; ${nowhere.fix}` : null;
}

/** Clean-up retires only who has not taken the place (A13.7). */
const giveUp = (state: State, { name }: MemberState): State => ({
  ...state,
  members: state.members.map((m) => (m.name === name ? { ...m, stage: 'removing' as const } : m)),
});

function cancel(scene: Scene, operation: RunningOperation): State | string {
  const { state } = scene;
  const old = operation.members[0] ?? '';
  const substitute = substituteOf(state, operation);
  if (substitute === null) return state;
  if (substitute.replacement === undefined)
    return `${substitute.name} has the place of ${old}, which is being removed`;
  if (!state.members.some((m) => m.name === old))
    return `${old} is out of the set: it goes on until ${substitute.name} has its place`;
  if (isRouter(substitute)) return giveUp(state, substitute);
  const members = membersOf(scene, substitute);
  const config = configOf(members);
  if (config === null) return `${substitute.replicaSet} has no primary: nothing is known of its members`;
  const row = config.members.find((r) => r.host === memberHost(substitute));
  return row?.votes === 1 ? `${substitute.name} votes already` : giveUp(state, substitute);
}
