/**
 * S5: One voting change per reconfig; versions only grow; joining members start non-voting with priority 0; never forced by
 * itself.
 */
import { compareConfigs, NO_TERM, type ReplicaSetConfig, voters } from '../../simulator/member/config.ts';
import type { Checker } from '../stage.ts';

export const reconfigs: Checker = ({ world }) => {
  const newest = new Map<string, ReplicaSetConfig>();
  return {
    member: (mongod, outputs) => {
      for (const output of outputs) {
        if (output.kind !== 'saveConfig') continue;
        const { config } = output;
        const id = config.settings.replicaSetId ?? '';
        const before = newest.get(id);
        if (before !== undefined && compareConfigs(config, before) <= 0) continue;
        newest.set(id, config);
        const problem = before === undefined ? null : judge(before, config);
        if (problem !== null)
          world.narrator.fail('S5', `${mongod.host} ${config.version}/${config.term}: ${problem}`);
      }
    },
  };
};

function judge(before: ReplicaSetConfig, after: ReplicaSetConfig): string | null {
  if (after.version < before.version) return `its version fell from ${before.version}`;
  if (after.term === NO_TERM) return 'it was forced';
  const names = (config: ReplicaSetConfig): readonly string[] => voters(config).map((member) => member.host);
  const [was, is] = [names(before), names(after)];
  const changed = [...was.filter((v) => !is.includes(v)), ...is.filter((v) => !was.includes(v))];
  if (changed.length > 1) return `${changed.join(', ')} change their votes at once`;
  const known = new Set(before.members.map((member) => member.host));
  // The server would make such a member wait for its vote by itself (`newlyAdded`); we do not rely on that.
  const joined = after.members.find((m) => !known.has(m.host) && (m.votes > 0 || m.priority > 0));
  return joined === undefined ? null : `${joined.host} joins with a vote or a priority`;
}
