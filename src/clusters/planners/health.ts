import { formatDuration } from '../../base/units.ts';
import type { Decision } from '../decisions.ts';
import { isHealthy, isOut, isStopping, lagOf, type MemberView, primaryOf, stateOf } from '../interpret.ts';
import { isRouter, stayingMembers, wantedMembers } from '../topology.ts';
import { noPrimary } from './bootstrap.ts';
import { type Planner, type Scene, soon, verdict, wait } from './planner.ts';
import { lostQuorum, quorumLost } from './quorum.ts';

/** A running set is converged only when every member is known to be healthy (S15): what is missing is waited for by name. */
export const planHealth: Planner = (scene) => {
  if (scene.desired.deleting !== null || scene.desired.suspend) return null;
  const decisions: Decision[] = [];
  for (const set of scene.state.replicaSets.filter((r) => r.stage === 'ready')) {
    const members = scene.all.filter((v) => v.member.replicaSet === set.name);
    if (members.some((v) => v.database) && primaryOf(members) === null)
      decisions.push(noPrimary(scene, set, members));
    const lost = lostQuorum(members);
    if (lost !== null) decisions.push(quorumLost(scene, set.name, lost));
    for (const view of members) decisions.push(...notHealthyYet(scene, view, members));
  }
  for (const view of scene.all.filter((v) => isRouter(v.member) && v.database !== null)) {
    if (isHealthy(view, scene.all)) continue;
    const { name } = view.member;
    const why = isStopping(view) ? 'is being stopped' : 'does not reach the config servers';
    decisions.push(wait('WaitingForMembers', soon(scene), `router ${name} ${why}`, name));
  }
  const [has, wanted] = [stayingMembers(scene.state).length, wantedMembers(scene.desired)];
  if (has !== wanted && decisions.length === 0) {
    decisions.push(
      wait('WaitingForMembers', soon(scene), `${has} members come back before they become ${wanted}`),
    );
  }
  return verdict(decisions, false);
};

/** What a member is waited for; empty for one that is healthy, or of which nothing is known. */
function notHealthyYet(scene: Scene, view: MemberView, members: readonly MemberView[]): readonly Decision[] {
  if (view.database === null || isHealthy(view, members)) return [];
  const { name, stage } = view.member;
  if (stage === 'removing' && isOut(scene, view.member)) return []; // it ends as it should
  const state = stateOf(view) ?? 'unknown';
  const waiting = (what: string): readonly Decision[] => [
    wait('WaitingForMembers', soon(scene), `${name} ${what}`, name),
  ];
  if (isStopping(view)) return waiting('is being stopped');
  if (state === 'STARTUP2') {
    const percent = view.database.initialSyncPercent;
    const far = percent === null ? '' : ` ${Math.round(percent)} %`;
    return [wait('InitialSync', soon(scene), `${name} initial sync${far}`, name)];
  }
  if (state !== 'SECONDARY') return waiting(`is ${state}`);
  // A secondary is healthy by its distance to the primary, so without one it needs another word than its state.
  const lag = lagOf(view, members);
  return waiting(
    lag === null
      ? 'is SECONDARY and its distance to the primary is not known'
      : `is ${formatDuration(lag)} behind`,
  );
}
