/** What of a plan would have to wait for people's maintenance tasks (C3.2, C6.4): the plan says so, and is no less a plan. */
import type { HostView } from '../authority/index.ts';
import {
  type Foreseen,
  type MemberState,
  memberOf,
  type Preview,
  type State,
  taskText,
} from '../clusters/index.ts';
import type { StoredObject } from '../engine/ports.ts';
import { ENGINE_OWNER, memberKey, type Refusal } from '../maintenance/index.ts';
import type { ApiDeps } from './deps.ts';

/** A task in the way of a step, as it is told. */
interface Held {
  readonly text: string;
  readonly task: string;
}

/**
 * One wait for each task that holds up a step, with the first such step, and one where nothing is granted to anybody. The authority
 * decides, as it will before the step.
 */
export async function waitsForLocks(
  deps: Pick<ApiDeps, 'provider' | 'maintenance'>,
  { metadata }: StoredObject,
  state: State,
  { disruptions }: Pick<Foreseen, 'disruptions'>,
): Promise<Preview['waits']> {
  const [first] = disruptions;
  if (first === undefined) return [];
  const waits: Preview['waits'][number][] = [...(await whileOff(deps, first.step))];
  const told = new Set<string>();
  const asked = new Set<string>();
  const hosts = await deps.maintenance.hosts();
  for (const { step, ...disruption } of disruptions) {
    const ask = deps.provider.askOf(metadata, disruption);
    const holder = heldBeside(deps, metadata.namespace, state, disruption.member);
    const wanted = holder === null ? wantedFirst(hosts, state, disruption.member, ask.priority) : [];
    const question = JSON.stringify(ask);
    if ((holder === null && wanted.length === 0) || asked.has(question)) continue;
    asked.add(question);
    const answer = await deps.maintenance.mayTake(ask);
    if (answer.kind === 'granted') continue;
    // What waits has nothing yet: only what the authority says tells whether it is in the way.
    const held = holder ?? wanted.find(({ task }) => isFor(answer.refusal, task));
    if (held === undefined || told.has(held.task)) continue;
    told.add(held.task);
    const detail = `from step ${step} on: ${disruption.member}: ${disruption.why} waits: ${held.text}`;
    waits.push({ on: 'MaintenanceGrant', detail });
  }
  return waits;
}

async function whileOff(
  { maintenance }: Pick<ApiDeps, 'maintenance'>,
  step: number,
): Promise<Preview['waits']> {
  const { disabled, switched } = await maintenance.switchState();
  if (!disabled) return [];
  const who = switched === undefined || switched.by === '' ? '' : ` by ${switched.by}`;
  const detail = `from step ${step} on: maintenance is switched off${who}, and nothing new is granted: belay maintenance switch on`;
  return [{ on: 'MaintenanceGrant', detail }];
}

/** Its host may be waited for because of something else there. */
const isFor = ({ by }: Refusal, task: string): boolean =>
  by.some((b) => b.kind === 'pending' && b.task === task);

/** The lock on a member, or else on another of its set, which can spare no second one. Null: nobody holds any of them. */
function heldBeside(
  { maintenance }: Pick<ApiDeps, 'maintenance'>,
  namespace: string,
  state: State,
  name: string,
): Held | null {
  for (const member of withItsSet(state, name)) {
    const holder = maintenance.holderOf(memberKey(namespace, member.name));
    if (holder === null) continue;
    const where = member.host === null ? '' : ` on host ${member.host}`;
    return { task: holder.task, text: `${member.name}${where} is held by ${taskText(holder)}` };
  }
  return null;
}

/**
 * C3.1: who waits for a member, or for another of its set, and is more urgent than this: that one is to have it first, and the set can
 * spare no second one meanwhile.
 */
function wantedFirst(
  hosts: readonly HostView[],
  state: State,
  name: string,
  priority: number,
): readonly Held[] {
  return withItsSet(state, name).flatMap(({ name: member, host }) => {
    const waiting = hosts.find((h) => h.host === host)?.waiting ?? [];
    const first = waiting.find((w) => w.priority < priority && !w.stale && w.owner !== ENGINE_OWNER);
    if (first === undefined) return [];
    const { task, owner } = first;
    const text = `${member} on host ${host} is wanted by the more urgent task ${task} of ${owner}, which waits too`;
    return [{ task, text }];
  });
}

/** The member first; none where it is not there yet, and neither is a lock on it. */
function withItsSet(state: State, name: string): readonly MemberState[] {
  const own = memberOf(state, name);
  if (own === null) return [];
  return [own, ...state.members.filter((m) => m !== own && m.replicaSet === own.replicaSet)];
}
