/** The world as it will be when what is waited for has come: so that a plan can be read to its end while a member is down. */
import type { DatabaseFacts, MemberFacts, ReplSetConfig } from './facts.ts';
import { configOf, primaryOf, views } from './interpret.ts';
import { clusterFcv } from './planners/fcv.ts';
import { startedRouter } from './previewRouters.ts';
import { memberOf } from './state.ts';
import { isRouter, memberHost } from './topology.ts';
import type { MemberState, Observed, ObservedMember, State } from './types.ts';

type Reachable = Extract<DatabaseFacts, { kind: 'reachable' }>;

/** Every member of each set is up, in the set and caught up, and every router serves. Null: nobody tells what its set is like. */
export function recovered(observed: Observed, state: State): Observed | null {
  let members = observed.members;
  for (const { name } of state.replicaSets) {
    const well = wellSet(members, { ...observed, members }, state, name);
    if (well === null) return null;
    members = well;
  }
  const settled = withVersion({ ...observed, members }, state);
  return { ...observed, members: withRouters(settled, { ...observed, members: settled }, state) };
}

/** A registered shard has its cluster's compatibility version, which its members tell some seconds later. */
function withVersion(observed: Observed, state: State): readonly ObservedMember[] {
  const { members } = observed;
  const version = clusterFcv(views(state, observed), state);
  const registered = new Set(state.replicaSets.filter((r) => r.registered).map((r) => r.name));
  if (version === null) return members;
  return members.map((m): ObservedMember => {
    const database = m.facts?.database;
    if (database?.kind !== 'reachable' || !registered.has(memberOf(state, m.name)?.replicaSet ?? ''))
      return m;
    return {
      ...m,
      facts: { ...m.facts, database: { ...database, featureCompatibilityVersion: version } },
    } as ObservedMember;
  });
}

/** One that serves stays as it is. */
function withRouters(
  members: readonly ObservedMember[],
  observed: Observed,
  state: State,
): readonly ObservedMember[] {
  return members.map((m): ObservedMember => {
    const member = state.members.find((r) => r.name === m.name && isRouter(r));
    if (member === undefined || member.serviceId === null || member.activated === null) return m;
    const { configVersion } = member.activated;
    const serves = m.connected && m.facts?.configError === null && m.facts.database?.kind === 'reachable';
    if (serves && m.facts.configVersion >= configVersion) return m;
    const facts = startedRouter({ state, observed }, member, configVersion);
    return { ...m, connected: true, observedAt: observed.at, facts };
  });
}

function wellSet(
  members: readonly ObservedMember[],
  observed: Observed,
  state: State,
  set: string,
): readonly ObservedMember[] | null {
  const all = views(state, observed).filter((v) => v.member.replicaSet === set && !isRouter(v.member));
  const config = configOf(all);
  const one = (primaryOf(all) ?? all.find((v) => v.database?.initiated === true))?.database ?? null;
  if (config === null || one === null) return null;
  const inSet = all.filter((v) => config.members.some((row) => row.host === memberHost(v.member)));
  const leader = (primaryOf(all) ?? inSet.find((v) => v.facts !== null) ?? inSet[0])?.member;
  if (leader === undefined) return null;
  return members.map((m): ObservedMember => {
    const member = inSet.find((v) => v.member.name === m.name)?.member;
    if (member === undefined || member.serviceId === null || member.activated === null) return m;
    return {
      ...m,
      connected: true,
      observedAt: observed.at,
      facts: well(m.facts, member, leader, { one, config }),
    };
  });
}

function well(
  facts: MemberFacts | null,
  member: MemberState,
  leader: MemberState,
  { one, config }: { readonly one: Reachable; readonly config: ReplSetConfig },
): MemberFacts {
  const leads = member.name === leader.name;
  const state = leads ? 'PRIMARY' : 'SECONDARY';
  const own = facts?.database?.kind === 'reachable' ? facts.database : one;
  return {
    serviceId: member.serviceId ?? member.name,
    certificate: null,
    volume: null,
    ...facts,
    configVersion: member.activated?.configVersion ?? 0,
    configError: null,
    process: { kind: 'running', pid: 1, since: 0, adopted: false },
    database: {
      ...own,
      binaryVersion: member.deployedVersion ?? own.binaryVersion,
      state,
      writablePrimary: leads,
      primary: memberHost(leader),
      config,
      peers: config.members.map((row) => ({
        id: row._id,
        host: row.host,
        state: row.host === memberHost(leader) ? 'PRIMARY' : 'SECONDARY',
        healthy: true,
        lagMillis: 0,
        message: null,
      })),
    },
  };
}
