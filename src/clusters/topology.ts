/** Names and places of a cluster's parts. */
import type { ConfigMember, ReplSetConfig } from './facts.ts';
import type {
  Desired,
  DesiredComponent,
  DesiredMember,
  MemberRole,
  MemberState,
  ReplicaSetState,
  State,
} from './types.ts';

/** Members that belong together: a replica set, or the routers of a sharded cluster. */
export interface Group {
  /** Name of the replica set, and what its members' names begin with. */
  readonly name: string;
  readonly role: MemberRole;
  readonly shardIndex: number | null;
  readonly component: DesiredComponent;
}

/**
 * The groups a cluster consists of, in the order in which they are made and changed: config servers, shards, routers
 * (A5.3, A8.2). A replica set's name is the resource's name, as users of the Kubernetes resource expect (B1.3).
 */
export function groupsOf(desired: Desired): readonly Group[] {
  const found = groups.get(desired);
  if (found !== undefined) return found;
  const made = makeGroups(desired);
  groups.set(desired, made);
  return made;
}
const groups = new WeakMap<Desired, readonly Group[]>();

function makeGroups(desired: Desired): readonly Group[] {
  const { name, sharded } = desired;
  if (sharded === null) {
    const { members, mongodConfig, memoryBytes, cpus, volumeBytes } = desired;
    const component = { members, mongodConfig, memoryBytes, cpus, volumeBytes };
    return [{ name, role: 'replicaSet', shardIndex: null, component }];
  }
  const shards = Array.from(
    { length: sharded.shardCount },
    (_, i): Group => ({
      name: `${name}-s${i}`,
      role: 'shardServer',
      shardIndex: i,
      component: sharded.shard,
    }),
  );
  return [
    { name: `${name}-cfg`, role: 'configServer', shardIndex: null, component: sharded.config },
    ...shards,
    { name: `${name}-mongos`, role: 'router', shardIndex: null, component: sharded.router },
  ];
}

/** What is set for members of this role. */
export const componentOf = (desired: Desired, role: MemberRole): DesiredComponent | null =>
  groupsOf(desired).find((g) => g.role === role)?.component ?? null;

/** How many members the spec asks for in all. */
export const wantedMembers = (desired: Desired): number =>
  groupsOf(desired).reduce((sum, g) => sum + g.component.members.length, 0);

/** `orders-0`: the member's name. The index is monotonic in its group and never used twice (A2.2). */
export const memberName = (group: string, index: number): string => `${group}-${index}`;

export const isRouter = (member: Pick<MemberState, 'role'>): boolean => member.role === 'router';

/**
 * The service's name on the platform. Other namespaces than `default` are put in front, so that two clusters of one
 * name live side by side; ownership is proven by the marker, never by this name (S4).
 */
export const serviceHostname = (desired: Pick<Desired, 'namespace'>, member: string): string =>
  desired.namespace === 'default' ? member : `${desired.namespace}--${member}`;

/** `host:port`, IPv6 hosts bracketed (A7.4). */
export function hostPort(address: string, port: number): string {
  return address.includes(':') && !address.startsWith('[') ? `[${address}]:${port}` : `${address}:${port}`;
}

/** The member's place in the set, once the platform has placed it. */
export function memberHost(member: MemberState): string | null {
  return member.address === null || member.port === null ? null : hostPort(member.address, member.port);
}

/** Nobody has asked its members to form a set yet. */
export const untouched = (set: Pick<ReplicaSetState, 'stage' | 'initiating'>): boolean =>
  set.stage === 'bootstrap' && !set.initiating;

/** Its number in the order of members: its index, or that of the member whose place it took (A13.3). */
export const placeOf = (member: Pick<MemberState, 'index' | 'place'>): number => member.place ?? member.index;

/** On its way to the place of a member that still has it. */
export const isSubstitute = (state: Pick<State, 'members'>, member: MemberState): boolean =>
  member.replacement !== undefined && state.members.some((m) => m.name === member.replacement?.of);

/** Another is on its way to this one's place. */
export const isBeingReplaced = (state: Pick<State, 'members'>, member: Pick<MemberState, 'name'>): boolean =>
  state.members.some((m) => m.replacement?.of === member.name && m.stage !== 'removing');

/**
 * Members that stay, in the order of their places: the order of `spec.memberConfig`. A substitute counts from when the
 * place is free.
 */
export const stayingMembers = (state: Pick<State, 'members'>): readonly MemberState[] =>
  orderOf(state).members;

interface Order {
  readonly members: readonly MemberState[];
  /** Place in its own group, by name. */
  readonly places: ReadonlyMap<string, number>;
}
/** Worked out once for each list: asked for every member, it would cost the square of their number. */
const orders = new WeakMap<readonly MemberState[], Order>();

function orderOf(state: Pick<State, 'members'>): Order {
  const known = orders.get(state.members);
  if (known !== undefined) return known;
  const members = state.members
    .filter((m) => m.stage !== 'removing' && !isSubstitute(state, m))
    .sort((a, b) => placeOf(a) - placeOf(b));
  const [places, sizes] = [new Map<string, number>(), new Map<string, number>()];
  for (const { name, replicaSet } of members) {
    const place = sizes.get(replicaSet) ?? 0;
    places.set(name, place);
    sizes.set(replicaSet, place + 1);
  }
  const order = { members, places };
  orders.set(state.members, order);
  return order;
}

/** What the spec gives this member; null for one that leaves. On its way to a place: what that place had. */
export function wantedMember(
  state: Pick<State, 'members'>,
  desired: Desired,
  member: MemberState,
): DesiredMember | null {
  if (member.replacement !== undefined && member.stage !== 'removing') return member.replacement.settings;
  const group = groupsOf(desired).find((g) => g.name === member.replicaSet);
  const place = orderOf(state).places.get(member.name);
  return place === undefined ? null : (group?.component.members[place] ?? null);
}

/** A member's row in the set's configuration as the spec wants it. */
export function configRow(member: MemberState, wanted: DesiredMember, host: string): ConfigMember {
  return {
    _id: member.index,
    host,
    priority: wanted.priority,
    votes: wanted.votes,
    ...(wanted.hidden ? { hidden: true } : {}),
    ...(wanted.secondaryDelaySecs > 0 ? { secondaryDelaySecs: wanted.secondaryDelaySecs } : {}),
    ...(Object.keys(wanted.tags).length > 0 ? { tags: wanted.tags } : {}),
  };
}

/** A member the spec says nothing of. */
const PLAIN: DesiredMember = { votes: 1, priority: 1, hidden: false, secondaryDelaySecs: 0, tags: {} };

/**
 * The configuration a new set is initiated with: all configured members at once (A5.1). One that the spec has no place
 * for any more since an initiation was sent is part of it all the same, and leaves when the set runs.
 */
export function initialConfig(state: State, desired: Desired, set = desired.name): ReplSetConfig | null {
  const members: ConfigMember[] = [];
  const own = stayingMembers(state).filter((m) => m.replicaSet === set);
  const { initiating = false, initiatedVia = null } = state.replicaSets.find((r) => r.name === set) ?? {};
  const via = initiating ? initiatedVia : null;
  for (const member of own) {
    const host = memberHost(member);
    const told = wantedMember(state, desired, member) ?? PLAIN;
    // Who was asked to initiate the set has to be able to lead it, whatever the spec has become since (S6).
    const wanted = member.name === via && told.priority === 0 ? PLAIN : told;
    if (host === null) return null;
    members.push(configRow(member, wanted, host));
  }
  // SHD-01: the role stands in the set's own configuration too, not only in the options of its processes.
  const role = own[0]?.role === 'configServer' ? { configsvr: true } : {};
  return { _id: set, version: 1, ...role, members };
}

/**
 * The connection string without a user; null until every member has its place. Every pass asks for it, once for each user,
 * so that the latest answer about a record is kept.
 */
export function connectionString(state: State, desired: Desired): string | null {
  const known = strings.get(state);
  if (known?.desired === desired) return known.text;
  const text = stringFor(state, desired);
  strings.set(state, { desired, text });
  return text;
}
const strings = new WeakMap<State, { readonly desired: Desired; readonly text: string | null }>();

function stringFor(state: State, desired: Desired): string | null {
  // A new member counts for clients once the set knows it; while a set comes back, all its members are known already.
  // Clients of a sharded cluster speak to its routers only.
  const known = stayingMembers(state).filter((m) => desired.sharded === null || isRouter(m));
  const settled =
    state.phase === 'running'
      ? known.filter((m) => m.stage === 'active' || m.stage === 'reloading' || m.stage === 'upgrading')
      : known;
  const hosts = (settled.length > 0 ? settled : known).map(memberHost);
  if (hosts.length === 0 || hosts.includes(null)) return null;
  const tls = clientsUseTls(known, desired);
  const set = desired.sharded === null ? [`replicaSet=${encodeURIComponent(desired.name)}`] : [];
  const options = [...set, ...(tls ? ['tls=true'] : [])];
  return `mongodb://${hosts.join(',')}/${options.length === 0 ? '' : `?${options.join('&')}`}`;
}

/**
 * Clients use TLS as soon as every member accepts it and as long as any demands it; in between as the spec wishes (TLS-08).
 */
function clientsUseTls(members: readonly MemberState[], desired: Desired): boolean {
  const wanted = desired.tlsMode === 'requireTLS' || desired.tlsMode === 'preferTLS';
  const modes = members.flatMap((m) => (m.activated === null ? [] : [m.activated.tlsMode]));
  if (modes.length === 0) return wanted;
  return modes.every((mode) => mode !== 'disabled') && (wanted || modes.includes('requireTLS'));
}
