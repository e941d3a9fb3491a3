/** How a MongoDBUser stands, from the cluster's pass it is part of (USR-11: always a reason, never a final-looking wait). */
import {
  type AppliedUser,
  type Desired,
  type Plan,
  type State,
  UNCONFIRMED,
  userHash,
} from '../clusters/index.ts';
import type { StoredObject } from '../engine/ports.ts';
import { connectionSecretName, type UserObject } from './userObjects.ts';

/** The cluster a user belongs to. */
export interface UserCluster {
  readonly state: State;
  readonly desired: Desired;
}

interface Standing {
  readonly phase: 'Pending' | 'Reconciling' | 'Ready' | 'Failed' | 'Deleting';
  readonly reason: string;
  readonly message: string;
}

/** The status of one user document; `lastTransitionTime` is the engine's. */
export function userStatus(
  user: UserObject,
  cluster: UserCluster,
  plan: Plan,
): Readonly<Record<string, unknown>> {
  const { state } = cluster;
  const applied =
    state.users.find((u) => u.uid === user.desired.uid && sameName(u, user) && u.hash !== UNCONFIRMED) ??
    null;
  return statusOf(user.object, standing(user, applied, cluster, plan), applied, user);
}

const sameName = (applied: AppliedUser, user: UserObject): boolean =>
  applied.username === user.desired.username && applied.db === user.desired.db;

function standing(user: UserObject, applied: AppliedUser | null, cluster: UserCluster, plan: Plan): Standing {
  const { state } = cluster;
  const { desired } = user;
  if (desired.deleting)
    return { phase: 'Deleting', reason: 'Deleting', message: 'is dropped from the database' };
  if (user.refused !== null) return { phase: 'Failed', ...user.refused };
  if (applied?.hash === userHash(desired, cluster)) {
    return { phase: 'Ready', reason: 'Applied', message: 'the database knows the user as declared' };
  }
  if (desired.passwordRef !== null && desired.passwordFingerprint === null) {
    const message = `password secret ${desired.passwordRef} does not exist`;
    return { phase: 'Pending', reason: 'UserPasswordMissing', message };
  }
  const retry = state.retries.find((r) => r.action === 'applyUser' && r.member === desired.uid);
  if (retry !== undefined) {
    const message = `failed ${retry.failures === 1 ? 'once' : `${retry.failures} times`}: ${retry.message}`;
    return {
      phase: retry.code === 'CredentialRepairRequired' ? 'Failed' : 'Pending',
      reason: retry.code,
      message,
    };
  }
  const ready = state.replicaSets.every((set) => set.stage === 'ready');
  if (ready && plan.act?.because === 'UserChanged') {
    return { phase: 'Reconciling', reason: 'UserChanged', message: 'is applied to the database' };
  }
  return ready
    ? { phase: 'Pending', reason: 'WaitingForPrimary', message: 'waits for a primary of the cluster' }
    : { phase: 'Pending', reason: 'WaitingForCluster', message: 'waits for the cluster to become ready' };
}

/** The status of a user whose MongoDB is not there. */
export const orphanStatus = (user: StoredObject, message: string): Readonly<Record<string, unknown>> =>
  statusOf(user, { phase: 'Pending', reason: 'ClusterNotFound', message }, null, null);

function statusOf(
  object: StoredObject,
  { phase, reason, message }: Standing,
  applied: AppliedUser | null,
  user: UserObject | null,
): Readonly<Record<string, unknown>> {
  const ready = phase === 'Ready';
  return {
    observedGeneration: object.metadata.generation,
    phase,
    message,
    conditions: [
      {
        type: 'Ready',
        status: ready ? 'True' : 'False',
        reason,
        message,
        observedGeneration: object.metadata.generation,
      },
    ],
    warnings: [],
    ...(applied === null ? {} : { username: applied.username, db: applied.db }),
    ...(ready && user !== null
      ? { roles: user.spec.roles, connectionStringSecretName: connectionSecretName(object) }
      : {}),
  };
}
