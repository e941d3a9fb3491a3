/**
 * S9: An effect of an older epoch never lands after one of a newer epoch.
 *
 * On one machine strictly. Between machines a command under way may be overtaken by the new holder's first one elsewhere;
 * what is written to the store is judged without exception.
 */
import type { Fence } from '../../engine/ports.ts';
import type { Machine } from '../machine.ts';
import type { Checker } from '../stage.ts';

export const epochs: Checker = ({ world }) => {
  const newest = new Map<string, number>();
  const land = (where: string, what: string, { lease, epoch }: Fence): void => {
    const key = `${where} ${lease}`;
    const known = newest.get(key) ?? 0;
    if (epoch < known)
      world.narrator.fail('S9', `${what} of epoch ${epoch} lands at ${where} after epoch ${known}`);
    newest.set(key, Math.max(known, epoch));
  };
  return {
    deed: (machine: Machine, deed) => {
      if ('fence' in deed) land(machine.name, deed.kind, deed.fence);
    },
    committed: (plane, batch) => {
      if (batch.fence === undefined) return;
      land('the store', `a write of ${plane}`, batch.fence);
      const lease = world.installation.disk.leases.get(batch.fence.lease);
      if (lease !== undefined && batch.fence.epoch < lease.epoch)
        world.narrator.fail(
          'S9',
          `${plane} writes under epoch ${batch.fence.epoch}, the lease is at ${lease.epoch}`,
        );
    },
  };
};
