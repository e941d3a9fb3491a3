import { MINUTE, type Millis } from '../../base/units.ts';
import { type MemberView, primaryOf } from '../interpret.ts';
import type { Scene } from '../planners/planner.ts';
import { isReduced, type LostQuorum, lostQuorum } from '../planners/quorum.ts';
import { withMember } from '../state.ts';
import { memberHost } from '../topology.ts';
import type { OperationWork, State } from '../types.ts';
import type { OperationRule } from './rule.ts';

type Work = Extract<OperationWork, { kind: 'ForceReconfig' }>;

/**
 * ForceReconfig (QRM-01, QRM-03): a set that lost its majority goes on with the members that are left, at the price of writes
 * that only the lost ones hold. Only when asked for with that acknowledgement, and only while the loss is plain to see.
 * `planForcedReconfig` does it. Those left out come back as new members do, when their hosts do, or are replaced.
 */
export const FORCE_RECONFIG: OperationRule = {
  refuse: (scene) =>
    lostSet(scene) === null
      ? 'no set is known to have lost its majority for good: nothing is forced while one has a primary, may elect one, or nobody tells'
      : null,
  waitFor: () => null,
  begin: (scene) => {
    const found = lostSet(scene);
    const up = found?.lost.up ?? [];
    const keep = up.flatMap((v) => memberHost(v.member) ?? []);
    const work: Work = {
      kind: 'ForceReconfig',
      replicaSet: found?.name ?? '',
      via: up[0]?.member.name ?? '',
      keep,
      sentAt: null,
    };
    return { begun: { members: up.map((v) => v.member.name), work }, state: scene.state };
  },
  progress: (scene, { work, members }) => {
    if (work.kind !== 'ForceReconfig') return { completed: [], ended: null };
    const config = primaryOf(membersOf(scene, work.replicaSet))?.database?.config ?? null;
    if (config === null) return { completed: [], ended: null };
    if (!isReduced(config, work.keep)) {
      if (work.sentAt !== null && scene.now - work.sentAt < TOLD_WITHIN)
        return { completed: [], ended: null };
      const message = `${work.replicaSet} has a primary again without it; nothing was forced`;
      return { completed: [], ended: { state: 'Failed', message } };
    }
    const out = leftOut(scene.state, work);
    const who = out.map((m) => m.name).join(', ');
    const message = `${work.replicaSet} goes on with ${members.join(', ')}; left out: ${who}: bring their hosts back, or replace them`;
    return {
      completed: members,
      ended: { state: 'Succeeded', message },
      // They are no part of the set any more: one that comes back joins like a new one, without a vote until it has caught up.
      left: out.reduce(
        (s, m) => withMember(s, m.name, { stage: 'healthy', caughtUpSince: null }),
        scene.state,
      ),
    };
  },
  cancel: ({ state }) => state,
  movesMembers: true,
};

/** A set that has a primary and still shows its old configuration after this long has it because nothing was forced. */
const TOLD_WITHIN: Millis = MINUTE;

const membersOf = (scene: Scene, set: string): readonly MemberView[] =>
  scene.all.filter((v) => v.member.replicaSet === set);

function lostSet(scene: Scene): { readonly name: string; readonly lost: LostQuorum } | null {
  for (const { name, stage } of scene.state.replicaSets) {
    const lost = stage === 'ready' ? lostQuorum(membersOf(scene, name)) : null;
    if (lost !== null) return { name, lost };
  }
  return null;
}

const leftOut = (state: State, { replicaSet, keep }: Work) =>
  state.members.filter(
    (m) => m.replicaSet === replicaSet && m.stage === 'active' && !keep.includes(memberHost(m) ?? ''),
  );
