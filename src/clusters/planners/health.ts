import { formatDuration } from '../../base/units.ts';
import type { Decision } from '../decisions.ts';
import { isHealthy, isOut, isStopping, lagOf, primaryOf, stateOf } from '../interpret.ts';
import { isRouter, stayingMembers, wantedMembers } from '../topology.ts';
import { noPrimary } from './bootstrap.ts';
import { type Planner, soon, verdict, wait } from './planner.ts';
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
    for (const view of members) {
      if (view.database === null || isHealthy(view, members)) continue;
      if (view.member.stage === 'removing' && isOut(scene, view.member)) continue; // it ends as it should
      const name = view.member.name;
      const state = stateOf(view) ?? 'unknown';
      const lag = lagOf(view, members);
      const percent = view.database.initialSyncPercent;
      if (isStopping(view)) {
        decisions.push(wait('WaitingForMembers', soon(scene), `${name} is being stopped`, name));
      } else if (state === 'STARTUP2') {
        decisions.push(
          wait(
            'InitialSync',
            soon(scene),
            `${name} initial sync${percent === null ? '' : ` ${Math.round(percent)} %`}`,
            name,
          ),
        );
      } else if (state === 'SECONDARY' && lag !== null) {
        decisions.push(
          wait('WaitingForMembers', soon(scene), `${name} is ${formatDuration(lag)} behind`, name),
        );
      } else {
        // A secondary is healthy by its distance to the primary, so without one it needs another word than its state.
        const alone = state === 'SECONDARY' ? ' and its distance to the primary is not known' : '';
        decisions.push(wait('WaitingForMembers', soon(scene), `${name} is ${state}${alone}`, name));
      }
    }
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
