/** What goes into a member's snapshot besides secrets, and the fingerprint by which a change of it is seen. */
import { type Bytes, GIB } from '../base/units.ts';
import { TLS_MODES, type TlsMode } from '../model/index.ts';
import { loginsNow } from './operations/rotateUsers.ts';
import type { MemberSnapshot } from './snapshot.ts';
import { componentOf, memberHost, serviceHostname, stayingMembers, untouched } from './topology.ts';
import type {
  ActivatedSnapshot,
  Desired,
  GivenCertificate,
  Goal,
  MemberRole,
  MemberState,
  State,
} from './types.ts';

/** A9.6: max(0.25, 0.5·(maxRAM − 0.5)) GB, to two decimals. Without a memory limit: the smallest, so that many members fit one machine. */
export function cacheGb(desired: { readonly memoryBytes: Bytes | null }): number {
  if (desired.memoryBytes === null) return 0.25;
  return Math.max(0.25, Math.floor(0.5 * (desired.memoryBytes / GIB - 0.5) * 100) / 100);
}

/**
 * A6.1, A6.2: changes of resources, config and TLS count; the number of members does not, so that a change of scale alone
 * reloads nobody, and the version has its own way (A8.1). Key order does not count.
 */
export function configFingerprint(
  desired: Pick<Desired, 'tlsMode' | 'mongodConfig' | 'certificateDomains' | 'memoryBytes' | 'cpus'>,
): string {
  return stable({
    tlsMode: desired.tlsMode,
    config: desired.mongodConfig,
    domains: [...desired.certificateDomains].sort(),
    memoryBytes: desired.memoryBytes,
    cpus: desired.cpus,
  });
}

/** JSON with sorted keys. */
export function stable(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(stable).join(',')}]`;
  if (value !== null && typeof value === 'object') {
    const fields = value as Readonly<Record<string, unknown>>;
    const keys = Object.keys(fields).filter((key) => fields[key] !== undefined);
    return `{${keys
      .sort()
      .map((key) => `${JSON.stringify(key)}:${stable(fields[key])}`)
      .join(',')}}`;
  }
  return JSON.stringify(value) ?? 'null';
}

/**
 * The mode all members go to next on the way to the spec's. Members stand at most one step apart; while they do, they are
 * brought together first, onward or back, so that every pair always has a common way to talk (S12).
 */
export function nextTlsMode(current: readonly TlsMode[], wanted: TlsMode): TlsMode {
  if (current.length === 0) return wanted;
  const places = current.map((mode) => TLS_MODES.indexOf(mode));
  const [low, high, goal] = [Math.min(...places), Math.max(...places), TLS_MODES.indexOf(wanted)];
  const next = low !== high ? (goal >= high ? high : low) : goal > low ? low + 1 : goal < low ? low - 1 : low;
  return TLS_MODES[next] ?? wanted;
}

/**
 * What all members are to run now. Before the set is initiated the spec's mode is reached directly (STK-11). Afterwards the
 * next phase begins only when no member is under way in this one, unless that member is down and the way may lead back
 * (`stuck`, STK-04). `settling`: a member of the set was given this phase and does not run with it yet (S12).
 */
export function goalOf(
  state: Pick<State, 'members' | 'replicaSets'>,
  desired: Desired,
  stuck = false,
  settling = false,
): Goal {
  const initiated = !state.replicaSets.every(untouched);
  const current = initiated
    ? state.members.flatMap((m) => (m.activated === null ? [] : [m.activated.tlsMode]))
    : [];
  const underWay = settling || state.members.some((m) => m.stage === 'reloading' || m.stage === 'upgrading');
  const together = current.every((mode) => mode === current[0]);
  const tlsMode =
    underWay && together && !stuck && current[0] !== undefined
      ? current[0]
      : nextTlsMode(current, desired.tlsMode);
  return {
    tlsMode,
    hash: hashOf(desired, 'replicaSet', tlsMode),
    ...(desired.sharded === null ? {} : { roles: roleHashes(state, desired, tlsMode) }),
  };
}

/** A2.2, A6.2: what a role's own settings and, for routers, the list of config servers come to. */
function roleHashes(
  state: Pick<State, 'members' | 'replicaSets'>,
  desired: Desired,
  tlsMode: TlsMode,
): NonNullable<Goal['roles']> {
  return {
    configServer: hashOf(desired, 'configServer', tlsMode),
    shardServer: hashOf(desired, 'shardServer', tlsMode),
    router: `${hashOf(desired, 'router', tlsMode)} ${configServerList(state) ?? ''}`,
  };
}

/** A role's fingerprint. Every pass asks for it, and a spec read once never changes: it is worked out once. */
function hashOf(desired: Desired, role: MemberRole, tlsMode: TlsMode): string {
  const known = hashes.get(desired) ?? new Map<string, string>();
  hashes.set(desired, known);
  const key = `${role} ${tlsMode}`;
  const there = known.get(key);
  if (there !== undefined) return there;
  const { mongodConfig, memoryBytes, cpus } = componentOf(desired, role) ?? desired;
  const hash = configFingerprint({ ...desired, tlsMode, mongodConfig, memoryBytes, cpus });
  known.set(key, hash);
  return hash;
}
const hashes = new WeakMap<Desired, Map<string, string>>();

/** What a member of this role is to run by the goal. */
export const goalHash = (goal: Goal, role: MemberRole): string =>
  (role === 'replicaSet' ? undefined : goal.roles?.[role]) ?? goal.hash;

/**
 * `cfg/host:port,…`: where routers find the config servers that are full members (A5.3). Null: none yet. One that takes
 * another's place is listed instead of it, so that routers restart once for a replacement (A13.3).
 */
export function configServerList(state: Pick<State, 'members'>): string | null {
  const servers = stayingMembers(state).filter((m) => m.role === 'configServer');
  const settled = servers.filter(
    (m) =>
      m.replacement !== undefined ||
      // One whose runtime is made anew beside its volume is a member all the while.
      ((m.stage !== 'planned' || m.volumeId !== null) && m.stage !== 'syncing'),
  );
  const hosts = settled.map(memberHost).filter((h) => h !== null);
  const name = servers[0]?.replicaSet;
  return name === undefined || hosts.length === 0 ? null : `${name}/${hosts.sort().join(',')}`;
}

/** What is remembered of a snapshot once its member has it. */
export function activatedSnapshot(
  state: State,
  desired: Desired,
  member: string,
  configVersion: number,
  certificate: GivenCertificate | null,
): ActivatedSnapshot {
  const goal = state.goal ?? goalOf(state, desired);
  const record = state.members.find((m) => m.name === member) ?? null;
  return {
    configVersion,
    tlsMode: goal.tlsMode,
    configHash: goalHash(goal, record?.role ?? 'replicaSet'),
    cacheGb: cacheGb(componentOf(desired, record?.role ?? 'replicaSet') ?? desired),
    certificate,
    restartToken: restartToken(state, record),
    loginToken: loginsNow(state)?.token ?? record?.activated?.loginToken ?? null,
  };
}

/** The token a member's next snapshot carries: that of a restart it is part of, else the one it has (A13.2). */
export function restartToken(state: Pick<State, 'operation'>, member: MemberState | null): string | null {
  const { operation } = state;
  if (operation?.work.kind === 'Restart' && member !== null && operation.members.includes(member.name))
    return operation.uid;
  return member?.activated?.restartToken ?? null;
}

export type SnapshotInputs = Omit<
  MemberSnapshot,
  'caPem' | 'certificatePem' | 'keyFile' | 'monitor' | 'nextMonitor'
>;

/** The snapshot of one member without its secrets. The member must have been placed. */
export function snapshotInputs(
  state: State,
  desired: Desired,
  member: MemberState,
  configVersion: number,
): SnapshotInputs {
  const goal = state.goal ?? goalOf(state, desired);
  const component = componentOf(desired, member.role) ?? desired;
  const servers = member.role === 'router' ? configServerList(state) : null;
  return {
    configVersion,
    clusterUid: state.uid,
    cluster: `${desired.namespace}/${desired.name}`,
    member: member.name,
    replicaSet: member.replicaSet,
    role: member.role,
    product: member.role === 'router' ? 'mongos' : 'mongod',
    ...(servers === null ? {} : { configServers: servers }),
    version: member.deployedVersion ?? desired.version,
    run: 'running',
    hostname: serviceHostname(desired, member.name),
    port: member.port ?? 0,
    bindIp: member.address === null || member.address === 'localhost' ? [] : ['*'],
    tlsMode: goal.tlsMode,
    cacheGb: cacheGb(component),
    userConfig: component.mongodConfig,
    limits: { memoryBytes: component.memoryBytes, cpus: component.cpus },
    hash: goalHash(goal, member.role),
    restartToken: restartToken(state, member),
    certificatesOnline: false,
  };
}
