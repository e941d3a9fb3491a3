import type { Scene } from '../planners/planner.ts';
import { neverSpared } from '../planners/sparing.ts';
import { restartToken } from '../snapshotInputs.ts';
import type { OperationRequest, RunningOperation, State } from '../types.ts';
import type { OperationRule } from './rule.ts';

/**
 * Restart (A13.2): each member gets a snapshot with a new token and with it a restart, by the roller's order and under its
 * questions. A member that is down already and comes back with the token counts too.
 */
export const RESTART: OperationRule = {
  // What no waiting mends would hold up those that stand behind it, and once begun the members that are one way out (A13.6).
  refuse: (scene, request) => {
    const unknown = wanted(request).filter((name) => !scene.state.members.some((m) => m.name === name));
    if (unknown.length > 0) return `there is no member ${unknown.join(', ')}`;
    const never = indispensable(scene, wanted(request));
    return never === null ? null : `${never.by}: ${never.detail}; ${never.fix}`;
  },
  waitFor: () => null,
  begin: ({ state }, request) => {
    const names = wanted(request);
    const members = state.members.map((m) => m.name).filter((n) => names.length === 0 || names.includes(n));
    // Equal versions mean equal content (A9.1): the token makes it another one.
    return {
      begun: { members, work: { kind: 'Restart' } },
      state: { ...state, configVersion: state.configVersion + 1 },
    };
  },
  progress: ({ state }, operation) => {
    const completed = operation.members.filter((name) => isRestarted(state, operation, name));
    const over = completed.length === operation.members.length;
    const text =
      completed.length === 1 ? '1 member was restarted' : `${completed.length} members were restarted`;
    return { completed, ended: over ? { state: 'Succeeded', message: text } : null };
  },
  // Members not reached yet keep the token they have; the one under way is brought to its end by the roller.
  cancel: ({ state }) => state,
  movesMembers: false,
};

/**
 * The first member that the set cannot be without, with the way out. How it is at this moment does not count: one that is
 * back a moment later is to be restarted then.
 */
function indispensable(scene: Scene, names: readonly string[]): ReturnType<typeof neverSpared> {
  for (const view of scene.all) {
    const { name, replicaSet } = view.member;
    const members = scene.all.filter((v) => v.member.replicaSet === replicaSet);
    const asked = names.length === 0 || names.includes(name);
    if (!asked) continue;
    const never = neverSpared(scene, view, members);
    if (never !== null) return never;
  }
  return null;
}

const wanted = ({ spec }: OperationRequest): readonly string[] =>
  spec.type === 'Restart' ? spec.members : [];

/** One that left the cluster meanwhile, or is about to, needs no restart. */
function isRestarted(state: State, operation: RunningOperation, name: string): boolean {
  const member = state.members.find((m) => m.name === name);
  if (member === undefined || member.stage === 'removing') return true;
  return member.stage === 'active' && member.activated?.restartToken === restartToken({ operation }, member);
}
