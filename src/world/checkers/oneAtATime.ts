/**
 * S2: At most one disruptive step in flight per replica set; never above the granted budget; also across controller
 * restarts.
 *
 * In flight from the moment an agent stops a running member until that member is healthy again.
 */
import type { Millis } from '../../base/units.ts';
import type { Mongod } from '../mongod.ts';
import { type Checker, stopIsAskedFor } from '../stage.ts';
import { isHealthy, membersOf, mongodOf, type Part, partOf, primaryOf, quorumOf } from '../truth.ts';

export const oneAtATime: Checker = (stage) => {
  const { world } = stage;
  /** By set: the service that is down because of us, and since when. */
  const down = new Map<string, Map<string, { readonly at: Millis; readonly old: Mongod }>>();
  const settle = (set: Part): void => {
    const open = down.get(set);
    if (open === undefined) return;
    const primary = primaryOf(world, set);
    const members = membersOf(world, set);
    const quorum = quorumOf(world, set);
    for (const [id, { old }] of open) {
      const member = members.find(({ record }) => record.id === id);
      const back = member?.mongod !== old && isHealthy(member?.mongod ?? null, primary);
      // Who has left the set meanwhile is missed by nobody.
      const left = quorum !== null && !quorum.voters.includes(old.host);
      if (member === undefined || back || left) open.delete(id);
    }
  };
  return {
    deed: (machine, deed) => {
      if (deed.kind !== 'stop' || deed.record?.owner == null) return;
      const { member } = deed.record.owner;
      const set = partOf(deed.record.owner);
      const mongod = mongodOf(deed.run);
      if (mongod === null || stopIsAskedFor(stage, set)) return;
      const quorum = quorumOf(world, set);
      if (quorum === null || !quorum.voters.includes(mongod.host)) return;
      settle(set);
      const open = down.get(set) ?? new Map();
      down.set(set, open);
      const others = [...open.keys()].filter((id) => id !== deed.record?.id);
      open.set(deed.record.id, { at: world.timeline.now, old: mongod });
      // A process that was not up yet takes nobody along.
      if (others.length > 0 && mongod.phase === 'listening')
        world.narrator.fail('S2', `${machine.name} stops ${member} while ${others.join(', ')} is down by us`);
    },
    member: (mongod, outputs) => {
      // One that is back may be gone again before the next second: by its own step or by what its primary has become.
      const shown = outputs.some(({ kind }) => kind === 'stateChanged' || kind === 'topology');
      for (const [set, open] of down)
        if (shown || [...open.values()].some(({ old }) => old.host === mongod.host)) settle(set);
    },
    second: () => {
      for (const set of down.keys()) settle(set);
    },
  };
};
