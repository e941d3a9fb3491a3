import type { Step } from '../types.ts';
import { act, type Planner, verdict } from './planner.ts';

/**
 * A changed configuration before the set was initiated goes to all members directly: nothing can be hurt, and a wrong
 * first spec must be correctable (STK-11, STK-04). Afterwards see `planUnsupported`.
 */
export const planChangedBeforeBootstrap: Planner = (scene) => {
  if (
    scene.desired.deleting !== null ||
    scene.desired.suspend ||
    !scene.state.replicaSets.every((r) => r.stage === 'bootstrap')
  )
    return null;
  if (scene.all.some((v) => v.database?.initiated === true)) return null;
  const wanted = scene.state.goal?.hash;
  if (wanted === undefined) return null;
  const stale = scene.state.members.filter((m) => m.activated !== null && m.activated.configHash !== wanted);
  if (stale.length === 0) return null;
  const redeploy = stale.filter((m) => m.deployedVersion !== scene.desired.version);
  const steps: Step[] =
    redeploy.length > 0
      ? redeploy.map((m) => ({ kind: 'deploy', member: m.name, version: scene.desired.version }))
      : stale.map((m) => ({ kind: 'publish', member: m.name, configVersion: scene.state.configVersion + 1 }));
  return verdict([act('ConfigurationChanged', steps, 'the spec changed before the set was initiated')], true);
};
