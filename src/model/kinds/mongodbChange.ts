import { equalValues } from '../../base/equal.ts';
import type { Problem } from '../../base/error.ts';
import { findBuild, majorOf } from '../catalog.ts';
import { type Loose, mapAt, numberAt, textAt, valueAt } from '../paths.ts';
import type { Warning } from '../problems.ts';
import { parseBytes } from '../quantity.ts';
import { laterFcvWarnings } from './mongodbFcv.ts';

type Found = { problems: Problem[]; warnings: Warning[] };

/** What may not change in an existing MongoDB, or not in this way (A6.5, A6.6, A8.4, S7). */
export function changeProblems(before: Loose, after: Loose): Found {
  const found: Found = { problems: [], warnings: [] };
  const [old, next] = [mapAt(before, 'spec'), mapAt(after, 'spec')];
  checkImmutable(old, next, found.problems);
  checkShards(before, old, next, found.problems);
  checkShrinking(before, old, next, found.problems);
  checkVersionChange(before, old, next, found);
  checkTlsWithMembers(old, next, found.problems);
  found.warnings.push(...laterFcvWarnings(before, after));
  return found;
}

/** Backups are not part of this version: what works today. */
const COPY = 'copy the data with mongodump and mongorestore';

function checkImmutable(old: Loose, next: Loose, problems: Problem[]): void {
  const fixed: readonly (readonly [string, string])[] = [
    ['type', `create a new database and ${COPY}`],
    ['platform', `create a new database on the other platform and ${COPY}`],
    ['persistent', `create a new database and ${COPY}`],
    ['dataSource', 'use a Restore to restore into an existing database'],
  ];
  for (const [key, instead] of fixed) {
    const [was, is] = [old[key], next[key]];
    // A data source may be taken out once it has done its work, but not exchanged or added later. Others are absent only
    // where another problem kept the defaults from being filled in, and mean what they meant.
    if (is === undefined) continue;
    if (equalValues(was, is)) continue;
    const shown = typeof was === 'object' || was === undefined ? '' : ` (it is ${String(was)})`;
    problems.push({ path: `spec.${key}`, message: `cannot be changed once created${shown}; ${instead}` });
  }
}

// A6.5, A6.7: compared with what is there: a shard of which nothing was made yet can be taken back.
function checkShards(before: Loose, old: Loose, next: Loose, problems: Problem[]): void {
  const [shards, wanted] = [numberAt(old, 'shardCount'), numberAt(next, 'shardCount')];
  if (shards === undefined || wanted === undefined || wanted >= shards) return;
  const made = madeShards(before);
  const known =
    made === null || made >= shards ? '' : `; ${made} of them are made already, the others can be taken back`;
  if (made !== null && wanted >= made) return;
  const message = `cannot shrink from ${shards} to ${wanted}: removing shards is not supported${known}`;
  problems.push({ path: 'spec.shardCount', message });
}

/** What the status tells of a member as soon as anything of it may be on a host. */
const PLACED = ['hostName', 'serviceId', 'importSent'];

/** How many shards there are up to the last of which anything was made; null: the status does not tell. */
function madeShards(before: Loose): number | null {
  const { members, replicaSets } = mapAt(before, 'status');
  if (!Array.isArray(members) || !Array.isArray(replicaSets)) return null;
  const begun = (replicaSets as Loose[])
    .filter((set) => set['stage'] !== 'planned' || set['registered'] === true)
    .map((set) => set['name']);
  const placed = (members as Loose[])
    .filter((member) => PLACED.some((field) => member[field] !== undefined))
    .map((member) => member['replicaSet']);
  const prefix = `${textAt(before, 'metadata', 'name')}-s`;
  const indexes = [...begun, ...placed]
    .filter((name): name is string => typeof name === 'string' && name.startsWith(prefix))
    .map((name) => Number(name.slice(prefix.length)));
  return Math.max(0, ...indexes.map((index) => index + 1));
}

/** Where a size is set, and for which members: parts of a sharded cluster follow the cluster where they say nothing. */
const SIZES: readonly (readonly [readonly string[], readonly string[]])[] = [
  [[], ['replica', 'shard', 'config']],
  [['shard'], ['shard']],
  [['configSrv'], ['config']],
];

// A6.6: compared with what is there, not with what was once wished for: a wish that no disk could hold can be taken back.
function checkShrinking(before: Loose, old: Loose, next: Loose, problems: Problem[]): void {
  for (const [place, roles] of SIZES) {
    const path = [...place, 'storage', 'size'];
    const [was, is] = [textAt(old, ...path), textAt(next, ...path)];
    const [from, to] = [parseBytes(was ?? ''), parseBytes(is ?? '')];
    if (!from.ok || !to.ok || to.value >= from.value) continue;
    const own = place.length > 0 ? roles : roles.filter((role) => !hasOwnSize(next, role));
    const there = largestVolume(before, own);
    if (there !== null && to.value >= there.bytes) continue;
    const what = there === null ? was : `the ${sizeText(there.bytes)} that the volume of ${there.member} has`;
    const message = `cannot shrink from ${what} to ${is}: volumes only grow`;
    problems.push({ path: `spec.${path.join('.')}`, message });
  }
}

const hasOwnSize = (spec: Loose, role: string): boolean => {
  const part = role === 'shard' ? 'shard' : role === 'config' ? 'configSrv' : null;
  return part !== null && textAt(spec, part, 'storage', 'size') !== undefined;
};

/** The largest volume of members of these roles, 0 bytes when none was made yet; null: the status does not tell. */
function largestVolume(before: Loose, roles: readonly string[]): { member: string; bytes: number } | null {
  const members: unknown = mapAt(before, 'status').members;
  if (!Array.isArray(members)) return null;
  let largest = { member: '', bytes: 0 };
  for (const member of members as Loose[]) {
    const [role, stage] = [textAt(member, 'role') ?? '', textAt(member, 'stage')];
    if (!roles.includes(role) || stage === 'removing') continue;
    const bytes = numberAt(member, 'volumeBytes');
    // Only a member that was never placed is known to have none.
    if (bytes === undefined && stage !== 'planned') return null;
    if ((bytes ?? 0) > largest.bytes) largest = { member: textAt(member, 'name') ?? '', bytes: bytes ?? 0 };
  }
  return largest;
}

/** In the largest unit that gives a whole number, as sizes are written in documents. */
function sizeText(bytes: number): string {
  const units = ['', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi'];
  let [size, unit] = [bytes, 0];
  while (size >= 1024 && size % 1024 === 0 && unit < units.length - 1) [size, unit] = [size / 1024, unit + 1];
  return `${size}${units[unit]}`;
}

function checkVersionChange(before: Loose, old: Loose, next: Loose, found: Found): void {
  const [was, is] = [textAt(old, 'version'), textAt(next, 'version')];
  if (was === undefined || is === undefined || was === is || findBuild(is) === undefined) return;
  const [from, to] = [majorOf(was), majorOf(is)];
  if (from === undefined || to === undefined) return;
  const path = 'spec.version';
  if (to === from - 1 && neverRan(before, to)) {
    found.warnings.push({ path, message: `takes ${was} back, which no member runs yet`, once: true });
  } else if (to < from) {
    const message = `cannot go from ${was} down to ${is}: downgrades across major versions are not supported; create a new database and ${COPY}`;
    found.problems.push({ path, message });
  } else if (to > from + 1) {
    const message = `cannot go from ${was} to ${is} in one step: upgrade to ${from + 1}.0 first, then raise its feature compatibility version`;
    found.problems.push({ path, message });
  } else if (to === from + 1) {
    checkFcvBeforeMajor(before, is, from, found);
  } else if (compareBuilds(is, was) < 0) {
    found.warnings.push({ path, message: `${is} is older than ${was}, which runs now`, once: true });
  }
}

// S7: an upgrade whose first member fails to start is put back, not downgraded: its FCV is in force, and no newer binary has
// ever answered with anybody's data. A member of which that is not known may have run it.
function neverRan(before: Loose, major: number): boolean {
  if (textAt(before, 'status', 'featureCompatibilityVersion') !== `${major}.0`) return false;
  const listed: unknown = mapAt(before, 'status').members;
  const members = (Array.isArray(listed) ? listed : []).filter(
    (m: Loose) => textAt(m, 'role') !== 'router' && textAt(m, 'stage') !== 'planned',
  );
  const isOlder = (m: Loose): boolean =>
    [textAt(m, 'version'), textAt(m, 'newestRun')].every((v) => v === undefined || majorOf(v) === major) &&
    textAt(m, 'newestRun') !== undefined;
  return members.length > 0 && members.every(isOlder);
}

// A8.4: the next major needs the old major's FCV in force; it is observed, and absent before the first reading.
function checkFcvBeforeMajor(before: Loose, version: string, from: number, found: Found): void {
  const fcv = textAt(before, 'status', 'featureCompatibilityVersion');
  if (fcv === undefined || fcv === `${from}.0`) return;
  const message = `cannot go to ${version} while the feature compatibility version is ${fcv}: it must be ${from}.0; raise it with belay raise-fcv`;
  found.problems.push({ path: 'spec.version', message });
}

function compareBuilds(a: string, b: string): number {
  const [left, right] = [a, b].map((text) => text.split(/[.-]/).map(Number));
  for (const [index, value] of (left ?? []).entries()) {
    const difference = value - (right?.[index] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

function checkTlsWithMembers(old: Loose, next: Loose, problems: Problem[]): void {
  const mode = ['security', 'tls', 'mode'];
  const off = valueAt(old, mode) !== 'disabled' && valueAt(next, mode) === 'disabled';
  if (!off || old['members'] === next['members']) return;
  const message = 'cannot be turned off together with a change of spec.members; apply one after the other';
  problems.push({ path: 'spec.security.tls.mode', message });
}
