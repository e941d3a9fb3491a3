/**
 * Groups of a sharded cluster are services of their own: `events-cfg`, `events-s0`, `events-mongos`. A cluster of such a
 * name beside it would want the same service names; both would wait for ever, so the second is refused.
 */
import { MAX_SHARDS } from '../model/index.ts';
import { type Loose, numberAt, textAt } from '../model/paths.ts';

/** A MongoDB as its document has it, finished or not. Two that are compared are of one namespace. */
export interface NamedSpec {
  readonly name: string;
  readonly spec: Loose;
}

/** Names that are a group of a sharded cluster: its own name, and which group. */
const GROUP = /^(.+)-(?:cfg|mongos|s(?:0|[1-9]\d*))$/;

const isSharded = (spec: Loose): boolean => textAt(spec, 'type') === 'ShardedCluster';

/** The sharded cluster a name would be a group of, if it is there; null: no name of that form. */
export const clusterOfGroup = (name: string): string | null => GROUP.exec(name)?.[1] ?? null;

/** Names of the groups of a sharded cluster; none for what is not sharded. */
export function groupNames({ name, spec }: NamedSpec): readonly string[] {
  if (!isSharded(spec)) return [];
  const count = numberAt(spec, 'shardCount') ?? 0;
  const shards = Number.isInteger(count) && count >= 0 && count <= MAX_SHARDS ? count : 0;
  return [`${name}-cfg`, ...Array.from({ length: shards }, (_, i) => `${name}-s${i}`), `${name}-mongos`];
}

/** Why one cannot be beside another that is there already, in one sentence; null: it can. */
export function nameClash(one: NamedSpec, there: NamedSpec): string | null {
  if (isSharded(there.spec) && clusterOfGroup(one.name) === there.name)
    return `${one.name} is the name of a part of sharded cluster ${there.name}; choose another`;
  if (groupNames(one).includes(there.name))
    return `a part of this sharded cluster would be called ${there.name}, and there is a MongoDB of that name; choose another`;
  return null;
}
