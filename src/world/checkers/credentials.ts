/**
 * S12: During rotations every pair of members has a common accepted credential at every moment.
 *
 * Also: every pair speaks a common TLS mode, in both directions; and the agent of every member holds a password that its set
 * accepts, before, while and after passwords change (A13.4).
 */
import { speaks } from '../mongod.ts';
import type { Checker } from '../stage.ts';
import { configOf, membersOf, primaryOf, runningByCluster } from '../truth.ts';
import type { World } from '../world.ts';

export const credentials: Checker = ({ world }) => ({
  second: () => {
    for (const [uid, processes] of runningByCluster(world)) {
      const config = processes.length < 2 ? null : configOf(world, uid);
      if (config === null) continue;
      const known = new Set(config.members.map((member) => member.host));
      agentsAreLetIn(world, uid, known);
      const running = processes.filter(({ phase, host }) => phase === 'listening' && known.has(host));
      for (const a of running) {
        for (const b of running) {
          if (a === b) continue;
          if (a.options.keyFile !== b.options.keyFile)
            world.narrator.fail('S12', `${a.host} and ${b.host} have different keyfiles`);
          if (!speaks(a.options.tlsMode, b.options.tlsMode))
            world.narrator.fail(
              'S12',
              `${a.host} (${a.options.tlsMode}) cannot speak to ${b.host} (${b.options.tlsMode})`,
            );
        }
      }
    }
  },
});

function agentsAreLetIn(world: World, uid: string, hosts: ReadonlySet<string>): void {
  const accepted = primaryOf(world, uid)?.data.users.get('admin.clusterMonitor')?.password ?? null;
  if (accepted === null) return;
  for (const { machine, record, mongod } of membersOf(world, uid)) {
    const snapshot = machine.disk.snapshots.get(record.id);
    if (snapshot === undefined || mongod?.phase !== 'listening' || !hosts.has(mongod.host)) continue;
    const held = [snapshot.monitor, snapshot.nextMonitor].map((login) => login?.password.reveal());
    if (held.includes(accepted)) continue;
    world.narrator.fail('S12', `the agent of ${mongod.host} holds no password that its set accepts`);
  }
}
