import { seriesOf } from '../../model/index.ts';
import type { Decision } from '../decisions.ts';
import { type MemberView, primaryOf } from '../interpret.ts';
import type { ReplicaSetState, RunningOperation, State } from '../types.ts';
import { act, backingOff, type Planner, type Scene, soon, verdict, wait } from './planner.ts';
import { workingRouter } from './routers.ts';

/** What a set's primary says its feature compatibility version is; null: unknown. */
export const fcvOf = (all: readonly MemberView[], set: string): string | null =>
  primaryOf(all.filter((v) => v.member.replicaSet === set))?.database?.featureCompatibilityVersion ?? null;

/** That of a sharded cluster, as its config servers have it or last had; null: unknown, or it is not sharded. */
export function clusterFcv(
  all: readonly MemberView[],
  { replicaSets }: Pick<State, 'replicaSets'>,
): string | null {
  const config = replicaSets.find((r) => r.role === 'configServer');
  return config === undefined ? null : (fcvOf(all, config.name) ?? config.fcv ?? null);
}

/** A8.5, S7: who does not run this series, by what was deployed and by what was seen; null: everybody does. Unknown does not. */
export function notOfSeries(all: readonly MemberView[], series: string): string | null {
  for (const { member, facts, database } of all) {
    const { name, deployedVersion } = member;
    if (seriesOf(deployedVersion ?? '') !== series)
      return `${name} is deployed as ${deployedVersion ?? 'nothing yet'}`;
    const isDown = facts?.process.kind === 'exited' || facts?.process.kind === 'absent';
    if (database === null && isDown) return `${name} is down; it goes on when it is up again`;
    if (database === null) return `it is not known what ${name} runs`;
    if (seriesOf(database.binaryVersion) !== series) return `${name} runs ${database.binaryVersion}`;
  }
  return null;
}

/** Raises the feature compatibility version when an operation asks for it (A8.5); never otherwise (S7). */
export const planFcv: Planner = (scene) => {
  const { operation, replicaSets } = scene.state;
  if (operation?.work.kind !== 'RaiseFCV' || scene.desired.deleting !== null || scene.desired.suspend)
    return null;
  const { version } = operation.work;
  const lacking = replicaSets.filter((set) => fcvOf(scene.all, set.name) !== version);
  if (lacking.length === 0) return null;
  const differs = notOfSeries(scene.all, version);
  if (differs !== null)
    return verdict([wait('WaitingForMembers', soon(scene), `${version} waits: ${differs}`)], false);
  const decisions =
    scene.desired.sharded === null
      ? lacking.map((set) => raise(scene, operation, set, primaryOf(membersOf(scene, set))))
      : [raise(scene, operation, lacking[0] as ReplicaSetState, workingRouter(scene.all))];
  return verdict(decisions, false);
};

const membersOf = (scene: Scene, set: ReplicaSetState): readonly MemberView[] =>
  scene.all.filter((v) => v.member.replicaSet === set.name);

function raise(
  scene: Scene,
  { work }: RunningOperation,
  set: ReplicaSetState,
  through: MemberView | null,
): Decision | null {
  if (work.kind !== 'RaiseFCV') return null;
  if (through === null) {
    return scene.desired.sharded === null
      ? wait('WaitingForPrimary', soon(scene), `${set.name} has no primary to be raised through`)
      : wait(
          'WaitingForRouter',
          soon(scene),
          `${set.name} is raised when a router reaches the config servers`,
        );
  }
  if (work.told.includes(set.name))
    return wait('ObservationStale', soon(scene), `${set.name} was raised; its next report will say so`);
  const from = fcvOf(scene.all, set.name) ?? 'unknown';
  return (
    backingOff(scene, 'setFcv', set.name) ??
    act(
      'FcvRequested',
      [{ kind: 'setFcv', replicaSet: set.name, via: through.member.name, version: work.version }],
      `feature compatibility version ${from} → ${work.version}, which does not go back`,
    )
  );
}
