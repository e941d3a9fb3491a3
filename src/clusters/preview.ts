/**
 * `belay plan`: folds `plan` over a model of what steps do until nothing is left, so that every step can be read before
 * anything is touched. The model is optimistic about the world and exact about the order; it runs the production planner.
 */
import { check } from '../base/error.ts';
import { type Bytes, formatCount, type Millis } from '../base/units.ts';
import type { BlockReason, Decision, Placement, Plan, Step, WaitReason } from './decisions.ts';
import { type Disruption, disruptionsOf } from './disruption.ts';
import { views } from './interpret.ts';
import { advance } from './learn.ts';
import { RETRY_CAP } from './limits.ts';
import { plan } from './plan.ts';
import { type Model, modelId, perform } from './previewModel.ts';
import { arrived } from './previewUnderWay.ts';
import { type PreviewVotes, votesOf } from './previewVotes.ts';
import { memberOf } from './state.ts';
import { hostPort, isRouter, memberHost } from './topology.ts';
import type { Desired, MemberState, Observed, State } from './types.ts';

/** One line of a plan. */
export interface PreviewStep {
  readonly number: number;
  readonly verb: Step['kind'];
  readonly targets: readonly string[];
  readonly detail: string;
  /** What is down while it runs, in words. */
  readonly impact: string;
  readonly reason: string;
  /** What each member that joins has to copy; null: nothing is copied, or nobody has counted it. */
  readonly copies: Bytes | null;
  /** Votes before and while it is done; null: they stay. */
  readonly votes: PreviewVotes | null;
}

export interface Preview {
  readonly steps: readonly PreviewStep[];
  /** What stands in the way of going on; empty when the plan reaches its goal. */
  readonly refusals: readonly { readonly by: BlockReason; readonly detail: string; readonly fix: string }[];
  /** What it waits for: before the first step, or after the last when the goal is not reached. */
  readonly waits: readonly { readonly on: WaitReason | 'Paused'; readonly detail: string }[];
  readonly converges: boolean;
}

/** No plan is longer: a guard against a planner that goes in circles (L2). */
const MAX_ROUNDS = 200;

/** All steps from this reading to the goal. */
export function preview(observed: Observed, desired: Desired, state: State, now: Millis): Preview {
  const { steps, refusals, waits, converges } = foresee(observed, desired, state, now);
  return { steps, refusals, waits, converges };
}

/** The same, with the world and the record as they would be in the end. */
export interface Foreseen extends Preview {
  readonly observed: Observed;
  readonly state: State;
  /** What each step would ask the maintenance authority for, in their order. */
  readonly disruptions: readonly (Disruption & { readonly step: number })[];
}

export function foresee(observed: Observed, wanted: Desired, state: State, now: Millis): Foreseen {
  let desired = wanted;
  const steps: PreviewStep[] = [];
  const disruptions: Foreseen['disruptions'][number][] = [];
  // A running cluster has no need to list its services; the model's are what its own steps make and remove.
  let model: Model = { observed: { ...observed, services: observed.services ?? [] }, state, initiated: {} };
  let at = now;
  let before: Preview['waits'] = [];
  for (let round = 0; round < MAX_ROUNDS; round++) {
    const known = advance(model.state, desired, model.observed, at);
    const next = plan(model.observed, desired, known, at);
    if (next.act === null && known !== model.state) {
      // Nothing to do but look again: a member that has to be seen caught up twice, for one (A6.3).
      model = { ...model, state: known };
      at += 1000;
      continue;
    }
    const timed = next.act === null ? next.waits.find((w) => TIMED.has(w.on) && w.until > at) : undefined;
    if (timed !== undefined) {
      // The plan says which steps wait for a window; clients know a member again within seconds, which is nothing to tell of.
      if (timed.on === 'MaintenanceWindow')
        before = [...before, { on: timed.on, detail: `from step ${steps.length + 1} on: ${timed.detail}` }];
      model = { ...model, state: known };
      at = timed.until;
      continue;
    }
    // What is waited for comes, once: the plan goes on as if it had, and says so.
    const come = { ...model, state: known };
    const well = next.act === null && before.length === 0 ? afterWaits(next, come, desired, at) : null;
    if (well !== null) {
      before = waitsOf(next);
      model = well;
      at += RETRY_CAP;
      continue;
    }
    if (next.act === null) {
      const refusals = next.blocks
        .filter((b) => !isPause(b))
        .map(({ by, detail, fix }) => ({ by, detail, fix }));
      return {
        observed: model.observed,
        state: known,
        disruptions,
        steps,
        refusals,
        waits: before.length > 0 ? before : waitsOf(next),
        converges: next.converged || (desired.suspend && next.waits.length === 0 && next.blocks.length === 0),
      };
    }
    if (next.act.steps.some((s) => s.kind === 'forget')) {
      steps.push({ ...line(steps.length + 1, next.act, known), votes: null });
      const end = { refusals: [], waits: before, converges: true };
      return { observed: model.observed, state: known, disruptions, steps, ...end };
    }
    const earlier = { ...model, state: known };
    for (const step of next.act.steps)
      for (const disruption of disruptionsOf(step, known, model.observed, desired))
        disruptions.push({ ...disruption, step: steps.length + 1 });
    model = perform(earlier, next.act, desired, at);
    const votes = votesOf(next.act.steps, earlier, model);
    steps.push({ ...line(steps.length + 1, next.act, known), ...impactOn(earlier, next.act), votes });
    desired = next.act.steps.reduce(wantedAfter, desired);
    at += 1000;
  }
  check(false, 'L2', `a plan of more than ${MAX_ROUNDS} rounds`);
}

/** Waits that end at their time and by nothing else. */
const TIMED: ReadonlySet<WaitReason> = new Set(['MaintenanceWindow', 'ClientsLookAgain']);

/** A document that says paused is taken as it is, and the rest of it waits: nothing of that is refused. */
const waitsOf = (next: Plan): Preview['waits'] => [
  ...next.blocks.filter(isPause).map(({ detail }) => ({ on: 'Paused' as const, detail })),
  ...next.waits.map(({ on, detail }) => ({ on, detail })),
];
const isPause = ({ by }: Plan['blocks'][number]): boolean => by === 'Paused';

/** Null: nothing is waited for, a person or the spec is needed, or nobody tells what the set is like. */
const afterWaits = (next: Plan, model: Model, desired: Desired, now: Millis): Model | null =>
  next.waits.length === 0 || next.blocks.length > 0 || next.converged ? null : arrived(model, desired, now);

/** An operation may change the document, and with it what is wanted from then on. */
const wantedAfter = (desired: Desired, step: Step): Desired =>
  step.kind === 'setSuspend'
    ? { ...desired, suspend: step.suspend, generation: desired.generation + 1 }
    : desired;

function line(
  number: number,
  act: Extract<Decision, { kind: 'act' }>,
  state: State,
): Omit<PreviewStep, 'votes'> {
  const first = act.steps[0] as Step;
  return {
    number,
    verb: first.kind,
    targets: act.steps.map(label),
    detail: detailOf(act, state),
    impact: impactOf(first),
    reason: act.because,
    copies: first.kind === 'reconfig' ? (first.copies ?? null) : null,
  };
}

function label(step: Step): string {
  if ('member' in step) return step.member;
  if ('replicaSet' in step) return step.replicaSet;
  if (step.kind === 'applyUser') return `${step.user.db}.${step.user.username}`;
  if (step.kind === 'dropUser') return `${step.db}.${step.username}`;
  return 'cluster';
}

function detailOf(act: Extract<Decision, { kind: 'act' }>, state: State): string {
  const first = act.steps[0] as Step;
  switch (first.kind) {
    case 'import': {
      const places = act.steps.map((s) => (s.kind === 'import' ? placeText(s.placement) : ''));
      return `make runtime and volume: ${places.join(', ')}`;
    }
    case 'deploy':
      return `deploy ${first.version}`;
    case 'publish':
      return 'hand over the configuration; the processes start with it';
    case 'initiate':
      return `initiate with ${formatCount(first.config.members.length, 'member')} at once, through ${first.via}`;
    case 'createFirstUser':
      return 'userAdmin, by the localhost exception of the elected primary';
    case 'reconcileSystemUsers':
      return 'clusterAdmin, clusterMonitor, backup, databaseAdmin and roles';
    case 'deleteVolume':
      return volumesText(act.steps.flatMap((s) => ('member' in s ? (memberOf(state, s.member) ?? []) : [])));
    default:
      return act.detail;
  }
}

/** By their ids, or by their members where this plan itself makes them: they have none yet. */
function volumesText(members: readonly MemberState[]): string {
  const [noun, whose] = members.length === 1 ? ['volume', 'its'] : ['volumes', 'their'];
  const isNew = members.some((m) => m.volumeId === null || m.volumeId === modelId(m.name));
  const which = isNew
    ? `the ${noun} of ${members.map((m) => m.name).join(', ')}`
    : `${noun} ${members.map((m) => m.volumeId).join(', ')}`;
  return `delete ${which} with ${whose} data`;
}

/** A port that is not fixed is the host's choice: it knows what else listens there. */
function placeText({ host, address, port, portFixed }: Placement): string {
  const where = host === address ? '' : ` (host ${host})`;
  return portFixed
    ? `${hostPort(address, port)}${where}`
    : `${address} on a free port from ${port} up${where}`;
}

/** Work on a member that is down already takes nothing down. */
function impactOn({ observed, state }: Model, { steps }: Extract<Decision, { kind: 'act' }>) {
  const [step] = steps;
  if (step?.kind === 'deleteRuntime') return routersOut(state, steps);
  if (step?.kind !== 'reload' && step?.kind !== 'upgrade') return {};
  const view = views(state, observed).find((v) => v.member.name === step.member);
  const isDown = view !== undefined && view.facts !== null && view.database === null;
  return isDown ? { impact: 'nothing else goes down: it is down already' } : {};
}

/** Routers are known to clients by the list they were given, and by nothing else. */
function routersOut(state: State, steps: readonly Step[]) {
  const gone = new Set(steps.map(label));
  const routers = state.members.filter(isRouter);
  const lost = routers.filter((m) => gone.has(m.name)).flatMap((m) => memberHost(m) ?? []);
  const stays = routers.some((m) => !gone.has(m.name) && m.stage !== 'removing');
  if (lost.length === 0 || !stays) return {};
  return { impact: `these members go down; clients that list ${lost.join(', ')} need the new list` };
}

function impactOf(step: Step): string {
  switch (step.kind) {
    case 'reload':
    case 'upgrade':
      return '1 member restarts';
    case 'stepDown':
      return 'writes pause for an election';
    case 'deleteRuntime':
      return 'these members go down';
    case 'deleteVolume':
    case 'deleteSecrets':
      return 'cannot be undone';
    default:
      return 'nothing goes down';
  }
}
