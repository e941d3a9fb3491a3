/**
 * S15: Ready only for the current generation and a fresh reading.
 *
 * Judged against the true world: who is called Ready has all members healthy, as far as a reading can know. A cut or stale
 * machine is given the time after which its silence is noticed.
 */
import { type Millis, SECOND } from '../../base/units.ts';
import type { StoredObject } from '../../engine/ports.ts';
import type { Checker } from '../stage.ts';
import {
  healthyIn,
  membersWantedIn,
  objectsOf,
  partsOf,
  primaryOf,
  routersOf,
  specOf,
  statusOf,
} from '../truth.ts';
import type { World } from '../world.ts';

/** Silence is noticed within 45 s, and a pass comes at the latest 30 s later. */
const NOTICED: Millis = 90 * SECOND;

export const ready: Checker = ({ world }) => {
  const badSince = new Map<string, Millis>();
  return {
    committed: (_, batch) => {
      for (const { key, uid, value } of batch.status ?? []) {
        const status = value as {
          phase?: string;
          observedGeneration?: number;
          conditions?: { type: string; status: string }[];
        };
        if (key.kind !== 'MongoDB') continue;
        const object = objectsOf(world, 'MongoDB').find((o) => o.metadata.uid === uid);
        if (object === undefined) continue;
        const isReady = status.conditions?.find((c) => c.type === 'Ready')?.status === 'True';
        if (isReady !== (status.phase === 'Ready'))
          world.narrator.fail('S15', `${key.name}: phase ${status.phase} with condition Ready ${isReady}`);
        if ((status.observedGeneration ?? 0) > object.metadata.generation)
          world.narrator.fail(
            'S15',
            `${key.name}: a status of generation ${status.observedGeneration}, which is not there yet`,
          );
      }
    },
    second: () => {
      const { now } = world.timeline;
      for (const object of objectsOf(world, 'MongoDB')) {
        const status = statusOf(object);
        const { uid, name, generation } = object.metadata;
        const claims = status?.phase === 'Ready' && status.observedGeneration === generation;
        const sick = claims ? sickPart(world, object) : null;
        if (sick === null || specOf(object).paused) badSince.delete(uid);
        else if (!badSince.has(uid)) badSince.set(uid, now);
        const since = badSince.get(uid);
        if (since !== undefined && now - since > NOTICED && world.planes.some((p) => p.alive))
          world.narrator.fail('S15', `${name} is called Ready though ${sick}`);
      }
    },
  };
};

/** What is not well of it; null: all of it is. */
function sickPart(world: World, object: StoredObject): string | null {
  for (const part of partsOf(object)) {
    const [healthy, wanted] = [healthyIn(world, part), membersWantedIn(object, part)];
    const led = part === routersOf(object) || primaryOf(world, part) !== null;
    if (healthy !== wanted || !led)
      return `${healthy} of ${wanted} members of ${part.split('/')[1]} are healthy`;
  }
  return null;
}
