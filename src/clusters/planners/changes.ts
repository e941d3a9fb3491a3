import { pendingOf } from '../state.ts';
import { untouched } from '../topology.ts';
import type { Step } from '../types.ts';
import { act, backingOff, helpNeeded, type Planner } from './planner.ts';

/**
 * A changed configuration before the set was initiated goes to all members directly: nothing can be hurt, and a wrong
 * first spec must be correctable (STK-11, STK-04). Afterwards, and as soon as the
 * initiation was sent, members are changed one at a time (`planRollout`).
 */
export const planChangedBeforeBootstrap: Planner = (scene) => {
  if (scene.desired.deleting !== null || scene.desired.suspend || !scene.state.replicaSets.every(untouched))
    return null;
  if (scene.all.some((v) => v.database?.initiated === true)) return null;
  const wanted = scene.state.goal?.hash;
  if (wanted === undefined) return null;
  const { version } = scene.desired;
  const given = scene.state.members.filter((m) => m.activated !== null && m.stage !== 'removing');
  // S7: a set begins with one version. Binaries first, so that no member starts twice.
  const redeploy = given.filter((m) => m.deployedVersion !== version);
  const stale = given.filter((m) => m.activated?.configHash !== wanted);
  const action = redeploy.length > 0 ? 'deploy' : 'publish';
  const todo = (redeploy.length > 0 ? redeploy : stale).filter(
    (m) => pendingOf(scene.state, m.name) === null,
  );
  const held = todo.map((m) => backingOff(scene, action, m.name));
  const help = todo.map((m) => helpNeeded(scene, action, m.name));
  const steps = todo
    .filter((_, i) => held[i] === null)
    .map((m): Step => {
      const member = m.name;
      return action === 'deploy'
        ? { kind: 'deploy', member, version }
        : { kind: 'publish', member, configVersion: scene.state.configVersion + 1 };
    });
  const change = 'the spec changed before the set was initiated';
  const go = steps.length > 0 ? act('ConfigurationChanged', steps, change) : null;
  const settled = redeploy.length === 0 && stale.length === 0;
  return settled ? null : { decisions: [go, ...held, ...help].filter((d) => d !== null), barrier: true };
};
