import { majorOf } from '../../model/index.ts';
import type { Decision, Step } from '../decisions.ts';
import { type MemberView, primaryOf } from '../interpret.ts';
import { BALANCER_KNOWN } from '../limits.ts';
import { pendingOf } from '../state.ts';
import { memberHost } from '../topology.ts';
import type { BalancerRest, MemberState, ReplicaSetState, State } from '../types.ts';
import { fcvOf } from './fcv.ts';
import { act, backingOff, type Planner, type Scene, soon, verdict, wait } from './planner.ts';
import { isDown, needOf, planRollout } from './rollout.ts';
import { workingRouter } from './routers.ts';

/*
 * What only a sharded cluster has: shards that are registered through a router, and a balancer that rests while members
 * are worked on.
 */

/** `set/host:port,…` as addShard takes it: full members only. */
export function shardAddress(state: Pick<State, 'members'>, set: string): string {
  const members = state.members.filter((m) => m.replicaSet === set && m.stage === 'active');
  return `${set}/${members.flatMap((m) => memberHost(m) ?? []).join(',')}`;
}

/** A5.3, A6.5: each shard is registered once, when it is a set with users and a primary (SHD-05, SHD-08). */
export const planShards: Planner = (scene) => {
  if (scene.desired.deleting !== null || scene.desired.suspend) return null;
  const todo = scene.state.replicaSets.filter(
    (r) => r.role === 'shardServer' && r.stage === 'ready' && !r.registered,
  );
  if (todo.length === 0) return null;
  const router = workingRouter(scene.all);
  if (router === null) {
    const names = todo.map((r) => r.name).join(', ');
    const detail = `${names} becomes a shard when a router reaches the config servers`;
    return verdict([wait('WaitingForRouter', soon(scene), detail)], false);
  }
  return verdict(
    todo.map((set) => register(scene, set, router)),
    false,
  );
};

function register(scene: Scene, set: ReplicaSetState, router: MemberView): Decision {
  const members = scene.all.filter((v) => v.member.replicaSet === set.name);
  if (primaryOf(members) === null || !members.some((v) => v.member.stage === 'active'))
    return wait('WaitingForPrimary', soon(scene), `${set.name} becomes a shard when it has a primary`);
  const behind = behindCluster(scene, set.name, members);
  if (behind !== null)
    return wait('WaitingForMembers', soon(scene), `${set.name} becomes a shard when ${behind}`);
  const shard = shardAddress(scene.state, set.name);
  return (
    backingOff(scene, 'addShard', set.name) ??
    act(
      'ShardMissing',
      [{ kind: 'addShard', replicaSet: set.name, via: router.member.name, shard }],
      `register ${set.name} as a shard through ${router.member.name}`,
    )
  );
}

/**
 * S7: registering gives the set the compatibility version of the config servers. Members that are too old for it, because the
 * version was changed while the cluster was being made, get their binary first; one that was replaced hears of it as long as it
 * runs.
 */
function behindCluster(scene: Scene, set: string, members: readonly MemberView[]): string | null {
  const config = scene.state.replicaSets.find((r) => r.role === 'configServer');
  const fcv = config === undefined ? null : fcvOf(scene.all, config.name);
  const isOld = (version: string): boolean => (majorOf(version) ?? 0) < (majorOf(fcv ?? '') ?? 0);
  const old = members.find(
    ({ member, database }) =>
      isOld(member.deployedVersion ?? '') ||
      member.stage === 'upgrading' ||
      (database !== null && isOld(database.binaryVersion)),
  );
  if (old !== undefined) return `${old.member.name} runs ${fcv} like the config servers`;
  const { state, observed } = scene;
  const left = state.retired?.find(
    (m) =>
      m.replicaSet === set &&
      m.serviceId !== null &&
      isOld(m.deployedVersion ?? '') &&
      observed.hosts.some((h) => h.name === m.host && h.connected),
  );
  return left === undefined ? null : `${left.name}, which has left it, is gone`;
}

/**
 * A8.3, S14: the balancer is stopped once before the first member of a set is worked on, its former state is remembered,
 * and it is brought back to that when nothing is left to be worked on, whoever stopped in between. It does not rest for what
 * waits for a maintenance window, for somebody else's lock or for a person.
 */
export const planBalancer: Planner = (scene) => {
  if (scene.desired.deleting !== null || scene.desired.suspend || scene.desired.sharded === null) return null;
  const rests = scene.state.balancer;
  const { work, first } = isRolling(scene) ? workOf(scene) : NO_WORK;
  const begins = first !== undefined;
  const wish = switched(scene);
  // It rests for members after that, and before it does nobody is worked on.
  if (wish !== null) return verdict(wish, begins);
  if (rests === null && !begins) return null;
  const router = workingRouter(scene.all);
  const mode = router?.database?.router?.balancer ?? null;
  if (router === null || mode === null) {
    const detail = !work
      ? 'the balancer is brought back when a router reaches the config servers'
      : 'members are worked on when a router can tell and stop the balancer';
    // Nobody is worked on before the balancer is known to rest; what has begun goes on.
    return verdict([wait('WaitingForRouter', soon(scene), detail)], begins && rests?.confirmed !== true);
  }
  return work ? rest(scene, router, mode, first) : wake(scene, router);
};

/** What the roller does: `first` takes a member of a set down next; without it, something is under way or waits for the world. */
interface Work {
  readonly work: boolean;
  readonly first?: Step;
}
const NO_WORK: Work = { work: false };

function workOf(scene: Scene): Work {
  const decisions = planRollout(scene)?.decisions ?? [];
  const steps = decisions.flatMap((d) => (d.kind === 'act' ? d.steps : []));
  const first = steps.find((step) => takesSetDown(scene, step));
  if (first !== undefined) return { work: true, first };
  const busy = scene.all.some(({ member }) => isBusy(scene, member));
  const waits = decisions.some((d) => d.kind === 'wait' && d.on !== 'MaintenanceWindow');
  return { work: busy || waits || steps.length > 0 };
}

/** Working on one that is down already takes nothing along. */
function takesSetDown({ all }: Scene, step: Step): boolean {
  if (step.kind === 'stepDown') return true;
  if (step.kind !== 'reload' && step.kind !== 'upgrade') return false;
  const view = all.find(({ member }) => member.name === step.member);
  return view?.member.role !== 'router' && (view === undefined || !isDown(view));
}

const isBusy = (scene: Scene, member: MemberState): boolean =>
  member.stage === 'reloading' ||
  member.stage === 'upgrading' ||
  pendingOf(scene.state, member.name)?.action === 'upgrade';

/** A person's operation; nothing else is under way while it runs (A13.6). */
function switched(scene: Scene): readonly Decision[] | null {
  const work = scene.state.operation?.work;
  if (work?.kind !== 'SwitchBalancer' || work.told) return null;
  const router = workingRouter(scene.all);
  if (router === null)
    return [wait('WaitingForRouter', soon(scene), 'the balancer is switched through a router')];
  const step = act(
    'BalancerSwitched',
    [{ kind: 'switchBalancer', via: router.member.name, enabled: work.enabled }],
    `the balancer is switched ${work.enabled ? 'on' : 'off'} as asked`,
  );
  return [backingOff(scene, 'switchBalancer', 'balancer') ?? step];
}

function rest(
  scene: Scene,
  router: MemberView,
  mode: 'full' | 'off',
  before: Step | undefined,
): ReturnType<Planner> {
  const via = router.member.name;
  const rests = scene.state.balancer;
  if (rests?.confirmed === true && isWokenUp(scene, rests, mode)) {
    // The AutoMerger went on along; where it alone was off before, it is to be off again.
    const autoMerge = rests.wasEnabled ? rests.autoMerge : undefined;
    const text = 'somebody switched the balancer on; it stops until members were worked on';
    return stop(scene, { via, wasEnabled: true, autoMerge, before }, text);
  }
  if (rests?.confirmed !== true) {
    const set = lastKnown(scene);
    const wasEnabled = rests?.wasEnabled ?? set?.on ?? mode === 'full';
    const autoMerge = set?.autoMerge ?? router.database?.router?.autoMerge;
    const text = wasEnabled
      ? 'the balancer stops while members are worked on'
      : 'the balancer is off and stays so';
    return stop(scene, { via, wasEnabled, autoMerge, before }, text);
  }
  if (router.database?.router?.balancing !== true) return null;
  return verdict(
    [wait('BalancerFinishing', soon(scene), 'a migration of the balancer is still under way')],
    true,
  );
}

interface Stop {
  readonly via: string;
  readonly wasEnabled: boolean;
  readonly autoMerge: boolean | undefined;
  readonly before: Step | undefined;
}

function stop(scene: Scene, stopping: Stop, text: string): ReturnType<Planner> {
  const { via, wasEnabled, autoMerge, before } = stopping;
  const known = {
    ...(autoMerge === undefined ? {} : { autoMerge }),
    ...(before === undefined ? {} : { before }),
  };
  const step = act('BalancerRests', [{ kind: 'stopBalancer', via, wasEnabled, ...known }], text);
  return verdict([backingOff(scene, 'stopBalancer', 'balancer') ?? step], true);
}

/** S14: while it rests because of us, only somebody else can have switched it on; a reading may be of before our stop. */
const isWokenUp = ({ now }: Scene, { at }: BalancerRest, mode: 'full' | 'off'): boolean =>
  mode === 'full' && (at === undefined || Math.abs(now - at) >= BALANCER_KNOWN);

/** S14: a reading may be of before what we or a person through us did to it a moment ago. */
function lastKnown({ state, now }: Scene): State['balancerSet'] | null {
  const { balancerSet } = state;
  return balancerSet !== undefined && Math.abs(now - balancerSet.at) < BALANCER_KNOWN ? balancerSet : null;
}

function wake(scene: Scene, router: MemberView): ReturnType<Planner> {
  const { wasEnabled: enable = false, autoMerge } = scene.state.balancer ?? {};
  // The server makes it what the balancer is.
  const apart = autoMerge === undefined || autoMerge === enable ? {} : { autoMerge };
  const step = act(
    'BalancerResumes',
    [{ kind: 'startBalancer', via: router.member.name, enable, ...apart }],
    enable ? 'the balancer runs again' : 'the balancer stays off, as it was',
  );
  return verdict([backingOff(scene, 'startBalancer', 'balancer') ?? step], false);
}

/** Some member of a set is being worked on or will be; once the balancer rests, the routers' turn is waited for too. */
function isRolling(scene: Scene): boolean {
  const rests = scene.state.balancer !== null;
  return scene.all.some(({ member }) => {
    if (member.role === 'router' && !rests) return false;
    return isBusy(scene, member) || needOf(scene, member) !== null;
  });
}
