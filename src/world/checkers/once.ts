/**
 * S10: Any step done twice = done once.
 *
 * Seen where it hurts: a member has at most one runtime and one volume in the whole world.
 */
import type { Checker } from '../stage.ts';

export const once: Checker = ({ world }) => ({
  second: () => {
    const places = new Map<string, string>();
    for (const machine of world.machines.values()) {
      for (const { id, owner } of machine.disk.services.values()) {
        if (owner === null || owner.installation !== 'world') continue;
        const key = `${owner.clusterUid}/${owner.member}`;
        const other = places.get(key);
        if (other !== undefined)
          world.narrator.fail('S10', `${owner.member} exists twice: ${other} and ${id} on ${machine.name}`);
        places.set(key, `${id} on ${machine.name}`);
      }
    }
  },
});
