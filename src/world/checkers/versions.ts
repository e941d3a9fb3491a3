/**
 * S7: Version order and one major step; FCV only when all binaries run it and someone asked.
 *
 * Of a sharded cluster the sets that belong to it, and its routers, count as one; a shard that is not registered yet stands
 * for itself.
 */

import type { StoredObject } from '../../engine/ports.ts';
import { majorOf } from '../../model/index.ts';
import type { DataFolder } from '../data.ts';
import type { Mongod } from '../mongod.ts';
import type { Checker } from '../stage.ts';
import { belongingSets, membersOf, objectsOf, type Part, routersOf, setsOf } from '../truth.ts';
import type { World } from '../world.ts';

export const versions: Checker = ({ world }) => {
  const seen = new WeakMap<DataFolder, string | null>();
  const look = (running: readonly Mongod[], routers: readonly number[]): void => {
    const majors = running.map((mongod) => majorOf(mongod.options.version) ?? 0);
    if (Math.max(...majors, ...routers) - Math.min(...majors, ...routers) > 1)
      world.narrator.fail('S7', `members run majors ${[...majors, ...routers].join(', ')}`);
    for (const { data, host } of running) {
      const before = seen.get(data);
      seen.set(data, data.fcv);
      if (before == null || data.fcv === before) continue;
      const behind = [...majors, ...routers].filter((major) => major < (majorOf(data.fcv ?? '') ?? 0));
      if (behind.length > 0)
        world.narrator.fail('S7', `${host} has FCV ${data.fcv} while others run major ${behind.join(', ')}`);
    }
  };
  return {
    second: () => {
      for (const object of objectsOf(world, 'MongoDB')) {
        const together = belongingSets(world, object);
        look(
          together.flatMap((set) => processesOf(world, set)),
          routerMajors(world, object),
        );
        for (const set of setsOf(object)) if (!together.includes(set)) look(processesOf(world, set), []);
      }
    },
  };
};

const processesOf = (world: World, set: Part): readonly Mongod[] =>
  membersOf(world, set).flatMap(({ mongod }) => mongod ?? []);

const routerMajors = (world: World, object: StoredObject): readonly number[] =>
  membersOf(world, routersOf(object)).flatMap(({ router }) =>
    router?.phase === 'listening' ? [majorOf(router.options.version) ?? 0] : [],
  );
