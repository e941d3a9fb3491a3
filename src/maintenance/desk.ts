/**
 * The desk where requests are made: who holds what, who waits for what, and the one place that grants (S13). What may be
 * granted is judged elsewhere. The desk tells what changed, and can be written down and opened again at any moment without a
 * verdict changing.
 */
import type { Millis } from '../base/units.ts';
import {
  type Answer,
  disabledRefusal,
  priorityProblem,
  type RequestInput,
  refused,
  slug,
} from './answers.ts';
import { BETTER, type Compat, compatOf } from './compat.ts';
import { Evictions } from './evictions.ts';
import type { Fleet } from './fleet.ts';
import { type HandOver, handOversOf } from './handOver.ts';
import { type Ask, type Grantable, Judge } from './judge.ts';
import { APPROVED_PRIORITY, DEFAULT_DURATION, DEFAULT_RETRY, MEMBER_SETTLE } from './limits.ts';
import { entryName, Locks } from './locks.ts';
import { Outages, settling } from './outages.ts';
import { forgottenAt, heard, stirred } from './patience.ts';
import { Register } from './register.ts';
import { itemsOf, resolve } from './resolve.ts';
import { lockedRefusal, refuse } from './rules/look.ts';
import { type Announcement, type Book, EMPTY_BOOK, type Entry, type Permission } from './types.ts';

export interface DeskOptions {
  readonly compat?: Compat;
  /** A more urgent request may lock what only less urgent ones hold (MNT-09). */
  readonly locksPriority?: boolean;
  /** New work is refused; completing and dropping still work. */
  readonly disabled?: boolean;
  /** Whether requests may have a priority other than 0. */
  readonly priorities?: boolean;
}

interface Draft extends Omit<Entry, 'pending' | 'held'> {
  readonly held: readonly Permission[];
}

export class Desk {
  #fleet: Fleet;
  #options: Required<DeskOptions>;
  readonly #register = new Register();
  readonly #outages = new Outages();
  readonly #evictions = new Evictions();
  #locks: Locks;
  #judge: Judge;
  #earliest = Number.POSITIVE_INFINITY;

  constructor(fleet: Fleet, book: Book = EMPTY_BOOK, options: DeskOptions = {}) {
    this.#options = { compat: BETTER, locksPriority: false, disabled: false, priorities: true, ...options };
    this.#fleet = fleet;
    this.#locks = new Locks(fleet, this.#options.compat);
    this.#judge = new Judge(fleet, this.#locks, this.#outages, this.#options);
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
    this.#locks = new Locks(fleet, this.#options.compat);
    this.#judge = new Judge(fleet, this.#locks, this.#outages, this.#options);
    this.#load(book);
    this.#register.markChanged(changed);
  }

  /** What the store has counts, whatever this desk has made up since. */
  replaceBook(book: Book): void {
    this.#locks.clear();
    this.#load(book);
  }

  configure({ disabled }: Required<Pick<DeskOptions, 'disabled'>>): void {
    this.#options = { ...this.#options, disabled };
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
    const asks = this.#judge.sorted(input.actions);
    const answer = this.#judged(draft, asks, draft.maxInFlight === 0 ? null : draft.maxInFlight, now);
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
    const answer = this.#judged(draft, pending, cap, now);
    return options.dry === true ? this.#withoutIds(answer) : this.#settle(draft, answer, true);
  }

  /** Its owner asked and nothing was tried: what waits keeps its place, or has it again. */
  stillWanted(id: string, now: Millis): void {
    const entry = this.#register.get(id);
    if (entry !== undefined && entry.pending.length > 0) this.#put(heard(entry, now + DEFAULT_RETRY));
  }

  #compatOf(entry: Pick<Entry, 'compat'>): Compat {
    return compatOf(entry, this.#options.compat);
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

  /** What may be granted of it, with the permissions it would have. */
  #judged(draft: Draft, asks: readonly Ask[], cap: number | null, now: Millis): Answer {
    if (this.#options.disabled) return refused(disabledRefusal(), null);
    const verdict = this.#judge.judge(draft, asks, cap, now);
    const granted = verdict.granted.map((ask, i) => this.#permission(draft, ask, now, i));
    return { ...verdict, granted, entry: null };
  }

  #permission(draft: Draft, ask: Grantable, now: Millis, nth: number): Permission {
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
