/**
 * S3: A primary is restarted or removed only after stepping down to a caught-up electable member.
 *
 * Whatever was known when it was decided: an agent looks again before it stops a member that was seen as no primary.
 */
import { type Checker, stopIsAskedFor } from '../stage.ts';
import { mongodOf, partOf, quorumOf } from '../truth.ts';

export const primaryLast: Checker = (stage) => ({
  deed: (machine, deed) => {
    if (deed.kind !== 'stop' || deed.record?.owner == null) return;
    const mongod = mongodOf(deed.run);
    const set = partOf(deed.record.owner);
    if (mongod === null || !mongod.writable || stopIsAskedFor(stage, set)) return;
    const { world } = stage;
    if ((quorumOf(world, set)?.voters.length ?? 1) < 2) return;
    world.narrator.fail('S3', `${machine.name} stops ${mongod.host}, the primary, for ${deed.why}`);
  },
});
