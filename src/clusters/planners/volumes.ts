import { formatBytes } from '../../base/units.ts';
import type { Decision, Step } from '../decisions.ts';
import { pendingOf } from '../state.ts';
import { componentOf } from '../topology.ts';
import type { MemberState } from '../types.ts';
import { act, backingOff, blocked, helpNeeded, type Planner, type Scene, verdict } from './planner.ts';

/**
 * A6.6: a volume that is to be larger grows, on the volume itself and never by way of its runtime. It comes before
 * everything that needs a running process, since a full disk is what stops one (STO-04), and changes nobody's place in the
 * set (STO-01). A smaller size than what is there is refused at admission.
 *
 * A wish can be taken back only as long as nothing has grown. So where a disk is known to be too small for it none of the
 * volumes grows, and where its host has to count first (how much of the disk the volume itself holds, nobody else knows),
 * those volumes are tried before the others.
 */
export const planVolumes: Planner = (scene) => {
  const { desired, state, observed } = scene;
  if (desired.deleting !== null || desired.suspend || !observed.capabilities.diskGrowth) return null;
  const todo = state.members.filter((m) => sizeFor(scene, m) !== null);
  if (todo.length === 0) return null;
  const small = todo.filter((m) => roomFor(scene, m) === 'none');
  if (small.length > 0) return verdict([tooSmall(scene, small)], false);
  const doubtful = todo.filter((m) => roomFor(scene, m) === 'unsure');
  return verdict(grow(scene, doubtful.length > 0 ? doubtful : todo), false);
};

function grow(scene: Scene, members: readonly MemberState[]): readonly (Decision | null)[] {
  const todo = members.filter((m) => pendingOf(scene.state, m.name) === null);
  const held = todo.map((m) => backingOff(scene, 'growVolume', m.name));
  const help = todo.map((m) => helpNeeded(scene, 'growVolume', m.name));
  const ready = todo.filter((_, i) => held[i] === null);
  const steps = ready.map(
    (m): Step => ({ kind: 'growVolume', member: m.name, sizeBytes: sizeFor(scene, m) ?? 0 }),
  );
  const size = formatBytes(Math.max(...ready.map((m) => sizeFor(scene, m) ?? 0)));
  const detail = `volumes of ${ready.map((m) => m.name).join(', ')} grow to ${size}${doubts(scene, ready)}`;
  const go = steps.length === 0 ? null : act('VolumeGrowth', steps, detail);
  return [go, ...held, ...help];
}

/** The size it is to grow to; null: it is as large as it should be, or not known to be smaller. */
export function sizeFor({ desired }: Pick<Scene, 'desired'>, member: MemberState): number | null {
  if (member.volumeId === null || member.stage === 'removing') return null;
  const wanted = componentOf(desired, member.role)?.volumeBytes ?? null;
  const has = member.volumeBytes ?? null;
  return wanted !== null && has !== null && wanted > has ? wanted : null;
}

// ── room ───────────────────────────────────────────────────────────────────────────────────────────────────────────

/** The file system of a member's volume as its agent reports it; null: not reported, or of no meaning for its size. */
function diskOf({ observed, all }: Scene, { name }: MemberState) {
  if (observed.capabilities.volumesOnHostDisk !== true) return null;
  const volume = all.find((v) => v.member.name === name)?.facts?.volume ?? null;
  return volume === null || volume.totalBytes <= 0 ? null : volume;
}

/** `none`: more than the whole disk. `unsure`: more than is free beside what the volume was promised, and only its host can count. */
function roomFor(scene: Scene, member: MemberState): 'enough' | 'unsure' | 'none' {
  const [disk, wanted] = [diskOf(scene, member), sizeFor(scene, member) ?? 0];
  if (disk === null) return 'enough';
  if (wanted > disk.totalBytes) return 'none';
  return wanted > (member.volumeBytes ?? 0) + disk.freeBytes ? 'unsure' : 'enough';
}

function tooSmall(scene: Scene, members: readonly MemberState[]): Decision {
  const hosts = [...new Set(members.map((m) => m.host))].map((host) => {
    const [first] = members.filter((m) => m.host === host) as [MemberState];
    return `${formatBytes(diskOf(scene, first)?.totalBytes ?? 0)} on host ${host}`;
  });
  const wanted = formatBytes(Math.max(...members.map((m) => sizeFor(scene, m) ?? 0)));
  const who = members.map((m) => m.name).join(', ');
  const [volumes, disks] = [
    members.length === 1 ? 'the volume' : 'volumes',
    hosts.length === 1 ? 'disk is' : 'disks are',
  ];
  return blocked(
    'DiskFull',
    'capacity',
    `${volumes} of ${who} cannot be ${wanted}: the whole ${disks} ${hosts.join(', ')}; no volume grows meanwhile`,
    'give the hosts larger disks, or set spec.storage.size back to what the volumes have now',
  );
}

function doubts(scene: Scene, members: readonly MemberState[]): string {
  const unsure = members.filter((m) => roomFor(scene, m) === 'unsure');
  const free = unsure.map((m) => `${m.name} ${formatBytes(diskOf(scene, m)?.freeBytes ?? 0)}`);
  return free.length === 0 ? '' : `, if their hosts find the room (free on the disk of ${free.join(', ')})`;
}
