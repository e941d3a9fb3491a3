/** What hosts report of their disks, held against the sizes that a document asks for. */
import { formatBytes } from '../base/units.ts';
import { desiredFrom, groupsOf, knownStatus, type MemberRole } from '../clusters/index.ts';
import type { Agents, StoredObject } from '../engine/ports.ts';
import type { MongoDBSpec, Warning } from '../model/index.ts';

/** Where a role's size stands in a document, and what its members are called in the status. */
const PLACES: Readonly<Partial<Record<MemberRole, readonly [string, string]>>> = {
  replicaSet: ['spec.storage.size', 'replica'],
  shardServer: ['spec.shard.storage.size', 'shard'],
  configServer: ['spec.configSrv.storage.size', 'config'],
};

/**
 * A size that is more than a disk holds: that of a host which carries such a member, or of every host that could. Only a
 * warning: a volume that is there does not grow (`DiskFull`), a new one runs for as long as there is room.
 */
export function diskWarnings(
  agents: Pick<Agents, 'hosts'>,
  spec: MongoDBSpec,
  current: StoredObject | null,
): readonly Warning[] {
  const metadata = { uid: '', namespace: '', name: '', generation: 0, deletionTimestamp: null };
  const desired = desiredFrom({ metadata, spec });
  const members = knownStatus(current?.status)?.members ?? [];
  const found = new Map<string, Warning>();
  for (const { role, component } of groupsOf(desired)) {
    const [path, name] = PLACES[role] ?? [];
    const size = component.volumeBytes ?? 0;
    if (path === undefined || size === 0) continue;
    const carrying = members.flatMap((m) => (m.role === name && m.hostName ? [m.hostName] : []));
    const could = (host: string): boolean =>
      carrying.length > 0 ? carrying.includes(host) : (desired.hosts ?? [host]).includes(host);
    const disks = agents.hosts().filter((h) => could(h.facts.name) && h.facts.diskTotalBytes > 0);
    const small = disks.filter((h) => h.facts.diskTotalBytes < size);
    if (small.length === 0 || (carrying.length === 0 && small.length < disks.length)) continue;
    const who = small.map(({ facts }) => `${facts.name} (${formatBytes(facts.diskTotalBytes)})`).join(', ');
    found.set(path, { path, message: `${formatBytes(size)} is more than the whole disk of host ${who}` });
  }
  return [...found.values()];
}
