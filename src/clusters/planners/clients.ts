import { formatDuration } from '../../base/units.ts';
import type { Decision } from '../decisions.ts';
import { isHealthy, type MemberView } from '../interpret.ts';
import { CLIENTS_LOOK } from '../limits.ts';
import { type Scene, wait } from './planner.ts';

/**
 * Drivers look for a member that was away only every `heartbeatFrequencyMS`, and hear of an election at once only from
 * members they know. A hand-over before that costs writes half a second more: the least time between two looks at one
 * server. So a primary stays until its secondaries have been up for that long. Null: nobody came back just now. Clocks of
 * hosts may differ from ours: a start in the future counts as long ago, since this is for comfort and not for safety.
 */
export function clientsMiss(
  scene: Scene,
  primary: MemberView,
  members: readonly MemberView[],
): Decision | null {
  const back = members.flatMap((view) => {
    const process = view.facts?.process;
    if (view === primary || process?.kind !== 'running' || !isHealthy(view, members)) return [];
    const known = process.since + CLIENTS_LOOK;
    return process.since <= scene.now && known > scene.now ? [{ name: view.member.name, known }] : [];
  });
  if (back.length === 0) return null;
  const names = back.map(({ name }) => name).join(', ');
  return wait(
    'ClientsLookAgain',
    Math.max(...back.map(({ known }) => known)),
    `${primary.member.name} hands over when clients know ${names} again: they look for a member that was away every ${formatDuration(CLIENTS_LOOK)}`,
    primary.member.name,
  );
}
