/** Adds the provider to an engine and leads events to the clusters they are about. */
import { type Desired, everyMember, type State } from '../clusters/index.ts';
import type { Engine } from '../engine/engine.ts';
import { Executor } from '../engine/executor.ts';
import type { Gate } from '../engine/gate.ts';
import type { ObjectChanged } from '../engine/informer.ts';
import { askedForMore } from '../engine/informer.ts';
import type {
  AgentChange,
  Agents,
  CertificateAuthority,
  Clock,
  Log,
  Platform,
  Secrets,
  Store,
} from '../engine/ports.ts';
import type { Subject } from '../engine/provider.ts';
import { Credentials } from './credentials.ts';
import { type MongoDBProvider, mongodbProvider } from './mongodb.ts';
import { OperationIndex, operationTarget } from './operationObjects.ts';
import { orphanedUsers } from './orphans.ts';
import { Returning } from './returning.ts';
import { watchSealed } from './sealedWatch.ts';
import { ServiceLists } from './services.ts';
import { clusterKeyOf, passwordSecret, UserIndex, UserSecrets } from './userObjects.ts';

export interface ProviderOptions {
  readonly engine: Engine;
  readonly store: Store;
  readonly secrets: Secrets;
  readonly ca: CertificateAuthority;
  readonly agents: Agents;
  readonly platform: Platform;
  readonly clock: Clock;
  readonly log: Log;
  readonly installation: string;
  readonly agentVersion: string;
  /** Who grants what takes a member down (C3.2). */
  readonly gate?: Gate;
  /** How urgent our own work is beside people's tasks; a smaller number is more urgent. */
  readonly maintenancePriority?: number;
}

export interface RunningProvider {
  /** For looking without acting: `belay plan` reads the world through it. */
  readonly provider: MongoDBProvider;
  /** Members a host carries, as `namespace/name` of the member's cluster and its own name: `default/orders-0`. */
  membersOn(host: string): readonly string[];
  /** A sealed secret was written or removed by somebody else: users that refer to it are looked at. */
  secretChanged(name: string): void;
  /** Another bundle or issuer of certificates: every cluster is looked at. */
  authorityChanged(): void;
  close(): void;
}

/** Kinds the provider keeps in memory. */
export const PROVIDER_KINDS = ['MongoDB', 'MongoDBUser', 'Host', 'Operation'] as const;

/** Call before the engine opens. */
export function addProvider(options: ProviderOptions): RunningProvider {
  const { engine, store, secrets, clock, log, agents, platform } = options;
  const { informer, leases, metrics } = engine;
  const userSecrets = new UserSecrets(secrets);
  const userIndex = new UserIndex(informer);
  const operationIndex = new OperationIndex(informer);
  const services = new ServiceLists(platform, clock, log);
  const places = new Places();
  const returning = new Returning(clock);
  const deps = {
    ...options,
    fenceOf: (uid: string) => leases.fence(uid),
    portsKept: (host: string, uid: string) => places.portsOn(host, uid),
    informer,
    services,
    userSecrets,
    credentials: new Credentials(secrets, options.ca),
    userIndex,
    operationIndex,
    returning,
  };
  const provider = mongodbProvider(deps, (cluster) => places.learn(cluster));
  const { gate } = options;
  const executor = new Executor({
    provider,
    store,
    informer,
    leases,
    clock,
    log,
    metrics,
    ...(gate === undefined ? {} : { gate }),
  });
  engine.add(executor);
  const stopGate = gate?.onChange(() => {
    const wanted = new Set(gate.handOvers().map(({ node }) => node));
    const moved = places.moved((name) => wanted.has(name) || gate.holderOf(name) !== null);
    for (const uid of new Set([...executor.waitingAtGate(), ...moved])) engine.wake('MongoDB', uid);
  });
  const wake = (kind: string, uid: string): void => engine.wake(kind, uid);
  engine.add(orphanedUsers({ store, clock, userSecrets }, { informer, leases, metrics, wake }));

  informer.onChange((change) => wakeForUsers(engine, userIndex, change));
  informer.onChange((change) => wakeForOperations(engine, change));
  informer.onChange(({ before, after }) => {
    if (after === null && before?.kind === 'MongoDB') places.forget(before.metadata.uid);
  });
  const secretChanged = (name: string): void => {
    userSecrets.changed(name);
    for (const user of informer.all('MongoDBUser')) {
      if (passwordSecret(user)?.startsWith(name)) wakeCluster(engine, user);
    }
  };
  const ready = (): void => userSecrets.changed('');
  const stopSealed = watchSealed({ store, clock, log, changed: secretChanged, ready });
  const stopAgents = agents.onChange((change) => {
    if (change.kind !== 'member') services.changed(change.host);
    if (change.kind === 'host') returning.heard(change.host);
    for (const uid of clustersOf(change, places)) engine.wake('MongoDB', uid);
  });
  return {
    provider,
    membersOn: (host) => places.membersOn(host),
    secretChanged,
    authorityChanged: () => {
      for (const { metadata } of informer.all('MongoDB')) engine.wake('MongoDB', metadata.uid);
    },
    close: () => {
      stopSealed();
      stopGate?.();
      stopAgents();
    },
  };
}

function clustersOf(change: AgentChange, places: Places): Iterable<string> {
  if (change.kind === 'host') return places.touchedBy(change.host);
  return change.clusterUid === null ? places.on(change.host) : [places.objectOf(change.clusterUid)];
}

/** A user's document changed: its cluster has work. A cluster came or went: its users' standing changes. */
function wakeForUsers(engine: Engine, userIndex: UserIndex, change: ObjectChanged): void {
  const object = change.after ?? change.before;
  if (object?.kind === 'MongoDBUser' && askedForMore(change)) wakeCluster(engine, object);
  if (object?.kind !== 'MongoDB' || (change.before !== null && change.after !== null)) return;
  for (const user of userIndex.of(object.metadata)) engine.wake('MongoDBUser', user.metadata.uid);
}

/** An operation was asked for, or is to be cancelled. */
function wakeForOperations(engine: Engine, change: ObjectChanged): void {
  const object = change.after ?? change.before;
  if (object?.kind !== 'Operation' || !askedForMore(change)) return;
  const cluster = engine.informer.get(operationTarget(object));
  if (cluster !== null) engine.wake('MongoDB', cluster.metadata.uid);
}

function wakeCluster(engine: Engine, user: Parameters<typeof clusterKeyOf>[0]): void {
  const cluster = engine.informer.get(clusterKeyOf(user));
  if (cluster !== null) engine.wake('MongoDB', cluster.metadata.uid);
}

interface Placed {
  readonly host: string | null;
  readonly port: number | null;
  readonly name: string;
}

/** Which clusters are on which hosts, and which look for a place: so that an event of a host wakes those it matters to. */
class Places {
  readonly #byHost = new Map<string, Set<string>>();
  readonly #hosts = new Map<string, readonly string[]>();
  readonly #looking = new Set<string>();
  readonly #objects = new Map<string, string>();
  readonly #members = new Map<string, readonly Placed[]>();
  #touched: ReadonlySet<string> = new Set();

  learn({ object, state }: Subject<Desired, State>): void {
    const { uid } = object.metadata;
    const { namespace } = object.metadata;
    this.#objects.set(state.uid, uid);
    this.#members.set(
      uid,
      state.members.map(({ host, port, name }) => ({ host, port, name: `${namespace}/${name}` })),
    );
    if (state.members.some((member) => member.stage === 'planned')) this.#looking.add(uid);
    else this.#looking.delete(uid);
    // A host that comes back wakes those who left something there; its document may go all the same.
    const hosts = [
      ...new Set(
        everyMember(state)
          .map((member) => member.host)
          .filter((host) => host !== null),
      ),
    ].sort();
    if (hosts.join() === this.#hosts.get(uid)?.join()) return;
    this.#unplace(uid);
    this.#hosts.set(uid, hosts);
    for (const host of hosts) {
      const set = this.#byHost.get(host) ?? new Set<string>();
      set.add(uid);
      this.#byHost.set(host, set);
    }
  }

  forget(uid: string): void {
    this.#unplace(uid);
    this.#looking.delete(uid);
    this.#members.delete(uid);
    for (const [state, object] of this.#objects) if (object === uid) this.#objects.delete(state);
  }

  #unplace(uid: string): void {
    for (const host of this.#hosts.get(uid) ?? []) this.#byHost.get(host)?.delete(uid);
    this.#hosts.delete(uid);
  }

  membersOn(host: string): readonly string[] {
    const here = [...this.on(host)].flatMap((uid) => this.#members.get(uid) ?? []);
    return here.filter((member) => member.host === host).map((member) => member.name);
  }

  /** Clusters with a member, `namespace/name`, that people's tasks are about now, or were at the last look. */
  moved(isAbout: (member: string) => boolean): readonly string[] {
    const touched = new Set<string>();
    for (const [uid, placed] of this.#members) if (placed.some(({ name }) => isAbout(name))) touched.add(uid);
    const moved = new Set([...touched, ...this.#touched]);
    this.#touched = touched;
    return [...moved];
  }

  /** Ports of a host that other clusters' members have in their sets, whether or not they run just now. */
  portsOn(host: string, except: string): readonly { readonly port: number; readonly by: string }[] {
    return [...this.on(host)]
      .filter((uid) => uid !== except)
      .flatMap((uid) => this.#members.get(uid) ?? [])
      .flatMap((member) =>
        member.host === host && member.port !== null ? [{ port: member.port, by: member.name }] : [],
      );
  }

  on(host: string): Iterable<string> {
    return this.#byHost.get(host) ?? [];
  }

  touchedBy(host: string): Iterable<string> {
    return new Set([...this.on(host), ...this.#looking]);
  }

  /** The object behind a cluster's stable uid; they are equal unless the object was made anew over kept data. */
  objectOf(uid: string): string {
    return this.#objects.get(uid) ?? uid;
  }
}
