/**
 * S4: No data volume is deleted unless the owner id matches (never by name), the member is out of the committed config, the
 * policy says delete, and the deletion was asked for; the default is to keep.
 */
import type { Checker } from '../stage.ts';
import { clusterByUid, configOf, partOf } from '../truth.ts';

/** Wishes after which a member goes and its volume with it. */
const LEAVES = new Set(['members', 'counts', 'Replace', 'Move']);

export const volumes: Checker = ({ world, people }) => {
  /** Where each volume's member was reached when it last had a runtime. */
  const addresses = new Map<string, string>();
  return {
    second: () => {
      for (const machine of world.machines.values()) {
        for (const { volumeId, address, port } of machine.disk.services.values())
          addresses.set(`${machine.name}/${volumeId}`, `${address}:${port}`);
      }
    },
    deed: (machine, deed) => {
      if (deed.kind !== 'deleteVolume') return;
      const { volumeId, clusterUid, member } = deed.operation;
      const volume = machine.disk.volumes.get(volumeId);
      const fail = (why: string): void =>
        world.narrator.fail('S4', `${machine.name} deletes volume ${volumeId} of ${member}: ${why}`);
      if (volume?.owner == null) return fail('nobody owns it');
      if (volume.owner.clusterUid !== clusterUid || volume.owner.member !== member)
        return fail(`it belongs to ${volume.owner.member} of ${volume.owner.clusterUid}`);
      const inUse = [...machine.disk.services.values()].find((service) => service.volumeId === volumeId);
      if (inUse !== undefined) return fail(`service ${inUse.id} uses it`);
      const object = clusterByUid(world, clusterUid);
      // An object that is gone was deleted: its operations may still run on a machine that was away.
      if (object === null || object.metadata.deletionTimestamp !== null) return;
      const config = configOf(world, partOf(volume.owner));
      const address = addresses.get(`${machine.name}/${volumeId}`);
      // A name that another member has by now says nothing about this one.
      const taken = [...machine.disk.services.values()].some((s) => `${s.address}:${s.port}` === address);
      if (!taken && config?.members.some((m) => m.host === address))
        return fail('its member is in the configuration');
      const fewer = people.wishes.some(
        ({ cluster, what }) => LEAVES.has(what) && cluster === object.metadata.name,
      );
      if (!fewer) fail('nobody asked for it');
    },
  };
};
