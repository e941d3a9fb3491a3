/**
 * S6: A set is initiated once; a member with data is never initiated or wiped because it looks empty.
 */

import type { Machine } from '../machine.ts';
import type { Checker } from '../stage.ts';
import { mongodOf, type Part, partOf } from '../truth.ts';

export const initiation: Checker = ({ world }) => {
  /** Ids of sets by the set they were made for. */
  const made = new Map<string, string>();
  /** Data that a volume held, by machine and volume. */
  const held = new Map<string, unknown>();
  return {
    second: () => {
      for (const machine of world.machines.values()) {
        for (const { id, data, owner } of machine.disk.volumes.values()) {
          const where = `${machine.name}/${id}`;
          const before = held.get(where);
          if (before !== undefined && before !== data)
            world.narrator.fail('S6', `the data of ${owner?.member} in ${where} was wiped`);
          if (data.hasUserData) held.set(where, data);
        }
      }
    },
    deed: (machine, deed) => {
      if (deed.kind !== 'run' || deed.command.kind !== 'initiate') return;
      const volume = volumeOf(machine, deed.serviceId);
      const run = machine.runs.get(deed.serviceId);
      // An idempotent repetition finds the set and does nothing: only data without one is in danger.
      if (volume?.data.hasUserData && mongodOf(run)?.machine.config === null)
        world.narrator.fail('S6', `${machine.name} initiates ${deed.serviceId}, which holds data`);
    },
    member: (mongod, outputs) => {
      for (const output of outputs) {
        const id = output.kind === 'saveConfig' ? output.config.settings.replicaSetId : null;
        if (id === null) continue;
        const set = setOf(mongod.data);
        if (set === null) continue;
        const known = made.get(set);
        made.set(set, known ?? id);
        if (known !== undefined && known !== id)
          world.narrator.fail('S6', `${set} has a second set ${id} besides ${known}, on ${mongod.host}`);
      }
    },
  };

  function volumeOf(machine: Machine, serviceId: string) {
    return machine.disk.volumes.get(machine.disk.services.get(serviceId)?.volumeId ?? '');
  }
  function setOf(data: unknown): Part | null {
    for (const machine of world.machines.values()) {
      for (const volume of machine.disk.volumes.values()) {
        if (volume.data === data) return volume.owner === null ? null : partOf(volume.owner);
      }
    }
    return null;
  }
};
