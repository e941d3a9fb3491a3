/**
 * No acknowledged write is lost: a client writes with majority concern and later looks for every acknowledged write
 * (house rules, section 4).
 */
import type { Checker } from '../stage.ts';
import { objectsOf } from '../truth.ts';

export const writes: Checker = ({ world, clients }) => ({
  end: () => {
    for (const object of objectsOf(world, 'MongoDB')) {
      if (object.metadata.deletionTimestamp !== null) continue;
      const lost = clients.get(object.metadata.name)?.lost(object) ?? [];
      if (lost.length > 0)
        world.narrator.fail(
          'WRITES',
          `${object.metadata.name} lost ${lost.length} acknowledged writes, the first is ${lost[0]}`,
        );
    }
  },
});
