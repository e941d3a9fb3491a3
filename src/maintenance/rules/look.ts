/** What all rules look at: one check of one request, and how to say who stands in the way. */
import { formatMoment, type Millis } from '../../base/units.ts';
import type { Compat } from '../compat.ts';
import type { Fleet, Item, LockRef } from '../fleet.ts';
import { NAMES_SHOWN } from '../limits.ts';
import type { Tally } from '../tally.ts';
import type { Blocker, Code, Mode, ReasonCode, Refusal } from '../types.ts';

/** One pass over a request's actions. Temporary locks carry its number (C5.2). */
export interface Pass {
  readonly fleet: Fleet;
  readonly number: number;
  readonly now: Millis;
  /** Entry the request belongs to: what it holds already matters for `smart`. */
  readonly entry: string;
  readonly mode: Mode;
  readonly priority: number;
  readonly partial: boolean;
  readonly ignoreTenants: boolean;
  /** A more urgent task may lock what only less urgent ones hold. */
  readonly locksPriority: boolean;
  /** Primaries hand over before they are granted. */
  readonly stepDown: boolean;
  readonly compat: Compat;
  /** How many disks of each group this pass has taken so far, by index of the group. */
  readonly taken: Tally;
  /** Nodes this pass has taken so far for the action that is being looked at: one host counts as one. */
  readonly ownNodes: Set<number>;
}

/** A refusal. `by` and `retryAt` say what the message says, for programs. */
export const refuse = (
  code: Code,
  reason: ReasonCode,
  message: string,
  by: readonly Blocker[] = [],
  retryAt: Millis | null = null,
): Refusal => ({ code, reason, message, by, retryAt });

/** Some names and how many more there are. */
export function namesText(names: readonly string[]): string {
  if (names.length <= NAMES_SHOWN) return names.join(', ');
  return `${names.slice(0, NAMES_SHOWN).join(', ')} and ${names.length - NAMES_SHOWN} more`;
}

/** The lock that keeps this request off a component, if any: held ones first, then announced, queued, temporary. */
export function blockingLock(pass: Pass, item: Item): LockRef | undefined {
  const refs = pass.fleet.refs(item);
  if (refs.length === 0) return undefined;
  return firstLock(
    pass.locksPriority ? refs.filter((ref) => ref.kind !== 'held' || ref.priority <= pass.priority) : refs,
  );
}

/** Of several locks the one to speak of, whatever order they came in. */
export function firstLock(refs: readonly LockRef[]): LockRef | undefined {
  if (refs.length <= 1) return refs[0];
  const key = (ref: LockRef): readonly [number, number, string] => [
    RANK[ref.kind],
    ref.priority,
    labelOf(ref),
  ];
  return refs.reduce((a, b) => {
    const [x, y] = [key(a), key(b)];
    return x[0] < y[0] || (x[0] === y[0] && (x[1] < y[1] || (x[1] === y[1] && x[2] <= y[2]))) ? a : b;
  });
}

function labelOf(ref: LockRef): string {
  if (ref.kind === 'held') return ref.permission.id;
  if (ref.kind === 'queued') return ref.task;
  return ref.kind === 'announced' ? `${ref.owner} ${ref.until}` : '';
}
const RANK: Readonly<Record<LockRef['kind'], number>> = { held: 0, announced: 1, queued: 2, pass: 3 };

/** Whose lock it is and until when, in words. */
function lockText(ref: LockRef): string {
  switch (ref.kind) {
    case 'held': {
      const { id, owner, deadline } = ref.permission;
      const until = deadline === null ? 'until it is dropped' : `until ${formatMoment(deadline)}`;
      return `locked by ${id} of task ${ref.task} (owner ${owner}) ${until}`;
    }
    case 'announced':
      return ref.after === undefined
        ? `out of service until ${formatMoment(ref.until)}, announced by ${ref.owner}`
        : `given back a moment ago by task ${ref.after} (owner ${ref.owner}) and counts as out until ${formatMoment(ref.until)}, when it is known how it came back`;
    case 'queued':
      return `wanted by the more urgent task ${ref.task} (owner ${ref.owner}, priority ${ref.priority})`;
    case 'pass':
      return 'taken by this request too';
  }
}

export function lockBlocker(name: string, ref: LockRef): readonly Blocker[] {
  switch (ref.kind) {
    case 'held': {
      const { id, owner, deadline } = ref.permission;
      return [{ kind: 'lock', item: name, lock: id, task: ref.task, owner, deadline }];
    }
    case 'announced':
      return ref.after === undefined
        ? [{ kind: 'announced', item: name, owner: ref.owner, until: ref.until }]
        : [{ kind: 'settling', item: name, task: ref.after, owner: ref.owner, until: ref.until }];
    case 'queued':
      return [{ kind: 'pending', item: name, task: ref.task, owner: ref.owner, priority: ref.priority }];
    case 'pass':
      return [];
  }
}

function reasonOf(ref: LockRef): ReasonCode {
  if (ref.kind === 'queued') return 'HigherPriorityPending';
  if (ref.kind !== 'announced') return 'Locked';
  return ref.after === undefined ? 'Announced' : 'Settling';
}

/** A component somebody else has, or wants more urgently. */
export function lockedRefusal(
  name: string,
  ref: LockRef,
  code: Code = 'DISALLOW_TEMP',
  twice = false,
  retryAt: Millis | null = freeAt(ref),
): Refusal {
  if (ref.kind === 'pass' && twice)
    return refuse('WRONG_REQUEST', 'WrongRequest', `${name} is in this group twice: name it once`);
  const message = `Cannot lock ${name}: node state: 'Locked': it is ${lockText(ref)}`;
  return refuse(code, reasonOf(ref), message, lockBlocker(name, ref), retryAt);
}

/**
 * Whether a node goes down together with the one that is looked at: it is on the same host, or an earlier one of a group that
 * is granted whole or not at all.
 */
export const goesAlong = (pass: Pass, n: number): boolean =>
  pass.ownNodes.has(n) ||
  (!pass.partial &&
    !pass.compat.hopelessStaysPending &&
    pass.fleet
      .refs({ kind: 'node', index: n })
      .some((ref) => ref.kind === 'pass' && ref.pass === pass.number));

/** When a lock ends by itself, or what wants it more urgently has had it; null: nobody knows. */
export function freeAt(ref: LockRef): Millis | null {
  if (ref.kind === 'held') return ref.permission.deadline;
  return ref.kind === 'pass' ? null : ref.until;
}

/** All locks on a component end by this time; null: one of them has no known end. */
export function allFreeAt(refs: readonly LockRef[]): Millis | null {
  let latest: Millis | null = Number.NEGATIVE_INFINITY;
  for (const ref of refs) {
    const at = freeAt(ref);
    if (at === null) return null;
    latest = Math.max(latest, at);
  }
  return latest === Number.NEGATIVE_INFINITY ? null : latest;
}

/** What takes a node out of service, in words: its lock, its state, or both, since then the end of the lock is not all. */
export function outText(fleet: Fleet, n: number): string {
  const name = fleet.nodes[n]?.name ?? `node ${n}`;
  const ref =
    firstLock(fleet.refs({ kind: 'node', index: n })) ??
    firstLock(fleet.refs({ kind: 'device', index: n })) ??
    firstLock(fleet.refs({ kind: 'aside', index: n }));
  const state = fleet.state(n);
  return `${name} (${bothText(state === 'up' ? null : state, ref)})`;
}

/** What is wrong with something besides its lock, the lock, or both of them. */
export function bothText(fault: string | null, ref: LockRef | undefined): string {
  if (ref === undefined) return fault ?? 'up';
  return fault === null ? lockText(ref) : `${fault}, and ${lockText(ref)}`;
}
