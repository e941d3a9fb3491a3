/** What people want over time: documents they write, through the same checks as the API's. */
import type { Rng } from '../base/rng.ts';
import { type Millis, SECOND } from '../base/units.ts';
import type { ClusterPlan } from './scenario.ts';

export type EditKind =
  | { readonly kind: 'user'; readonly user: string }
  | { readonly kind: 'userRoles'; readonly user: string }
  | { readonly kind: 'password'; readonly user: string }
  | { readonly kind: 'dropUser'; readonly user: string }
  | { readonly kind: 'suspend'; readonly on: boolean }
  | { readonly kind: 'pause'; readonly on: boolean }
  | { readonly kind: 'delete' }
  | { readonly kind: 'recreate' }
  | { readonly kind: 'roles'; readonly name: string }
  | { readonly kind: 'members'; readonly members: number }
  | { readonly kind: 'config'; readonly value: number; readonly bad: boolean }
  | { readonly kind: 'tls'; readonly mode: ClusterPlan['tlsMode'] }
  | { readonly kind: 'memory'; readonly gib: number }
  | { readonly kind: 'version'; readonly version: string }
  | {
      readonly kind: 'operation';
      readonly name: string;
      readonly type: AskedFor;
      /** Which of the members there are then, where it is about one. */
      readonly which: number;
    }
  | { readonly kind: 'cancel'; readonly name: string }
  | { readonly kind: 'memberConfig'; readonly rows: readonly Tuning[] }
  /** How many there are of a part of a sharded cluster. */
  | {
      readonly kind: 'counts';
      readonly part: 'shards' | 'shardMembers' | 'configServers' | 'routers';
      readonly to: number;
    }
  | { readonly kind: 'routerConfig'; readonly value: number; readonly bad: boolean }
  | { readonly kind: 'changeType' };

/** What is set for single members: nothing, or one way of being special. */
type Tuning = 'usual' | 'preferred' | 'tagged' | 'hidden' | 'last' | 'voteless';
const MILD: readonly Tuning[] = ['usual', 'usual', 'preferred', 'tagged'];
/** One of a set at most: with more of them nobody could be spared. */
const SPECIAL: readonly Tuning[] = ['hidden', 'last', 'voteless'];

/** Operations that people ask for. */
export const ASKED_FOR = [
  'Restart',
  'RestartOne',
  'Replace',
  'Move',
  'RotateTLS',
  'RotateUsers',
  'RaiseFCV',
  'Suspend',
  'Resume',
] as const;
type AskedFor = (typeof ASKED_FOR)[number] | 'StartBalancer' | 'StopBalancer';

export type Edit = EditKind & { readonly at: Millis; readonly cluster: string };

/** Draws what is wanted of every cluster; what is turned on is turned off again, or left. */
export function drawEdits(rng: Rng, clusters: readonly ClusterPlan[], calmAt: Millis): readonly Edit[] {
  const edits: Edit[] = [];
  for (const cluster of clusters) {
    const add = (at: Millis, edit: EditKind): void => {
      if (at < calmAt) edits.push({ ...edit, at, cluster: cluster.name });
    };
    for (let user = 0; user < cluster.users; user++)
      add(cluster.createdAt + rng.below(5 * SECOND), { kind: 'user', user: `app${user}` });
    const count = rng.below(5);
    for (let index = 0; index < count; index++) {
      const at = cluster.createdAt + 200 + rng.below(rng.chance(0.4) ? 6 * SECOND : calmAt);
      drawOne(rng, cluster, at, add);
    }
  }
  return edits.sort((a, b) => a.at - b.at);
}

/** Draws what is asked for once, and what of it is cancelled. */
export function drawOperations(rng: Rng, clusters: readonly ClusterPlan[], calmAt: Millis): readonly Edit[] {
  const edits: Edit[] = [];
  for (const { name: cluster, createdAt } of clusters) {
    const count = rng.chance(0.45) ? 1 + rng.below(3) : 0;
    for (let index = 0; index < count; index++) {
      const name = `${cluster}-op${index}`;
      const at = Math.min(calmAt - 200, createdAt + rng.below(calmAt));
      edits.push({
        kind: 'operation',
        cluster,
        at,
        name,
        type: rng.pick(ASKED_FOR),
        which: rng.below(7),
      });
      if (rng.chance(0.2))
        edits.push({
          kind: 'cancel',
          cluster,
          name,
          at: Math.min(calmAt - 100, at + rng.below(15 * SECOND)),
        });
    }
  }
  return edits;
}

/** Draws what is set for single members. */
export function drawTunings(rng: Rng, clusters: readonly ClusterPlan[], calmAt: Millis): readonly Edit[] {
  return clusters.flatMap(({ name: cluster, createdAt, members }): readonly Edit[] => {
    if (members < 3 || !rng.chance(0.3)) return [];
    const draw = (): Edit => {
      const rows = Array.from({ length: members }, () => rng.pick(MILD));
      const special = rng.pick(SPECIAL);
      if (special !== 'voteless' || members > 3) rows[rng.below(members)] = special;
      const at = Math.min(calmAt - 300, createdAt + rng.below(calmAt));
      return { kind: 'memberConfig', cluster, at, rows };
    };
    return rng.chance(0.4) ? [draw(), draw()] : [draw()];
  });
}

function drawOne(
  rng: Rng,
  cluster: ClusterPlan,
  at: Millis,
  add: (at: Millis, edit: EditKind) => void,
): void {
  const user = `app${rng.below(Math.max(1, cluster.users))}`;
  const later = at + 500 + rng.below(20 * SECOND);
  switch (rng.below(13)) {
    case 0:
      add(at, { kind: 'user', user: `late${rng.below(3)}` });
      return;
    case 1:
      add(at, { kind: 'userRoles', user });
      return;
    case 2:
      add(at, { kind: 'password', user });
      return;
    case 3:
      add(at, { kind: 'dropUser', user });
      return;
    case 4:
      add(at, { kind: 'suspend', on: true });
      if (rng.chance(0.8)) add(later, { kind: 'suspend', on: false });
      return;
    case 5:
      add(at, { kind: 'pause', on: true });
      if (rng.chance(0.8)) add(later, { kind: 'pause', on: false });
      return;
    case 6:
      add(at, { kind: 'delete' });
      if (rng.chance(0.5)) add(later, { kind: 'recreate' });
      return;
    case 7:
      add(at, { kind: 'roles', name: 'reader' });
      return;
    case 8:
      add(at, { kind: 'members', members: rng.pick([1, 3, 3, 5, 7]) });
      return;
    case 9:
      add(at, { kind: 'config', value: 1 + rng.below(4), bad: rng.chance(0.15) });
      if (rng.chance(0.5)) add(later, { kind: 'config', value: 1 + rng.below(4), bad: false });
      return;
    case 10:
      add(at, { kind: 'tls', mode: rng.pick(['disabled', 'allowTLS', 'preferTLS', 'requireTLS']) });
      return;
    case 11:
      add(at, { kind: 'memory', gib: 1 + rng.below(4) });
      return;
    default:
      add(at, { kind: 'version', version: rng.pick(['8.0.32-14', '8.0.29-13', '7.0.43-23']) });
  }
}
