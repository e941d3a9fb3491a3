/**
 * S11: Paused, suspended or foreign objects get no effects; adoption is explicit.
 *
 * What was on its way when a person paused may still land: an effect may take that long (30 s) and be planned on a document
 * read a moment before.
 */
import { type Millis, SECOND } from '../../base/units.ts';
import type { Deed } from '../agent.ts';
import type { Machine } from '../machine.ts';
import { clusterOf } from '../marks.ts';
import type { Checker } from '../stage.ts';
import { clusterByUid, objectsOf, specOf } from '../truth.ts';

const ON_ITS_WAY: Millis = 35 * SECOND;

export const handsOff: Checker = ({ world }) => {
  const since = new Map<string, { readonly paused: Millis | null; readonly suspended: Millis | null }>();
  const foreign = new Map<string, string>();
  let looked = false;
  return {
    second: () => {
      remember();
      const { now } = world.timeline;
      for (const object of objectsOf(world, 'MongoDB')) {
        const { uid, deletionTimestamp } = object.metadata;
        const { paused, suspend } = specOf(object);
        const known = since.get(uid);
        const alive = deletionTimestamp === null;
        since.set(uid, {
          paused: paused && alive ? (known?.paused ?? now) : null,
          suspended: suspend && alive ? (known?.suspended ?? now) : null,
        });
      }
      foreign.forEach((text, where) => {
        if (foreignText(where) !== text) world.narrator.fail('S11', `what is not ours was touched: ${where}`);
      });
    },
    deed: (machine, deed) => {
      remember();
      const uid = uidOf(machine, deed);
      const times = uid === null ? undefined : since.get(uid);
      if (uid === null || times === undefined) return;
      const late = (at: Millis | null): boolean => at !== null && world.timeline.now - at > ON_ITS_WAY;
      const object = clusterByUid(world, uid);
      if (object === null || object.metadata.deletionTimestamp !== null) return;
      if (late(times.paused) && specOf(object).paused && deed.kind !== 'stop')
        world.narrator.fail(
          'S11',
          `${machine.name} gets ${deed.kind} for ${object.metadata.name}, which is paused`,
        );
      const building = deed.kind === 'publish' || (deed.kind === 'operate' && 'spec' in deed.operation);
      if (late(times.suspended) && specOf(object).suspend && building)
        world.narrator.fail(
          'S11',
          `${machine.name} gets ${deed.kind} for ${object.metadata.name}, which is suspended`,
        );
    },
  };

  /** What is not ours stood there before anything of ours did. */
  function remember(): void {
    if (looked) return;
    looked = true;
    for (const machine of world.machines.values()) {
      for (const id of machine.disk.services.keys()) {
        const where = `${machine.name}/${id}`;
        if (machine.disk.services.get(id)?.owner?.installation !== 'world' && !foreign.has(where))
          foreign.set(where, foreignText(where));
      }
    }
  }
  function foreignText(where: string): string {
    const [host = '', id = ''] = where.split('/');
    const machine = world.machines.get(host);
    const record = machine?.disk.services.get(id);
    return JSON.stringify([record, machine?.disk.volumes.has(record?.volumeId ?? '')]);
  }
};

function uidOf(machine: Machine, deed: Deed): string | null {
  switch (deed.kind) {
    case 'publish':
      return deed.snapshot.clusterUid;
    case 'run':
      return machine.disk.services.get(deed.serviceId)?.owner?.clusterUid ?? null;
    case 'operate':
    case 'deleteVolume':
      return clusterOf(deed.operation);
    case 'stop':
      return deed.record?.owner?.clusterUid ?? null;
  }
}
