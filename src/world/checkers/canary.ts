/**
 * S8: No secret bytes in logs, events, errors, state, metrics, API answers, argv or unencrypted rows (canary secrets are
 * searched for in every sink).
 */
import { Buffer } from 'node:buffer';
import { CANARY } from '../secrets.ts';
import type { Checker } from '../stage.ts';

export const canary: Checker = ({ world }) => {
  const look = (where: string, value: unknown): void => {
    if (!holds(value)) return;
    const text = JSON.stringify(value);
    const at = text.indexOf(CANARY);
    if (at >= 0) world.narrator.fail('S8', `a secret in ${where}: …${text.slice(Math.max(0, at - 60), at)}`);
  };
  return {
    committed: (plane, { state, ...batch }) => {
      look(`a write of ${plane}`, batch);
      const record = state === undefined ? undefined : world.installation.disk.states.get(state.uid);
      if (record?.text.includes(CANARY)) world.narrator.fail('S8', `a secret in a record of ${plane}`);
    },
    logged: (plane, message, fields) => look(`the log of ${plane}`, [message, fields]),
    end: () => {
      const { disk } = world.installation;
      look('objects', [...disk.objects.values()]);
      look('records', [...disk.states.values()]);
      look('the journal', [...disk.journal.values()]);
      look('events', [...disk.events.values()]);
      look('settings', [...disk.settings.values()]);
      for (const row of disk.sealed.values()) {
        if (Buffer.from(row.sealed).includes(CANARY))
          world.narrator.fail('S8', `row ${row.name} is not sealed`);
      }
      for (const machine of world.machines.values()) {
        look(`facts of ${machine.name}`, [machine.facts, machine.agent?.items(), machine.agent?.services()]);
        look(`operations of ${machine.name}`, [...machine.disk.operations.values()]);
      }
    },
  };
};

/** Whether a secret is anywhere in it; most values are looked at many thousand times and hold none. */
function holds(value: unknown): boolean {
  if (typeof value === 'string') return value.includes(CANARY);
  if (typeof value !== 'object' || value === null) return false;
  if (Array.isArray(value)) return value.some(holds);
  for (const key of Object.keys(value)) {
    if (key.includes(CANARY) || holds((value as Readonly<Record<string, unknown>>)[key])) return true;
  }
  return false;
}
