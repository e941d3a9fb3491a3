import { SYSTEM_USERNAMES } from '../../model/index.ts';
import type { OperationRequest, OperationWork, RunningOperation, State } from '../types.ts';
import type { OperationRule } from './rule.ts';

/** The user that agents log in as. */
const MONITOR = 'clusterMonitor';

type Rotation = Extract<OperationWork, { kind: 'RotateUsers' }>;

/**
 * RotateUsers (A13.4): new passwords are made and kept beside the old ones; each member's agent is given both, one at a
 * time; each replica set changes them, one at a time; the new ones become the cluster's; each agent is given the new ones
 * alone. At every moment every agent holds one that its database accepts (S12). Nothing restarts (CRD-11).
 */
export const ROTATE_USERS: OperationRule = {
  refuse: (_, request) => {
    const known: readonly string[] = SYSTEM_USERNAMES;
    const unknown = wanted(request).filter((name) => !known.includes(name));
    return unknown.length === 0
      ? null
      : `there is no system user ${unknown.join(', ')}; there are ${known.join(', ')}`;
  },
  waitFor: () => null,
  begin: ({ state }, request) => {
    const names = wanted(request);
    const users = SYSTEM_USERNAMES.filter((name) => names.length === 0 || names.includes(name));
    const work: Rotation = { kind: 'RotateUsers', users, staged: false, begun: false, sets: [], kept: false };
    return { begun: { members: state.members.map((m) => m.name), work }, state };
  },
  progress: ({ state }, operation) => {
    const work = rotationOf(operation);
    if (work === null || !work.kept) return { completed: [], ended: null };
    const completed = operation.members.filter((name) => hasNew(state, operation, work, name));
    const count = work.users.length;
    const text =
      count === 1 ? `the password of ${work.users[0]} was changed` : `${count} passwords were changed`;
    const over = completed.length === operation.members.length;
    return { completed, ended: over ? { state: 'Succeeded', message: text } : null };
  },
  // Agents not reached yet hold the new ones besides: what is kept works for all of them.
  cancel: ({ state }, operation) => {
    const work = rotationOf(operation);
    return work?.begun && !work.kept
      ? 'passwords are being changed in the database: it goes on to its end'
      : state;
  },
  movesMembers: false,
};

const rotationOf = ({ work }: RunningOperation): Rotation | null =>
  work.kind === 'RotateUsers' ? work : null;

const wanted = ({ spec }: OperationRequest): readonly string[] =>
  spec.type === 'RotateUsers' ? spec.users : [];

/** One that left the cluster meanwhile needs none. */
function hasNew(state: State, operation: RunningOperation, work: Rotation, name: string): boolean {
  const member = state.members.find((m) => m.name === name);
  if (member === undefined || member.activated === null || !work.users.includes(MONITOR)) return true;
  return member.activated.loginToken === operation.uid;
}

/** The rotation that runs; null: none does. */
export const rotationUnderWay = (state: Pick<State, 'operation'>): Rotation | null =>
  state.operation === null ? null : rotationOf(state.operation);

/**
 * Which passwords an agent is given now: the old and the new ones, or those it has from here on. `token` tells one from
 * the other; null: no rotation is about agents' passwords.
 */
export function loginsNow(
  state: Pick<State, 'operation'>,
): { readonly token: string; readonly both: boolean } | null {
  const work = rotationUnderWay(state);
  if (state.operation === null || work === null || !work.staged || !work.users.includes(MONITOR)) return null;
  const { uid } = state.operation;
  return work.kept ? { token: uid, both: false } : { token: `${uid} and before`, both: true };
}
