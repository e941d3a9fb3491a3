/**
 * S12: During rotations every pair of members has a common accepted credential at every moment.
 *
 * Also: every pair speaks a common TLS mode, in both directions; and the agent of every member holds a password that its set
 * accepts, before, while and after passwords change (A13.4). In a sharded cluster a pair may be of two sets, or a router and
 * a member: all that belong to it by now.
 */

import type { StoredObject } from '../../engine/ports.ts';
import { type Mongod, speaks } from '../mongod.ts';
import type { Router } from '../router.ts';
import type { Checker } from '../stage.ts';
import {
  belongingSets,
  configOf,
  membersOf,
  objectsOf,
  type Part,
  primaryOf,
  routersOf,
  userSetOf,
} from '../truth.ts';
import type { World } from '../world.ts';

export const credentials: Checker = ({ world }) => ({
  second: () => {
    for (const object of objectsOf(world, 'MongoDB')) {
      const sets = belongingSets(world, object);
      for (const set of sets) agentsAreLetIn(world, set, membersInSet(world, set));
      agentsAreLetIn(world, userSetOf(object), routersUp(world, object));
      const running = sets.flatMap((set) => membersInSet(world, set));
      everyPair(world, [...running, ...routersUp(world, object)]);
    }
  },
});

function membersInSet(world: World, set: Part): readonly Mongod[] {
  const config = configOf(world, set);
  return membersOf(world, set).flatMap(({ mongod }) => {
    const inSet = mongod?.phase === 'listening' && config?.members.some(({ host }) => host === mongod.host);
    return inSet ? [mongod] : [];
  });
}

function everyPair({ narrator }: World, running: readonly (Mongod | Router)[]): void {
  for (const a of running) {
    for (const b of running) {
      if (a === b || b.kind === 'router') continue;
      if (a.options.keyFile !== b.options.keyFile)
        narrator.fail('S12', `${a.host} and ${b.host} have different keyfiles`);
      if (!speaks(a.options.tlsMode, b.options.tlsMode))
        narrator.fail(
          'S12',
          `${a.host} (${a.options.tlsMode}) cannot speak to ${b.host} (${b.options.tlsMode})`,
        );
    }
  }
}

const routersUp = (world: World, object: StoredObject): readonly Router[] =>
  membersOf(world, routersOf(object)).flatMap(({ router }) =>
    router?.phase === 'listening' ? [router] : [],
  );

/** Agents log in with what the set accepts; those of routers with what the config servers accept. */
function agentsAreLetIn(world: World, set: Part, processes: readonly (Mongod | Router)[]): void {
  const accepted = primaryOf(world, set)?.data.users.get('admin.clusterMonitor')?.password ?? null;
  if (accepted === null) return;
  const uid = set.split('/')[0] as string;
  for (const { machine, record, mongod, router } of membersOf(world, uid)) {
    const process = mongod ?? router;
    const snapshot = machine.disk.snapshots.get(record.id);
    if (process === null || snapshot === undefined || !processes.includes(process)) continue;
    const held = [snapshot.monitor, snapshot.nextMonitor].map((login) => login?.password.reveal());
    if (held.includes(accepted)) continue;
    world.narrator.fail('S12', `the agent of ${process.host} holds no password that its set accepts`);
  }
}
