/** What steps do to the record of a cluster: with their intent, when they are given up, and with their outcome. */
import { unreachable } from '../base/error.ts';
import type { Millis } from '../base/units.ts';
import type { Step, StepOutcome, StepResult } from './decisions.ts';
import { UNCONFIRMED } from './limits.ts';
import {
  isInfrastructure,
  memberOf,
  pendingOf,
  withFailure,
  withMember,
  withoutPending,
  withoutRetry,
  withReplicaSet,
} from './state.ts';
import { isSubstitute, memberHost } from './topology.ts';
import type {
  AppliedUser,
  BalancerRest,
  InfrastructureAction,
  MemberState,
  OperationWork,
  PendingOperation,
  State,
} from './types.ts';

/** What a step is about: the second half of a retry's key, a journal entry's target and a step id's middle. */
export function targetOf(step: Step): string {
  switch (step.kind) {
    case 'ensureCredentials':
    case 'stageLogins':
    case 'keepLogins':
    case 'setSuspend':
    case 'deleteSecrets':
    case 'forget':
      return 'cluster';
    case 'import':
    case 'adopt':
    case 'deploy':
    case 'upgrade':
    case 'publish':
    case 'reload':
    case 'rotateCertificate':
    case 'giveLogins':
    case 'growVolume':
    case 'deleteRuntime':
    case 'deleteVolume':
      return step.member;
    case 'stopBalancer':
    case 'startBalancer':
    case 'switchBalancer':
      return 'balancer';
    case 'addShard':
    case 'reconfig':
    case 'setFcv':
    case 'stepDown':
    case 'initiate':
    case 'createFirstUser':
    case 'rotateUsers':
    case 'reconcileSystemUsers':
      return step.replicaSet;
    case 'applyUser':
      return step.user.uid;
    case 'dropUser':
      return `${step.db}.${step.username}`;
    default:
      return unreachable(step);
  }
}

/**
 * S14: a start of the balancer that got no answer is not gone on with after a stop, nor the other way round; and a stop is
 * sent anew, since a person may have switched the balancer on after the one that got no answer.
 */
export const EFFORTS = {
  of: (kind: string): string => (BALANCER_STEPS.has(kind) ? 'balancer' : kind),
  anew: (kind: string): boolean => kind === 'stopBalancer',
};
const BALANCER_STEPS: ReadonlySet<string> = new Set(['stopBalancer', 'startBalancer', 'switchBalancer']);

/** What is remembered before an effect, in the same transaction as the intent: infrastructure operations become pending. */
export function startStep(state: State, step: Step, stepId: string, now: Millis): State {
  switch (step.kind) {
    case 'initiate':
      return withReplicaSet(state, step.replicaSet, {
        initiating: true,
        initiatedVia: initiatedVia(state, step.replicaSet) ?? step.via,
      });
    case 'stepDown':
      return withReplicaSet(state, step.replicaSet, { handedOverAt: now });
    case 'reconfig': {
      const { operation } = state;
      if (step.forcedBy === undefined || operation?.work.kind !== 'ForceReconfig')
        return withVotesSent(state, step);
      return { ...state, operation: { ...operation, work: { ...operation.work, sentAt: now } } };
    }
    case 'giveLogins':
      return { ...state, configVersion: Math.max(state.configVersion, step.configVersion) };
    case 'rotateUsers':
      return withRotation(state, { begun: true });
    case 'rotateCertificate':
      // A version of its own from the intent on: equal versions mean equal content, also after a lost answer (A9.1).
      return {
        ...withMember(state, step.member, { stage: 'reloading' }),
        configVersion: Math.max(state.configVersion, step.configVersion),
      };
    case 'reload':
      // Before the effect, in the intent's own transaction: a crash in between must not let a second member go (S2).
      return withSent(withMember(state, step.member, { stage: 'reloading' }), step);
    case 'publish':
      return withSent(state, step);
    case 'stopBalancer':
      return { ...state, balancer: restBegun(state.balancer, step) };
    case 'startBalancer':
      // In the intent's own transaction: until it is answered nobody knows that it rests (A8.3).
      return state.balancer === null
        ? state
        : { ...state, balancer: { ...state.balancer, confirmed: false, again: true, waking: true } };
    case 'applyUser': {
      // Once it is sent the database may know it: a document that goes before the answer came must not leave it there.
      if (state.users.some((u) => isUser(u, step.user))) return state;
      return { ...state, users: [...state.users, { ...appliedUser(step), hash: UNCONFIRMED }] };
    }
    case 'import':
    case 'deploy':
    case 'upgrade':
    case 'growVolume':
    case 'deleteRuntime':
    case 'deleteVolume':
      return withPending(state, step, stepId, now);
    default:
      return state;
  }
}

/** The state with this under way for its member, in place of what was. */
function withPending(
  state: State,
  step: Extract<Step, { readonly kind: InfrastructureAction }>,
  stepId: string,
  now: Millis,
): State {
  const pending: PendingOperation = {
    action: step.kind,
    member: step.member,
    stepId,
    operationId: null,
    startedAt: now,
    version: step.kind === 'deploy' || step.kind === 'upgrade' ? step.version : null,
    ...(step.kind === 'growVolume' ? { volumeBytes: step.sizeBytes } : {}),
  };
  const free = withoutPending(state, step.member);
  const noted = step.kind === 'deleteRuntime' ? withLostPort(free, step) : free;
  return { ...noted, pending: [...noted.pending, pending] };
}

/** From the intent on: whatever comes of it, the port is not chosen for this member again before it ran. */
function withLostPort(
  state: State,
  { member, lostPort }: Extract<Step, { readonly kind: 'deleteRuntime' }>,
): State {
  const lost = memberOf(state, member)?.lostPorts ?? [];
  if (lostPort === undefined || lost.includes(lostPort)) return state;
  return withMember(state, member, { lostPorts: [...lost, lostPort] });
}

/** The record after a step that was begun and is not done after all: nothing was sent. */
export function cancelStep(state: State, step: Step, stepId: string): State {
  const pending = state.pending.filter((p) => p.stepId !== stepId);
  const known = { ...state, pending };
  if (step.kind === 'reconfig') return withoutVotesSent(known, step.replicaSet);
  return step.kind === 'reload' || step.kind === 'publish' ? withoutSent(known, step) : known;
}

const initiatedVia = (state: State, set: string): string | null =>
  state.replicaSets.find((r) => r.name === set)?.initiatedVia ?? null;

type Sending = Extract<Step, { readonly kind: 'reload' | 'publish' }>;

const unansweredBy = (state: State, member: string): readonly number[] =>
  memberOf(state, member)?.unanswered ?? [];

const withSent = (state: State, { member, configVersion }: Sending): State =>
  withMember(state, member, {
    unanswered: [...unansweredBy(state, member).filter((v) => v !== configVersion), configVersion],
  });

const withoutSent = (state: State, { member, configVersion }: Sending): State =>
  withMember(state, member, {
    unanswered: unansweredBy(state, member).filter((v) => v !== configVersion),
  });

/** From the intent on: whoever acts before the next reading must not take them for members without a vote (S1). */
function withVotesSent(state: State, step: Extract<Step, { readonly kind: 'reconfig' }>): State {
  const voters = new Set(step.config.members.filter((row) => row.votes === 1).map((row) => row.host));
  const gets = (m: MemberState): boolean =>
    m.replicaSet === step.replicaSet &&
    (m.stage === 'healthy' || m.stage === 'syncing') &&
    voters.has(memberHost(m) ?? '');
  if (!state.members.some(gets)) return state;
  return { ...state, members: state.members.map((m) => (gets(m) ? { ...m, voteSent: true } : m)) };
}

const withoutVotesSent = (state: State, set: string): State => ({
  ...state,
  members: state.members.map((m) => (m.voteSent && m.replicaSet === set ? { ...m, voteSent: false } : m)),
});

/** Folds a step's outcome into the record. An unknown outcome changes nothing: the next reading tells. */
export function applyOutcome(
  state: State,
  step: Step,
  stepId: string,
  outcome: StepOutcome,
  now: Millis,
): State {
  if (outcome.kind === 'unknown') return state;
  const target = targetOf(step);
  if (outcome.kind === 'failed') {
    const pending = pendingOf(state, target);
    const known = undone(state, step, outcome.code);
    const cleared = pending?.stepId === stepId ? withoutPending(known, target) : known;
    const failed = withFailure(cleared, step.kind, target, outcome.code, outcome.message, now, outcome.retry);
    return step.kind === 'reload' ? withTried(failed, step.member, step.configVersion) : failed;
  }
  const done = applyDone(state, step, stepId, outcome.result, now);
  // Infrastructure is only started here; its failures are over when the operation was seen to succeed (A2.4).
  return isInfrastructure(step.kind) ? done : withoutRetry(done, step.kind, target);
}

const withTried = (state: State, member: string, tried: number): State => ({
  ...state,
  retries: state.retries.map((r) => (r.action === 'reload' && r.member === member ? { ...r, tried } : r)),
});

type Rotation = Extract<OperationWork, { readonly kind: 'RotateUsers' }>;

/** The record with the running rotation of users further on. */
function withRotation(
  state: State,
  change: Partial<Rotation> | ((work: Rotation) => Partial<Rotation>),
): State {
  const { operation } = state;
  if (operation?.work.kind !== 'RotateUsers') return state;
  const { work } = operation;
  const more = typeof change === 'function' ? change(work) : change;
  return { ...state, operation: { ...operation, work: { ...work, ...more } } };
}

/** The record after a refusal: nothing came of the step. */
function undone(state: State, step: Step, code: string): State {
  if (step.kind === 'initiate')
    return withReplicaSet(state, step.replicaSet, { initiating: false, initiatedVia: null });
  if (step.kind === 'reconfig') return withoutVotesSent(state, step.replicaSet);
  if (step.kind === 'rotateCertificate') {
    const restored = asBefore(state, step.member);
    return restored === state ? state : withMember(restored, step.member, { unanswered: [] });
  }
  if (step.kind !== 'reload' && step.kind !== 'publish') return state;
  const known = withoutSent(state, step);
  return code === 'MemberIsPrimary' && unansweredBy(known, step.member).length === 0
    ? asBefore(known, step.member)
    : known;
}

/** It runs as before. What is planned next is planned as for any other member: a primary hands over first. */
function asBefore(state: State, name: string): State {
  const member = memberOf(state, name);
  if (member?.stage !== 'reloading') return state;
  const stage = !isSubstitute(state, member) ? 'active' : member.role === 'router' ? 'healthy' : 'syncing';
  return withMember(state, name, { stage });
}

function applyDone(state: State, step: Step, stepId: string, result: StepResult, now: Millis): State {
  switch (step.kind) {
    case 'ensureCredentials':
      return { ...state, credentialsReady: true };
    case 'import':
    case 'deploy':
    case 'upgrade':
    case 'growVolume':
    case 'deleteRuntime':
    case 'deleteVolume':
      return withOperationId(state, stepId, result.operationId ?? null);
    case 'adopt':
      return withMember(state, step.member, adopted(memberOf(state, step.member), step));
    case 'publish':
      return withSnapshot(state, step, result);
    case 'stageLogins':
      return withRotation(state, { staged: true });
    case 'rotateUsers':
      return withRotation(state, (work) => ({ sets: [...work.sets, step.replicaSet] }));
    case 'keepLogins':
      return withRotation(state, { kept: true });
    case 'giveLogins':
      return withMember(state, step.member, { activated: result.snapshot ?? null });
    case 'reload':
    case 'rotateCertificate':
      // A restart brings the certificate too, whatever was refused before.
      return withoutRetry(withSnapshot(state, step, result), 'rotateCertificate', step.member);
    case 'setFcv':
    case 'setSuspend':
      return withWorkTold(state, step, result.generation ?? 0);
    case 'reconfig':
      return withConfigTaken(state, step, result);
    case 'stepDown':
      return state; // the set's primary is seen, not remembered
    case 'stopBalancer':
    case 'startBalancer':
    case 'switchBalancer':
      return balancerDone(state, step, result, now);
    case 'addShard':
      return withReplicaSet(state, step.replicaSet, { registered: true });
    case 'initiate':
      return state; // what members say next decides (S6)
    case 'createFirstUser':
      return withReplicaSet(state, step.replicaSet, { stage: 'users' });
    case 'reconcileSystemUsers':
      return withReplicaSet(state, step.replicaSet, { stage: 'ready', usersHash: result.usersHash ?? null });
    case 'applyUser':
      return { ...state, users: [...state.users.filter((u) => !isUser(u, step.user)), appliedUser(step)] };
    case 'dropUser':
      return { ...state, users: state.users.filter((u) => !isUser(u, step)) };
    case 'deleteSecrets':
      return { ...state, secretsDeleted: true };
    case 'forget':
      return state;
    default:
      return unreachable(step);
  }
}

const withOperationId = (state: State, stepId: string, operationId: string | null): State => ({
  ...state,
  pending: state.pending.map((p) => (p.stepId === stepId ? { ...p, operationId } : p)),
});

/** A member took the snapshot it was sent. */
const withSnapshot = (
  state: State,
  { member, configVersion }: Extract<Step, { readonly kind: 'publish' | 'reload' | 'rotateCertificate' }>,
  { snapshot }: StepResult,
): State => ({
  ...withMember(state, member, { activated: snapshot ?? null, unanswered: [] }),
  configVersion: Math.max(state.configVersion, configVersion),
});

/** A set took the configuration it was sent; a forced one gets a version of the server's choice. */
function withConfigTaken(
  state: State,
  { config, replicaSet, forcedBy }: Extract<Step, { readonly kind: 'reconfig' }>,
  result: StepResult,
): State {
  if (forcedBy !== undefined) return state;
  const term = result.term ?? config.term ?? null;
  return withReplicaSet(state, replicaSet, { reconfigured: { version: config.version, term } });
}

// ── the balancer ───────────────────────────────────────────────────────────────────────────────────────────────────

function balancerDone(
  state: State,
  step: Extract<Step, { readonly kind: 'stopBalancer' | 'startBalancer' | 'switchBalancer' }>,
  result: StepResult,
  now: Millis,
): State {
  switch (step.kind) {
    case 'stopBalancer':
      return state.balancer === null
        ? state
        : { ...state, balancer: confirmedRest(state.balancer, result, now) };
    case 'startBalancer': {
      const balancerSet = { on: true, at: now, autoMerge: step.autoMerge ?? true };
      return { ...state, balancer: null, ...(step.enable ? { balancerSet } : {}) };
    }
    case 'switchBalancer': {
      const { enabled } = step;
      return {
        ...withWorkTold(state, step, 0),
        balancerSet: { on: enabled, at: now, autoMerge: enabled },
      };
    }
  }
}

/** In the intent's own transaction: whoever goes on after a crash knows what to bring back (S14). */
function restBegun(
  rest: BalancerRest | null,
  step: Extract<Step, { readonly kind: 'stopBalancer' }>,
): BalancerRest {
  if (rest === null) return restOf(step);
  // One that rested runs because of somebody else: what is brought back is what they made it.
  return rest.confirmed ? { ...restOf(step), again: true } : { ...rest, again: true };
}

const restOf = ({ wasEnabled, autoMerge }: Extract<Step, { kind: 'stopBalancer' }>): BalancerRest => ({
  wasEnabled,
  confirmed: false,
  ...(autoMerge === undefined ? {} : { autoMerge }),
});

/** S14: what it was right before we stopped it is better known than what a router last told. */
function confirmedRest(rest: BalancerRest, result: StepResult, now: Millis): BalancerRest {
  const { waking, ...before } = rest;
  const known = { ...before, confirmed: true, at: now };
  // Our own stops only ever switch it off: one that ran was switched on by somebody, or never stopped. What our own start may
  // have done says nothing.
  if (rest.again && (result.balancerWas !== true || (waking && rest.wasEnabled))) return known;
  const { balancerWas: wasEnabled = rest.wasEnabled, autoMergeWas: autoMerge = rest.autoMerge } = result;
  return { ...known, wasEnabled, ...(autoMerge === undefined ? {} : { autoMerge }) };
}

// ── pieces ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** The operation that asked for it knows that it was done, though no reading shows it yet. */
function withWorkTold(
  state: State,
  step: Extract<Step, { kind: 'setFcv' | 'setSuspend' | 'switchBalancer' }>,
  generation: number,
): State {
  const { operation } = state;
  if (operation === null) return state;
  const { work } = operation;
  if (step.kind === 'setFcv' && work.kind === 'RaiseFCV')
    return {
      ...state,
      operation: { ...operation, work: { ...work, told: [...work.told, step.replicaSet] } },
    };
  if (step.kind === 'switchBalancer' && work.kind === 'SwitchBalancer')
    return { ...state, operation: { ...operation, work: { ...work, told: true } } };
  if (step.kind === 'setSuspend' && work.kind === 'Suspension')
    return { ...state, operation: { ...operation, work: { ...work, told: generation } } };
  return state;
}

/** A service found again brings its place along; an address that is in the set's configuration already stays. */
function adopted(member: MemberState | null, step: Extract<Step, { kind: 'adopt' }>): Partial<MemberState> {
  const { host, address, port } = step.placement;
  return {
    stage: 'imported',
    serviceId: step.serviceId,
    volumeId: step.volumeId,
    host,
    address: member?.address ?? address,
    port: port > 0 ? port : (member?.port ?? null),
  };
}

const appliedUser = (step: Extract<Step, { kind: 'applyUser' }>): AppliedUser => ({
  uid: step.user.uid,
  username: step.user.username,
  db: step.user.db,
  ...(step.user.connectionSecret === undefined ? {} : { connectionSecret: step.user.connectionSecret }),
  hash: step.hash,
});

const isUser = (
  applied: AppliedUser,
  user: { readonly uid: string; readonly username: string; readonly db: string },
): boolean => applied.uid === user.uid && applied.username === user.username && applied.db === user.db;
