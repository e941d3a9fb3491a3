import { formatCount } from '../../base/units.ts';
import type { Decision } from '../decisions.ts';
import { initiated, type MemberView, primaryOf, replicaSetIds, runsItsSnapshot } from '../interpret.ts';
import { pendingOf } from '../state.ts';
import { initialConfig, memberHost } from '../topology.ts';
import type { ReplicaSetState } from '../types.ts';
import {
  act,
  backingOff,
  blocked,
  type Planner,
  type Scene,
  soon,
  together,
  verdict,
  wait,
} from './planner.ts';

/**
 * INI-06: a set is known by the id it got at its initiation. A member that shows another one is a stray set under our
 * name; nothing is done to either until a person has looked.
 */
export const planIdentity: Planner = (scene) => {
  for (const set of scene.state.replicaSets) {
    const members = scene.all.filter((v) => v.member.replicaSet === set.name);
    const ids = replicaSetIds(members, set.replicaSetId);
    if (ids.length > 1) {
      const who = members.filter(
        (v) => v.database?.replicaSetId && v.database.replicaSetId !== set.replicaSetId,
      );
      const detail = `${who.map((v) => v.member.name).join(', ')} belongs to another replica set called ${set.name} (ids ${ids.join(', ')})`;
      return verdict(
        [blocked('SplitIdentity', 'person', detail, 'stop the stray member and move its data away')],
        true,
      );
    }
    const lost =
      set.stage !== 'bootstrap' &&
      members.length > 0 &&
      members.every((v) => v.database?.initiated === false);
    if (lost) {
      const detail = `every member of ${set.name} has an empty data folder though this set was initiated before`;
      return verdict(
        [
          blocked(
            'ForeignData',
            'person',
            detail,
            'bring the volumes back, or delete the cluster and create it anew',
          ),
        ],
        true,
      );
    }
  }
  return null;
};

/**
 * A5.1, S6: all configured members are initiated at once, by the same member every time, and only when each of them is
 * up with its snapshot and says it belongs to no set. One that says otherwise means the answer of an earlier try was lost.
 */
export const planInitiate: Planner = (scene) => {
  const decisions = together(bootstrapping(scene).map((set) => initiate(scene, set)));
  return verdict(
    decisions,
    decisions.some((d) => d !== null),
  );
};

const bootstrapping = (scene: Scene): readonly ReplicaSetState[] =>
  scene.desired.deleting !== null || scene.desired.suspend
    ? []
    : scene.state.replicaSets.filter((r) => r.stage === 'bootstrap');

function initiate(scene: Scene, set: ReplicaSetState): Decision | null {
  const members = scene.all.filter((v) => v.member.replicaSet === set.name && v.member.stage !== 'removing');
  // One that was taken back before it began has none left.
  if (members.length === 0 || initiated(members) === true) return null;
  // Who is being given another binary restarts when the platform comes to it, be the set a shard by then.
  const missing = members.filter(
    (v) => !runsItsSnapshot(v) || pendingOf(scene.state, v.member.name) !== null,
  );
  if (missing.length > 0) {
    return wait(
      'WaitingForMembers',
      soon(scene),
      `${set.name} is initiated when all members are up; missing: ${missing.map((v) => v.member.name).join(', ')}`,
    );
  }
  const strangers = members.filter((v) => v.database?.usersExist === true);
  if (strangers.length > 0) {
    const detail = `${strangers.map((v) => v.member.name).join(', ')} holds users although ${set.name} was never initiated`;
    return blocked(
      'ForeignData',
      'person',
      detail,
      'move that data away; a member with data is never initiated',
    );
  }
  const held = backingOff(scene, 'initiate', set.name);
  if (held !== null) return held;
  const config = initialConfig(scene.state, scene.desired, set.name);
  // The server lets only a member that may become primary initiate its set.
  const electable = new Set(config?.members.filter((row) => row.priority > 0).map((row) => row.host));
  const first = set.initiating ? (set.initiatedVia ?? null) : null;
  const via = members.find((v) =>
    first === null ? electable.has(memberHost(v.member) ?? '') : v.member.name === first,
  );
  if (config === null || via === undefined)
    return wait('WaitingForMembers', soon(scene), `members of ${set.name} have no place yet`);
  return act(
    'Bootstrapping',
    [{ kind: 'initiate', replicaSet: set.name, via: via.member.name, config }],
    `initiate ${set.name} with ${formatCount(members.length, 'member')}`,
  );
}

/** The first user by the localhost exception of the elected primary, whoever that is (INI-02). */
export const planFirstUser: Planner = (scene) => {
  const decisions = together(bootstrapping(scene).map((set) => firstUser(scene, set)));
  return verdict(
    decisions,
    decisions.some((d) => d !== null),
  );
};

function firstUser(scene: Scene, set: ReplicaSetState): Decision | null {
  const members = scene.all.filter((v) => v.member.replicaSet === set.name);
  if (initiated(members) !== true) return null;
  const primary = primaryOf(members);
  if (primary === null) return noPrimary(scene, set, members);
  const held = backingOff(scene, 'createFirstUser', set.name);
  return (
    held ??
    act(
      'UsersMissing',
      [{ kind: 'createFirstUser', replicaSet: set.name, via: primary.member.name }],
      `first user on ${primary.member.name}`,
    )
  );
}

export function noPrimary(scene: Scene, set: ReplicaSetState, members: readonly MemberView[]): Decision {
  const states = members.map((v) => `${v.member.name} ${v.database?.state ?? 'unknown'}`).join(', ');
  return wait('WaitingForPrimary', soon(scene), `${set.name} has no primary (${states})`);
}
