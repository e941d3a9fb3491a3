/**
 * S1, for routers: they hold no votes, but the last one that works is what keeps a sharded cluster reachable. It is not
 * restarted while no other one serves, unless the spec allows interruption or asked for no more than one.
 *
 * What stopped serving a moment ago could not be known yet: such a router counts as it was.
 */
import { type Millis, SECOND } from '../../base/units.ts';
import type { Router } from '../router.ts';
import type { Checker } from '../stage.ts';
import { clusterByUid, isServing, membersOf, objectsOf, routersOf, specOf } from '../truth.ts';

/** A look every 10 s that gets no answer for 4 s, on a machine whose looks are late. */
const KNOWN_AFTER: Millis = 30 * SECOND;

export const lastRouter: Checker = ({ world, downAsked }) => {
  const servedAt = new Map<string, Millis>();
  const look = (router: Router | null): void => {
    if (router !== null && isServing(router)) servedAt.set(router.host, world.timeline.now);
  };
  return {
    second: () => {
      for (const object of objectsOf(world, 'MongoDB'))
        for (const { router } of membersOf(world, routersOf(object))) look(router);
    },
    deed: (machine, deed) => {
      if (deed.kind !== 'stop' || deed.why !== 'restart' || deed.record?.owner == null) return;
      const { process } = deed.run;
      // What we stopped ourselves is known.
      servedAt.delete(process.host);
      const object = clusterByUid(world, deed.record.owner.clusterUid);
      if (process.kind !== 'router' || object === null || !isServing(process)) return;
      const spec = specOf(object);
      if (spec.type !== 'ShardedCluster' || spec.mongosCount < 2) return;
      if (spec.maintenance.interruption === 'Allowed' || downAsked.has(object.metadata.uid)) return;
      const { now } = world.timeline;
      const others = membersOf(world, routersOf(object)).filter(({ router, record }) => {
        const host = `${record.address}:${record.port}`;
        if (host === process.host) return false;
        // A router listens when it has reached the config servers, and so it served then.
        const last = Math.max(servedAt.get(host) ?? 0, router?.since ?? 0);
        return isServing(router) || now - last < KNOWN_AFTER;
      });
      if (others.length === 0)
        world.narrator.fail('S1', `${machine.name} restarts ${process.host}, the last router that serves`);
    },
  };
};
