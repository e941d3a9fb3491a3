/**
 * The desk where requests are made: who holds what, who waits for what, and the one place that grants (S13). It decides over
 * a fleet's counters, tells what changed, and can be written down and opened again at any moment without a verdict changing.
 */
import type { Millis } from '../base/units.ts';
import {
  type Answer,
  disabledRefusal,
  inOrder,
  priorityProblem,
  type RequestInput,
  refused,
  slug,
} from './answers.ts';
import { checkAction, UndoLog } from './check.ts';
import { BETTER, type Compat, ORIGINAL } from './compat.ts';
import { Evictions } from './evictions.ts';
import type { Fleet } from './fleet.ts';
import { type HandOver, handOversOf, handsOver } from './handOver.ts';
import { APPROVED_PRIORITY, DEFAULT_DURATION, DEFAULT_RETRY, MEMBER_SETTLE } from './limits.ts';
import { entryName, Locks } from './locks.ts';
import { Outages, settling } from './outages.ts';
import { forgottenAt, heard, stirred } from './patience.ts';
import { isFinal } from './reasons.ts';
import { Register } from './register.ts';
import { itemsOf, resolve } from './resolve.ts';
import { lockedRefusal, type Pass, refuse } from './rules/look.ts';
import { Tally } from './tally.ts';
import {
  type Action,
  type Announcement,
  type Book,
  type Code,
  EMPTY_BOOK,
  type Entry,
  type Pending,
  type Permission,
  type Refusal,
  softer,
} from './types.ts';

export interface DeskOptions {
  readonly compat?: Compat;
  /** A more urgent request may lock what only less urgent ones hold (MNT-09). */
  readonly locksPriority?: boolean;
  /** New work is refused; completing and dropping still work. */
  readonly disabled?: boolean;
  /** Whether requests may have a priority other than 0. */
  readonly priorities?: boolean;
}

type Ask = Pick<Pending, 'action' | 'at'>;
interface Draft extends Omit<Entry, 'pending' | 'held'> {
  readonly held: readonly Permission[];
}

export class Desk {
  #fleet: Fleet;
  #options: Required<DeskOptions>;
  readonly #register = new Register();
  readonly #outages = new Outages();
  readonly #evictions = new Evictions();
  #passes = 0;
  #taken: Tally;
  #locks: Locks;
  /** A desk over the same fleet with everything well, made when it is needed; such a desk is its own. */
  #ideal: Desk | null = null;
  #earliest = Number.POSITIVE_INFINITY;

  constructor(fleet: Fleet, book: Book = EMPTY_BOOK, options: DeskOptions = {}) {
    this.#fleet = fleet;
    this.#taken = new Tally(fleet.groupIds.length);
    this.#locks = new Locks(fleet, (entry) => this.#compatOf(entry));
    this.#options = { compat: BETTER, locksPriority: false, disabled: false, priorities: true, ...options };
    this.#load(book);
  }

  #load(book: Book): void {
    this.#outages.load(book.announcements);
    this.#evictions.load(book.evicting);
    this.#register.reset(book);
    this.#earliest = Number.POSITIVE_INFINITY;
    for (const entry of book.entries) this.#put(entry);
    this.#register.takeChanges();
  }

  get fleet(): Fleet {
    return this.#fleet;
  }

  /** Everything that must survive; `new Desk(fleet, book)` goes on where this one stands. */
  book(): Book {
    return {
      ...this.#register.book(),
      announcements: this.#outages.all,
      evicting: this.#evictions.book(),
    };
  }

  /** Another topology, or another reading of it: locks go to the components of the same names. */
  replaceFleet(fleet: Fleet): void {
    const changed = this.takeChanges();
    const book = this.book();
    // Its locks stay behind in the old fleet, which nobody uses any more.
    this.#fleet = fleet;
    this.#ideal = null;
    this.#locks = new Locks(fleet, (entry) => this.#compatOf(entry));
    this.#taken = new Tally(fleet.groupIds.length);
    this.#load(book);
    this.#register.markChanged(changed);
  }

  /** What the store has counts, whatever this desk has made up since. */
  replaceBook(book: Book): void {
    this.#locks.clear();
    this.#load(book);
  }

  configure(options: DeskOptions): void {
    this.#options = { ...this.#options, ...options };
  }

  /** Identities of entries that changed, came or went since the last call: what has to be written. */
  takeChanges(): readonly string[] {
    return this.#register.takeChanges();
  }

  // ── looking up ─────────────────────────────────────────────────────────────────────────────────────────────────────

  entry(id: string): Entry | undefined {
    return this.#register.get(id);
  }
  task(uid: string): Entry | undefined {
    return this.#register.task(uid);
  }
  entries(): Iterable<Entry> {
    return this.#register.all();
  }
  permission(id: string): Permission | undefined {
    return this.#register.holderOf(id)?.held.find((p) => p.id === id);
  }
  announcements(): readonly Announcement[] {
    return this.#outages.all;
  }
  isEvicting(host: string): boolean {
    return this.#evictions.has(host);
  }

  /** Members that are to hand over before something is granted. */
  handOvers(): readonly HandOver[] {
    return handOversOf(this.#register.all());
  }

  // ── asking ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  /** A new request. With `dry` everything is checked and nothing changes. */
  request(input: RequestInput, now: Millis): Answer {
    this.expire(now);
    const wrong = priorityProblem(input.priority ?? 0, this.#options.priorities);
    if (wrong !== null) return refused(refuse('WRONG_REQUEST', 'WrongRequest', wrong), null);
    const draft = this.#draft(input, now);
    const dry = input.dry === true;
    const evicting =
      input.evict === true ? this.#evictions.take(this.#fleet, draft.id, input.actions, dry) : null;
    if (evicting !== null && evicting.code !== 'DISALLOW_TEMP') return refused(evicting, null);
    if (evicting !== null) {
      const pending = input.actions.map((ask) => ({ ...ask, refusal: evicting }));
      if (!dry) this.#put({ ...draft, pending, held: [] });
      return { ...refused(evicting, now + DEFAULT_RETRY), pending, entry: this.entry(draft.id) ?? null };
    }
    const asks = this.#sorted(input.actions);
    const answer = this.#pass(draft, asks, now, draft.maxInFlight === 0 ? null : draft.maxInFlight);
    return dry ? this.#withoutIds(answer) : this.#settle(draft, answer, input.schedule);
  }

  /** Tries the pending actions of an entry again. `WRONG_REQUEST`: there is no such entry. */
  check(id: string, now: Millis, options: { readonly dry?: boolean } = {}): Answer {
    this.expire(now);
    const entry = this.#register.get(id);
    if (entry === undefined)
      return refused(refuse('WRONG_REQUEST', 'WrongRequest', `there is no request ${id}`), null);
    const { pending, ...draft } = { ...entry, refreshedAt: now };
    if (this.#options.disabled) {
      if (options.dry !== true) this.stillWanted(id, now);
      return { ...refused(disabledRefusal(), null), entry, pending: entry.pending };
    }
    if (pending.length === 0) {
      if (options.dry !== true) this.#put({ ...draft, pending: [] });
      return { code: 'ALLOW', granted: [], pending: [], refusal: null, retryAt: null, entry };
    }
    if (entry.evict) {
      const evicting = this.#evictions.take(this.#fleet, id, pending, options.dry === true);
      if (evicting !== null) return { ...refused(evicting, now + DEFAULT_RETRY), pending, entry };
    }
    const cap = entry.maxInFlight === 0 ? null : Math.max(0, entry.maxInFlight - entry.held.length);
    const answer = this.#pass(draft, pending, now, cap);
    return options.dry === true ? this.#withoutIds(answer) : this.#settle(draft, answer, true);
  }

  /** Its owner asked and nothing was tried: what waits keeps its place, or has it again. */
  stillWanted(id: string, now: Millis): void {
    const entry = this.#register.get(id);
    if (entry !== undefined && entry.pending.length > 0) this.#put(heard(entry, now + DEFAULT_RETRY));
  }

  #draft(input: RequestInput, now: Millis): Draft {
    return {
      id: `${slug(input.owner)}-r-${this.#register.nextRequest}`,
      uid: input.uid ?? null,
      owner: input.owner,
      description: input.description ?? '',
      mode: input.mode,
      priority: input.priority ?? 0,
      partial: input.partial,
      maxInFlight: input.partial ? (input.maxInFlight ?? 0) : 0,
      duration: input.duration ?? null,
      ignoreTenants: input.ignoreTenants ?? false,
      evict: input.evict ?? false,
      ...(input.stepDown === true ? { stepDown: true } : {}),
      ...(input.compat === true ? { compat: true } : {}),
      createdAt: now,
      refreshedAt: now,
      held: [],
    };
  }

  /** Nodes of system tablets last, so that their tablets move as seldom as possible. Otherwise as asked. */
  #sorted(asks: readonly Ask[]): readonly Ask[] {
    const late = asks.filter((ask) => this.#touchesTablets(ask.action));
    if (late.length === 0 || late.length === asks.length) return asks;
    const isLate = new Set(late);
    return [...asks.filter((ask) => !isLate.has(ask)), ...late];
  }

  #touchesTablets(action: Action): boolean {
    if (this.#fleet.limitSets.every((set) => set.spec.kind !== 'tablets')) return false;
    const target = resolve(this.#fleet, action);
    const isTablets = (s: number): boolean => this.#fleet.limitSets[s]?.spec.kind === 'tablets';
    return target.kind === 'nodes' && target.nodes.some((n) => this.#fleet.limitSetsOf(n).some(isTablets));
  }

  /** One pass over actions: each sees the temporary locks of those before it; all of them are gone at the end (C5.2). */
  #pass(draft: Draft, asks: readonly Ask[], now: Millis, cap: number | null): Answer {
    if (this.#options.disabled) return refused(disabledRefusal(), null);
    this.#locks.lookAs(draft.priority);
    const pass = this.#newPass(draft, now);
    const log = new UndoLog(pass);
    const granted: (Ask & { readonly duration: Millis })[] = [];
    const waiting: Pending[] = [];
    let code: Code = 'ALLOW';
    let stopped = false;
    let handing = 0;
    for (const ask of asks) {
      const duration = ask.action.duration ?? draft.duration ?? DEFAULT_DURATION;
      if (stopped || (cap !== null && granted.length + handing >= cap)) {
        waiting.push({ ...ask, refusal: null });
        continue;
      }
      const refusal = this.#one(pass, log, ask.action, duration + (draft.duration ?? DEFAULT_DURATION));
      if (refusal === null) {
        granted.push({ ...ask, duration });
        continue;
      }
      waiting.push({ ...ask, refusal });
      code = softer(code, refusal.code);
      if (refusal.reason === 'PrimaryStepsDown') handing++;
      else if (!draft.partial) stopped = true;
    }
    log.rollback(0);
    const capped = cap === 0 && granted.length === 0;
    const none = draft.partial ? granted.length === 0 : waiting.length > 0;
    if (capped) code = 'DISALLOW_TEMP';
    else if (waiting.length > 0 && !none) code = 'ALLOW_PARTIAL';
    // A group that cannot be had has nobody hand over in vain.
    const vain = !draft.partial && waiting.some((w) => w.refusal !== null && !handsOver(w));
    const told = vain ? waiting.map((w) => (handsOver(w) ? { ...w, refusal: null } : w)) : waiting;
    const never = stopped && code === 'DISALLOW_TEMP' ? this.#never(draft, asks, now) : null;
    if (never !== null) return this.#nothing(draft, asks, never.pending, never.code, now);
    if (none) return this.#nothing(draft, asks, told, code, now);
    const permissions = granted.map((ask, i) => this.#permission(draft, ask, now, i));
    return {
      code,
      granted: permissions,
      pending: inOrder(waiting),
      refusal: waiting[0]?.refusal ?? null,
      retryAt: null,
      entry: null,
    };
  }

  /** A group that could not be had with all else well either waits in vain, whatever else is in its way now; null: it could. */
  #never(draft: Draft, asks: readonly Ask[], now: Millis): Answer | null {
    if (this.#ideal === this || this.#compatOf(draft).hopelessStaysPending) return null;
    if (this.#ideal === null) {
      this.#ideal = new Desk(this.#fleet.allWell(), EMPTY_BOOK, { compat: this.#options.compat });
      this.#ideal.#ideal = this.#ideal;
    }
    const { owner, mode, duration, ignoreTenants } = draft;
    const about = { owner, mode, duration, ignoreTenants, partial: false, schedule: false, dry: true };
    const answer = this.#ideal.request({ ...about, actions: asks }, now);
    const refused = answer.pending.find(({ refusal }) => refusal !== null);
    const refusal = refused?.refusal ?? null;
    if (refused === undefined || refusal === null || isFinal(refusal.reason)) return refused ? answer : null;
    // Alone it could be had, so it is the group that stands in its own way.
    if (this.#ideal.request({ ...about, actions: [refused] }, now).granted.length === 0) return null;
    const message = `${refusal.message}; ask for them one by one`;
    const final = { ...refusal, code: 'DISALLOW', reason: 'TooManyTogether', message } as const;
    const pending = answer.pending.map((p) => (p === refused ? { ...p, refusal: final } : p));
    return { ...answer, code: final.code, pending, refusal: final };
  }

  #nothing(draft: Draft, asks: readonly Ask[], waiting: readonly Pending[], code: Code, now: Millis): Answer {
    const known = new Map(waiting.map((w) => [`${w.at}`, w.refusal]));
    const pending = inOrder(asks.map((ask) => ({ ...ask, refusal: known.get(`${ask.at}`) ?? null })));
    const refusals = waiting.flatMap((w) => w.refusal ?? []);
    const capped = draft.maxInFlight > 0 && refusals.length === 0;
    const refusal = capped
      ? refuse(
          'DISALLOW_TEMP',
          'InFlightCap',
          `MaxPermissionCount cap exhausted: ${draft.held.length} of at most ${draft.maxInFlight} actions are held`,
        )
      : (refusals[0] ?? null);
    return { code, granted: [], pending, refusal, retryAt: this.#retryAt(draft, refusals, now), entry: null };
  }

  /** The earliest time at which something of it may become possible; where that is not known of all of it, when to look. */
  #retryAt(draft: Draft, refusals: readonly Refusal[], now: Millis): Millis {
    const fallback = now + DEFAULT_RETRY;
    const own = draft.held.flatMap((p) => p.deadline ?? []);
    const times = refusals.flatMap((r) => {
      const locked = r.reason === 'Locked';
      return r.retryAt === null || (this.#compatOf(draft).retryAfterDefaultOnly && !locked)
        ? []
        : [r.retryAt];
    });
    if (refusals.length === 0 && own.length > 0) return Math.min(...own);
    const unknown = times.length < refusals.length;
    const earliest = times.length === 0 ? fallback : times.reduce((a, b) => Math.min(a, b));
    return Math.max(now, unknown ? Math.min(earliest, fallback) : earliest);
  }

  #compatOf({ compat }: Pick<Entry, 'compat'>): Compat {
    return compat === true ? ORIGINAL : this.#options.compat;
  }

  #newPass(draft: Draft, now: Millis): Pass {
    return {
      fleet: this.#fleet,
      number: ++this.#passes,
      now,
      entry: draft.id,
      mode: draft.mode,
      priority: draft.priority,
      partial: draft.partial,
      ignoreTenants: draft.ignoreTenants,
      locksPriority: this.#options.locksPriority,
      stepDown: draft.stepDown === true,
      compat: this.#compatOf(draft),
      taken: this.#taken,
      ownNodes: new Set(),
    };
  }

  /** One action, with the announced outages that fall into the time it needs. */
  #one(pass: Pass, log: UndoLog, action: Action, span: Millis): Refusal | null {
    const target = resolve(this.#fleet, action);
    // A drained or cordoned node goes on serving, so nothing can stand in the way.
    if (action.type !== 'lock') return target.kind === 'none' ? target.refusal : null;
    const announced = this.#outages.during(this.#fleet, pass.now, pass.now + span);
    for (const [item, ref] of announced) this.#fleet.lock(item, ref);
    const refusal = checkAction(pass, log, action, target);
    for (const [item, ref] of announced) this.#fleet.unlock(item, ref);
    // Whoever wants it more urgently could have asked again by now: nobody knows when they will.
    const past = refusal !== null && refusal.retryAt !== null && refusal.retryAt <= pass.now;
    return past ? { ...refusal, retryAt: null } : refusal;
  }

  #permission(draft: Draft, ask: Ask & { readonly duration: Millis }, now: Millis, nth: number): Permission {
    const endless = ask.action.type !== 'lock';
    return {
      id: `${slug(draft.owner)}-p-${this.#register.nextPermission + nth}`,
      entry: draft.id,
      owner: draft.owner,
      priority: draft.priority,
      action: ask.action,
      grantedAt: now,
      deadline: endless ? null : now + ask.duration,
      duration: ask.duration,
      at: ask.at,
      ...(ask.action.type === 'drain' ? { progress: 0 } : {}),
    };
  }

  #withoutIds(answer: Answer): Answer {
    return { ...answer, granted: answer.granted.map((p) => ({ ...p, id: '' })), entry: null };
  }

  /** Makes an answer real. */
  #settle(draft: Draft, answer: Answer, schedule: boolean): Answer {
    const soft = answer.code === 'DISALLOW_TEMP' || answer.code === 'ERROR_TEMP' || draft.held.length > 0;
    const keeps =
      schedule && (answer.granted.length > 0 || soft || this.#register.get(draft.id) !== undefined);
    const pending = keeps ? answer.pending : [];
    if (answer.granted.length === 0 && !keeps) return answer;
    const told = answer.retryAt ?? draft.refreshedAt + DEFAULT_RETRY;
    const entry: Entry = heard({ ...draft, pending, held: [...draft.held, ...answer.granted] }, told);
    this.#put(entry);
    return { ...answer, entry };
  }

  // ── giving back ────────────────────────────────────────────────────────────────────────────────────────────────────

  /**
   * A permission is not needed any more. False: there is none of this id. `workedOn`: when somebody ended work with it, so that
   * members settle; left out: nothing was done, or it is known how they are.
   */
  complete(permissionId: string, workedOn?: Millis): boolean {
    const entry = this.#register.holderOf(permissionId);
    if (entry === undefined) return false;
    const ended = entry.held.filter((p) => p.id === permissionId);
    if (workedOn !== undefined) for (const p of ended) this.#settleMembers(entry, p, workedOn);
    if (entry.evict) this.#evictions.forget(entry.id);
    const after: Entry = { ...entry, held: entry.held.filter((p) => p.id !== permissionId) };
    this.#put(workedOn === undefined ? after : stirred(after, workedOn));
    return true;
  }

  /**
   * What is held is needed until `until`, if that is later than its deadline. False: there is none of this id, or its deadline
   * has passed, after which it is nobody's any more.
   */
  extend(permissionId: string, until: Millis, now: Millis): boolean {
    this.expire(now);
    const entry = this.#register.holderOf(permissionId);
    const held = entry?.held.find((p) => p.id === permissionId);
    if (entry === undefined || held === undefined) return false;
    const { deadline } = held;
    if (deadline !== null && deadline <= now) return false;
    const longer = deadline === null ? held : { ...held, deadline: Math.max(deadline, until) };
    // Whoever is refused because of it is told until when.
    this.#locks.release(permissionId);
    const after = entry.held.map((p) => (p === held ? longer : p));
    this.#put({ ...entry, refreshedAt: now, held: after });
    return true;
  }

  /** Pending actions are not wanted any more; what is held stays held. False: an eviction holds its host. */
  reject(id: string): boolean {
    const entry = this.#register.get(id);
    if (entry === undefined || (entry.evict && entry.held.length > 0)) return false;
    if (entry.evict) this.#evictions.forget(id);
    this.#put({ ...entry, pending: [] });
    return true;
  }

  /** The whole entry goes, with all its locks; `workedOn` as for `complete`. False: there is none. */
  drop(id: string, workedOn?: Millis): boolean {
    const entry = this.#register.get(id);
    if (entry === undefined) return false;
    if (workedOn !== undefined) for (const p of entry.held) this.#settleMembers(entry, p, workedOn);
    this.#evictions.forget(id);
    this.#put({ ...entry, pending: [], held: [] });
    return true;
  }

  /**
   * A person grants what is pending, without the availability rules and with the highest priority; the caller records who and
   * why. Refused when a component is locked already.
   */
  approve(id: string, now: Millis): Answer {
    this.expire(now);
    const entry = this.#register.get(id);
    if (entry === undefined || entry.pending.length === 0)
      return refused(refuse('WRONG_REQUEST', 'WrongRequest', `there is nothing to approve in ${id}`), null);
    for (const { action } of entry.pending) {
      const target = resolve(this.#fleet, action);
      if (target.kind === 'none') return refused(target.refusal, null);
      for (const item of itemsOf(this.#fleet, target)) {
        const held = this.#fleet.refs(item).find((ref) => ref.kind === 'held');
        if (held !== undefined) return refused(lockedRefusal(`${item.kind} of ${id}`, held), null);
      }
    }
    const granted = entry.pending.map((ask, i) => {
      const duration = ask.action.duration ?? entry.duration ?? DEFAULT_DURATION;
      return { ...this.#permission(entry, { ...ask, duration }, now, i), priority: APPROVED_PRIORITY };
    });
    const after: Entry = { ...entry, pending: [], held: [...entry.held, ...granted] };
    this.#put(after);
    return { code: 'ALLOW', granted, pending: [], refusal: null, retryAt: null, entry: after };
  }

  /** Somebody tells of an outage; it counts from then on, whatever it does to availability. */
  announce(announcement: Announcement): void {
    this.#outages.add(announcement);
  }

  #settleMembers(entry: Entry, permission: Permission, from: Millis): void {
    const outage = settling(this.#fleet, entryName(entry), permission, from);
    if (outage !== null) this.announce(outage);
  }

  withdraw(id: string): void {
    this.#outages.withdraw(id);
  }

  /** How far a drain is; null: it has ended. */
  progress(permissionId: string, percent: number | null): void {
    const entry = this.#register.holderOf(permissionId);
    if (entry === undefined) return;
    const held = entry.held.map((p) => {
      if (p.id !== permissionId) return p;
      const { progress: _, ...rest } = p;
      return percent === null ? rest : { ...rest, progress: percent };
    });
    this.#put({ ...entry, held });
  }

  // ── time ───────────────────────────────────────────────────────────────────────────────────────────────────────────

  /** When the next deadline is; infinite without one. */
  get nextDeadline(): Millis {
    return Math.min(this.#earliest, this.#outages.nextEnd);
  }

  /** Permissions past their deadline count as completed (C1.3); the pending rest of their task stays (MNT-07). */
  expire(now: Millis): void {
    if (now < this.nextDeadline) return;
    this.#outages.expire(now);
    this.#earliest = Number.POSITIVE_INFINITY;
    for (const entry of [...this.#register.all()]) this.#expireEntry(entry, now);
  }

  #expireEntry(entry: Entry, now: Millis): void {
    const late = this.#compatOf(entry).expiryDropsTask;
    const endOf = (p: Permission): Millis =>
      p.deadline === null ? Number.POSITIVE_INFINITY : p.deadline + (late ? 2 * p.duration : 0);
    const held = entry.held.filter((p) => endOf(p) > now);
    for (const p of held) {
      // The original frees an item that is up at the deadline and forgets the permission later.
      if (late && p.deadline !== null && p.deadline <= now) this.#locks.releaseUp(p.id);
      this.#earliest = Math.min(
        this.#earliest,
        p.deadline !== null && p.deadline > now ? p.deadline : endOf(p),
      );
    }
    if (held.length === entry.held.length) {
      this.#forgetEntry(entry, now);
      return;
    }
    // Whoever let it expire may have worked on it to the end.
    const kept = new Set(held);
    for (const p of entry.held) {
      if (!kept.has(p) && endOf(p) + MEMBER_SETTLE >= now) this.#settleMembers(entry, p, endOf(p));
    }
    if (entry.evict && held.length === 0) this.#evictions.forget(entry.id);
    const last = Math.max(...entry.held.filter((p) => !kept.has(p)).map(endOf));
    const after = stirred({ ...entry, held, pending: late ? [] : entry.pending }, last);
    this.#put(after);
    if (this.#register.get(entry.id) !== undefined) this.#forgetEntry(after, now);
  }

  /** What nobody asks for any more holds nobody back. */
  #forgetEntry(entry: Entry, now: Millis): void {
    if (this.#compatOf(entry).forgottenKeepsPlace) return;
    const at = forgottenAt(entry);
    if (at <= now) this.#put({ ...entry, stale: true });
    else this.#earliest = Math.min(this.#earliest, at);
  }

  // ── keeping the books ──────────────────────────────────────────────────────────────────────────────────────────────

  /** Puts an entry as it is now; one that neither holds nor wants anything is gone. */
  #put(entry: Entry): void {
    const { before, released, stays } = this.#register.put(entry);
    this.#locks.unqueue(entry.id, before?.priority ?? entry.priority);
    for (const p of released) this.#locks.release(p.id);
    for (const p of entry.held) {
      if (p.deadline !== null) this.#earliest = Math.min(this.#earliest, p.deadline);
      this.#locks.hold(entry, p);
    }
    if (!stays || entry.pending.length === 0) return;
    if (!this.#compatOf(entry).forgottenKeepsPlace)
      this.#earliest = Math.min(this.#earliest, forgottenAt(entry));
    if (entry.stale !== true) this.#locks.queue(entry);
  }
}
