/**
 * One reading of the world around a cluster. Members come from memory; operations, services and users each from their
 * own source, side by side and bounded (A7.1): a source that does not answer spoils nothing of the others.
 */
import { DAY, type Millis } from '../base/units.ts';
import {
  activeOverride,
  CERTIFICATE_RENEWAL,
  type Desired,
  everyMember,
  type HandOverRequest,
  type InMaintenance,
  type MemberState,
  memberOf,
  type Observed,
  type ObservedHost,
  type ObservedMember,
  type OperationFacts,
  type PendingOperation,
  type ServiceFacts,
  type State,
  serviceHostname,
} from '../clusters/index.ts';
import type { Gate } from '../engine/gate.ts';
import type { Informer } from '../engine/informer.ts';
import type { Agents, Clock, Fence, HostReport, Platform, StoredObject } from '../engine/ports.ts';
import type { Subject } from '../engine/provider.ts';
import { memberKey } from '../maintenance/index.ts';
import type { Credentials } from './credentials.ts';
import { type OperationIndex, requestOf } from './operationObjects.ts';
import type { Returning } from './returning.ts';
import type { ServiceLists } from './services.ts';
import { type UserIndex, type UserObject, type UserSecrets, userObjects } from './userObjects.ts';
import { OBSERVATION_LIMIT, within } from './within.ts';

/** The planner's reading, and the documents behind its users. */
export interface Reading extends Observed {
  readonly userObjects: readonly UserObject[];
  /** Documents behind `requests`. */
  readonly operationObjects: readonly StoredObject[];
}

export interface ObserveDeps {
  readonly agents: Agents;
  readonly platform: Platform;
  readonly clock: Clock;
  readonly informer: Informer;
  readonly services: ServiceLists;
  readonly credentials: Credentials;
  readonly userIndex: UserIndex;
  readonly operationIndex: OperationIndex;
  readonly userSecrets: UserSecrets;
  readonly returning: Returning;
  /** The right to act on an object now; null: another holds it. */
  readonly fenceOf: (uid: string) => Fence | null;
  /** Whom people's maintenance tasks wait for. */
  readonly gate?: Pick<Gate, 'handOvers' | 'holderOf' | 'hostHolderOf'>;
  /** Ports on a host that members of other clusters come back to, though they may be suspended now. */
  readonly portsKept: (
    host: string,
    uid: string,
  ) => readonly { readonly port: number; readonly by: string }[];
}

type Cluster = Subject<Desired, State>;

/**
 * Takes the reading. `fresh`: nothing that decides about an effect comes from a cache. `everywhere`: hosts without a member
 * are looked at too, for plans of what is not asked for yet.
 */
export async function observe(
  deps: ObserveDeps,
  cluster: Cluster,
  fresh: boolean,
  everywhere = false,
): Promise<Reading> {
  const { object, state } = cluster;
  const at = deps.clock.now();
  const wanted = deps.operationIndex.open(object);
  const placing = everywhere || unplaced(state) || wanted.some(looksForPlace);
  const silent = silentAbout(deps.agents, state);
  const [started, lost, first, users] = await Promise.all([
    readOperations(deps, state),
    lostOperations(deps, cluster),
    needsServices(cluster) || placing || silent.size > 0
      ? readServices(deps, cluster, fresh ? new Set([...asked(state), ...silent]) : silent)
      : null,
    userObjects(deps.userIndex, deps.userSecrets, object, state, fresh),
  ]);
  const { operations, platform } = await settleForgotten(deps, cluster, { ...started, ...lost }, first);
  return {
    at,
    members: state.members.map((member) => readMember(deps.agents, member)),
    services: platform?.ours ?? null,
    operations,
    hosts: readHosts(deps, cluster, platform?.lists ?? null, placing),
    users: users.filter((user) => user.refused === null).map((user) => user.desired),
    capabilities: deps.platform.capabilities,
    userObjects: users,
    operationObjects: wanted,
    requests: wanted.map(requestOf),
    handOvers: handOversOf(deps, cluster),
    maintenance: maintenanceOf(deps, cluster),
    authority: deps.credentials.authority,
  };
}

/**
 * Until when an agent that carries a member is still expected back after a start. What is said of the cluster before would
 * take silence for absence. An agent that came and went again is not waited for.
 */
export function expecting(deps: ObserveDeps, { state }: Cluster): Millis | null {
  const until = deps.returning.until;
  if (deps.clock.now() >= until) return null;
  return state.members.some(({ host }) => host !== null && deps.agents.host(host) === null) ? until : null;
}

/**
 * All that a reading of a cluster at rest is made of, by identity: reports, documents, fingerprints. Null: a reading would
 * have to ask somebody. It costs a few microseconds, which is what makes ten thousand clusters at rest cheap.
 */
export function basis(deps: ObserveDeps, cluster: Cluster): readonly unknown[] | null {
  const { object, state } = cluster;
  if (state.pending.length > 0 || needsServices(cluster)) return null;
  const parts: unknown[] = [];
  for (const { host, serviceId } of state.members) {
    if (host === null || serviceId === null) return null;
    const report = deps.agents.host(host);
    const facts = deps.agents.member({ host, serviceId })?.facts;
    parts.push(facts, report?.facts, report?.connected, deps.informer.get(hostKey(host)));
  }
  const asked = deps.operationIndex.open(object);
  if (asked.some(looksForPlace)) return null;
  parts.push(
    ...asked,
    ...certificateBasis(deps, state),
    JSON.stringify([handOversOf(deps, cluster), maintenanceOf(deps, cluster)]),
    // It ends by itself, and that is said.
    activeOverride(cluster.desired, state, deps.clock.now()) !== null,
  );
  for (const user of deps.userIndex.of(object.metadata)) {
    const fingerprint = deps.userSecrets.known(user);
    if (fingerprint === undefined) return null;
    parts.push(user, fingerprint);
  }
  return parts;
}

/** Those of this cluster's members whom a person's maintenance task waits for. */
function handOversOf({ gate }: ObserveDeps, { desired, state }: Cluster): readonly HandOverRequest[] {
  const all = gate?.handOvers() ?? [];
  if (all.length === 0) return [];
  const names = new Map(state.members.map(({ name }) => [memberKey(desired.namespace, name), name]));
  return all.flatMap(({ node, ...asked }) => {
    const member = names.get(node);
    return member === undefined ? [] : [{ ...asked, member }];
  });
}

/** Those of its members that a person's task holds. */
function maintenanceOf({ gate }: ObserveDeps, { desired, state }: Cluster): readonly InMaintenance[] {
  if (gate === undefined) return [];
  return state.members.flatMap(({ name }) => {
    const holder = gate.holderOf(memberKey(desired.namespace, name));
    return holder === null ? [] : [{ member: name, ...holder }];
  });
}

/** Time passes without anybody saying so: what of it matters to certificates, in days (A9.4). */
function certificateBasis({ credentials, clock }: ObserveDeps, state: State): readonly unknown[] {
  const { trust, issuer, notAfter } = credentials.authority;
  const ends = state.members.map((m) => m.activated?.certificate?.notAfter ?? notAfter);
  const left = Math.floor((Math.min(notAfter, ...ends) - clock.now()) / DAY);
  return [trust, issuer, left * DAY <= CERTIFICATE_RENEWAL ? left : null];
}

const hostKey = (name: string) => ({ kind: 'Host', namespace: 'default', name });

function readMember(agents: Agents, member: MemberState): ObservedMember {
  const { name, host, serviceId } = member;
  if (host === null || serviceId === null) return { name, facts: null, observedAt: null, connected: false };
  const report = agents.member({ host, serviceId });
  return {
    name,
    facts: report?.facts ?? null,
    observedAt: report?.observedAt ?? null,
    connected: agents.host(host)?.connected ?? false,
  };
}

// ── operations ─────────────────────────────────────────────────────────────────────────────────────────────────────

type Operations = Readonly<Record<string, OperationFacts>>;

/** A started operation; the host an import was sent to is kept, since the member has none yet. */
export type Pending = PendingOperation & { readonly host?: string };

async function readOperations(deps: ObserveDeps, state: State): Promise<Operations> {
  const facts: Record<string, OperationFacts> = {};
  await Promise.all(
    state.pending.map(async ({ stepId, operationId }) => {
      if (operationId === null) return;
      const asked = deps.platform.operation(operationId);
      const seen = await within(deps.clock, OBSERVATION_LIMIT, 'operation', asked).catch(() => null);
      if (seen !== null) facts[stepId] = seen;
    }),
  );
  return facts;
}

/**
 * Operations whose id never came back may have been started or not: their host is asked for the step itself. One that it
 * never heard of counts as unknown: services are looked at and the step is planned anew. Until it can be asked it is
 * waited for: planned anew somewhere else, a member could come to be twice (S10).
 */
async function lostOperations(deps: ObserveDeps, { object, state }: Cluster): Promise<Operations> {
  const facts: Record<string, OperationFacts> = {};
  // Who does not hold the lease only looks on: it must not move the hosts' epochs.
  const fence = deps.fenceOf(object.metadata.uid);
  if (fence === null) return facts;
  await Promise.all(
    (state.pending as readonly Pending[]).map(async ({ stepId, operationId, host, member }) => {
      const where = host ?? memberOf(state, member)?.host ?? null;
      if (operationId !== null || where === null) return;
      const asked = deps.platform.operationOf(where, stepId, fence);
      const seen = await within(deps.clock, OBSERVATION_LIMIT, 'operation', asked).catch(() => null);
      if (seen !== null) facts[stepId] = seen;
    }),
  );
  return facts;
}

// ── services ───────────────────────────────────────────────────────────────────────────────────────────────────────

/** Services count only while members are to be placed, adopted or taken down; a running cluster asks nobody. */
function needsServices({ desired, state }: Cluster): boolean {
  return desired.deleting !== null || desired.suspend || unplaced(state);
}

const unplaced = (state: State): boolean =>
  everyMember(state).some((member) => member.stage === 'planned' || member.stage === 'removing');

/** Operations for which a place is looked for before they begin (A13.7). */
const looksForPlace = ({ spec }: StoredObject): boolean =>
  ['Replace', 'Move'].includes((spec as { readonly type?: string }).type ?? '');

interface PlatformReading {
  readonly ours: readonly ServiceFacts[] | null;
  readonly lists: ReadonlyMap<string, readonly ServiceFacts[]>;
}

/** Connected hosts that do not report a member they carry: its runtime may be gone (A4.6). Their lists tell. */
function silentAbout(agents: Agents, state: State): ReadonlySet<string> {
  const hosts = new Set<string>();
  for (const { host, serviceId } of state.members) {
    if (host === null || serviceId === null || agents.host(host)?.connected !== true) continue;
    if (agents.member({ host, serviceId }) === null) hosts.add(host);
  }
  return hosts;
}

/** Hosts whose services an effect may depend on. */
const asked = (state: State): ReadonlySet<string> =>
  new Set([
    ...everyMember(state)
      .map((member) => member.host)
      .filter((host) => host !== null),
    ...pendingHosts(state),
  ]);

/** `anew`: hosts that are asked again, whatever is remembered of them. */
async function readServices(
  deps: ObserveDeps,
  cluster: Cluster,
  anew: ReadonlySet<string>,
): Promise<PlatformReading> {
  const { desired, state } = cluster;
  const members = everyMember(state);
  const placed = members.map((member) => member.host).filter((host) => host !== null);
  const placing = desired.deleting === null && !desired.suspend;
  const reachable = deps.agents
    .hosts()
    .filter((host) => host.connected)
    .map((host) => host.facts.name);
  const hosts = placing ? reachable : reachable.filter((name) => mayCarry(cluster, placed, name));
  const lists = await deps.services.of([...new Set(hosts)], anew);
  // Taking down needs every answer: a runtime that is not seen would be left running. Placing goes on elsewhere.
  const enough = placing ? hosts.length === 0 || lists.size > 0 : hosts.every((host) => lists.has(host));
  if (!enough) return { ours: null, lists };
  const names = new Set(members.map((member) => serviceHostname(desired, member.name)));
  const ids = new Set(members.flatMap((member) => [member.serviceId, member.volumeId]));
  const ours: ServiceFacts[] = [];
  for (const item of [...lists.values()].flat()) {
    if (item.owner?.clusterUid !== state.uid && !names.has(item.hostname) && !ids.has(item.id)) continue;
    ours.push(await proven(deps.credentials, state.uid, item));
  }
  return { ours, lists };
}

/** Hosts a member is or may be on: an interrupted import may have left one anywhere the spec allows. */
const mayCarry = ({ desired }: Cluster, placed: readonly string[], host: string): boolean =>
  placed.includes(host) || desired.hosts === null || desired.hosts.includes(host);

/**
 * An import that its host has no memory of may have been done all the same (A4.6): what it made is found by our marker on
 * a list of that host's services made after the question, and the import counts as done with it. Without such a list
 * nothing is concluded: planned anew on another host, a member could come to be twice (S10).
 */
async function settleForgotten(
  deps: ObserveDeps,
  cluster: Cluster,
  seen: Operations,
  first: PlatformReading | null,
): Promise<{ readonly operations: Operations; readonly platform: PlatformReading | null }> {
  const forgotten = (cluster.state.pending as readonly Pending[]).filter(
    ({ action, stepId }) => action === 'import' && seen[stepId]?.kind === 'unknown',
  );
  const hosts = new Set(forgotten.map(({ host }) => host).filter((host) => host !== undefined));
  if (hosts.size === 0 || first === null) return { operations: seen, platform: first };
  const platform = await readServices(deps, cluster, hosts);
  const operations: Record<string, OperationFacts> = { ...seen };
  for (const { stepId, member, host } of forgotten) {
    if (host === undefined) continue;
    delete operations[stepId];
    const { ours } = platform;
    const own = (ours ?? []).filter(
      ({ owner, ...item }) =>
        item.host === host && owner?.clusterUid === cluster.state.uid && owner.member === member,
    );
    if (platform.lists.has(host)) operations[stepId] = importedBefore(deps, own, host);
  }
  return { operations, platform };
}

function importedBefore(deps: ObserveDeps, own: readonly ServiceFacts[], host: string): OperationFacts {
  const runtime = own.find((item) => item.kind === 'runtime' && item.port !== null);
  if (runtime === undefined) return { kind: 'unknown' };
  const volume = own.find((item) => item.kind === 'volume');
  const address = addressOf(deps, host);
  const result = { serviceId: runtime.id, host, address, port: runtime.port as number };
  return { kind: 'succeeded', result: volume === undefined ? result : { ...result, volumeId: volume.id } };
}

/** How a host is reached: its document's word, or its agent's. */
function addressOf({ informer, agents }: ObserveDeps, host: string): string {
  const document = informer.get(hostKey(host));
  return hostSpec(document)?.address ?? agents.host(host)?.facts.address ?? host;
}

const pendingHosts = (state: State): readonly string[] =>
  (state.pending as readonly Pending[]).map((p) => p.host).filter((host) => host !== undefined);

/** A marker that names us without our proof is not ours (A4.3). */
async function proven(credentials: Credentials, uid: string, item: ServiceFacts): Promise<ServiceFacts> {
  if (item.owner?.clusterUid !== uid) return item;
  return (await credentials.isGenuine(uid, item.owner)) ? item : { ...item, owner: null };
}

// ── hosts ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/** All hosts while members are to be placed, else those that carry one. */
function readHosts(
  deps: ObserveDeps,
  { object, state }: Cluster,
  lists: ReadonlyMap<string, readonly ServiceFacts[]> | null,
  placing: boolean,
): readonly ObservedHost[] {
  const placed = new Set(state.members.map((member) => member.host));
  const reports = placing ? deps.agents.hosts() : carrying(deps.agents, placed);
  const read = reports.map((host) => {
    const listed = lists?.get(host.facts.name);
    // While placing, a host that does not list its services is not one to place on.
    const connected = host.connected && (lists === null || listed !== undefined);
    const seen = readHost({ ...host, connected }, deps.informer, listed ?? [], state.uid);
    if (!placing) return seen;
    const kept = deps.portsKept(seen.name, object.metadata.uid);
    const maintenance = deps.gate?.hostHolderOf(seen.name) ?? null;
    return {
      ...seen,
      portsTaken: [...seen.portsTaken, ...kept],
      ...(maintenance === null ? {} : { maintenance }),
    };
  });
  return placing ? [...read, ...silentHosts(deps, reports)] : read;
}

/** A running cluster looks at its own hosts only, however many there are. */
function carrying(agents: Agents, placed: ReadonlySet<string | null>): readonly HostReport[] {
  return [...placed].flatMap((name) => (name === null ? [] : (agents.host(name) ?? [])));
}

/** Hosts that joined once and have not connected since this control plane started: to be waited for, not missing. */
function silentHosts({ informer }: ObserveDeps, reports: readonly HostReport[]): readonly ObservedHost[] {
  const known = new Set(reports.map((host) => host.facts.name));
  return informer
    .all('Host')
    .filter((document) => !known.has(document.metadata.name))
    .map((document) => ({
      name: document.metadata.name,
      address: hostSpec(document)?.address ?? document.metadata.name,
      connected: false,
      schedulable: isSchedulable(document),
      firstPort: (document?.spec as { readonly firstPort?: number } | undefined)?.firstPort ?? null,
      fingerprint: null,
      executables: {},
      memberCount: 0,
      portsTaken: [],
    }));
}

function readHost(
  report: HostReport,
  informer: Informer,
  services: readonly ServiceFacts[],
  uid: string,
): ObservedHost {
  const { facts } = report;
  const document = informer.get(hostKey(facts.name));
  const runtimes = services.filter((service) => service.kind === 'runtime');
  return {
    name: facts.name,
    address: hostSpec(document)?.address ?? facts.address,
    connected: report.connected,
    schedulable: isSchedulable(document),
    firstPort: (document?.spec as { readonly firstPort?: number } | undefined)?.firstPort ?? null,
    fingerprint: facts.fingerprint,
    executables: facts.executables,
    memberCount: runtimes.length,
    ...(facts.diskTotalBytes > 0
      ? { disk: { totalBytes: facts.diskTotalBytes, freeBytes: facts.diskFreeBytes } }
      : {}),
    portsTaken: runtimes
      .filter((service) => service.port !== null && service.owner?.clusterUid !== uid)
      .map((service) => ({ port: service.port as number, by: service.hostname })),
  };
}

interface HostSpec {
  readonly address?: string;
  readonly unschedulable?: boolean;
}
const hostSpec = (document: StoredObject | null): HostSpec | null => document?.spec as HostSpec | null;

/** A host without a document takes members. */
const isSchedulable = (document: StoredObject | null): boolean => hostSpec(document)?.unschedulable !== true;
