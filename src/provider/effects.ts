/**
 * Every step's effect. Each is idempotent or carries its step id; what it brings back is an outcome, and nothing here
 * decides whether it may be done (that is the guard's).
 */
import { BelayError, unreachable } from '../base/error.ts';
import { type Desired, isInfrastructure, type State, type Step } from '../clusters/index.ts';
import type { Fence } from '../engine/ports.ts';
import type { Effect, Subject } from '../engine/provider.ts';
import { addShard, reconfig, setBalancer, setFcv, stepDown } from './effects/cluster.ts';
import { command } from './effects/commands.ts';
import { forget, setSuspend } from './effects/documents.ts';
import { deleteRuntime, deleteVolume, deploy, growVolume, importMember } from './effects/infrastructure.ts';
import { giveLogins, publish, reload, rotateCertificate } from './effects/snapshots.ts';
import { createFirstUser, keepLogins, reconcileSystemUsers, rotateUsers } from './effects/systemUsers.ts';
import { applyUser, dropUser } from './effects/users.ts';
import { done, type EffectDeps, type Work } from './effects/work.ts';
import { clusterSecrets } from './names.ts';
import type { Reading } from './observe.ts';
import { EFFECT_LIMIT, within } from './within.ts';

/** Does one step. Throws BelayError; its retry class says what the outcome is. */
export function perform(
  deps: EffectDeps,
  step: Step,
  subject: Subject<Desired, State>,
  context: { readonly stepId: string; readonly fence: Fence; readonly observed: Reading },
): Promise<Effect> {
  const { observed, stepId, fence } = context;
  const work: Work = { ...deps, ...subject, reading: observed, stepId, fence };
  return within(deps.clock, EFFECT_LIMIT, step.kind, effect(work, step), 'unknown-outcome').catch(
    (failure: unknown) => notSent(step, failure),
  );
}

/**
 * An infrastructure step that found its host cut off has not failed (A3.1 speaks of failed operations): it is taken up
 * under its own id as soon as the host is back, without a wait.
 */
function notSent(step: Step, failure: unknown): Effect {
  if (failure instanceof BelayError && failure.code === 'AgentNotConnected' && isInfrastructure(step.kind)) {
    return { outcome: { kind: 'unknown', message: failure.message } };
  }
  throw failure;
}

async function effect(work: Work, step: Step): Promise<Effect> {
  switch (step.kind) {
    case 'ensureCredentials':
      await work.credentials.ensure(work.state.uid);
      return done({});
    case 'adopt':
      return done({}); // proven by its marker while observing; on platforms without markers this is where one is set
    case 'import':
      return importMember(work, step.member, step.placement);
    case 'deploy':
      return deploy(work, step.member, step.version);
    case 'growVolume':
      return growVolume(work, step.member, step.sizeBytes);
    case 'upgrade':
      return deploy(work, step.member, step.version);
    case 'publish':
      return publish(work, step.member, step.configVersion);
    case 'reload':
      return reload(work, step.member, step.configVersion);
    case 'stageLogins':
      await work.credentials.stage(work.state.uid, step.users);
      return done({});
    case 'giveLogins':
      return giveLogins(work, step.member, step.configVersion);
    case 'rotateUsers':
      return rotateUsers(work, step);
    case 'keepLogins':
      return keepLogins(work, step.users);
    case 'rotateCertificate':
      return rotateCertificate(work, step.member, step.configVersion);
    case 'reconfig':
      return reconfig(work, step);
    case 'setFcv':
      return setFcv(work, step.via, step.version);
    case 'setSuspend':
      return setSuspend(work, step.suspend);
    case 'stepDown':
      return stepDown(work, step.member);
    case 'addShard':
      return addShard(work, step.via, step.shard);
    case 'stopBalancer':
      return setBalancer(work, step.via, false);
    case 'switchBalancer':
      return setBalancer(work, step.via, step.enabled);
    case 'startBalancer':
      return step.enable || step.autoMerge !== undefined
        ? setBalancer(work, step.via, step.enable, step.autoMerge)
        : done({});
    case 'initiate':
      return command(work, step.via, { kind: 'initiate', config: step.config });
    case 'createFirstUser':
      return createFirstUser(work, step.via);
    case 'reconcileSystemUsers':
      return reconcileSystemUsers(work, step.via);
    case 'applyUser':
      return applyUser(work, step);
    case 'dropUser':
      return dropUser(work, step);
    case 'deleteRuntime':
      return deleteRuntime(work, step.member);
    case 'deleteVolume':
      return deleteVolume(work, step.member);
    case 'deleteSecrets':
      return { ...done({}), also: { secretPrefixesToDelete: [clusterSecrets(work.state.uid)] } };
    case 'forget':
      return forget(work);
    default:
      return unreachable(step);
  }
}
