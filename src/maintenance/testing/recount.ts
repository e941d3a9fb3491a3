/**
 * The availability rules once more, as plainly as possible: before every action everything that is out is counted again, over
 * the whole fleet. Slow and easy to believe; the real thing is compared with it, and benchmarked against it.
 */
import type { Millis } from '../../base/units.ts';
import type {
  FleetSpec,
  GroupSpec,
  LimitSetSpec,
  NodeSpec,
  ReplicaSetSpec,
  StateStorageSpec,
} from '../fleetSpec.ts';
import { RING_SETTLE } from '../limits.ts';

export type PlainMode = 'strong' | 'weak' | 'force';

/** Who is where, who is up, who is locked. */
export interface Plain {
  readonly spec: FleetSpec;
  readonly nodes: ReadonlyMap<string, NodeSpec>;
  readonly locked: Set<string>;
  readonly now: Millis;
}

export const plainOf = (spec: FleetSpec, locked: Iterable<string>, now: Millis): Plain => ({
  spec,
  nodes: new Map(spec.nodes.map((n) => [n.key, n])),
  locked: new Set(locked),
  now,
});

/** Which of the actions (lists of nodes, by index) a pass grants; an atomic one all or none. */
export function plainPass(
  plain: Plain,
  actions: readonly (readonly string[])[],
  mode: PlainMode,
  partial: boolean,
): readonly number[] {
  const work: Plain = { ...plain, locked: new Set(plain.locked) };
  const earlier = new Set<string>();
  const granted: number[] = [];
  for (const [i, nodes] of actions.entries()) {
    if (mayGo(work, nodes, mode, partial ? earlier : new Set())) {
      granted.push(i);
      for (const n of nodes) earlier.add(n);
      for (const n of nodes) work.locked.add(n);
    } else if (!partial) return [];
  }
  return granted;
}

function mayGo(
  plain: Plain,
  nodes: readonly string[],
  mode: PlainMode,
  earlier: ReadonlySet<string>,
): boolean {
  const work: Plain = { ...plain, locked: new Set(plain.locked) };
  const own: string[] = [];
  for (const key of nodes) {
    const counted = countAll(work);
    const node = work.nodes.get(key) as NodeSpec;
    if (!nodeMayGo(work, counted, node, mode, own, earlier)) return false;
    own.push(key);
    work.locked.add(key);
  }
  return true;
}

/** Everything that is out, of everything there is. */
interface Counted {
  readonly groups: ReadonlyMap<GroupSpec, readonly { readonly node: string; readonly realm: number }[]>;
  readonly limits: ReadonlyMap<LimitSetSpec, readonly string[]>;
  readonly rings: ReadonlyMap<StateStorageSpec, readonly RingState[]>;
  readonly sets: ReadonlyMap<ReplicaSetSpec, readonly string[]>;
}
type RingState = 'disabled' | 'restart' | 'settling' | 'ok';

/** Counts all of it again. */
export function countAll(plain: Plain): Counted {
  const { spec } = plain;
  const out = (key: string): boolean => isOut(plain, key);
  const limits = new Map((spec.limits ?? []).map((limit) => [limit, limit.nodes.filter(out)]));
  const sets = new Map(
    (spec.replicaSets ?? []).map((set) => [set, set.members.filter((m) => out(m.node)).map((m) => m.node)]),
  );
  const rings = new Map(
    (spec.stateStorages ?? []).map((storage) => [
      storage,
      storage.rings.map((nodes, r): RingState => {
        if (storage.disabled.includes(r)) return 'disabled';
        if (nodes.some(out)) return 'restart';
        const settling = nodes.some((n) => (plain.nodes.get(n)?.startedAt ?? 0) + RING_SETTLE > plain.now);
        return settling ? 'settling' : 'ok';
      }),
    ]),
  );
  const groups = new Map<GroupSpec, { node: string; realm: number }[]>();
  for (const group of spec.groups ?? []) {
    const bad: { node: string; realm: number }[] = [];
    for (const v of group.vdisks) {
      const disk = plain.nodes.get(v.node)?.disks.find((d) => d.id === v.disk);
      if (out(v.node) || !v.ok || disk?.ok !== true) bad.push({ node: v.node, realm: v.realm });
    }
    groups.set(group, bad);
  }
  return { groups, limits, rings, sets };
}

const isOut = (plain: Plain, key: string): boolean =>
  plain.locked.has(key) || plain.nodes.get(key)?.state !== 'up';

function nodeMayGo(
  plain: Plain,
  counted: Counted,
  node: NodeSpec,
  mode: PlainMode,
  own: readonly string[],
  earlier: ReadonlySet<string>,
): boolean {
  const { key, state, kind } = node;
  if (plain.locked.has(key)) return false;
  if (state === 'unknown' && (kind === 'storage' || kind === 'dynamic')) return false;
  if (mode === 'force') return true;
  for (const [limit, out] of counted.limits) {
    if (!limit.nodes.includes(key) || limit.kind === 'tablets' || state === 'down') continue;
    if (!limitFits(limit, out, key, own)) return false;
  }
  for (const [group, out] of counted.groups) {
    if (!group.vdisks.some((v) => v.node === key)) continue;
    if (!groupFits(group, out, key, mode, earlier)) return false;
  }
  for (const [set, out] of counted.sets) if (!setFits(counted, set, out, key, mode)) return false;
  for (const [storage, states] of counted.rings) if (!ringFits(storage, states, key, mode)) return false;
  if (state === 'down' || kind === 'dynamic') return true;
  return [...counted.limits].every(
    ([limit, out]) => limit.kind !== 'tablets' || tabletsFit(limit, out, key, mode),
  );
}

function limitFits(
  limit: LimitSetSpec,
  out: readonly string[],
  key: string,
  own: readonly string[],
): boolean {
  if (out.includes(key)) return true;
  const others = out.filter((n) => n !== key && !own.includes(n)).length;
  const disabled = new Set([...out, key]).size;
  if (others === 0) return true;
  if (limit.nodesLimit > 0 && disabled > limit.nodesLimit) return false;
  return limit.percentLimit === 0 || disabled * 100 <= limit.nodes.length * limit.percentLimit;
}

function tabletsFit(limit: LimitSetSpec, out: readonly string[], key: string, mode: PlainMode): boolean {
  if (!limit.nodes.includes(key)) return true;
  const disabled = new Set([...out, key]).size;
  return mode === 'strong' ? disabled * 2 <= limit.nodes.length : disabled < limit.nodes.length;
}

function groupFits(
  group: GroupSpec,
  out: readonly { readonly node: string; readonly realm: number }[],
  key: string,
  mode: PlainMode,
  earlier: ReadonlySet<string>,
): boolean {
  if (group.erasure === 'none') return false;
  const target = group.vdisks.find((v) => v.node === key);
  const all = [...out.filter((v) => v.node !== key), { node: key, realm: target?.realm ?? 0 }];
  if (mode === 'strong') return all.length <= 1;
  const bad = new Map<number, number>();
  for (const { realm } of all) bad.set(realm, (bad.get(realm) ?? 0) + 1);
  const counts = [...bad.values()].sort((a, b) => a - b);
  const fits =
    group.erasure === 'mirror-3-dc'
      ? counts.length <= 1 || (counts.length === 2 && (counts[0] ?? 0) <= 1)
      : all.length <= 2;
  // In weak mode a pass gives one disk of a group at a time.
  return fits && !group.vdisks.some((v) => earlier.has(v.node));
}

function ringFits(
  storage: StateStorageSpec,
  states: readonly RingState[],
  key: string,
  mode: PlainMode,
): boolean {
  const own = storage.rings.findIndex((ring) => ring.includes(key));
  if (own < 0 || states[own] === 'disabled') return true;
  const others = states.filter((_, r) => r !== own);
  const bad = others.filter((s) => s === 'restart' || s === 'settling').length + 1;
  if (mode === 'strong') return bad <= 1;
  const budget = Math.floor((storage.nToSelect - 1) / 2);
  const disabled = others.filter((s) => s === 'disabled').length;
  return bad + disabled <= budget || (budget === 0 && bad <= 1);
}

function setFits(
  counted: Counted,
  set: ReplicaSetSpec,
  out: readonly string[],
  key: string,
  mode: PlainMode,
): boolean {
  const member = set.members.find((m) => m.node === key);
  if (member === undefined) return true;
  const left = set.members.filter((m) => m.node !== key && !out.includes(m.node));
  const voters = set.members.filter((m) => m.votes === 1);
  const majority = Math.floor(voters.length / 2) + 1;
  const data = set.members.filter((m) => m.data);
  const copies = left.filter((m) => m.data).length;
  if (set.interruption && voters.length - member.votes < majority) return copies > 0 || data.length <= 1;
  if ((data.length <= 1 && member.data) || copies === 0) return false;
  const votes = left.filter((m) => m.votes === 1).length;
  if (votes < majority) return false;
  if (mode === 'strong' && voters.length - votes > 1) return false;
  if (!left.some((m) => m.data && m.votes === 1 && m.priority > 0)) return false;
  const dataVoters = voters.filter((m) => m.data).length;
  const enough =
    set.writeConcern === 'majority'
      ? left.filter((m) => m.data && m.votes === 1).length >= Math.min(majority, dataVoters)
      : left.filter((m) => m.data && m.delayed !== true).length >= set.writeConcern;
  return enough && configFits(counted, set);
}

function configFits(counted: Counted, set: ReplicaSetSpec): boolean {
  for (const [config, out] of counted.sets) {
    if (config.key !== set.configSet) continue;
    const voters = config.members.filter((m) => m.votes === 1);
    const up = voters.filter((m) => !out.includes(m.node)).length;
    return up >= Math.floor(voters.length / 2) + 1;
  }
  return true;
}
