import type { Decision } from '../decisions.ts';
import { type MemberView, primaryOf } from '../interpret.ts';
import { pendingOf } from '../state.ts';
import { memberHost } from '../topology.ts';
import type { ReplicaSetState, State } from '../types.ts';
import { act, backingOff, type Planner, type Scene, soon, verdict, wait } from './planner.ts';
import { needOf } from './rollout.ts';
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
 * A8.3, S14: the balancer is stopped once before the first member of a set is worked on, its former state is remembered,
 * and it is brought back to that when nothing is left to be worked on, whoever stopped in between.
 */
export const planBalancer: Planner = (scene) => {
  if (scene.desired.deleting !== null || scene.desired.suspend || scene.desired.sharded === null) return null;
  const wish = switched(scene);
  if (wish !== null) return wish;
  const rolling = isRolling(scene);
  const rests = scene.state.balancer;
  if (!rolling && rests === null) return null;
  const router = workingRouter(scene.all);
  const mode = router?.database?.router?.balancer ?? null;
  if (router === null || mode === null) {
    const detail = rolling
      ? 'members are worked on when a router can tell and stop the balancer'
      : 'the balancer is brought back when a router reaches the config servers';
    return verdict([wait('WaitingForRouter', soon(scene), detail)], rolling && rests === null);
  }
  return rolling ? rest(scene, router, mode) : wake(scene, router);
};

/** A person's operation; nothing else is under way while it runs (A13.6). */
function switched(scene: Scene): ReturnType<Planner> {
  const work = scene.state.operation?.work;
  if (work?.kind !== 'SwitchBalancer') return null;
  const router = workingRouter(scene.all);
  if (router === null)
    return verdict(
      [wait('WaitingForRouter', soon(scene), 'the balancer is switched through a router')],
      false,
    );
  const mode = router.database?.router?.balancer;
  if (mode === (work.enabled ? 'full' : 'off')) return null;
  const step = act(
    'BalancerSwitched',
    [{ kind: 'switchBalancer', via: router.member.name, enabled: work.enabled }],
    `the balancer is switched ${work.enabled ? 'on' : 'off'} as asked`,
  );
  return verdict([backingOff(scene, 'switchBalancer', 'balancer') ?? step], false);
}

function rest(scene: Scene, router: MemberView, mode: 'full' | 'off'): ReturnType<Planner> {
  const via = router.member.name;
  if (scene.state.balancer === null || (mode === 'full' && !scene.state.balancer.confirmed)) {
    const wasEnabled = scene.state.balancer?.wasEnabled ?? mode === 'full';
    const text = wasEnabled
      ? 'the balancer stops while members are worked on'
      : 'the balancer is off and stays so';
    const step = act('BalancerRests', [{ kind: 'stopBalancer', via, wasEnabled }], text);
    return verdict([backingOff(scene, 'stopBalancer', 'balancer') ?? step], true);
  }
  if (router.database?.router?.balancing !== true) return null;
  return verdict(
    [wait('BalancerFinishing', soon(scene), 'a migration of the balancer is still under way')],
    true,
  );
}

function wake(scene: Scene, router: MemberView): ReturnType<Planner> {
  const step = act(
    'BalancerResumes',
    [{ kind: 'startBalancer', via: router.member.name, enable: scene.state.balancer?.wasEnabled === true }],
    scene.state.balancer?.wasEnabled === true
      ? 'the balancer runs again'
      : 'the balancer stays off, as it was',
  );
  return verdict([backingOff(scene, 'startBalancer', 'balancer') ?? step], false);
}

/** Some member of a set is being worked on or will be next; once the balancer rests, the routers' turn is waited for too. */
function isRolling(scene: Scene): boolean {
  const rests = scene.state.balancer !== null;
  return scene.all.some(({ member }) => {
    if (member.role === 'router' && !rests) return false;
    const busy = member.stage === 'reloading' || member.stage === 'upgrading';
    return (
      busy || pendingOf(scene.state, member.name)?.action === 'upgrade' || needOf(scene, member) !== null
    );
  });
}
