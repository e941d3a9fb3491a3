/** What keeps an object from being deleted: whoever still relies on it would be let down without a word. */
import { BelayError } from '../base/error.ts';
import { formatCount, formatMoment } from '../base/units.ts';
import type { Holder } from '../engine/gate.ts';
import type { ObjectKey } from '../engine/ports.ts';
import type { ApiDeps } from './deps.ts';

type Deps = Pick<ApiDeps, 'membersOn' | 'maintenance'>;

/** `Refused` for a host with members, and for a host or topology that maintenance tasks hold. */
export async function refuseInUse(deps: Deps, { kind, name }: ObjectKey): Promise<void> {
  if (kind === 'Host') {
    refuseCarrier(deps, name);
    const holder = deps.maintenance.hostHolderOf(name);
    refuseHeld(`host ${name}`, holder === null ? [] : [holder]);
  }
  if (kind === 'Topology') refuseHeld(`topology ${name}`, await deps.maintenance.topologyHolders(name));
}

/** Deleting a host locks its agent out; that must not happen under members nobody could reach any more. */
function refuseCarrier({ membersOn }: Deps, host: string): void {
  const members = membersOn(host);
  if (members.length === 0) return;
  throw new BelayError(
    'Refused',
    `host ${host} carries ${formatCount(members.length, 'member')}: ${members.join(', ')}`,
    {
      retry: 'never',
      fix: 'move them first (belay move NAME MEMBER); spec.unschedulable: true keeps new members away meanwhile',
    },
  );
}

/** Its locks would go with it, while somebody works there. */
function refuseHeld(what: string, holders: readonly Holder[]): void {
  const byTask = new Map(holders.map((holder) => [holder.task, holder]));
  if (byTask.size === 0) return;
  const tasks = [...byTask.values()].map(({ task, owner, until }) => {
    const end = until === null ? 'until it is dropped' : `until ${formatMoment(until)}`;
    return `${task} (owner ${owner}) ${end}`;
  });
  const drops = [...byTask.keys()].map((task) => `belay maintenance drop ${task}`);
  throw new BelayError('Refused', `${what} is held by maintenance task ${tasks.join(', ')}`, {
    retry: 'never',
    fix: `wait until the work is done, or give it back: ${drops.join('; ')}`,
  });
}
