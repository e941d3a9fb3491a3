/**
 * S3: A primary is restarted or removed only after stepping down to a caught-up electable member.
 *
 * A member that became primary a moment ago could not be known as one; nor one that did while the command was held up on its
 * way: what counts is when it was decided.
 */
import { type Millis, SECOND } from '../../base/units.ts';
import type { Deed } from '../agent.ts';
import { type Checker, stopIsAskedFor } from '../stage.ts';
import { mongodOf, partOf, quorumOf } from '../truth.ts';

const KNOWN_AFTER: Millis = 5 * SECOND;

export const primaryLast: Checker = (stage) => {
  const { world, troubled } = stage;
  const since = new Map<string, Millis>();
  /** When what a service is doing was decided. */
  const decided = new Map<string, Millis>();
  return {
    member: (mongod) => {
      if (!mongod.writable) since.delete(mongod.host);
      else if (!since.has(mongod.host)) since.set(mongod.host, world.timeline.now);
    },
    deed: (machine, deed) => {
      if (deed.kind === 'publish' || deed.kind === 'operate') note(deed);
      if (deed.kind !== 'stop' || deed.record?.owner == null) return;
      const mongod = mongodOf(deed.run);
      const set = partOf(deed.record.owner);
      if (mongod === null || stopIsAskedFor(stage, set)) return;
      const at = since.get(mongod.host);
      const { now } = world.timeline;
      const then = Math.min(now, decided.get(deed.record.id) ?? now);
      if (!mongod.writable || at === undefined || then - at < KNOWN_AFTER) return;
      // Readings of a machine in trouble are old without anybody's fault.
      if (now - (troubled.get(machine.name) ?? 0) < 60 * SECOND) return;
      const quorum = quorumOf(world, set);
      if ((quorum?.voters.length ?? 1) < 2) return;
      world.narrator.fail('S3', `${machine.name} stops ${mongod.host}, the primary, for ${deed.why}`);
    },
  };

  function note(deed: Extract<Deed, { kind: 'publish' | 'operate' }>): void {
    const { journal } = world.installation.disk;
    if (deed.kind === 'operate') {
      const entry = journal.get(deed.operation.id)?.entry;
      if ('serviceId' in deed.operation && entry !== undefined)
        decided.set(deed.operation.serviceId, entry.at);
      return;
    }
    const { clusterUid, member } = deed.snapshot;
    const entries = [...journal.values()].filter(
      ({ entry }) => entry.clusterUid === clusterUid && entry.target === member,
    );
    const last = entries.at(-1)?.entry;
    if (last !== undefined) decided.set(deed.serviceId, last.at);
  }
};
