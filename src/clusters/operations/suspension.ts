import type { Scene } from '../planners/planner.ts';
import { act, type Planner, verdict } from '../planners/planner.ts';
import type { RunningOperation, State } from '../types.ts';
import type { OperationRule } from './rule.ts';

/**
 * Suspend and Resume (A13.1): they set `spec.suspend` when their turn has come, and end when the cluster is as it says. A
 * document applied meanwhile that says otherwise wins.
 */
const rule = (suspend: boolean): OperationRule => ({
  refuse: () => null,
  waitFor: () => null,
  begin: ({ state, desired }) => ({
    begun: {
      members: state.members.map((m) => m.name),
      work: { kind: 'Suspension', suspend, told: desired.suspend === suspend ? desired.generation : null },
    },
    state,
  }),
  progress: (scene, operation) => {
    const completed = operation.members.filter((name) => isThere(scene.state, suspend, name));
    return { completed, ended: endOf(scene, operation, suspend) };
  },
  cancel: ({ state }, { work }) =>
    work.kind === 'Suspension' && work.told === null
      ? state
      : `spec.suspend is ${suspend} already; ${suspend ? 'belay resume' : 'belay suspend'} is the way back`,
  movesMembers: true,
});

export const SUSPEND = rule(true);
export const RESUME = rule(false);

/** A member that left the cluster meanwhile needs nothing. */
function isThere(state: State, suspend: boolean, name: string): boolean {
  const member = state.members.find((m) => m.name === name);
  if (member === undefined) return true;
  return suspend ? member.serviceId === null : member.stage === 'active';
}

function endOf({ state, desired }: Scene, { work }: RunningOperation, suspend: boolean) {
  if (work.kind !== 'Suspension' || work.told === null) return null;
  if (desired.suspend !== suspend) {
    // Only a document newer than ours says so; an older one is a reading from before.
    if (desired.generation <= work.told) return null;
    return { state: 'Failed' as const, message: `spec.suspend was set to ${desired.suspend} meanwhile` };
  }
  if (suspend)
    return state.suspended
      ? { state: 'Succeeded' as const, message: 'suspended; data and credentials are kept' }
      : null;
  return state.phase === 'running' ? { state: 'Succeeded' as const, message: 'it runs again' } : null;
}

/** Sets `spec.suspend` for an operation whose turn it is. */
export const planSuspension: Planner = ({ state, desired }) => {
  const work = state.operation?.work;
  if (work?.kind !== 'Suspension' || work.told !== null || desired.deleting !== null) return null;
  const { suspend } = work;
  const text = suspend
    ? 'all members stop; data and credentials are kept'
    : 'members come back on their volumes';
  const step = { kind: 'setSuspend', suspend } as const;
  return verdict(
    [act(suspend ? 'Suspending' : 'Resuming', [step], `set spec.suspend: ${suspend}; ${text}`)],
    true,
  );
};
