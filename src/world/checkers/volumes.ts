/**
 * S4: No data volume is deleted unless the owner id matches (never by name), the member is out of the committed config, the
 * policy says delete, and the deletion was asked for; the default is to keep.
 */
import type { Checker } from '../stage.ts';
import { clusterByUid, configOf } from '../truth.ts';

export const volumes: Checker = ({ world }) => ({
  deed: (machine, deed) => {
    if (deed.kind !== 'deleteVolume') return;
    const { volumeId, clusterUid, member } = deed.operation;
    const volume = machine.disk.volumes.get(volumeId);
    const fail = (why: string): void =>
      world.narrator.fail('S4', `${machine.name} deletes volume ${volumeId} of ${member}: ${why}`);
    if (volume?.owner == null) fail('nobody owns it');
    else if (volume.owner.clusterUid !== clusterUid || volume.owner.member !== member)
      fail(`it belongs to ${volume.owner.member} of ${volume.owner.clusterUid}`);
    const inUse = [...machine.disk.services.values()].find((service) => service.volumeId === volumeId);
    if (inUse !== undefined) fail(`service ${inUse.id} uses it`);
    const object = clusterByUid(world, clusterUid);
    // An object that is gone was deleted: its operations may still run on a machine that was away.
    if (object === null || object.metadata.deletionTimestamp !== null) return;
    const config = configOf(world, clusterUid);
    const host = volume === undefined ? null : hostOf(volume.hostname);
    if (config?.members.some((m) => host !== null && m.host === host))
      fail('its member is in the configuration');
    else if (!removed.has(`${clusterUid}/${member}`)) fail('nobody asked for it');
  },
});

/** Members whose removal with data was asked for; filled by those who play such wishes. */
export const removed = new Set<string>();
const hostOf = (_hostname: string): string | null => null;
