/**
 * S1: No step of ours takes a set below its write majority (healthy = PRIMARY or SECONDARY within the lag limit; unknown =
 * down), unless the spec allows interruption or a person approved it.
 *
 * Judged where an agent is about to stop a process because its goal changed. What went down a moment ago by itself could
 * not be known yet: such a member counts as it was.
 */
import { type Millis, SECOND } from '../../base/units.ts';
import type { Checker } from '../stage.ts';
import { clusterByUid, isHealthy, primaryOf, quorumOf, specOf } from '../truth.ts';

/** Heartbeats (10 s) and reports together make a death known within this. */
const KNOWN_AFTER: Millis = 15 * SECOND;

export const majority: Checker = ({ world, troubled }) => {
  const unhealthySince = new Map<string, Millis>();
  return {
    second: () => {
      for (const mongod of world.listening.values()) {
        const uid = uidOf(mongod.data);
        if (uid !== null && isHealthy(mongod, primaryOf(world, uid))) unhealthySince.delete(mongod.host);
        else if (!unhealthySince.has(mongod.host)) unhealthySince.set(mongod.host, world.timeline.now);
      }
      for (const host of unhealthySince.keys()) {
        if (!world.listening.has(host) && !unhealthySince.has(host))
          unhealthySince.set(host, world.timeline.now);
      }
    },
    deed: (machine, deed) => {
      if (deed.kind !== 'stop' || deed.record?.owner == null) return;
      const { clusterUid } = deed.record.owner;
      const object = clusterByUid(world, clusterUid);
      const spec = object === null ? null : specOf(object);
      if (object === null || object.metadata.deletionTimestamp !== null || spec?.suspend) return;
      if (spec?.maintenance.interruption === 'Allowed') return;
      const quorum = quorumOf(world, clusterUid);
      const { host } = deed.run.mongod;
      if (quorum === null || !quorum.voters.includes(host) || !quorum.healthy.includes(host)) return;
      const recently = (other: string): boolean => {
        const since = unhealthySince.get(other);
        const fault = troubled.get(other.split('.')[0] ?? '') ?? 0;
        const { now } = world.timeline;
        return (since !== undefined && now - since < KNOWN_AFTER) || now - fault < KNOWN_AFTER;
      };
      const others = quorum.voters.filter((v) => v !== host && (quorum.healthy.includes(v) || recently(v)));
      if (others.length >= quorum.needed) return;
      const left = quorum.healthy.filter((v) => v !== host).length;
      world.narrator.fail(
        'S1',
        `${machine.name} stops ${host} for ${deed.why}: ${left} of ${quorum.voters.length} voters stay healthy, ${quorum.needed} are needed`,
      );
    },
  };

  function uidOf(data: unknown): string | null {
    for (const machine of world.machines.values()) {
      for (const volume of machine.disk.volumes.values()) {
        if (volume.data === data) return volume.owner?.clusterUid ?? null;
      }
    }
    return null;
  }
};
