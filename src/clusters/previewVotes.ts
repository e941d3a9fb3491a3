/** What a planned step does to the votes of the sets it touches. */

import type { Step } from './decisions.ts';
import { isHealthy, type Quorum, quorumOf, views } from './interpret.ts';
import { isRouter, memberHost } from './topology.ts';
import type { Observed, State } from './types.ts';

/** Votes of one set before a step, and while it is done, at their lowest. */
export interface PreviewVotes {
  readonly replicaSet: string;
  readonly before: Quorum;
  readonly after: Quorum;
}

interface Moment {
  readonly observed: Observed;
  readonly state: State;
}

/** Null: the step changes neither who votes nor who is well. */
export function votesOf(steps: readonly Step[], before: Moment, after: Moment): PreviewVotes | null {
  const replicaSet = setOf(steps, before.state);
  if (replicaSet === null) return null;
  const was = quorum(before, replicaSet);
  const down = steps.some(takesDown);
  const is = down ? without(steps, before, replicaSet, was) : quorum(after, replicaSet);
  // Who is well changes by itself too; that is no step's doing.
  const same = down ? was.healthyVoters === is.healthyVoters : was.voters === is.voters;
  return same ? null : { replicaSet, before: was, after: is };
}

/** Steps whose member is down meanwhile, though the model shows it well again at once. */
const takesDown = ({ kind }: Step): boolean =>
  kind === 'reload' || kind === 'upgrade' || kind === 'deleteRuntime';

function setOf(steps: readonly Step[], state: State): string | null {
  for (const step of steps) {
    if (step.kind === 'reconfig') return step.replicaSet;
    if (!takesDown(step) || !('member' in step)) continue;
    const member = state.members.find((m) => m.name === step.member);
    if (member !== undefined && !isRouter(member)) return member.replicaSet;
  }
  return null;
}

const membersOf = ({ state, observed }: Moment, set: string) =>
  views(state, observed).filter((v) => v.member.replicaSet === set);

const quorum = (moment: Moment, set: string): Quorum => quorumOf(membersOf(moment, set));

function without(steps: readonly Step[], moment: Moment, set: string, was: Quorum): Quorum {
  const members = membersOf(moment, set);
  const config = members.find((v) => v.database?.writablePrimary)?.database?.config ?? null;
  const down = members.filter((v) => {
    const row = config?.members.find((m) => m.host === memberHost(v.member));
    const votes = config === null || row?.votes === 1;
    const touched = steps.some((s) => takesDown(s) && 'member' in s && s.member === v.member.name);
    return touched && votes && isHealthy(v, members);
  });
  return { ...was, healthyVoters: was.healthyVoters - down.length };
}
