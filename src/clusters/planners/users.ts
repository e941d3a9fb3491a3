import { formatCount } from '../../base/units.ts';
import type { Decision, Step } from '../decisions.ts';
import { primaryOf } from '../interpret.ts';
import { UNCONFIRMED } from '../limits.ts';
import { rotationUnderWay } from '../operations/rotateUsers.ts';
import { retryOf } from '../state.ts';
import { connectionString } from '../topology.ts';
import type { Desired, DesiredUser, ReplicaSetState, State } from '../types.ts';
import { noPrimary } from './bootstrap.ts';
import {
  act,
  backingOff,
  blocked,
  isDue,
  type Planner,
  type Scene,
  soon,
  together,
  verdict,
  wait,
} from './planner.ts';
import { workingRouter } from './routers.ts';

/** The oldest binary among the members: what users and roles must fit while an upgrade is under way. */
export function oldestVersion(state: Pick<State, 'members'>, desired: Pick<Desired, 'version'>): string {
  const deployed = state.members.flatMap((m) => (m.deployedVersion === null ? [] : [m.deployedVersion]));
  return deployed.sort(byNumbers.compare)[0] ?? desired.version;
}

/** Made once: a comparison with options makes one of these for every call. */
const byNumbers = new Intl.Collator('en', { numeric: true });

/** Roles of the system users and the user's own roles, as one fingerprint; a change is applied by the next pass. */
export const systemUsersHash = (scene: Pick<Scene, 'desired' | 'state'>): string =>
  JSON.stringify({
    schema: 1,
    series: oldestVersion(scene.state, scene.desired).split('.')[0],
    roles: scene.desired.roles,
  });

/**
 * A5.2, A5.4, CRD-01: system users are made, and made again whenever an agent finds that its own login does not work.
 * Transient failures wait and are tried again; wrong credentials need a person, since no login is left that could repair them.
 */
export const planSystemUsers: Planner = (scene) => {
  if (scene.desired.deleting !== null || scene.desired.suspend) return null;
  // Made equal to what is kept they would lose the passwords that are on their way (A13.4).
  if (rotationUnderWay(scene.state)?.begun === true && !rotationUnderWay(scene.state)?.kept) return null;
  const decisions = together(
    scene.state.replicaSets.filter((r) => r.stage !== 'bootstrap').map((set) => systemUsers(scene, set)),
  );
  const first = scene.state.replicaSets.some((r) => r.stage === 'users');
  return verdict(decisions, first && decisions.some((d) => d !== null));
};

function systemUsers(scene: Scene, set: ReplicaSetState): Decision | null {
  const members = scene.all.filter((v) => v.member.replicaSet === set.name);
  const primary = primaryOf(members);
  const retry = retryOf(scene.state, 'reconcileSystemUsers', set.name);
  const drift = primary?.database?.authenticated === false;
  const due = set.stage === 'users' || set.usersHash !== systemUsersHash(scene) || drift || retry !== null;
  if (!due) return null;
  if (primary === null) return noPrimary(scene, set, members);
  if (retry?.code === 'CredentialRepairRequired' && !isDue(retry, scene.now)) {
    return blocked(
      'CredentialRepairRequired',
      'person',
      retry.message,
      `set the userAdmin password of ${set.name} back, or restore its secret; it is tried again at any change, at the latest in ten minutes`,
    );
  }
  if (retry !== null && !isDue(retry, scene.now))
    return wait('RepairRetrying', retry.nextTryAt, `system users of ${set.name}: ${retry.message}`);
  const step: Step = { kind: 'reconcileSystemUsers', replicaSet: set.name, via: primary.member.name };
  return act(
    set.stage === 'users' ? 'UsersMissing' : 'UsersChanged',
    [step],
    `system users on ${primary.member.name}`,
  );
}

/**
 * What identifies an applied user: names, roles, the password's fingerprint, and where clients connect: a set that grew
 * or changed its TLS mode gets its users' connection secrets written anew.
 */
export const userHash = (user: DesiredUser, cluster: Pick<Scene, 'state' | 'desired'>): string =>
  JSON.stringify([
    user.username,
    user.db,
    [...user.roles].map((r) => `${r.db}.${r.role}`).sort(),
    user.passwordFingerprint,
    connectionString(cluster.state, cluster.desired),
    // Only where there is one: users that were applied before stay applied.
    ...(user.connectionSecret === undefined ? [] : [user.connectionSecret]),
  ]);

/**
 * MongoDBUser documents (B3, USR-08, USR-10): changed ones are applied; a changed name is a new user first and the old
 * one dropped after; removed ones are dropped. Users nobody declared are never touched.
 */
export const planUsers: Planner = (scene) => {
  if (
    scene.desired.deleting !== null ||
    scene.desired.suspend ||
    scene.state.replicaSets.some((r) => r.stage !== 'ready')
  )
    return null;
  const work = [...applies(scene), ...drops(scene)];
  if (work.length === 0) return null;
  // A sharded cluster keeps its users on the config servers and speaks of them through its routers.
  const door = scene.desired.sharded === null ? primaryOf(scene.all) : workingRouter(scene.all);
  if (door === null) return verdict([noDoor(scene)], false);
  const decisions: Decision[] = [];
  const steps: Step[] = [];
  for (const item of work) {
    if ('by' in item) decisions.push(item);
    else {
      const step: Step =
        item.kind === 'apply'
          ? { kind: 'applyUser', via: door.member.name, user: item.user, hash: userHash(item.user, scene) }
          : {
              kind: 'dropUser',
              via: door.member.name,
              uid: item.uid,
              username: item.username,
              db: item.db,
            };
      const held = backingOff(
        scene,
        step.kind,
        item.kind === 'apply' ? item.user.uid : `${item.db}.${item.username}`,
      );
      if (held) decisions.push(held);
      else steps.push(step);
    }
  }
  if (steps.length > 0)
    decisions.unshift(
      act(
        steps.some((s) => s.kind === 'applyUser') ? 'UserChanged' : 'UserRemoved',
        steps,
        formatCount(steps.length, 'user'),
      ),
    );
  return verdict(decisions, false);
};

const noDoor = (scene: Scene): Decision =>
  scene.desired.sharded === null
    ? noPrimary(scene, scene.state.replicaSets[0]!, scene.all)
    : wait('WaitingForRouter', soon(scene), 'users are changed when a router reaches the config servers');

type Work =
  | { readonly kind: 'apply'; readonly user: DesiredUser }
  | { readonly kind: 'drop'; readonly uid: string; readonly username: string; readonly db: string }
  | Extract<Decision, { kind: 'blocked' }>;

function applies(scene: Scene): readonly Work[] {
  const work: Work[] = [];
  for (const user of scene.observed.users) {
    const applied = scene.state.users.find(
      (u) => u.uid === user.uid && u.username === user.username && u.db === user.db,
    );
    if (user.deleting || applied?.hash === userHash(user, scene)) continue;
    if (user.passwordFingerprint === null && user.db !== '$external') {
      work.push(
        blocked(
          'UserPasswordMissing',
          'person',
          `MongoDBUser ${user.name} refers to password ${user.passwordRef ?? '(none)'}, which does not exist`,
          'give the user a password',
        ) as Extract<Decision, { kind: 'blocked' }>,
      );
      continue;
    }
    work.push({ kind: 'apply', user });
  }
  return work;
}

function drops(scene: Scene): readonly Work[] {
  return scene.state.users
    .filter((applied) => {
      const wanted = scene.observed.users.find((u) => u.uid === applied.uid);
      if (wanted === undefined || wanted.deleting) return true;
      const renamed = wanted.username !== applied.username || wanted.db !== applied.db;
      // The new name comes first, so that the application is never without a login.
      return (
        renamed &&
        scene.state.users.some(
          (u) =>
            u.uid === wanted.uid &&
            u.username === wanted.username &&
            u.db === wanted.db &&
            u.hash !== UNCONFIRMED,
        )
      );
    })
    .map((u) => ({ kind: 'drop', uid: u.uid, username: u.username, db: u.db }) as const);
}
