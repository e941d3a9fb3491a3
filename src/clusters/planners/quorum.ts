import { formatDuration } from '../../base/units.ts';
import type { Decision, Step } from '../decisions.ts';
import type { ConfigMember, ReplSetConfig } from '../facts.ts';
import { type MemberView, majority, primaryOf, stateOf } from '../interpret.ts';
import { memberHost } from '../topology.ts';
import { act, backingOff, blocked, type Planner, type Scene, soon, verdict, wait } from './planner.ts';

/** A set that cannot elect a primary any more, as far as its own members tell. */
export interface LostQuorum {
  readonly config: ReplSetConfig;
  /** Members that answer, the one with the newest write first. */
  readonly up: readonly MemberView[];
  /** Voters that are lost, by name where we know one. */
  readonly down: readonly string[];
  /** Those of them of which no agent tells: only the others have lost them. */
  readonly silent: readonly string[];
  readonly voters: number;
}

/**
 * QRM-01, QRM-03: less than a majority of a set's voters is left. Silence is no proof: a voter counts as down only when its
 * agent says so, or when every member that answers has lost it. Null: there is a primary, a majority, or nobody to ask.
 */
export function lostQuorum(members: readonly MemberView[]): LostQuorum | null {
  const up = members.filter(isUp).sort(byNewestWrite);
  const config = up[0]?.database?.config ?? null;
  if (config === null || primaryOf(members) !== null || up.some((v) => v.database?.primary != null))
    return null;
  const rows = config.members.filter((row) => row.votes === 1);
  const down = rows.filter((row) => isLost(row, members, up));
  if (rows.length - down.length >= majority(rows.length)) return null;
  const viewOf = ({ host }: ConfigMember) => members.find((v) => memberHost(v.member) === host);
  const nameOf = (row: ConfigMember): string => viewOf(row)?.member.name ?? row.host;
  const silent = down.filter((row) => (viewOf(row)?.facts ?? null) === null).map(nameOf);
  return { config, up, down: down.map(nameOf), silent, voters: rows.length };
}

/** It answers and takes part in elections. */
const isUp = (view: MemberView): boolean =>
  view.database?.initiated === true && ['SECONDARY', 'RECOVERING', 'ROLLBACK'].includes(stateOf(view) ?? '');

const byNewestWrite = (a: MemberView, b: MemberView): number =>
  (b.database?.lastAppliedAt ?? 0) - (a.database?.lastAppliedAt ?? 0) || a.member.index - b.member.index;

function isLost(row: ConfigMember, members: readonly MemberView[], up: readonly MemberView[]): boolean {
  const own = members.find((v) => memberHost(v.member) === row.host);
  if (own !== undefined && up.includes(own)) return false;
  const told = own !== undefined && own.facts !== null && own.database === null;
  return told || up.every((v) => v.database?.peers.some((p) => p.host === row.host && !p.healthy) === true);
}

/** What is said of it, with the way out that nobody takes by himself (S5). */
export function quorumLost(scene: Scene, set: string, lost: LostQuorum): Decision {
  const [freshest] = lost.up;
  const newest = freshest?.database?.lastAppliedAt;
  const who = lost.up.map((v) => v.member.name).join(', ');
  const write =
    newest === undefined
      ? ''
      : `; the newest write is in ${freshest?.member.name}, ${formatDuration(roundedAge(scene, newest))} old`;
  return blocked(
    'QuorumLost',
    'person',
    `${set} has lost its majority: ${lostText(lost)}, ${lost.down.length} of ${lost.voters} voters; up: ${who}${write}`,
    `bring one of them back; if they are lost for good, go on without them and without what only they hold: belay force-reconfig ${scene.desired.name} --acknowledge LoseUnreplicatedWrites`,
  );
}

/** Silence is no proof of an end: who is only not heard of is told apart from who is down. */
function lostText({ down, silent }: LostQuorum): string {
  const ended = down.filter((name) => !silent.includes(name));
  return [
    ...(ended.length === 0 ? [] : [`${ended.join(', ')} down`]),
    ...(silent.length === 0 ? [] : [`${silent.join(', ')} not known and reached by nobody`]),
  ].join(', ');
}

/** In whole hours, so that the sentence does not change with every look. */
const roundedAge = (scene: Scene, at: number): number =>
  Math.floor(Math.max(0, scene.now - at) / 3_600_000) * 3_600_000;

/** The configuration of those that are left; the first of them can become primary. */
export function survivorsOnly(config: ReplSetConfig, keep: readonly string[]): readonly ConfigMember[] {
  return config.members
    .filter((row) => keep.includes(row.host))
    .map((row) => {
      if (row.host !== keep[0] || (row.votes === 1 && row.priority > 0)) return row;
      return { ...row, votes: 1 as const, priority: 1, hidden: false, secondaryDelaySecs: 0 };
    });
}

/** Whether a configuration holds nobody but these. */
export const isReduced = (config: ReplSetConfig | null, keep: readonly string[]): boolean =>
  config?.members.every((row) => keep.includes(row.host)) === true;

/** Carries a forced reconfiguration out that a person acknowledged (A13.1); never otherwise (S5). */
export const planForcedReconfig: Planner = (scene) => {
  const { operation } = scene.state;
  if (operation?.work.kind !== 'ForceReconfig' || scene.desired.deleting !== null || scene.desired.suspend)
    return null;
  const { replicaSet, via, keep } = operation.work;
  const members = scene.all.filter((v) => v.member.replicaSet === replicaSet);
  if (primaryOf(members) !== null) return null;
  const config = members.find((v) => v.member.name === via)?.database?.config ?? null;
  if (config === null)
    return verdict([wait('AgentNotConnected', soon(scene), `nothing is known of ${via}`, via)], true);
  if (isReduced(config, keep))
    return verdict([wait('WaitingForPrimary', soon(scene), `${replicaSet} elects among those left`)], true);
  const left = survivorsOnly(config, keep);
  const change = `${replicaSet} goes on with ${left.length} of ${config.members.length} members, forced through ${via}`;
  const step: Step = {
    kind: 'reconfig',
    replicaSet,
    via,
    config: { ...config, version: config.version + 1, members: left },
    change,
    forcedBy: operation.uid,
  };
  return verdict([backingOff(scene, 'reconfig', replicaSet) ?? act('QuorumLost', [step], change)], true);
};
