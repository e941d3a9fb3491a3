/**
 * What the engine needs to know of a technology. It hands out readings, decisions and effects; the engine decides when,
 * under which right, with which record, and never looks inside. Everything but `observe` and `perform` is pure.
 */
import type { Millis } from '../base/units.ts';
import type { StepOutcome } from '../clusters/decisions.ts';
import type { MemberAsk } from '../maintenance/index.ts';
import type { Batch, Fence, NewEvent, ObjectKey, StoredObject } from './ports.ts';

/** A decided effect, as plain data: it is kept in the journal and recognised after a crash by being equal. */
export interface AnyStep {
  readonly kind: string;
}

/** What is special about kinds of steps where a step is taken up again. */
export interface KindsOfEffort {
  /** What kinds have in common that undo one another, by which a new step ends an open one. */
  readonly of: (kind: string) => string;
  /** Every try is an effort of its own: done again it harms nothing, and an answer from memory might be wrong. */
  readonly anew: (kind: string) => boolean;
}
/** What a pass decided: at most one group of effects, and all that stands beside it. */
export interface AnyPlan<Step extends AnyStep> {
  readonly act: { readonly steps: readonly Step[]; readonly because: string; readonly detail: string } | null;
  readonly waits: readonly { readonly on: string; readonly until: Millis; readonly detail: string }[];
  readonly blocks: readonly { readonly by: string; readonly detail: string }[];
  readonly converged: boolean;
}

/** One reconciled object with what belongs to it at this moment. */
export interface Subject<Desired, State> {
  readonly object: StoredObject;
  readonly desired: Desired;
  readonly state: State;
}

/** What goes into the store with the outcome of an effect, in the same transaction. */
export interface AlsoWrite extends Pick<Batch, 'releases' | 'secretPrefixesToDelete'> {
  /** The record goes: the object is about to vanish with its last finalizer. */
  readonly forgetState?: true;
}

export interface Effect {
  readonly outcome: StepOutcome;
  readonly also?: AlsoWrite;
}

export interface Report {
  /** With `conditions` where each has at least type and status; their times are kept by the engine. */
  readonly status: Readonly<Record<string, unknown>>;
  readonly events: readonly NewEvent[];
  /** Status of objects that are reconciled together with this one. */
  readonly others: readonly { readonly key: ObjectKey; readonly uid: string; readonly value: unknown }[];
  /** Finalizers whose work is done. */
  readonly releases: NonNullable<Batch['releases']>;
  readonly secretPrefixesToDelete: readonly string[];
}

export interface Provider<Desired, State, Observed, Step extends AnyStep> {
  /** Kind of the objects it reconciles. */
  readonly kind: string;
  /** Held on every object from before the first effect until nothing is left of it. */
  readonly finalizer: string;
  desired(object: StoredObject): Desired;
  /** The record of an object seen for the first time; may read what an earlier object left behind. */
  initialState(object: StoredObject, desired: Desired): Promise<State>;
  /** A record as it was stored, maybe by an older version, in the shape of this one. Absent: stored ones are as they are. */
  stored?(value: unknown): State;
  /** Until when a pass would be too early: reports of the world are still to come after a start. Null or absent: go on. */
  expecting?(subject: Subject<Desired, State>): Millis | null;
  /**
   * Everything that a reading which is not fresh would be made of, by identity, without asking anybody; null: it cannot be
   * told. While it stays what it was when nothing was left to do, there is nothing to do. The passing of time is not in it.
   */
  basis?(subject: Subject<Desired, State>): readonly unknown[] | null;
  /** `fresh`: just before an effect; nothing may come from a cache. Bounded in time, each source on its own (A7.1). */
  observe(subject: Subject<Desired, State>, fresh: boolean): Promise<Observed>;
  /** What the record learns from a reading; the same object when nothing. */
  advance(subject: Subject<Desired, State>, observed: Observed, now: Millis): State;
  plan(subject: Subject<Desired, State>, observed: Observed, now: Millis): AnyPlan<Step>;
  /** What a step is about: with its kind it names the step in the journal. */
  target(step: Step): string;
  /** Kinds of steps that are not simply taken up again under their old id; left out: all are. */
  readonly efforts?: KindsOfEffort;
  /** What is remembered in the transaction of the intent. */
  start(state: State, step: Step, stepId: string, now: Millis): State;
  /** Takes `start` back: the guard refused, nothing was done. */
  cancel(state: State, step: Step, stepId: string): State;
  /** A step whose outcome never came, but which the record shows to be over: its id must not serve a later effort (S10). */
  isOver?(step: Step, stepId: string, state: State): boolean;
  /** The last question before the effect, on a fresh reading; null: go. */
  guard(
    step: Step,
    observed: Observed,
    subject: Subject<Desired, State>,
    stepId: string,
    now: Millis,
  ): { readonly reason: string; readonly detail: string } | null;
  /** What the maintenance authority is asked before this step; empty: it takes nothing down (C3.2). */
  disruptions?(step: Step, observed: Observed, subject: Subject<Desired, State>): readonly MemberAsk[];
  /** Ids of such questions whose work is not over: their grants are kept. */
  underWay?(subject: Subject<Desired, State>): readonly string[];
  /** The effect: idempotent, or carrying the step id. A failure may be thrown as BelayError. */
  perform(
    step: Step,
    subject: Subject<Desired, State>,
    context: { readonly stepId: string; readonly fence: Fence; readonly observed: Observed },
  ): Promise<Effect>;
  applyOutcome(state: State, step: Step, stepId: string, outcome: StepOutcome, now: Millis): State;
  /** Status and events of this moment: the one place where they are computed. */
  report(
    subject: Subject<Desired, State>,
    observed: Observed,
    plan: AnyPlan<Step>,
    before: unknown,
    now: Millis,
  ): Report;
}

/** A pass over one object: what the queue runs. Gives the latest time to look again, null for never. */
export interface Reconciler {
  readonly kind: string;
  pass(uid: string): Promise<Millis | null>;
  /** Drops what is remembered of these objects; all of them without a filter. */
  drop(belongs: (uid: string) => boolean): void;
}
