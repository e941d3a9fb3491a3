/** Managed databases as a part of the fleet: what their documents want and their statuses say. */
import type { MemberStatus, MongoDBSpec, MongoDBStatus } from '../model/index.ts';
import { memberKey } from './admit.ts';
import type { FleetSpec, LimitSetSpec, NodeSpec, NodeState, ReplicaSetSpec } from './fleetSpec.ts';
import { DEFAULT_LIMIT_PERCENT } from './limits.ts';

/** A managed database as the store has it. */
export interface ManagedDatabase {
  readonly namespace: string;
  readonly name: string;
  readonly spec: MongoDBSpec;
  readonly status: MongoDBStatus | null;
}

/** Members that hold or will hold no data yet, and such whose runtime was removed on purpose. */
const NOT_THERE: ReadonlySet<string> = new Set(['planned', 'suspended']);

/** Members that the set counted on; nothing else is known of those that nobody reports. */
const SERVES: ReadonlySet<string> = new Set(['active', 'reloading', 'upgrading']);

/**
 * The part of the fleet one database makes up. `hostUp` says whether a host's agent is heard; behind one that is not,
 * nothing is known, and unknown counts as down (C5.3).
 */
export function managedFleet(database: ManagedDatabase, hostUp: (host: string) => boolean): FleetSpec {
  const { namespace, name, status } = database;
  const members = (status?.members ?? []).filter(
    (m) => m.hostName !== undefined && !NOT_THERE.has(m.stage ?? ''),
  );
  const cluster = `${namespace}/${name}`;
  const nodes = members.map((m) => nodeOf(namespace, cluster, m, hostUp));
  const routers = members.filter((m) => m.role === 'router').map((m) => memberKey(namespace, m.name));
  const limits: readonly LimitSetSpec[] =
    routers.length === 0
      ? []
      : [
          {
            kind: 'routers',
            name: cluster,
            nodes: routers,
            nodesLimit: 0,
            percentLimit: DEFAULT_LIMIT_PERCENT,
          },
        ];
  return { nodes, replicaSets: setsOf(database, members), limits };
}

function nodeOf(
  namespace: string,
  cluster: string,
  member: MemberStatus,
  hostUp: (host: string) => boolean,
): NodeSpec {
  const { hostName = '', version, state, startedAt, port, message } = member;
  return {
    key: memberKey(namespace, member.name),
    name: member.name,
    host: hostName,
    kind: member.role === 'router' ? 'router' : 'member',
    state: hostUp(hostName) && member.voteSent !== true ? stateOf(member) : 'unknown',
    startedAt: startedAt === undefined ? null : Date.parse(startedAt),
    disks: [],
    cluster,
    ...(version === undefined ? {} : { version }),
    ...(state === undefined ? {} : { role: state }),
    ...(message === undefined ? {} : { note: message }),
    ...(port === undefined ? {} : { port }),
  };
}

function stateOf({ health }: MemberStatus): NodeState {
  if (health === 'healthy') return 'up';
  return health === 'unhealthy' ? 'down' : 'unknown';
}

function setsOf(database: ManagedDatabase, members: readonly MemberStatus[]): readonly ReplicaSetSpec[] {
  const { namespace, name, spec } = database;
  const bySet = new Map<string, MemberStatus[]>();
  for (const member of members) {
    if (member.role === 'router') continue;
    const set = member.replicaSet ?? name;
    const known = bySet.get(set);
    if (known === undefined) bySet.set(set, [member]);
    else known.push(member);
  }
  const keyOf = (set: string): string => `${namespace}/${set}`;
  const config = [...bySet].find(([, of]) => of[0]?.role === 'config')?.[0];
  return [...bySet].map(([set, of]): ReplicaSetSpec => {
    // Who is not in the set's configuration has no vote yet. Where that is not known, whoever ever served counts (C5.3).
    const unlisted = (m: MemberStatus): number =>
      of.every((other) => other.votes === undefined) || SERVES.has(m.stage ?? '') ? 1 : 0;
    const role = of[0]?.role === 'config' ? 'config' : of[0]?.role === 'shard' ? 'shard' : 'replicaSet';
    return {
      key: keyOf(set),
      role,
      writeConcern: 'majority',
      interruption: spec.maintenance?.interruption === 'Allowed',
      ...(spec.paused ? { paused: true } : {}),
      members: of.map((m) => ({
        node: memberKey(namespace, m.name),
        // One that may vote by now counts, and is not counted on: the set can spare nobody in either case (C5.3).
        votes: m.voteSent !== true && (m.votes ?? unlisted(m)) === 0 ? 0 : 1,
        priority: m.priority ?? 1,
        data: m.state !== 'ARBITER',
      })),
      ...(role === 'shard' && config !== undefined ? { configSet: keyOf(config) } : {}),
    };
  });
}
