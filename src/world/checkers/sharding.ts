/**
 * A5.3: The config-server replica set is ready before any router is deployed; routers register new shards, each once.
 *
 * And A6.5: removing shards and changing topology type are refused, unless nothing of the shards runs yet.
 */
import { MINUTE, type Millis } from '../../base/units.ts';
import type { StoredObject } from '../../engine/ports.ts';
import type { Checker } from '../stage.ts';
import { clusterByUid, membersOf, objectsOf, primaryOf, specOf, userSetOf } from '../truth.ts';

/** A reading and what is decided on it may be that old. */
const KNOWN_AFTER: Millis = MINUTE;

export const sharding: Checker = ({ world }) => {
  /** When a cluster's config servers last had a primary and users. */
  const ready = new Map<string, Millis>();
  const shapes = new Map<string, { readonly type: string; readonly shards: number }>();
  const look = (object: StoredObject): void => {
    if (specOf(object).type !== 'ShardedCluster') return;
    const users = primaryOf(world, userSetOf(object))?.data.users.size ?? 0;
    if (users >= 5) ready.set(object.metadata.uid, world.timeline.now);
  };
  return {
    second: () => {
      for (const object of objectsOf(world, 'MongoDB')) {
        const { uid, name } = object.metadata;
        const spec = specOf(object);
        const known = shapes.get(uid);
        const shards = spec.type === 'ShardedCluster' ? spec.shardCount : 0;
        const isMade = (index: number): boolean => membersOf(world, `${uid}/${name}-s${index}`).length > 0;
        const lost = Array.from({ length: known?.shards ?? 0 }, (_, index) => index).slice(shards);
        if (known !== undefined && (known.type !== spec.type || lost.some(isMade)))
          world.narrator.fail('A6.5', `${name} was ${known.type} of ${known.shards} shards, now ${shards}`);
        shapes.set(uid, { type: spec.type, shards });
        look(object);
      }
    },
    born: (plane, provider) => {
      const mutable = provider as { -readonly [K in keyof typeof provider]: (typeof provider)[K] };
      const { perform } = provider;
      mutable.perform = (step, subject, context) => {
        const set = step.kind === 'addShard' ? step.replicaSet : null;
        const again = subject.state.replicaSets.some(({ name, registered }) => name === set && registered);
        if (again) world.narrator.fail('A5.3', `${plane.name} registers ${set}, which it knows as a shard`);
        return perform(step, subject, context);
      };
    },
    deed: (machine, deed) => {
      if (deed.kind !== 'operate' || deed.operation.kind !== 'deploy') return;
      const { serviceId, spec } = deed.operation;
      const first = machine.disk.services.get(serviceId)?.version === null;
      const object = clusterByUid(world, spec.owner.clusterUid);
      if (spec.product !== 'mongos' || !first || object === null) return;
      look(object);
      const at = ready.get(spec.owner.clusterUid) ?? Number.NEGATIVE_INFINITY;
      if (world.timeline.now - at > KNOWN_AFTER)
        world.narrator.fail('A5.3', `${spec.owner.member} is deployed before the config servers are ready`);
    },
  };
};
