/**
 * The planner: what is seen, wanted and remembered goes in, the next safe steps come out. The ordered list below is the
 * table of contents of the product. Pure: no clock, no I/O.
 */
import type { Millis } from '../base/units.ts';
import type { Decision, Plan } from './decisions.ts';
import { views } from './interpret.ts';
import { asMaintenance } from './maintained.ts';
import { planSuspension } from './operations/suspension.ts';
import { planFirstUser, planIdentity, planInitiate } from './planners/bootstrap.ts';
import { planChangedBeforeBootstrap } from './planners/changes.ts';
import { planFcv } from './planners/fcv.ts';
import { planHandOver } from './planners/handOver.ts';
import { planHealth } from './planners/health.ts';
import {
  planCredentials,
  planDeploy,
  planFirstPublish,
  planImport,
  planOtherPort,
  planPending,
  planStarting,
} from './planners/infrastructure.ts';
import { planLogins } from './planners/logins.ts';
import { planMembership, planRetirement } from './planners/membership.ts';
import { planOwnership } from './planners/ownership.ts';
import { blocked, type Planner, type Scene } from './planners/planner.ts';
import { planForcedReconfig } from './planners/quorum.ts';
import { planDeletion, planSuspend } from './planners/removal.ts';
import { planRollout } from './planners/rollout.ts';
import { planBalancer, planShards } from './planners/sharding.ts';
import { planSystemUsers, planUsers } from './planners/users.ts';
import { planVolumes } from './planners/volumes.ts';
import type { Desired, Observed, State } from './types.ts';

/** In order: the first that acts wins; a barrier hides everything after it; other waits and blocks stand beside. */
const PLANNERS: readonly (readonly [string, Planner])[] = [
  ['pending', planPending],
  ['deletion', planDeletion],
  ['suspension', planSuspension],
  ['suspend', planSuspend],
  ['credentials', planCredentials],
  ['identity', planIdentity],
  ['ownership', planOwnership],
  ['forced reconfiguration', planForcedReconfig],
  ['volumes', planVolumes],
  ['import', planImport],
  ['other port', planOtherPort],
  ['deploy', planDeploy],
  ['publish', planFirstPublish],
  ['changes before bootstrap', planChangedBeforeBootstrap],
  ['starting', planStarting],
  ['initiate', planInitiate],
  ['first user', planFirstUser],
  ['system users', planSystemUsers],
  ['logins', planLogins],
  ['shards', planShards],
  ['users', planUsers],
  ['membership', planMembership],
  ['retirement', planRetirement],
  ['hand-over for maintenance', planHandOver],
  ['fcv', planFcv],
  ['balancer', planBalancer],
  ['rollout', planRollout],
  ['health', planHealth],
];

/** The next steps. S11: a paused cluster gets none. `state` must have learned from this reading already (`advance`). */
export function plan(observed: Observed, desired: Desired, state: State, now: Millis): Plan {
  const scene: Scene = { observed, desired, state, now, all: views(state, observed) };
  if (desired.paused && desired.deleting === null) return collect([hands(desired)]);
  const decisions: Decision[] = [];
  for (const [, planner] of PLANNERS) {
    const verdict = planner(scene);
    if (verdict === null) continue;
    decisions.push(...verdict.decisions);
    if (verdict.barrier) break;
  }
  return collect(decisions.map((decision) => asMaintenance(observed, decision)));
}

const hands = (desired: Desired): Decision =>
  blocked(
    'Paused',
    'person',
    'spec.paused is true: Belay only watches',
    `set spec.paused to false: belay apply, or edit ${desired.name}`,
  );

/** At most one act stands (the first); equal waits are said once. */
function collect(decisions: readonly Decision[]): Plan {
  const acts = decisions.filter((d) => d.kind === 'act');
  const waits = unique(decisions.filter((d) => d.kind === 'wait'));
  const blocks = unique(decisions.filter((d) => d.kind === 'blocked'));
  return {
    act: acts[0] ?? null,
    waits,
    blocks,
    converged: acts.length === 0 && waits.length === 0 && blocks.length === 0,
  };
}

function unique<T extends { readonly detail: string }>(items: readonly T[]): readonly T[] {
  return items.filter((item, i) => items.findIndex((other) => other.detail === item.detail) === i);
}
