/** Order of release series (S7). */
import { SUPPORTED_SERIES, seriesOf } from '../model/index.ts';
import type { MemberView } from './interpret.ts';
import type { Desired, MemberRole, MemberState, State } from './types.ts';

/** How a binary change moves between majors. */
export type MajorStep = 'same' | 'next' | 'skip' | 'down';

const majorOf = (version: string): number => {
  const dot = version.indexOf('.');
  return Number(dot < 0 ? version : version.slice(0, dot));
};

/** Majors on offer, oldest first. */
const MAJORS: readonly number[] = [...new Set(SUPPORTED_SERIES.map(majorOf))].sort((a, b) => a - b);

/** From one pinned build, or series, to another. A major that is not on offer any more counts by its number. */
export function majorStep(from: string, to: string): MajorStep {
  const [a, b] = [majorOf(from), majorOf(to)];
  if (a === b) return 'same';
  if (b < a) return 'down';
  const between = MAJORS.filter((m) => m > a && m < b).length;
  return between === 0 && b - a === 1 ? 'next' : 'skip';
}

/**
 * The newest series known to have run on a member's data: as remembered, as its agent keeps it with the volume, and as it
 * runs now. Null: none is known to, which proves nothing. Routers hold no data.
 */
export function newestRunOf({ member, facts, database }: MemberView): string | null {
  if (member.role === 'router') return null;
  const known = [member.newestRun, facts?.newestRun, seriesOf(database?.binaryVersion ?? '')];
  return known.reduce<string | null>(
    (newest, series) => (series && (newest === null || majorOf(series) > majorOf(newest)) ? series : newest),
    null,
  );
}

/** Whether its agent itself says what has run on its data, so that silence of the record is no gap. */
export const tellsItsRuns = ({ facts }: MemberView): boolean => typeof facts?.newestRun === 'string';

/**
 * The binary a member begins with: that of members that stay, come before it (A8.2) and have not got the wanted one yet, so
 * that no shard is ahead of the config servers and no router ahead of anybody: servers are spoken to by no newer router. It
 * gets the wanted one in its turn. Never one that is older than what has run on its data (S7).
 */
export function firstVersion({ version }: Desired, state: State, member: MemberState): string {
  const registered = new Set(state.replicaSets.filter((r) => r.registered).map((r) => r.name));
  const late = state.members.find(
    (m) =>
      BEFORE[member.role].includes(m.role) &&
      // A set that is no shard yet is spoken to by nobody, and may be older than routers of this cluster can be.
      (m.role !== 'shardServer' || registered.has(m.replicaSet)) &&
      // Of who leaves nobody waits for another binary, but routers speak to it until it has left its shard.
      (m.stage !== 'removing' || m.role === 'shardServer') &&
      m.deployedVersion !== null &&
      m.deployedVersion !== version,
  );
  const older = late?.deployedVersion ?? null;
  const { newestRun } = member;
  const tooOld = older !== null && newestRun !== undefined && majorStep(newestRun, older) === 'down';
  return older === null || tooOld ? version : older;
}

/** Whose binaries are changed before a member's of this role (A8.2). */
const BEFORE: Readonly<Record<MemberRole, readonly MemberRole[]>> = {
  replicaSet: [],
  configServer: [],
  shardServer: ['configServer'],
  router: ['configServer', 'shardServer'],
};
