/**
 * S2: At most one disruptive step in flight per replica set; never above the granted budget; also across controller
 * restarts.
 *
 * In flight from the moment an agent stops a running member until that member is healthy again.
 */
import type { Millis } from '../../base/units.ts';
import type { Mongod } from '../mongod.ts';
import { type Checker, stopIsAskedFor } from '../stage.ts';
import { isHealthy, membersOf, primaryOf, quorumOf } from '../truth.ts';

export const oneAtATime: Checker = (stage) => {
  const { world } = stage;
  /** By cluster: the service that is down because of us, and since when. */
  const down = new Map<string, Map<string, { readonly at: Millis; readonly old: Mongod }>>();
  const settle = (uid: string): void => {
    const open = down.get(uid);
    if (open === undefined) return;
    const primary = primaryOf(world, uid);
    const members = membersOf(world, uid);
    const quorum = quorumOf(world, uid);
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
      const { clusterUid, member } = deed.record.owner;
      if (stopIsAskedFor(stage, clusterUid)) return;
      const quorum = quorumOf(world, clusterUid);
      if (quorum === null || !quorum.voters.includes(deed.run.mongod.host)) return;
      settle(clusterUid);
      const open = down.get(clusterUid) ?? new Map();
      down.set(clusterUid, open);
      const others = [...open.keys()].filter((id) => id !== deed.record?.id);
      open.set(deed.record.id, { at: world.timeline.now, old: deed.run.mongod });
      // A process that was not up yet takes nobody along.
      if (others.length > 0 && deed.run.mongod.phase === 'listening')
        world.narrator.fail('S2', `${machine.name} stops ${member} while ${others.join(', ')} is down by us`);
    },
    member: (_, outputs) => {
      if (outputs.some(({ kind }) => kind === 'stateChanged')) for (const uid of down.keys()) settle(uid);
    },
    second: () => {
      for (const uid of down.keys()) settle(uid);
    },
  };
};
