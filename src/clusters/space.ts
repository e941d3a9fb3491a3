/** Room on disks, said before it is used up (STO-06): a full disk stops every member of the set at much the same time. */
import { formatBytes } from '../base/units.ts';
import type { MemberView } from './interpret.ts';
import { SPACE_WARNING } from './limits.ts';
import type { Observed } from './types.ts';

interface Disk {
  readonly what: string;
  readonly totalBytes: number;
  readonly freeBytes: number;
}

export interface SpaceVerdict {
  readonly status: 'True' | 'False' | 'Unknown';
  readonly reason: 'Enough' | 'Low' | 'NotReported';
  readonly message: string;
}

/**
 * Data volumes of members and, apart from them, the disks of their hosts, where logs are (STO-07). Said in whole percent,
 * so that a disk that fills slowly is no stream of writes. Nothing is done about it: a restart or a hand-over would only
 * move the load to members that are just as full.
 */
export function spaceOf(all: readonly MemberView[], observed: Observed): SpaceVerdict {
  const disks = [...volumes(all), ...hosts(all, observed)];
  if (disks.length === 0)
    return { status: 'Unknown', reason: 'NotReported', message: 'no member has reported its disk' };
  const low = disks.filter((disk) => disk.freeBytes < disk.totalBytes * SPACE_WARNING);
  if (low.length === 0) return { status: 'True', reason: 'Enough', message: 'every disk has room' };
  const said = low.map(({ what, totalBytes, freeBytes }) => {
    const used = Math.floor((1 - freeBytes / totalBytes) * 100);
    return `${what} is ${used} % full (of ${formatBytes(totalBytes)})`;
  });
  const advice = 'make room or add some: when it is full, members stop and nothing we do helps';
  return { status: 'False', reason: 'Low', message: `${said.join(', ')}; ${advice}` };
}

/** Volumes that were promised more than their disks hold: a promise that a larger disk has to keep. */
export function promisedTooMuch(all: readonly MemberView[], observed: Observed): string[] {
  if (observed.capabilities.volumesOnHostDisk !== true) return [];
  return all.flatMap(({ member, facts }) => {
    const [promised, total] = [member.volumeBytes ?? 0, facts?.volume?.totalBytes ?? 0];
    if (member.stage === 'removing' || total <= 0 || promised <= total) return [];
    const where = member.host === null ? '' : ` on host ${member.host}`;
    return [
      `the volume of ${member.name} is to hold ${formatBytes(promised)}, and its disk${where} is ${formatBytes(total)} in all`,
    ];
  });
}

const volumes = (all: readonly MemberView[]): readonly Disk[] =>
  all.flatMap(({ member, facts }) => {
    const volume = facts?.volume ?? null;
    return volume === null || volume.totalBytes <= 0
      ? []
      : [{ ...volume, what: `the volume of ${member.name}` }];
  });

const hosts = (all: readonly MemberView[], observed: Observed): readonly Disk[] => {
  const carrying = new Set(all.map((v) => v.member.host));
  return observed.hosts.flatMap(({ name, disk }) =>
    !carrying.has(name) || disk === undefined || disk.totalBytes <= 0
      ? []
      : [{ ...disk, what: `the disk of host ${name}` }],
  );
};
