/**
 * Carries decisions out. One pass over one object is a few rounds of
 *
 *   lease → record → reading → plan → intent (committed) → fresh object → fresh reading → guard → effect → outcome (committed)
 *
 * until nothing is left to do now. A death between any two arrows is resumed from the record and the journal:
 * before the intent nothing happened; after it the step is either seen to be done or done again under the same id.
 * Invariants kept here: S9 (fence on every write and effect), S10 and S16 (one intent, one id), L2 (a step whose effect
 * is not visible yet is not repeated at once), and the rule that an unchanged world is not written down again.
 */

import { equalValues } from '../base/equal.ts';
import { asBelayError, BelayError } from '../base/error.ts';
import { hash } from '../base/rng.ts';
import type { Millis } from '../base/units.ts';
import type { StepOutcome } from '../clusters/decisions.ts';
import type { Grant } from '../maintenance/index.ts';
import type { Gate, Passed } from './gate.ts';
import { Gatekeeper } from './gatekeeper.ts';
import { heldBefore, heldSince } from './heldBack.ts';
import { askedForMore, type Informer, keyOf } from './informer.ts';
import { type Identified, OpenIntents, superseded } from './intents.ts';
import type { LeaseKeeper } from './leases.ts';
import {
  EFFECT_PARALLELISM,
  MAX_ROUNDS,
  REFUSED_CAP,
  REFUSED_OFTEN,
  REQUEUE_CONVERGED,
  REQUEUE_PENDING,
  REQUEUE_SPREAD,
  REST_LIMIT,
  SETTLE,
} from './limits.ts';
import type { Memory, Pass } from './memory.ts';
import { count, countStep, type EngineMetrics } from './metrics.ts';
import { PassWriter } from './passWriter.ts';
import { runPool } from './pool.ts';
import type { Clock, Fence, JournalOutcome, Log, Store, StoredObject } from './ports.ts';
import type { AnyPlan, AnyStep, Effect, Provider, Reconciler, Report, Subject } from './provider.ts';

export interface ExecutorOptions<Desired, State, Observed, Step extends AnyStep> {
  readonly provider: Provider<Desired, State, Observed, Step>;
  readonly store: Store;
  readonly informer: Informer;
  readonly leases: Pick<LeaseKeeper, 'fence'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: EngineMetrics;
  /** Who grants what takes something down; absent only where nothing does. */
  readonly gate?: Gate;
}

const AGAIN = 'again';
const GONE = 'gone';
type RoundResult = { readonly at: Millis } | typeof AGAIN | typeof GONE;

/** See the head of this file. */
export class Executor<Desired, State, Observed, Step extends AnyStep> implements Reconciler {
  readonly kind: string;
  readonly #options: ExecutorOptions<Desired, State, Observed, Step>;
  readonly #gatekeeper: Gatekeeper<Desired, State, Observed, Step>;
  readonly #writer: PassWriter<State, Step>;
  readonly #memories = new Map<string, Memory<State, Step>>();
  /** Efforts begun by this process; with the lease's epoch they number the steps. */
  #efforts = 0;

  constructor(options: ExecutorOptions<Desired, State, Observed, Step>) {
    this.#options = options;
    this.#gatekeeper = new Gatekeeper(options);
    this.#writer = new PassWriter(options);
    this.kind = options.provider.kind;
  }

  /** Objects that wait for a grant. */
  waitingAtGate(): readonly string[] {
    return [...this.#memories].filter(([, memory]) => memory.atTheGate).map(([uid]) => uid);
  }

  drop(belongs: (uid: string) => boolean): void {
    for (const uid of this.#memories.keys()) if (belongs(uid)) this.#drop(uid);
  }

  #drop(uid: string): void {
    if (this.#memories.get(uid)?.converged === true) this.#options.metrics.converged--;
    this.#memories.delete(uid);
  }

  async pass(uid: string): Promise<Millis | null> {
    const fence = this.#options.leases.fence(uid);
    if (fence === null) return null; // whoever holds the lease acts; gaining it wakes us
    try {
      return await this.#run(uid, fence);
    } catch (failure) {
      this.#drop(uid);
      const { code } = asBelayError(failure);
      // RST-03: an ordinary conflict is read again at once and is nobody's failure.
      if (code === 'StateConflict' || code === 'Conflict') return this.#options.clock.now();
      if (code === 'LeaseLost') return this.#options.clock.now() + SETTLE;
      throw failure;
    }
  }

  async #run(uid: string, fence: Fence): Promise<Millis | null> {
    const known = this.#options.informer.byUid(uid);
    const object = known === null ? null : await this.#held(known);
    if (object === null) {
      this.#drop(uid);
      return null;
    }
    const memory = this.#memories.get(uid) ?? (await this.#remember(object));
    this.#memories.set(uid, memory);
    const pass: Pass<State, Step> = { uid, fence, memory, object };
    const later = this.#mayWait(pass);
    if (later !== null) return later;
    for (let round = 0; round < MAX_ROUNDS; round++) {
      if (this.#options.leases.fence(uid)?.epoch !== fence.epoch) return null;
      const result = await this.#round(pass);
      if (result === GONE) {
        this.#drop(uid);
        return null;
      }
      if (result !== AGAIN) return result.at;
    }
    return this.#options.clock.now();
  }

  /** The object with our finalizer on it, so that it cannot vanish before its clean-up; null when it is gone. */
  async #held(object: StoredObject): Promise<StoredObject | null> {
    const { provider, store, informer } = this.#options;
    const { finalizers, deletionTimestamp, resourceVersion } = object.metadata;
    if (finalizers.includes(provider.finalizer) || deletionTimestamp !== null) return object;
    const change = { finalizers: [...finalizers, provider.finalizer] };
    try {
      const held = await store.update(keyOf(object), change, resourceVersion);
      if (held !== null) informer.learn(held);
      return held;
    } catch (failure) {
      const latest = await store.get(keyOf(object));
      if (latest === null || latest.metadata.uid !== object.metadata.uid) {
        informer.forget(object);
        return null;
      }
      informer.learn(latest);
      throw failure;
    }
  }

  async #remember(object: StoredObject): Promise<Memory<State, Step>> {
    const { provider, store } = this.#options;
    const { uid } = object.metadata;
    const [row, entries] = await Promise.all([store.loadState(uid), store.openIntents(uid)]);
    const state =
      row === null
        ? await provider.initialState(object, provider.desired(object))
        : (provider.stored?.(row.value) ?? (row.value as State));
    return {
      version: row?.version ?? 0,
      state,
      saved: row === null ? null : state,
      open: new OpenIntents<Step>((step) => provider.target(step), entries, provider.efforts),
      status: object.status,
      converged: false,
      rest: null,
      others: new Map(),
      over: [],
      settling: new Map(),
      refused: new Map(),
      atTheGate: false,
      heldSince: heldBefore(object.status),
    };
  }

  async #round(pass: Pass<State, Step>): Promise<RoundResult> {
    const { provider, clock } = this.#options;
    const before = this.#subject(pass);
    const basis = provider.basis?.(before) ?? null;
    pass.memory.rest = null;
    const observed = await provider.observe(before, false);
    const now = clock.now();
    pass.memory.state = provider.advance(before, observed, now);
    this.#endIntents(pass, now);
    const subject = this.#subject(pass);
    const plan = provider.plan(subject, observed, now);
    this.#note(pass, plan.converged);
    const ready = (plan.act?.steps ?? []).filter((step) => this.#heldUntil(pass, step) <= now);
    await this.#gatekeeper.giveBack(pass.uid, subject, observed, ready);
    const changed = ready.length === 0 ? null : await this.#latest(pass);
    if (changed !== null) return changed;
    const passed = await this.#gatekeeper.pass(pass.memory, subject, observed, ready);
    if (ready.length > 0 && passed.steps.length === 0)
      return this.#rest(pass, subject, observed, waiting(plan, passed.waits));
    if (ready.length === 0) {
      const result = await this.#rest(pass, subject, observed, plan);
      const { object, state } = subject;
      // Taken before the reading: what changed while it was taken shows at the next look.
      if (plan.converged && basis !== null)
        pass.memory.rest = { object, state, basis, until: this.#steady() + REST_LIMIT };
      return result;
    }
    // Asking took a while.
    const latest = passed.grants.size === 0 ? null : await this.#latest(pass);
    if (latest !== null) return latest;
    const told = passed.waits.length === 0 ? plan : { ...plan, waits: [...plan.waits, ...passed.waits] };
    const report = provider.report(subject, observed, told, pass.memory.status, now);
    const items = await this.#commitIntents(pass, plan, passed.steps, report);
    return this.#act(pass, items, passed.grants);
  }

  /** When to look again without looking now: reports are still to come, or nothing changed since nothing was to do. */
  #mayWait(pass: Pass<State, Step>): Millis | null {
    const { provider, clock } = this.#options;
    const { memory, object } = pass;
    const now = clock.now();
    const until = provider.expecting?.(this.#subject(pass)) ?? null;
    if (until !== null && until > now) return until;
    const { rest } = memory;
    if (this.#gatekeeper.holds(pass.uid).length > 0) return null;
    if (rest === null || this.#steady() >= rest.until || rest.state !== memory.state) return null;
    if (rest.object !== object && askedForMore({ before: rest.object, after: object })) return null;
    memory.rest = { ...rest, object };
    const basis = provider.basis?.(this.#subject(pass)) ?? null;
    return basis !== null && sameParts(basis, rest.basis) ? now + restOf(pass.uid) : null;
  }

  #note({ uid, memory }: Pass<State, Step>, converged: boolean): void {
    if (this.#memories.get(uid) !== memory) return; // dropped with its lease while this pass ran
    this.#options.metrics.converged += Number(converged) - Number(memory.converged);
    memory.converged = converged;
  }

  #subject(pass: Pass<State, Step>): Subject<Desired, State> {
    const { object, memory } = pass;
    return { object, desired: this.#options.provider.desired(object), state: memory.state };
  }

  /** What the record shows to be over is closed with the next write. */
  #endIntents({ memory }: Pass<State, Step>, now: Millis): void {
    const { isOver } = this.#options.provider;
    if (isOver === undefined) return;
    const over = memory.open.takeOver((step, id) => isOver(step, id, memory.state));
    memory.over.push(...over.map((id) => superseded(id, now, 'its end was observed')));
  }

  /**
   * Until when, on the wall clock, a step is held back: its effect is not visible yet, or its outcome is unknown. It is
   * measured on the clock that never jumps, so that one set back holds nothing up.
   */
  #heldUntil({ memory }: Pass<State, Step>, step: Step): Millis {
    const until = Math.max(memory.open.notBefore(step), memory.settling.get(JSON.stringify(step)) ?? 0);
    return this.#options.clock.now() + until - this.#steady();
  }

  #steady(): Millis {
    const { clock } = this.#options;
    return clock.monotonic?.() ?? clock.now();
  }

  #settle({ memory }: Pass<State, Step>, step: Step, rest: Millis = SETTLE): void {
    const now = this.#steady();
    for (const [known, until] of memory.settling) if (until <= now) memory.settling.delete(known);
    memory.settling.set(JSON.stringify(step), now + rest);
  }

  /** The memory of objects may be behind: before anything is done the object itself is read (S11, S15). Null: unchanged. */
  async #latest(pass: Pass<State, Step>): Promise<RoundResult | null> {
    const { store, informer } = this.#options;
    const was = pass.object;
    const latest = await store.get(keyOf(was));
    if (latest === null || latest.metadata.uid !== was.metadata.uid) {
      informer.forget(was);
      return GONE;
    }
    pass.object = latest;
    informer.learn(latest);
    const same =
      latest.metadata.generation === was.metadata.generation &&
      latest.metadata.deletionTimestamp === was.metadata.deletionTimestamp &&
      equalValues(latest.metadata.annotations, was.metadata.annotations);
    return same ? null : AGAIN;
  }

  // ── resting ──────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Nothing to do now: write down what is new, and say when to look again at the latest. */
  async #rest(
    pass: Pass<State, Step>,
    subject: Subject<Desired, State>,
    observed: Observed,
    plan: AnyPlan<Step>,
  ): Promise<RoundResult> {
    const { provider, clock, metrics } = this.#options;
    const now = clock.now();
    const working = (provider.underWay?.(subject) ?? []).length > 0;
    pass.memory.heldSince = heldSince(pass.memory.heldSince, plan, working, now);
    const report = provider.report(subject, observed, plan, pass.memory.status, now);
    const outcomes = plan.converged ? pass.memory.open.supersedeAll(now) : [];
    await this.#writer.commit(pass, pass.memory.state, { outcomes }, report);
    if (plan.converged) pass.memory.open.clear();
    if (plan.converged) pass.memory.refused.clear();
    for (const wait of plan.waits) count(metrics.waits, wait.on);
    for (const block of plan.blocks) count(metrics.waits, block.by);
    return { at: this.#lookAgain(pass, plan, now) };
  }

  #lookAgain(pass: Pass<State, Step>, plan: AnyPlan<Step>, now: Millis): Millis {
    const times = [now + (plan.converged ? restOf(pass.uid) : REQUEUE_PENDING)];
    for (const wait of plan.waits) if (wait.until > now) times.push(wait.until);
    for (const step of plan.act?.steps ?? []) times.push(this.#heldUntil(pass, step));
    return Math.min(...times);
  }

  // ── acting ───────────────────────────────────────────────────────────────────────────────────────────────────────

  async #commitIntents(
    pass: Pass<State, Step>,
    plan: AnyPlan<Step>,
    steps: readonly Step[],
    report: Report,
  ): Promise<readonly Identified<Step>[]> {
    const { provider, clock } = this.#options;
    const { memory, uid, fence } = pass;
    const now = clock.now();
    const effort = (): string => `${fence.epoch}.${++this.#efforts}`;
    const items = steps.map((step) => memory.open.identify(uid, step, effort));
    const state = items.reduce((s, { step, id }) => provider.start(s, step, id, now), memory.state);
    const heldBack = memory.heldSince === null ? 0 : now - memory.heldSince;
    const intents = items
      .filter((item) => item.isNew)
      .map(({ id, step }) => ({
        id,
        clusterUid: uid,
        step: step.kind,
        target: provider.target(step),
        reason: plan.act?.because ?? '',
        epoch: fence.epoch,
        at: now,
        detail: step,
        ...(heldBack > 0 ? { heldBack } : {}),
      }));
    const replaced = memory.open.replacedBy(items).map((id) => superseded(id, now, 'planned anew'));
    await this.#writer.commit(pass, state, { intents, outcomes: replaced }, report);
    memory.heldSince = null;
    for (const item of items) memory.open.opened(item);
    return items;
  }

  async #act(
    pass: Pass<State, Step>,
    items: readonly Identified<Step>[],
    grants: Passed<Step>['grants'],
  ): Promise<RoundResult> {
    const { provider } = this.#options;
    const subject = this.#subject(pass);
    const fresh = await provider.observe(subject, true);
    const allowed: Identified<Step>[] = [];
    const refusals: JournalOutcome[] = [];
    for (const item of items) {
      const refusal = this.#refusal(pass, item, fresh, subject, grants.get(JSON.stringify(item.step)) ?? []);
      if (refusal === null) allowed.push(item);
      else refusals.push(refusal);
    }
    if (refusals.length > 0) await this.#writer.commit(pass, pass.memory.state, { outcomes: refusals }, null);
    return (await this.#perform(pass, allowed, subject, fresh)) ? GONE : AGAIN;
  }

  #refusal(
    pass: Pass<State, Step>,
    item: Identified<Step>,
    fresh: Observed,
    subject: Subject<Desired, State>,
    grants: readonly Grant[],
  ): JournalOutcome | null {
    const { provider, clock, metrics, log } = this.#options;
    const refused =
      provider.guard(item.step, fresh, subject, item.id, clock.now()) ??
      this.#gatekeeper.ungranted(item.step, fresh, subject, grants);
    if (refused === null) return null;
    count(metrics.refusals, refused.reason);
    log.info('guard refused a step', { cluster: pass.uid, step: item.id, ...refused });
    pass.memory.state = provider.cancel(pass.memory.state, item.step, item.id);
    pass.memory.open.closed(item);
    const why = `${refused.reason}: ${refused.detail}`;
    this.#settle(pass, item.step, this.#refusedAgain(pass, item.step, why));
    return superseded(item.id, clock.now(), why);
  }

  /** How long a step rests that was refused for this. */
  #refusedAgain({ memory }: Pass<State, Step>, step: Step, why: string): Millis {
    const key = JSON.stringify(step);
    const before = memory.refused.get(key);
    const times = before?.why === why ? before.times + 1 : 1;
    memory.refused.set(key, { why, times });
    return Math.min(REFUSED_CAP, SETTLE * 2 ** Math.max(0, times - REFUSED_OFTEN));
  }

  /** Effects side by side; outcomes are committed as they come, those that come together in one write. True: forgotten. */
  async #perform(
    pass: Pass<State, Step>,
    items: readonly Identified<Step>[],
    subject: Subject<Desired, State>,
    fresh: Observed,
  ): Promise<boolean> {
    const ended: { readonly item: Identified<Step>; readonly effect: Effect }[] = [];
    let gone = false;
    let writing: Promise<void> = Promise.resolve();
    const write = async (): Promise<void> => {
      const batch = ended.splice(0);
      if (batch.length > 0 && (await this.#commitOutcomes(pass, batch))) gone = true;
    };
    await runPool(items, EFFECT_PARALLELISM, async (item) => {
      const effect = await this.#effect(pass, item, subject, fresh);
      ended.push({ item, effect });
      writing = writing.then(write);
      await writing;
    });
    return gone;
  }

  async #effect(
    pass: Pass<State, Step>,
    item: Identified<Step>,
    subject: Subject<Desired, State>,
    observed: Observed,
  ): Promise<Effect> {
    const { provider, leases, clock, log, metrics } = this.#options;
    const current = leases.fence(pass.uid);
    if (current?.epoch !== pass.fence.epoch) {
      throw new BelayError('LeaseLost', `the right to act on ${pass.uid} has moved on`, { retry: 'never' });
    }
    const startedAt = clock.now();
    const effect = await provider
      .perform(item.step, subject, { stepId: item.id, fence: pass.fence, observed })
      .catch((failure: unknown): Effect => ({ outcome: outcomeOf(failure) }));
    const millis = clock.now() - startedAt;
    metrics.effects[effect.outcome.kind]++;
    countStep(metrics, item.step.kind, millis);
    const { outcome } = effect;
    const told = { cluster: pass.uid, step: item.id, outcome: outcome.kind, millis };
    if (outcome.kind === 'done') log.info('step done', told);
    else log.warn('step not done', { ...told, message: outcome.message });
    return effect;
  }

  async #commitOutcomes(
    pass: Pass<State, Step>,
    ended: readonly { readonly item: Identified<Step>; readonly effect: Effect }[],
  ): Promise<boolean> {
    const { provider, clock } = this.#options;
    const { memory } = pass;
    const now = clock.now();
    let state = memory.state;
    const outcomes: JournalOutcome[] = [];
    for (const { item, effect } of ended) {
      state = provider.applyOutcome(state, item.step, item.id, effect.outcome, now);
      const entry = journalOutcome(item.id, now, effect.outcome);
      if (entry !== null) outcomes.push(entry);
    }
    const also = ended.map(({ effect }) => effect.also).filter((a) => a !== undefined);
    const forget = also.some((a) => a.forgetState === true);
    await this.#writer.commit(
      pass,
      forget ? null : state,
      {
        outcomes,
        releases: also.flatMap((a) => a.releases ?? []),
        secretPrefixesToDelete: also.flatMap((a) => a.secretPrefixesToDelete ?? []),
      },
      null,
    );
    for (const { item, effect } of ended) {
      this.#settle(pass, item.step);
      memory.refused.delete(JSON.stringify(item.step));
      if (effect.outcome.kind === 'unknown') memory.open.unknown(item, this.#steady());
      else memory.open.closed(item);
    }
    return forget;
  }
}

/** A7.2: at most REQUEUE_CONVERGED, for each object a little less of its own. */
const restOf = (uid: string): Millis =>
  Math.round(REQUEUE_CONVERGED * (1 - (REQUEUE_SPREAD * (hash(uid) % 1_000)) / 1_000));

/** The plan when nothing of it may be done now. */
const waiting = <Step extends AnyStep>(
  plan: AnyPlan<Step>,
  waits: AnyPlan<Step>['waits'],
): AnyPlan<Step> => ({
  ...plan,
  act: null,
  waits: [...waits, ...plan.waits],
  converged: false,
});

const sameParts = (a: readonly unknown[], b: readonly unknown[]): boolean =>
  a.length === b.length && a.every((part, index) => part === b[index]);

/** An unknown outcome is none: the intent stays open until it is known what became of it. */
function journalOutcome(id: string, at: Millis, outcome: StepOutcome): JournalOutcome | null {
  if (outcome.kind === 'unknown') return null;
  return { id, at, kind: outcome.kind, message: outcome.kind === 'failed' ? outcome.message : '' };
}

/** A thrown failure as an outcome. What no adapter has classified may have happened. */
function outcomeOf(failure: unknown): StepOutcome {
  const error = asBelayError(failure);
  if (error.code === 'InvariantBroken') throw error; // a bug: nothing may be concluded from it
  if (!(failure instanceof BelayError) || error.retry === 'unknown-outcome') {
    return { kind: 'unknown', message: error.message };
  }
  return { kind: 'failed', code: error.code, message: error.message, retry: error.retry };
}
