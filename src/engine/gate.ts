/**
 * The gate in front of everything that takes something down (C3.2, S2, S13): the maintenance authority grants it, or the
 * step waits with the authority's own words. What the engine holds is given back as soon as nothing is under way any more.
 */
import type { Millis } from '../base/units.ts';
import type { Admission, Grant, HandOver, MemberAsk } from '../maintenance/index.ts';
import type { AnyPlan, AnyStep } from './provider.ts';

/** A person's task that holds something. `until` null: until it is dropped. */
export interface Holder {
  readonly task: string;
  readonly owner: string;
  readonly until: Millis | null;
}

/** The maintenance authority as the engine sees it. */
export interface Gate {
  acquire(ask: MemberAsk): Promise<Admission>;
  /** Only asks: nothing is locked, and nothing remembered. */
  mayTake(ask: MemberAsk): Promise<Admission>;
  release(id: string): Promise<void>;
  /** Ids of what is held or asked for, of those that begin so. From memory. */
  holds(prefix: string): readonly string[];
  /** Members that a person's task waits for to hand over. From memory. */
  handOvers(): readonly HandOver[];
  /** Which person's task holds a node; null: none. From memory. */
  holderOf(node: string): Holder | null;
  /** Which person's task holds a host as a whole; null: none. From memory. */
  hostHolderOf(host: string): Holder | null;
  /** Something was granted, given back or asked for: who waits asks again. Gives a stopper. */
  onChange(listener: () => void): () => void;
}

/** What may pass, and why the rest may not. */
export interface Passed<Step extends AnyStep> {
  readonly steps: readonly Step[];
  readonly waits: AnyPlan<Step>['waits'];
  /** By the step as text: a step taken up again after a crash is another object. */
  readonly grants: ReadonlyMap<string, readonly Grant[]>;
}

/** Name of the wait for a grant, in status, log and metrics. */
export const WAIT_FOR_GRANT = 'MaintenanceGrant';

/** Asks for every step; a step that takes several members down needs all of their grants. */
export async function passGate<Step extends AnyStep>(
  gate: Pick<Gate, 'acquire' | 'mayTake'>,
  steps: readonly Step[],
  asksOf: (step: Step) => readonly MemberAsk[],
  patience: Millis,
  now: Millis,
): Promise<Passed<Step>> {
  const free: Step[] = [];
  const waits: AnyPlan<Step>['waits'][number][] = [];
  const grants = new Map<string, readonly Grant[]>();
  // Steps that need each other's grants ask for each once.
  const known = new Map<string, Admission>();
  const acquire = async (ask: MemberAsk): Promise<Admission> => {
    const admission = known.get(ask.id) ?? (await gate.acquire(ask));
    if (!known.has(ask.id) && admission.kind === 'refused')
      waits.push(waitFor(ask, admission, patience, now));
    known.set(ask.id, admission);
    return admission;
  };
  for (const step of steps) {
    const got: Grant[] = [];
    const asks = asksOf(step);
    // Of several nothing is locked in vain: those that cannot be had now are asked for first.
    for (const ask of asks.every(({ id }) => known.has(id)) ? asks : await hardestFirst(gate, asks)) {
      const admission = await acquire(ask);
      if (admission.kind === 'refused') break;
      got.push(admission.grant);
    }
    if (got.length < asks.length) continue;
    free.push(step);
    grants.set(JSON.stringify(step), got);
  }
  return { steps: free, waits, grants };
}

async function hardestFirst(
  gate: Pick<Gate, 'mayTake'>,
  asks: readonly MemberAsk[],
): Promise<readonly MemberAsk[]> {
  if (asks.length < 2) return asks;
  const refused = new Set<MemberAsk>();
  for (const ask of asks) if ((await gate.mayTake(ask)).kind === 'refused') refused.add(ask);
  return [...refused, ...asks.filter((ask) => !refused.has(ask))];
}

/** An event announces that a lock is gone; the time is only how long that is relied on. */
const waitFor = (
  ask: MemberAsk,
  refused: Extract<Admission, { readonly kind: 'refused' }>,
  patience: Millis,
  now: Millis,
): AnyPlan<AnyStep>['waits'][number] => ({
  on: WAIT_FOR_GRANT,
  until: refused.retryAt > now ? refused.retryAt : now + patience,
  detail: `${ask.node.slice(ask.node.indexOf('/') + 1)}: ${ask.why} waits: ${refused.refusal.message}`,
});
