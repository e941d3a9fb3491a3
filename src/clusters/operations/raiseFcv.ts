import { seriesOf } from '../../model/index.ts';
import { fcvOf, notOfSeries } from '../planners/fcv.ts';
import type { Scene } from '../planners/planner.ts';
import type { OperationRequest, RunningOperation } from '../types.ts';
import type { OperationRule } from './rule.ts';

/**
 * RaiseFCV (A8.5): never by itself, never down, and only when every deployed and every observed binary is of that series
 * (S7). `planFcv` does it. While an upgrade is under way it waits for its end.
 */
export const RAISE_FCV: OperationRule = {
  refuse: (scene, request) => {
    const target = targetOf(scene, request);
    if (!/^\d+\.\d+$/.test(target)) return `${target} is no feature compatibility version; write X.Y`;
    const wanted = seriesOf(scene.desired.version) ?? '';
    const known = knownFcv(scene);
    if (known !== null && Number(target) < Number(known))
      return `it is ${known} and does not go down to ${target}`;
    if (target === wanted || deployed(scene).includes(target)) return null;
    return `binaries of ${target} are needed everywhere, and spec.version is ${scene.desired.version}: upgrade first`;
  },
  waitFor: (scene, request) => {
    const target = targetOf(scene, request);
    const differs = notOfSeries(scene.all, target);
    return differs === null ? null : `${target} needs binaries of ${target} everywhere: ${differs}`;
  },
  begin: (scene, request) => ({
    begun: { members: [], work: { kind: 'RaiseFCV', version: targetOf(scene, request), told: [] } },
    state: scene.state,
  }),
  progress: (scene, operation) => {
    const version = versionOf(operation);
    const raised = scene.state.replicaSets.every((set) => fcvOf(scene.all, set.name) === version);
    const message = `the feature compatibility version is ${version}`;
    return { completed: [], ended: raised ? { state: 'Succeeded', message } : null };
  },
  // What was raised stays raised; nothing else is under way.
  cancel: ({ state }) => state,
  movesMembers: false,
};

const versionOf = ({ work }: RunningOperation): string => (work.kind === 'RaiseFCV' ? work.version : '');

const deployed = ({ state }: Scene): readonly string[] => [
  ...new Set(state.members.flatMap((m) => seriesOf(m.deployedVersion ?? '') ?? [])),
];

/** The lowest of all sets, as far as it is known. */
function knownFcv({ state, all }: Scene): string | null {
  const known = state.replicaSets.flatMap((set) => fcvOf(all, set.name) ?? []);
  return known.sort((a, b) => Number(a) - Number(b))[0] ?? null;
}

/**
 * By default that of the running binaries: also when the next series is asked for already and waits for this very step
 * (FcvTooOld). When they have it, or differ, that of `spec.version`.
 */
function targetOf(scene: Scene, { spec }: OperationRequest): string {
  if (spec.type === 'RaiseFCV' && spec.version !== undefined) return spec.version;
  const wanted = seriesOf(scene.desired.version) ?? '';
  const [running, ...others] = deployed(scene);
  return running === undefined || others.length > 0 || knownFcv(scene) === running ? wanted : running;
}
