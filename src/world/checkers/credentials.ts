/**
 * S12: During rotations every pair of members has a common accepted credential at every moment.
 *
 * Also: every pair speaks a common TLS mode, in both directions; and the agent of every member holds a password that its set
 * accepts, before, while and after passwords change (A13.4). In a sharded cluster a pair may be of two sets, or a router and
 * a member: all that belong to it by now.
 */
import { type Mongod, speaks } from '../mongod.ts';
import type { Router } from '../router.ts';
import type { Checker } from '../stage.ts';
import { belongingSets, configOf, membersOf, objectsOf, type Part, primaryOf, routersOf } from '../truth.ts';
import type { World } from '../world.ts';

export const credentials: Checker = ({ world }) => ({
  second: () => {
    for (const object of objectsOf(world, 'MongoDB')) {
      const sets = belongingSets(world, object);
      for (const set of sets) agentsAreLetIn(world, set);
      const running: (Mongod | Router)[] = sets.flatMap((set) => membersInSet(world, set));
      for (const { router } of membersOf(world, routersOf(object)))
        if (router?.phase === 'listening') running.push(router);
      everyPair(world, running);
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

function agentsAreLetIn(world: World, set: Part): void {
  const accepted = primaryOf(world, set)?.data.users.get('admin.clusterMonitor')?.password ?? null;
  if (accepted === null) return;
  const hosts = new Set(configOf(world, set)?.members.map(({ host }) => host));
  for (const { machine, record, mongod } of membersOf(world, set)) {
    const snapshot = machine.disk.snapshots.get(record.id);
    if (snapshot === undefined || mongod?.phase !== 'listening' || !hosts.has(mongod.host)) continue;
    const held = [snapshot.monitor, snapshot.nextMonitor].map((login) => login?.password.reveal());
    if (held.includes(accepted)) continue;
    world.narrator.fail('S12', `the agent of ${mongod.host} holds no password that its set accepts`);
  }
}
