import type { OperationRule } from './rule.ts';

/**
 * StartBalancer and StopBalancer: a person's own wish, through a router. It stays so: while members are worked on later,
 * what a person set is what is brought back (S14).
 */
const balancer = (enabled: boolean): OperationRule => ({
  refuse: ({ desired }) => (desired.sharded === null ? 'only a sharded cluster has a balancer' : null),
  // What it was before is about to be brought back; a switch in between would be undone by that (S14).
  waitFor: ({ state }) => (state.balancer === null ? null : 'the balancer rests while members are worked on'),
  begin: ({ state }) => ({
    begun: { members: [], work: { kind: 'SwitchBalancer', enabled, told: false } },
    state,
  }),
  progress: (_, { work }) => {
    // A reading may be of before: only its own answer tells.
    const over = work.kind === 'SwitchBalancer' && work.told;
    const message = enabled ? 'the balancer moves chunks where it has to' : 'the balancer is stopped';
    return { completed: [], ended: over ? { state: 'Succeeded', message } : null };
  },
  cancel: ({ state }) => state,
  movesMembers: false,
});

export const START_BALANCER = balancer(true);
export const STOP_BALANCER = balancer(false);
