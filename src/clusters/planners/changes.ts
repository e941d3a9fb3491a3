import type { Step } from '../decisions.ts';
import { isUnanswered } from '../interpret.ts';
import { goalHash } from '../snapshotInputs.ts';
import { pendingOf } from '../state.ts';
import { untouched } from '../topology.ts';
import type { MemberState, ReplicaSetState } from '../types.ts';
import { firstVersion } from '../versions.ts';
import { olderThanData } from './infrastructure.ts';
import { act, backingOff, helpNeeded, type Planner, type Scene } from './planner.ts';

const isUnbegun = (scene: Scene, set: ReplicaSetState): boolean =>
  untouched(set) &&
  !scene.all.some((v) => v.member.replicaSet === set.name && v.database?.initiated === true);

/**
 * A changed configuration before the set was initiated goes to all members directly: nothing can be hurt, and a wrong
 * first spec must be correctable (STK-11, STK-04). Afterwards, and as soon as the
 * initiation was sent, members are changed one at a time (`planRollout`).
 */
export const planChangedBeforeBootstrap: Planner = (scene) => {
  if (scene.desired.deleting !== null || scene.desired.suspend) return null;
  const { goal } = scene.state;
  if (goal === null) return null;
  const fresh = new Set(scene.state.replicaSets.filter((set) => isUnbegun(scene, set)).map((r) => r.name));
  const versionOf = (m: MemberState): string => firstVersion(scene.desired, scene.state, m);
  const given = scene.state.members.filter(
    (m) => m.activated !== null && m.stage !== 'removing' && fresh.has(m.replicaSet),
  );
  // S7: a set begins with one version. Binaries first, so that no member starts twice.
  const redeploy = given.filter((m) => m.deployedVersion !== versionOf(m));
  const stale = given.filter((m) => isUnanswered(m) || m.activated?.configHash !== goalHash(goal, m.role));
  const action = redeploy.length > 0 ? 'deploy' : 'publish';
  const todo = (redeploy.length > 0 ? redeploy : stale).filter(
    (m) => pendingOf(scene.state, m.name) === null,
  );
  const held = todo.map(
    (m) => (action === 'deploy' ? olderThanData(scene, m) : null) ?? backingOff(scene, action, m.name),
  );
  const help = todo.map((m) => helpNeeded(scene, action, m.name));
  const steps = todo
    .filter((_, i) => held[i] === null)
    .map((m): Step => {
      const member = m.name;
      return action === 'deploy'
        ? { kind: 'deploy', member, version: versionOf(m) }
        : { kind: 'publish', member, configVersion: scene.state.configVersion + 1 };
    });
  const change = 'the spec changed before the set was initiated';
  const go = steps.length > 0 ? act('ConfigurationChanged', steps, change) : null;
  const settled = redeploy.length === 0 && stale.length === 0;
  return settled ? null : { decisions: [go, ...held, ...help].filter((d) => d !== null), barrier: true };
};
