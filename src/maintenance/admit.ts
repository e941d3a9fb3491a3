/**
 * The gate for the control plane's own work (C3.2): a restart, reload, hand-over, upgrade, replacement or removal of one
 * member asks here first, like a person who wants to work on a host, and waits with the same reasons.
 */
import type { Millis } from '../base/units.ts';
import type { Answer } from './answers.ts';
import type { Desk } from './desk.ts';
import { resolve } from './resolve.ts';
import { refuse } from './rules/look.ts';
import type { Entry, Mode, Permission, Refusal } from './types.ts';

/** "May this member be taken down now, by this holder, with this priority?" */
export interface MemberAsk {
  /** Identity of the wish, the same at every repetition: `<cluster uid>/<member>` for example. Asking twice is asking once. */
  readonly id: string;
  /** The member as the fleet knows it: `namespace/member`, `default/orders-0` (`memberKey`). */
  readonly node: string;
  /** For people, in refusals of others: `MongoDB default/orders`. */
  readonly holder: string;
  /** For people: `restart with the new configuration`. */
  readonly why: string;
  /** A smaller number is more urgent. */
  readonly priority: number;
  /** `strong` unless the caller knows better; never taken to be `force` by itself. */
  readonly mode: Mode;
  /** After this the grant counts as given back, whatever became of the work. */
  readonly duration: Millis;
}

const MAKER = Symbol('maintenance authority');

/** Proof that a component may be taken down. Only this room makes one. */
export class Grant {
  readonly id: string;
  readonly node: string;
  readonly deadline: Millis;

  constructor(maker: symbol, permission: Permission, node: string) {
    if (maker !== MAKER) throw new TypeError('only the maintenance authority grants');
    this.id = permission.id;
    this.node = node;
    this.deadline = permission.deadline ?? Number.POSITIVE_INFINITY;
  }

  /** S2: a grant ends with its deadline. */
  holdsAt(now: Millis): boolean {
    return now < this.deadline;
  }
}

export type Admission =
  | { readonly kind: 'granted'; readonly grant: Grant }
  /** The wish stays known, so that less urgent requests do not overtake it; it is forgotten when nobody repeats it. */
  | { readonly kind: 'refused'; readonly refusal: Refusal; readonly retryAt: Millis };

/** How a member of a managed database is named in the fleet. */
export const memberKey = (namespace: string, member: string): string => `${namespace}/${member}`;

/** Owner of everything the control plane holds for itself. */
export const ENGINE_OWNER = 'belay';
/** Begins the names of what the control plane holds for itself. */
export const HOLD = 'hold:';
const uidOf = (id: string): string => `${HOLD}${id}`;

/** Whether an entry is a hold of the control plane and no task of a person. */
export const isHold = (entry: Entry): boolean => entry.uid?.startsWith(HOLD) === true;

/**
 * Asks for one member. A wish that is granted already gets its grant again; one that waits is tried again. `dry` only asks:
 * nothing is locked and nothing remembered.
 */
export function admitMember(
  desk: Desk,
  ask: MemberAsk,
  now: Millis,
  options: { readonly dry?: boolean } = {},
): Admission {
  desk.expire(now);
  const uid = uidOf(ask.id);
  const known = desk.task(uid);
  const held = known?.held.find((p) => p.action.scope.kind === 'node' && p.action.scope.node === ask.node);
  if (held !== undefined) return { kind: 'granted', grant: new Grant(MAKER, held, ask.node) };
  const dry = options.dry === true;
  // A wish with another urgency, mode or member is another wish.
  if (known !== undefined && !sameAsk(known, ask) && !dry) desk.drop(known.id);
  const waiting = desk.task(uid);
  const answer =
    waiting === undefined
      ? desk.request(requestOf(ask, uid, dry), now)
      : desk.check(waiting.id, now, { dry });
  return admissionOf(desk, ask, answer, now);
}

/** Of a hold: for whom, and what for; null: it is a task of a person. */
export function holdOf(entry: Entry): { readonly holder: string; readonly why: string } | null {
  if (!isHold(entry)) return null;
  const [holder = '', ...why] = entry.description.split(': ');
  return { holder, why: why.join(': ') };
}

/** Whether a wish that is known already is this one, in all that decides on it. */
export const sameAsk = (entry: Entry, ask: MemberAsk): boolean =>
  entry.priority === ask.priority &&
  entry.mode === ask.mode &&
  entry.pending.every(({ action }) => action.scope.kind === 'node' && action.scope.node === ask.node);

const requestOf = (ask: MemberAsk, uid: string, dry: boolean): Parameters<Desk['request']>[0] => ({
  uid,
  owner: ENGINE_OWNER,
  description: `${ask.holder}: ${ask.why}`,
  mode: ask.mode,
  priority: ask.priority,
  partial: true,
  actions: [
    { action: { type: 'lock', scope: { kind: 'node', node: ask.node }, duration: ask.duration }, at: [0, 0] },
  ],
  schedule: true,
  dry,
});

function admissionOf(desk: Desk, ask: MemberAsk, answer: Answer, now: Millis): Admission {
  const [granted] = answer.granted;
  if (granted !== undefined) return { kind: 'granted', grant: new Grant(MAKER, granted, ask.node) };
  const refusal = answer.refusal ?? unknownMember(desk, ask);
  return { kind: 'refused', refusal, retryAt: answer.retryAt ?? now };
}

function unknownMember(desk: Desk, ask: MemberAsk): Refusal {
  const target = resolve(desk.fleet, {
    type: 'lock',
    scope: { kind: 'node', node: ask.node },
    duration: null,
  });
  if (target.kind === 'none') return target.refusal;
  return refuse('DISALLOW_TEMP', 'Locked', `${ask.node} cannot be taken now`);
}

/** The work is done, or will not be done: lock and wish are gone. Nothing happens when there is none. */
export function releaseMember(desk: Desk, id: string): void {
  const entry = desk.task(uidOf(id));
  if (entry !== undefined) desk.drop(entry.id);
}
