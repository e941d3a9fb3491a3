/**
 * S7: Version order and one major step; FCV only when all binaries run it and someone asked.
 */
import { majorOf } from '../../model/index.ts';
import type { DataFolder } from '../data.ts';
import type { Checker } from '../stage.ts';
import { runningByCluster } from '../truth.ts';

export const versions: Checker = ({ world }) => {
  const seen = new WeakMap<DataFolder, string | null>();
  return {
    second: () => {
      for (const [uid, running] of runningByCluster(world)) {
        const majors = running.map((mongod) => majorOf(mongod.options.version) ?? 0);
        if (Math.max(...majors) - Math.min(...majors) > 1)
          world.narrator.fail('S7', `members of ${uid} run majors ${majors.join(', ')}`);
        for (const { data, host } of running) {
          const before = seen.get(data);
          seen.set(data, data.fcv);
          if (before == null || data.fcv === before) continue;
          const behind = majors.filter((major) => major < (majorOf(data.fcv ?? '') ?? 0));
          if (behind.length > 0)
            world.narrator.fail(
              'S7',
              `${host} has FCV ${data.fcv} while members run major ${behind.join(', ')}`,
            );
        }
      }
    },
  };
};
