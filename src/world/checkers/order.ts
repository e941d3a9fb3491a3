/**
 * A8.2: Secondaries before the primary's stepdown (S3 sees to that); config servers before shards, shards before routers.
 *
 * Judged where a running member of a sharded cluster is told to take another binary: those of the groups before it have it.
 * A shard that is not registered yet, or config servers that are no set yet, are in nobody's order.
 */
import type { ServiceSpec } from '../../clusters/index.ts';
import type { StoredObject } from '../../engine/ports.ts';
import type { Checker } from '../stage.ts';
import {
  belongingSets,
  clusterByUid,
  configOf,
  membersOf,
  type Part,
  partOf,
  routersOf,
  setsOf,
  specOf,
  type TrueMember,
  userSetOf,
} from '../truth.ts';
import type { World } from '../world.ts';

export const order: Checker = ({ world }) => ({
  deed: (machine, deed) => {
    if (deed.kind !== 'operate' || deed.operation.kind !== 'deploy') return;
    const { serviceId, spec } = deed.operation;
    const record = machine.disk.services.get(serviceId);
    const object = clusterByUid(world, spec.owner.clusterUid);
    if (record === undefined || record.version === spec.version || object === null) return;
    if (specOf(object).type !== 'ShardedCluster') return;
    const part = partOf(spec.owner);
    const together = belongingSets(world, object);
    if (record.version === null) return begins(world, object, together, spec);
    if (part !== routersOf(object) && !together.includes(part)) return;
    const own = membersOf(world, part).find((member) => member.record === record);
    if (own !== undefined && !counts(world, part, own)) return;
    for (const before of partsBefore(object, part)) {
      if (!together.includes(before)) continue;
      const late = membersOf(world, before).find(
        (member) => member.record.version !== spec.version && counts(world, before, member),
      );
      if (late === undefined) continue;
      const why = `${late.record.hostname} has ${late.record.version}`;
      world.narrator.fail('A8.2', `${spec.owner.member} takes ${spec.version} while ${why}`);
    }
  },
});

/** A router that is new takes no newer major than any server it speaks to has. */
function begins(
  world: World,
  object: StoredObject,
  together: readonly Part[],
  { owner, version }: ServiceSpec,
): void {
  if (partOf(owner) !== routersOf(object)) return;
  for (const set of together) {
    const late = membersOf(world, set).find(
      (member) => counts(world, set, member) && majorOf(member.record.version) < majorOf(version),
    );
    if (late === undefined) continue;
    const why = `${late.record.hostname} has ${late.record.version}`;
    world.narrator.fail('A8.2', `${owner.member} begins with ${version} while ${why}`);
  }
}

const majorOf = (version: string | null): number => Number.parseInt(version ?? '', 10);

function partsBefore(object: StoredObject, part: Part): readonly Part[] {
  if (part === routersOf(object)) return setsOf(object);
  return part === userSetOf(object) ? [] : [userSetOf(object)];
}

/** One that joins or has left is not yet, or not any more, what its set runs on. */
function counts(world: World, part: Part, { record }: TrueMember): boolean {
  if (record.version === null) return false;
  const host = `${record.address}:${record.port}`;
  const config = configOf(world, part);
  if (part.endsWith('-mongos')) return true;
  return config?.members.some((row) => row.host === host && row.votes > 0) === true;
}
