import { nextVersion } from '../certificates.ts';
import type { Decision, Step } from '../decisions.ts';
import { primaryOf, runsItsSnapshot } from '../interpret.ts';
import { loginsNow, rotationUnderWay } from '../operations/rotateUsers.ts';
import { pendingOf, retryOf } from '../state.ts';
import type { MemberState, ReplicaSetState } from '../types.ts';
import { noPrimary } from './bootstrap.ts';
import {
  act,
  backingOff,
  blocked,
  isDue,
  type Planner,
  type Scene,
  saidOf,
  soon,
  verdict,
  wait,
} from './planner.ts';
import { needOf } from './rollout.ts';

/**
 * The steps of a rotation of system users (A13.4), in the order in which every agent always has a password that works
 * (S12): made and kept, given to agents beside the old ones, changed set by set, kept as the cluster's, given alone.
 */
export const planLogins: Planner = (scene) => {
  const { desired, state } = scene;
  const work = rotationUnderWay(state);
  if (work === null || desired.deleting !== null || desired.suspend) return null;
  const { users } = work;
  if (!work.staged) return doing(scene, { kind: 'stageLogins', users }, 'new passwords are made');
  const given = giveNext(scene);
  if (given !== null) return verdict([given], false);
  const set = state.replicaSets.find((r) => !work.sets.includes(r.name));
  if (set !== undefined) return verdict([change(scene, set, users)], false);
  if (!work.kept)
    return doing(scene, { kind: 'keepLogins', users }, 'the new passwords become the cluster’s');
  return null;
};

const doing = (scene: Scene, step: Step, detail: string): ReturnType<Planner> =>
  verdict([backingOff(scene, step.kind, 'cluster') ?? act('PasswordRotation', [step], detail)], false);

/** One agent after the other; the next when the one before said that it has them. */
function giveNext(scene: Scene): Decision | null {
  const logins = loginsNow(scene.state);
  if (logins === null) return null;
  const running = scene.all.filter((v) => v.member.activated !== null);
  const has = (v: (typeof running)[number]): boolean => v.member.activated?.loginToken === logins.token;
  // One whose process is down has them on its disk and takes them up when it starts: it holds nobody up (STK-06).
  const isDown = (v: (typeof running)[number]): boolean => v.facts?.process.kind === 'exited';
  const silent = running.find((v) => has(v) && !runsItsSnapshot(v) && !isDown(v));
  if (silent !== undefined) {
    const { name } = silent.member;
    return wait(
      'SnapshotNotAcknowledged',
      soon(scene),
      `${name} was given passwords and has not said so`,
      name,
    );
  }
  const lacking = running.filter((v) => !has(v));
  // What is to be restarted gets them with its next snapshot: nothing else may reach it without the roller's questions. One
  // that is being made, changed or taken away is left alone until that has ended (A2.4).
  const isFree = ({ member }: (typeof running)[number]): boolean =>
    pendingOf(scene.state, member.name) === null && !NEEDS_ROLLER.has(needOf(scene, member));
  const next = lacking.find(isFree);
  if (next === undefined) {
    const who = lacking.map((v) => v.member.name).join(', ');
    return lacking.length === 0 ? null : wait('WaitingForMembers', soon(scene), `${who} gets a change first`);
  }
  const { name } = next.member;
  if (next.facts === null)
    return wait(
      'AgentNotConnected',
      soon(scene),
      `${name} is to be given passwords and is not reported`,
      name,
    );
  const step: Step = {
    kind: 'giveLogins',
    member: name,
    configVersion: nextVersion(scene.state, next.member),
  };
  const what = logins.both ? 'the new password besides the old one' : 'the new password alone';
  const held = notTakenYet(scene, next.member) ?? backingOff(scene, 'giveLogins', name);
  return held ?? act('PasswordRotation', [step], `${name} is given ${what}`);
}

/** Nothing is wrong yet: the set has the new password, and this one hears of it a little later. */
function notTakenYet({ state, now }: Scene, { name, role }: MemberState): Decision | null {
  const retry = retryOf(state, 'giveLogins', name);
  if (retry?.code !== 'LoginNotConfirmed' || isDue(retry, now)) return null;
  const why = role === 'router' ? 'routers keep users for a while' : 'it reaches secondaries a little later';
  const detail = `${name} does not take the new password yet, since ${why}; it is asked again: ${saidOf(retry)}`;
  return wait('Backoff', retry.nextTryAt, detail, name);
}
const NEEDS_ROLLER: ReadonlySet<ReturnType<typeof needOf>> = new Set(['upgrade', 'reload']);

function change(scene: Scene, set: ReplicaSetState, users: readonly string[]): Decision {
  const members = scene.all.filter((v) => v.member.replicaSet === set.name);
  const primary = primaryOf(members);
  const retry = retryOf(scene.state, 'rotateUsers', set.name);
  if (retry?.code === 'CredentialRepairRequired' && !isDue(retry, scene.now))
    return blocked(
      'CredentialRepairRequired',
      'person',
      retry.message,
      `neither the old nor the new password of userAdmin works in ${set.name}: set one of them back`,
    );
  if (primary === null) return noPrimary(scene, set, members);
  const step: Step = { kind: 'rotateUsers', replicaSet: set.name, via: primary.member.name, users };
  const held = backingOff(scene, 'rotateUsers', set.name);
  return held ?? act('PasswordRotation', [step], `passwords of ${set.name} on ${primary.member.name}`);
}
