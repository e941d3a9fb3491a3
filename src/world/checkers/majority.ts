/**
 * S1: No step of ours takes a set below its write majority (healthy = PRIMARY or SECONDARY within the lag limit; unknown =
 * down), unless the spec allows interruption or a person approved it.
 *
 * Judged where an agent is about to stop a process because its goal changed. What went down a moment ago by itself could
 * not be known yet: such a member counts as it was.
 */
import { type Millis, SECOND } from '../../base/units.ts';
import { type Checker, stopIsAskedFor } from '../stage.ts';
import { objectsOf, quorumOf } from '../truth.ts';

/** Heartbeats (10 s) and reports together make a death known within this. */
const KNOWN_AFTER: Millis = 15 * SECOND;

export const majority: Checker = (stage) => {
  const { world, troubled } = stage;
  const unhealthySince = new Map<string, Millis>();
  const look = (uid: string): void => {
    const quorum = quorumOf(world, uid);
    for (const host of quorum?.voters ?? []) {
      if (quorum?.healthy.includes(host)) unhealthySince.delete(host);
      else if (!unhealthySince.has(host)) unhealthySince.set(host, world.timeline.now);
    }
  };
  return {
    second: () => {
      for (const object of objectsOf(world, 'MongoDB')) look(object.metadata.uid);
    },
    deed: (machine, deed) => {
      if (deed.kind !== 'stop' || deed.record?.owner == null) return;
      const { clusterUid } = deed.record.owner;
      if (stopIsAskedFor(stage, clusterUid)) return;
      const quorum = quorumOf(world, clusterUid);
      const { host } = deed.run.mongod;
      if (quorum === null || !quorum.voters.includes(host) || !quorum.healthy.includes(host)) return;
      const { now } = world.timeline;
      const recently = (other: string): boolean => {
        const since = unhealthySince.get(other) ?? now;
        const fault = troubled.get(other.split('.')[0] ?? '') ?? Number.NEGATIVE_INFINITY;
        return now - since < KNOWN_AFTER || now - fault < KNOWN_AFTER;
      };
      const others = quorum.voters.filter((v) => v !== host && (quorum.healthy.includes(v) || recently(v)));
      if (others.length >= quorum.needed) return;
      const left = quorum.healthy.filter((v) => v !== host).length;
      const why = `${left} of ${quorum.voters.length} voters stay healthy, ${quorum.needed} are needed`;
      world.narrator.fail('S1', `${machine.name} stops ${host} for ${deed.why}: ${why}`);
    },
  };
};
