/**
 * S16: Every effect has exactly one earlier intent with reason.
 */
import type { Deed } from '../agent.ts';
import type { Checker } from '../stage.ts';

export const intents: Checker = ({ world }) => ({
  deed: (machine, deed) => {
    const { journal } = world.installation.disk;
    const id = stepId(deed);
    const fail = (why: string): void =>
      world.narrator.fail('S16', `${machine.name} does ${deed.kind} ${id ?? ''}: ${why}`);
    if (id !== null) {
      const entry = journal.get(id)?.entry;
      if (entry === undefined) fail('no intent was written before');
      else if (entry.reason === '') fail('its intent has no reason');
      return;
    }
    if (deed.kind !== 'publish') return;
    const { clusterUid, member, configVersion } = deed.snapshot;
    const found = [...journal.values()].some(({ entry }) => {
      const wanted = (entry.detail as { readonly configVersion?: unknown } | null)?.configVersion;
      return (
        entry.clusterUid === clusterUid &&
        entry.target === member &&
        wanted === configVersion &&
        entry.reason !== ''
      );
    });
    if (!found) fail(`no intent to publish ${member} was written before`);
  },
});

function stepId(deed: Deed): string | null {
  if (deed.kind === 'run') return deed.stepId;
  return deed.kind === 'operate' ? deed.operation.id : null;
}
