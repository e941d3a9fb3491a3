/** What of a plan would have to wait for people's maintenance tasks (C3.2, C6.4): the plan says so, and is no less a plan. */
import { type Foreseen, memberOf, type Preview, type State, taskText } from '../clusters/index.ts';
import type { StoredObject } from '../engine/ports.ts';
import { memberKey } from '../maintenance/index.ts';
import type { ApiDeps } from './deps.ts';

interface Held {
  readonly text: string;
  readonly task: string;
}

/** One wait for each task that holds up a step, with the first such step. The authority decides, as it will before the step. */
export async function waitsForLocks(
  deps: Pick<ApiDeps, 'provider' | 'maintenance'>,
  { metadata }: StoredObject,
  state: State,
  { disruptions }: Pick<Foreseen, 'disruptions'>,
): Promise<Preview['waits']> {
  const waits: Preview['waits'][number][] = [];
  const told = new Set<string>();
  const asked = new Set<string>();
  for (const { step, ...disruption } of disruptions) {
    const held = heldBeside(deps, metadata.namespace, state, disruption.member);
    const ask = deps.provider.askOf(metadata, disruption);
    const question = JSON.stringify(ask);
    if (held === null || told.has(held.task) || asked.has(question)) continue;
    asked.add(question);
    if ((await deps.maintenance.mayTake(ask)).kind === 'granted') continue;
    told.add(held.task);
    const detail = `from step ${step} on: ${disruption.member}: ${disruption.why} waits: ${held.text}`;
    waits.push({ on: 'MaintenanceGrant', detail });
  }
  return waits;
}

/** The lock on a member, or else on another of its set, which can spare no second one. Null: nobody holds any of them. */
function heldBeside(
  { maintenance }: Pick<ApiDeps, 'maintenance'>,
  namespace: string,
  state: State,
  name: string,
): Held | null {
  const own = memberOf(state, name);
  if (own === null) return null; // it is not there yet, and neither is a lock on it
  const others = state.members.filter((m) => m !== own && m.replicaSet === own.replicaSet);
  for (const member of [own, ...others]) {
    const holder = maintenance.holderOf(memberKey(namespace, member.name));
    if (holder === null) continue;
    const where = member.host === null ? '' : ` on host ${member.host}`;
    return { task: holder.task, text: `${member.name}${where} is held by ${taskText(holder)}` };
  }
  return null;
}
