/** Somebody else's things on our machines. */
import { DataFolder } from './data.ts';
import type { Machine } from './machine.ts';
import type { World } from './world.ts';

/** Puts a volume of another installation beside ours, with a name like one of ours and data in it. */
export function foreignVolume(machine: Machine, hostname: string): string {
  const owner = { installation: 'another', clusterUid: 'another', member: hostname, hostname, proof: 'none' };
  const id = machine.newId('vol');
  const data = new DataFolder();
  data.append({ op: { t: 1, s: 1, i: 1 }, wall: 1000, change: { kind: 'write', id: 1 } });
  machine.disk.volumes.set(id, { id, owner, hostname, replicaSetId: null, data });
  return id;
}

/** Puts a service of another installation at the first name a cluster will want, with data in its volume. */
export function squat(world: World, cluster: string): void {
  const machine = [...world.machines.values()][0];
  if (machine === undefined) return;
  const hostname = `${cluster}-0`;
  const owner = { installation: 'another', clusterUid: 'another', member: hostname, hostname, proof: 'none' };
  const [id, volumeId] = [machine.newId('svc'), foreignVolume(machine, hostname)];
  machine.disk.services.set(id, {
    id,
    owner,
    hostname,
    address: machine.address,
    port: 27017,
    volumeId,
    version: null,
    resources: { cpus: null, memoryBytes: null },
  });
}
