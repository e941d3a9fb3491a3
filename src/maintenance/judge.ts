/**
 * Judges what a request asks for, all its actions together, with everything that is locked, announced and waited for now. It
 * says what would be granted and what stands in the way of the rest; making that real is the desk's.
 */
import type { Millis } from '../base/units.ts';
import { inOrder } from './answers.ts';
import { checkAction, UndoLog } from './check.ts';
import { type Compat, compatOf } from './compat.ts';
import type { Fleet } from './fleet.ts';
import { handsOver } from './handOver.ts';
import { DEFAULT_DURATION, DEFAULT_RETRY } from './limits.ts';
import { Locks } from './locks.ts';
import { Outages } from './outages.ts';
import { isFinal } from './reasons.ts';
import { resolve } from './resolve.ts';
import { type Pass, refuse } from './rules/look.ts';
import { Tally } from './tally.ts';
import { type Action, type Code, type Entry, type Pending, type Refusal, softer } from './types.ts';

/** What a verdict depends on of a request. */
export type Case = Pick<
  Entry,
  | 'id'
  | 'mode'
  | 'priority'
  | 'partial'
  | 'maxInFlight'
  | 'duration'
  | 'ignoreTenants'
  | 'stepDown'
  | 'compat'
  | 'held'
>;

/** An action that is asked for, and its place in the request. */
export type Ask = Pick<Pending, 'action' | 'at'>;

/** What may be granted, for how long. */
export type Grantable = Ask & { readonly duration: Millis };

export interface Verdict {
  readonly code: Code;
  /** In the order it was looked at. */
  readonly granted: readonly Grantable[];
  /** In the order of the request. */
  readonly pending: readonly Pending[];
  /** First refusal, when nothing else explains the code. */
  readonly refusal: Refusal | null;
  /** When to ask again; null: something may be granted. */
  readonly retryAt: Millis | null;
}

/** How the installation wants to be judged. */
export interface Terms {
  readonly compat: Compat;
  /** A more urgent request may lock what only less urgent ones hold (MNT-09). */
  readonly locksPriority: boolean;
}

/** What one pass found. */
interface Found {
  readonly granted: readonly Grantable[];
  readonly waiting: readonly Pending[];
  readonly code: Code;
}

export class Judge {
  readonly #fleet: Fleet;
  readonly #locks: Locks;
  readonly #outages: Outages;
  readonly #terms: Terms;
  readonly #taken: Tally;
  #passes = 0;
  /** A judge of the same fleet with everything well, made when it is needed. */
  #ideal: Judge | null = null;

  constructor(fleet: Fleet, locks: Locks, outages: Outages, terms: Terms) {
    this.#fleet = fleet;
    this.#locks = locks;
    this.#outages = outages;
    this.#terms = terms;
    this.#taken = new Tally(fleet.groupIds.length);
  }

  /** Nodes of system tablets last, so that their tablets move as seldom as possible. Otherwise as asked. */
  sorted(asks: readonly Ask[]): readonly Ask[] {
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

  /** Looks at actions in this order and grants at most `cap` of them (null: all that may be). Nothing is changed by it. */
  judge(request: Case, asks: readonly Ask[], cap: number | null, now: Millis): Verdict {
    const verdict = this.#weigh(request, asks, cap, now);
    const mayBeVain =
      !request.partial && verdict.code === 'DISALLOW_TEMP' && verdict.pending.some(isInTheWay);
    const never = mayBeVain ? this.#never(request, asks, now) : null;
    return never === null ? verdict : this.#nothing(request, asks, never.pending, never.code, now);
  }

  /** As things are now; whether waiting helps is not asked. */
  #weigh(request: Case, asks: readonly Ask[], cap: number | null, now: Millis): Verdict {
    this.#locks.lookAs(request.priority);
    const { granted, waiting, code } = this.#look(request, asks, cap, now);
    const none = request.partial ? granted.length === 0 : waiting.length > 0;
    if (none) {
      // A group that cannot be had has nobody hand over in vain.
      const vain = !request.partial && waiting.some(isInTheWay);
      const told = vain ? waiting.map((w) => (handsOver(w) ? { ...w, refusal: null } : w)) : waiting;
      const capped = cap === 0 && granted.length === 0;
      return this.#nothing(request, asks, told, capped ? 'DISALLOW_TEMP' : code, now);
    }
    return {
      code: waiting.length > 0 ? 'ALLOW_PARTIAL' : 'ALLOW',
      granted,
      pending: inOrder(waiting),
      refusal: waiting[0]?.refusal ?? null,
      retryAt: null,
    };
  }

  /** One pass over actions: each sees the temporary locks of those before it; all of them are gone at the end (C5.2). */
  #look(request: Case, asks: readonly Ask[], cap: number | null, now: Millis): Found {
    const pass = this.#newPass(request, now);
    const log = new UndoLog(pass);
    const granted: Grantable[] = [];
    const waiting: Pending[] = [];
    let code: Code = 'ALLOW';
    let stopped = false;
    let handing = 0;
    for (const ask of asks) {
      const duration = ask.action.duration ?? request.duration ?? DEFAULT_DURATION;
      if (stopped || (cap !== null && granted.length + handing >= cap)) {
        waiting.push({ ...ask, refusal: null });
        continue;
      }
      const found = this.#one(pass, log, ask.action, duration + (request.duration ?? DEFAULT_DURATION));
      const vain = found !== null && request.partial ? this.#inVain(request, ask, found, now) : null;
      const refusal = vain ?? found;
      if (refusal === null) {
        granted.push({ ...ask, duration });
        continue;
      }
      waiting.push({ ...ask, refusal });
      code = softer(code, refusal.code);
      if (refusal.reason === 'PrimaryStepsDown') handing++;
      else if (!request.partial) stopped = true;
    }
    log.rollback(0);
    return { granted, waiting, code };
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

  /** Refused for now, it could not be had with all else well either: then that is what is to be said of it. Null: it could. */
  #inVain(request: Case, ask: Ask, { reason }: Refusal, now: Millis): Refusal | null {
    if (reason === 'PrimaryStepsDown' || isFinal(reason) || !this.#mayBeVain(ask.action)) return null;
    const refusal = this.#idealVerdict(request, [ask], now)?.refusal ?? null;
    return refusal !== null && isFinal(refusal.reason) ? refusal : null;
  }

  /** What it takes may be too much by itself: several components at once, or a disk without parity. Costs what is touched. */
  #mayBeVain(action: Action): boolean {
    const { vdiskGroup, groupShared, erasures } = this.#fleet;
    const target = resolve(this.#fleet, action);
    if (target.kind === 'disks') return target.disks.length + target.vdisks.length > 1;
    if (target.kind !== 'nodes') return false;
    const isTooMuch = (n: number): boolean => {
      const [from, to] = this.#fleet.vdisksOf(n);
      for (let v = from; v < to; v++) {
        const g = vdiskGroup[v] as number;
        if (groupShared[g] === 1 || erasures[g] === 'none') return true;
      }
      return false;
    };
    return target.nodes.length > 1 || target.nodes.some(isTooMuch);
  }

  /** As things would be with all else well; null: the original does not ask that. */
  #idealVerdict(request: Case, asks: readonly Ask[], now: Millis): Verdict | null {
    if (this.#compatOf(request).hopelessStaysPending) return null;
    this.#ideal ??= this.#withAllWell();
    const { id, mode, duration, ignoreTenants } = request;
    const about: Case = { ...ALONE, id, mode, duration, ignoreTenants };
    return this.#ideal.#weigh(about, this.#ideal.sorted(asks), null, now);
  }

  /** A group that could not be had with all else well either waits in vain, whatever else is in its way now; null: it could. */
  #never(request: Case, asks: readonly Ask[], now: Millis): Verdict | null {
    const verdict = this.#idealVerdict(request, asks, now);
    const refused = verdict?.pending.find(({ refusal }) => refusal !== null);
    const refusal = refused?.refusal ?? null;
    if (verdict === null || refused === undefined || refusal === null) return null;
    if (isFinal(refusal.reason)) return verdict;
    // Alone it could be had, so it is the group that stands in its own way.
    if (this.#idealVerdict(request, [refused], now)?.granted.length === 0) return null;
    const message = `${refusal.message}; ask for them one by one`;
    const final = { ...refusal, code: 'DISALLOW', reason: 'TooManyTogether', message } as const;
    const pending = verdict.pending.map((p) => (p === refused ? { ...p, refusal: final } : p));
    return { ...verdict, code: final.code, pending, refusal: final };
  }

  #withAllWell(): Judge {
    const well = this.#fleet.allWell();
    return new Judge(well, new Locks(well, this.#terms.compat), new Outages(), this.#terms);
  }

  #nothing(
    request: Case,
    asks: readonly Ask[],
    waiting: readonly Pending[],
    code: Code,
    now: Millis,
  ): Verdict {
    const known = new Map(waiting.map((w) => [`${w.at}`, w.refusal]));
    const pending = inOrder(asks.map((ask) => ({ ...ask, refusal: known.get(`${ask.at}`) ?? null })));
    const refusals = waiting.flatMap((w) => w.refusal ?? []);
    const capped = request.maxInFlight > 0 && refusals.length === 0;
    const refusal = capped
      ? refuse(
          'DISALLOW_TEMP',
          'InFlightCap',
          `MaxPermissionCount cap exhausted: ${request.held.length} of at most ${request.maxInFlight} actions are held`,
        )
      : (refusals[0] ?? null);
    return { code, granted: [], pending, refusal, retryAt: this.#retryAt(request, refusals, now) };
  }

  /** The earliest time at which something of it may become possible; where that is not known of all of it, when to look. */
  #retryAt(request: Case, refusals: readonly Refusal[], now: Millis): Millis {
    const fallback = now + DEFAULT_RETRY;
    const own = request.held.flatMap((p) => p.deadline ?? []);
    const times = refusals.flatMap((r) => {
      const locked = r.reason === 'Locked';
      return r.retryAt === null || (this.#compatOf(request).retryAfterDefaultOnly && !locked)
        ? []
        : [r.retryAt];
    });
    if (refusals.length === 0 && own.length > 0) return Math.min(...own);
    const unknown = times.length < refusals.length;
    const earliest = times.length === 0 ? fallback : times.reduce((a, b) => Math.min(a, b));
    return Math.max(now, unknown ? Math.min(earliest, fallback) : earliest);
  }

  #newPass(request: Case, now: Millis): Pass {
    return {
      fleet: this.#fleet,
      number: ++this.#passes,
      now,
      entry: request.id,
      mode: request.mode,
      priority: request.priority,
      partial: request.partial,
      ignoreTenants: request.ignoreTenants,
      locksPriority: this.#terms.locksPriority,
      stepDown: request.stepDown === true,
      compat: this.#compatOf(request),
      taken: this.#taken,
      ownNodes: new Set(),
    };
  }

  #compatOf(entry: Pick<Entry, 'compat'>): Compat {
    return compatOf(entry, this.#terms.compat);
  }
}

/** A group whose task holds nothing, is not urgent, and lets nobody hand over. */
const ALONE = { priority: 0, partial: false, maxInFlight: 0, held: [] } as const;

/** It is refused, and not only until a primary has handed over. */
const isInTheWay = (pending: Pending): boolean => pending.refusal !== null && !handsOver(pending);
