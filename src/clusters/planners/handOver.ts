import type { Decision } from '../decisions.ts';
import { primaryOf } from '../interpret.ts';
import type { HandOverRequest } from '../types.ts';
import { act, backingOff, type Planner, type Scene, soon, verdict, wait } from './planner.ts';
import { heirOf, isUnderWay } from './rollout.ts';

/**
 * C6.1: primaries on what a person wants to work on hand over before it is granted (`--step-down`). A person asked for it
 * now, so no window is waited for.
 */
export const planHandOver: Planner = (scene) => {
  if (scene.desired.deleting !== null || scene.desired.suspend) return null;
  const decisions = (scene.observed.handOvers ?? []).flatMap((asked) => handOver(scene, asked) ?? []);
  return decisions.length === 0 ? null : verdict(decisions, false);
};

function handOver(scene: Scene, { member, task, owner }: HandOverRequest): Decision | null {
  const view = scene.all.find((v) => v.member.name === member);
  if (view === undefined) return null;
  const members = scene.all.filter((v) => v.member.replicaSet === view.member.replicaSet);
  if (primaryOf(members) !== view) return null;
  const { replicaSet } = view.member;
  const busy = members.find((v) => isUnderWay(scene, v.member));
  if (busy !== undefined) {
    const detail = `${member} hands over for task ${task} of ${owner} when ${busy.member.name} is back`;
    return wait('DisruptionInProgress', soon(scene), detail, member);
  }
  if (heirOf(view, members) === null) {
    const detail = `task ${task} of ${owner} waits for ${member} to hand over, and no caught-up secondary could take over`;
    return wait('NoElectableSecondary', soon(scene), detail, member);
  }
  return (
    backingOff(scene, 'stepDown', replicaSet) ??
    act(
      'HostMaintenance',
      [{ kind: 'stepDown', replicaSet, member }],
      `${member} hands over for task ${task} of ${owner}; writes pause for an election`,
    )
  );
}
