import type { Operation } from '../../model/index.ts';
import type { Decision, Plan } from '../decisions.ts';
import { views } from '../interpret.ts';
import { type Scene, withoutClock } from '../planners/planner.ts';
import type { Desired, Observed, OperationRequest, RunningOperation, State } from '../types.ts';
import { operationProgress, operationWaitsFor } from './index.ts';

export type OperationStatus = NonNullable<Operation['status']>;

const text = (at: number): string => new Date(at).toISOString();

/** How an operation stands, for its document. Equal inputs but for the time give an equal status. */
export function operationStatus(
  request: OperationRequest,
  scene: {
    readonly observed: Observed;
    readonly desired: Desired;
    readonly state: State;
    readonly plan: Plan;
    readonly now: number;
  },
): OperationStatus {
  const { state, observed, plan } = scene;
  const common = {
    observedGeneration: 1,
    conditions: [],
    warnings: [],
    cancelRequested: request.cancelRequested,
  };
  const over = state.ended.find((e) => e.uid === request.uid);
  if (over !== undefined) {
    return {
      ...common,
      state: over.state,
      message: over.message,
      completedMembers: [...over.completed],
      cancellable: false,
      ...(over.state === 'Succeeded' ? { progressPercent: 100 } : {}),
      ...(over.startedAt === null ? {} : { startedAt: text(over.startedAt) }),
      finishedAt: text(over.finishedAt),
    };
  }
  const seen = { ...scene, all: views(state, observed) };
  if (state.operation?.uid === request.uid) return running(seen, state.operation, common, plan);
  const why = operationWaitsFor(seen, request);
  return {
    ...common,
    state: 'Waiting',
    message: why ?? 'begins with the next pass',
    completedMembers: [],
    cancellable: true,
  };
}

function running(
  scene: Scene,
  operation: RunningOperation,
  common: Pick<OperationStatus, 'observedGeneration' | 'conditions' | 'warnings' | 'cancelRequested'>,
  plan: Plan,
): OperationStatus {
  const { state } = scene;
  const { members, completed, startedAt } = operation;
  const told = operationProgress(scene, operation);
  const left = members.filter((name) => !completed.includes(name));
  const underWay = state.members.find((m) => left.includes(m.name) && m.stage !== 'active');
  const current = told.current ?? underWay?.name ?? left[0];
  const held = plan.act ?? plan.blocks[0] ?? plan.waits[0];
  const share = members.length === 0 ? 0 : Math.round((100 * completed.length) / members.length);
  const resting =
    state.phase === 'suspended' ? 'the cluster is suspended; it goes on when it is resumed' : undefined;
  const doing = held === undefined ? resting : textOf(held);
  const message =
    common.cancelRequested && told.keeps !== null
      ? `not cancelled: ${told.keeps}${doing === undefined ? '' : ` (${doing})`}`
      : doing;
  return {
    ...common,
    state: 'Running',
    ...(message === undefined ? {} : { message }),
    completedMembers: [...completed],
    ...(current === undefined ? {} : { currentMember: current }),
    progressPercent: told.percent ?? share,
    ...nextTry(state, held),
    cancellable: told.keeps === null,
    startedAt: text(startedAt),
  };
}

/** A step that has nothing to say but whom it is about says what it does too. */
function textOf(held: Decision): string {
  if (held.kind === 'converged') return '';
  if (held.kind !== 'act') return withoutClock(held.detail);
  const names = held.steps.map((step) => ('member' in step ? step.member : '')).join(', ');
  return held.detail === names ? `${held.steps[0]?.kind} of ${names}` : held.detail;
}

/** When a step that failed is tried again, and how often it failed; nothing while none waits for that. */
function nextTry(state: State, held: Decision | undefined): Pick<OperationStatus, 'attempts' | 'nextTryAt'> {
  if (held?.kind !== 'wait' || held.on !== 'Backoff') return {};
  const retry = state.retries.find((r) => r.nextTryAt === held.until);
  return retry === undefined ? {} : { attempts: retry.failures, nextTryAt: text(retry.nextTryAt) };
}
