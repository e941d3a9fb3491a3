/**
 * A toy technology for the engine's own tests: boxes are made (several at once), then opened one by one, then the lid
 * count is right. Its world remembers every effect with the id it was done under, so that doubles are seen.
 */
import { BelayError } from '../../base/error.ts';
import type { Millis } from '../../base/units.ts';
import type { StepOutcome } from '../../clusters/decisions.ts';
import type { Fence, StoredObject } from '../ports.ts';
import type { AnyPlan, Effect, Provider, Report, Subject } from '../provider.ts';

export interface ToyStep {
  readonly kind: 'make' | 'open' | 'forget';
  readonly box: string;
}
export interface ToyDesired {
  readonly boxes: readonly string[];
  readonly deleting: boolean;
}
export interface ToyState {
  readonly opened: readonly string[];
  readonly pending: readonly string[];
  readonly failures: number;
  readonly nextTryAt: Millis;
}
export interface ToyObserved {
  readonly made: readonly string[];
  readonly open: readonly string[];
}

/** The world outside: what was done to it and under which id and right. */
export class ToyWorld {
  readonly made = new Set<string>();
  readonly open = new Set<string>();
  readonly effects: {
    readonly stepId: string;
    readonly fence: Fence;
    readonly kind: string;
    readonly box: string;
  }[] = [];
  /** Highest epoch seen per lease: an older one is refused (S9). */
  readonly #epochs = new Map<string, number>();

  do(step: ToyStep, stepId: string, fence: Fence): void {
    const epoch = this.#epochs.get(fence.lease) ?? 0;
    if (fence.epoch < epoch)
      throw new BelayError('StaleEpoch', 'a newer control plane acts', { retry: 'never' });
    this.#epochs.set(fence.lease, fence.epoch);
    if (this.effects.some((e) => e.stepId === stepId)) return;
    this.effects.push({ stepId, fence, kind: step.kind, box: step.box });
    if (step.kind === 'make') this.made.add(step.box);
    if (step.kind === 'open') this.open.add(step.box);
  }
}

export interface ToyHooks {
  /** Runs around every effect; throw to lose it or its answer. */
  readonly perform?: (step: ToyStep, effect: () => void) => Promise<void> | void;
  readonly observe?: (object: StoredObject, fresh: boolean) => Promise<void> | void;
  readonly guard?: (step: ToyStep, observed: ToyObserved) => { reason: string; detail: string } | null;
  /** What a reading would be made of; without it every look is a full one. */
  readonly basis?: () => readonly unknown[] | null;
  readonly expecting?: () => Millis | null;
  /** The record does not notice an effect by itself (its result is never seen). */
  readonly blind?: boolean;
}

/** The toy provider over one world. */
export function toyProvider(
  world: ToyWorld,
  hooks: ToyHooks = {},
): Provider<ToyDesired, ToyState, ToyObserved, ToyStep> {
  return {
    kind: 'Toy',
    finalizer: 'toy/finalizer',
    desired: (object) => ({
      boxes: (object.spec as { boxes: string[] }).boxes,
      deleting: object.metadata.deletionTimestamp !== null,
    }),
    initialState: async () => ({ opened: [], pending: [], failures: 0, nextTryAt: 0 }),
    ...(hooks.basis === undefined ? {} : { basis: hooks.basis }),
    ...(hooks.expecting === undefined ? {} : { expecting: hooks.expecting }),
    observe: async ({ object }, fresh) => {
      await hooks.observe?.(object, fresh);
      return { made: [...world.made], open: [...world.open] };
    },
    advance: ({ state }, observed) => {
      const opened = observed.open.filter((box) => !state.opened.includes(box));
      if (hooks.blind || opened.length === 0) return state;
      return { ...state, opened: [...state.opened, ...opened] };
    },
    plan: ({ desired, state }, observed, now) => toyPlan(desired, state, observed, now),
    target: (step) => step.box,
    start: (state, step) => ({
      ...state,
      pending: [...state.pending.filter((b) => b !== step.box), step.box],
    }),
    cancel: (state, step) => ({ ...state, pending: state.pending.filter((b) => b !== step.box) }),
    guard: (step, observed) => hooks.guard?.(step, observed) ?? null,
    perform: async (step, { object }, { stepId, fence }): Promise<Effect> => {
      const effect = (): void => world.do(step, stepId, fence);
      if (hooks.perform) await hooks.perform(step, effect);
      else effect();
      if (step.kind !== 'forget') return { outcome: { kind: 'done', result: {} } };
      const { namespace, name, uid } = object.metadata;
      const release = { key: { kind: 'Toy', namespace, name }, uid, finalizer: 'toy/finalizer' };
      return { outcome: { kind: 'done', result: {} }, also: { releases: [release], forgetState: true } };
    },
    applyOutcome: toyOutcome,
    report: (subject, observed, plan) => toyReport(subject, observed, plan),
  };
}

function toyPlan(desired: ToyDesired, state: ToyState, observed: ToyObserved, now: Millis): AnyPlan<ToyStep> {
  const act = (kind: ToyStep['kind'], boxes: readonly string[]): AnyPlan<ToyStep> => ({
    act: { steps: boxes.map((box) => ({ kind, box })), because: 'Wanted', detail: boxes.join() },
    waits: [],
    blocks: [],
    converged: false,
  });
  if (desired.deleting) return act('forget', ['-']);
  if (state.nextTryAt > now) {
    const waits = [{ on: 'Backoff', until: state.nextTryAt, detail: `failed ${state.failures} times` }];
    return { act: null, waits, blocks: [], converged: false };
  }
  const unmade = desired.boxes.filter((box) => !observed.made.includes(box));
  if (unmade.length > 0) return act('make', unmade);
  const shut = desired.boxes.find((box) => !state.opened.includes(box));
  if (shut !== undefined) return act('open', [shut]);
  return { act: null, waits: [], blocks: [], converged: true };
}

function toyOutcome(
  state: ToyState,
  step: ToyStep,
  _id: string,
  outcome: StepOutcome,
  now: Millis,
): ToyState {
  if (outcome.kind === 'unknown') return state;
  const settled = { ...state, pending: state.pending.filter((b) => b !== step.box) };
  if (outcome.kind === 'done') return { ...settled, failures: 0, nextTryAt: 0 };
  const failures = state.failures + 1;
  return { ...settled, failures, nextTryAt: now + 1000 * 2 ** failures };
}

function toyReport(
  { desired, state, object }: Subject<ToyDesired, ToyState>,
  observed: ToyObserved,
  plan: AnyPlan<ToyStep>,
): Report {
  const ready = plan.converged;
  return {
    status: {
      observedGeneration: object.metadata.generation,
      open: observed.open.length,
      of: desired.boxes.length,
      failures: state.failures,
      conditions: [{ type: 'Ready', status: ready ? 'True' : 'False' }],
    },
    events: [],
    others: [],
    releases: [],
    secretPrefixesToDelete: [],
  };
}
