/**
 * S12: During rotations every pair of members has a common accepted credential at every moment.
 *
 * Also: every pair speaks a common TLS mode, in both directions.
 */
import { speaks } from '../mongod.ts';
import type { Checker } from '../stage.ts';
import { configOf, runningByCluster } from '../truth.ts';

export const credentials: Checker = ({ world }) => ({
  second: () => {
    for (const [uid, processes] of runningByCluster(world)) {
      const config = processes.length < 2 ? null : configOf(world, uid);
      if (config === null) continue;
      const known = new Set(config.members.map((member) => member.host));
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
