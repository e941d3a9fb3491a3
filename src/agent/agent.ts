/** The agent of one host: all its members, its operations, and the channel to the control planes. */
import { asBelayError, BelayError } from '../base/error.ts';
import type { Secret } from '../base/secret.ts';
import {
  type AgentConnection,
  type AgentHandlers,
  type AgentState,
  connectAgent,
  FenceGate,
} from '../channel/index.ts';
import type { HostFacts } from '../clusters/facts.ts';
import type { Clock, Log } from '../engine/ports.ts';
import { systemClock } from './clock.ts';
import { type Executables, openExecutables } from './executables.ts';
import { readJson, writeJson } from './files.ts';
import { readHostFacts } from './hostFacts.ts';
import {
  hasEnded,
  type IdentityKeeper,
  identityFacts,
  join,
  keepRenewed,
  loadMembership,
  type Membership,
} from './identity.ts';
import { Inventory } from './inventory.ts';
import { type Layout, openLayout } from './layout.ts';
import { FIRST_LOOKS, HOUSEKEEPING } from './limits.ts';
import { takeLock } from './lock.ts';
import { Member } from './member.ts';
import { Operations } from './operations.ts';

export interface AgentOptions {
  /** Everything of this agent lies below this folder. */
  readonly dataDir: string;
  /** The host's name: a certificate subject, so lower-case letters, digits, dots and dashes. */
  readonly name: string;
  /** How other machines reach members here. */
  readonly address: string;
  /** Control planes, `https://control:8443`. */
  readonly urls: readonly string[];
  /** Needed once, to join. */
  readonly joinToken?: Secret<string> | null;
  /** `sha256:…` of the installation's authority; without it the control plane's certificate must be trusted already. */
  readonly caFingerprint?: string | null;
  /** Where server executables lie; PATH is looked at too. */
  readonly binDir?: string | null;
  /** Addresses members listen on when their snapshot says "all"; absent: really all. */
  readonly bindIp?: readonly string[];
  readonly labels?: Readonly<Record<string, string>>;
  readonly log: Log;
  readonly clock?: Clock;
}

export interface RunningAgent {
  /** Addresses of the control planes connected now. */
  connected(): readonly string[];
  /** Lets go of everything; members run on (fail-static). `stopMembers` ends them first, for a demo that leaves nothing. */
  close(options?: { readonly stopMembers?: boolean }): Promise<void>;
}

/**
 * Runs the agent of a host. Members in the cache are started or adopted first, whether or not a control plane answers
 * (fail-static); then the agent joins (once) and connects. Resolves when it is joined. Errors: `AlreadyRunning`,
 * `JoinTokenMissing`, refused tokens, `CaMismatch` (all never).
 */
export async function runAgent(options: AgentOptions): Promise<RunningAgent> {
  const agent = new Agent(options);
  try {
    await agent.open();
  } catch (failure) {
    await agent.close();
    throw failure;
  }
  return agent;
}

class Agent implements RunningAgent {
  readonly #options: AgentOptions;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #layout: Layout;
  readonly #release: () => void;
  readonly #inventory: Inventory;
  readonly #executables: Executables;
  readonly #operations: Operations;
  readonly #members = new Map<string, Member>();
  readonly #abort = new AbortController();
  #host: HostFacts | null = null;
  #membership: Membership | null = null;
  #connection: AgentConnection | null = null;
  #identity: IdentityKeeper | null = null;
  #cancels: (() => void)[] = [];
  #cancelTick: () => void = () => {};

  constructor(options: AgentOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#log = options.log;
    this.#layout = openLayout(options.dataDir);
    this.#release = takeLock(this.#layout.lock);
    this.#inventory = new Inventory(this.#layout, options.name);
    this.#executables = openExecutables(options.binDir ?? null);
    this.#operations = new Operations({
      host: options.name,
      layout: this.#layout,
      inventory: this.#inventory,
      executables: this.#executables,
      clock: this.#clock,
      log: this.#log,
      runningPid: (serviceId) => this.#members.get(serviceId)?.pid ?? null,
      serviceChanged: (serviceId) => this.#serviceChanged(serviceId),
      stopService: (serviceId) => this.#stopService(serviceId),
      refusePrimary: async (serviceId) => this.#members.get(serviceId)?.refusePrimary(),
      changed: (id, clusterUid, facts) => this.#connection?.operationChanged(id, clusterUid, facts),
    });
  }

  async open(): Promise<void> {
    for (const { id } of this.#inventory.services()) this.#openMember(id);
    this.#operations.resume();
    void this.#inventory.emptyTrash().catch((failure) => this.#log.warn('trash', { error: String(failure) }));
    await this.#readHost();
    this.#membership = this.#kept() ?? (await this.#join());
    await this.#readHost();
    await this.#firstLooks();
    this.#connect(this.#membership);
    this.#tick();
  }

  /** What is told first is whole: that nobody was asked yet is no news of databases that ran all the while. */
  async #firstLooks(): Promise<void> {
    const looks = Promise.all([...this.#members.values()].map((member) => member.looked()));
    let cancel = (): void => {};
    const patience = new Promise<void>((resolve) => {
      cancel = this.#clock.at(this.#clock.now() + FIRST_LOOKS, resolve);
    });
    await Promise.race([looks, patience]);
    cancel();
  }

  /** An identity that ended while the agent was away is no use, but a new token can replace it. */
  #kept(): Membership | null {
    const kept = loadMembership(this.#layout.identity);
    const ended = kept !== null && hasEnded(kept.identity.certificatePem, this.#clock.now());
    return ended && this.#options.joinToken ? null : kept;
  }

  #join(): Promise<Membership> {
    const { name, urls, joinToken = null, caFingerprint = null } = this.#options;
    const { signal } = this.#abort;
    const [clock, log, path] = [this.#clock, this.#log, this.#layout.identity];
    return join({ path, name, urls, joinToken, caFingerprint, clock, log, signal });
  }

  #connect(membership: Membership): void {
    const fences = new FenceGate({
      load: () => (readJson(this.#layout.fences) ?? {}) as Record<string, number>,
      save: (epochs) => writeJson(this.#layout.fences, epochs),
    });
    const urls = [...new Set([...this.#options.urls, ...membership.urls])];
    this.#connection = connectAgent({
      urls,
      identity: () => (this.#membership ?? membership).identity,
      handlers: this.#handlers(),
      state: this.#state(),
      fences,
      clock: this.#clock,
      log: this.#log,
    });
    const keeper = keepRenewed({
      path: this.#layout.identity,
      membership: () => this.#membership ?? membership,
      replace: (renewed) => {
        this.#membership = renewed;
        void this.#readHost();
      },
      connection: this.#connection,
      clock: this.#clock,
      log: this.#log,
    });
    this.#identity = keeper;
    this.#cancels.push(() => keeper.stop());
  }

  #state(): AgentState {
    return {
      host: () => this.#host as HostFacts,
      members: () => [...this.#members.values()].map((member) => member.item),
      member: (serviceId) => this.#members.get(serviceId)?.item ?? null,
    };
  }

  #handlers(): AgentHandlers {
    return {
      publish: async (serviceId, snapshot, { unlessPrimary = false }) => {
        const member = this.#member(serviceId);
        if (unlessPrimary) await member.refusePrimary();
        member.publish(snapshot);
      },
      run: async (serviceId, command, options) => this.#member(serviceId).run(command, options),
      startOperation: async (operation) => this.#operations.start(operation),
      operation: (id) => this.#operations.facts(id),
      services: () => this.#inventory.facts(),
      renewIdentity: async () => this.#identity?.renew(),
    };
  }

  // ── members ────────────────────────────────────────────────────────────────────────────────────────────────────

  #member(serviceId: string): Member {
    const member = this.#members.get(serviceId);
    if (member) return member;
    throw new BelayError('ServiceNotFound', `service ${serviceId} is not on this host`, { retry: 'later' });
  }

  #openMember(serviceId: string): Member {
    const member = new Member({
      serviceId,
      paths: this.#layout.service(serviceId),
      inventory: this.#inventory,
      executables: this.#executables,
      bindIp: this.#options.bindIp ?? null,
      clock: this.#clock,
      log: this.#log,
      changed: (id) => this.#connection?.memberChanged(id),
    });
    this.#members.set(serviceId, member);
    try {
      member.open();
    } catch (failure) {
      // One damaged cache must not keep the other members down.
      this.#log.error('member not opened', { service: serviceId, error: asBelayError(failure).message });
    }
    return member;
  }

  #serviceChanged(serviceId: string): void {
    const known = this.#members.get(serviceId);
    if (known) known.reload(true);
    else this.#openMember(serviceId);
    this.#connection?.memberChanged(serviceId);
  }

  async #stopService(serviceId: string): Promise<void> {
    await this.#members.get(serviceId)?.stop();
    this.#members.delete(serviceId);
    this.#connection?.memberChanged(serviceId);
  }

  // ── housekeeping ───────────────────────────────────────────────────────────────────────────────────────────────

  #tick(): void {
    this.#cancelTick = this.#clock.at(this.#clock.now() + HOUSEKEEPING, () => {
      for (const member of this.#members.values()) {
        try {
          member.look();
        } catch (failure) {
          this.#log.warn('housekeeping', { error: asBelayError(failure).message });
        }
      }
      void this.#readHost().catch((failure) => this.#log.warn('host facts', { error: String(failure) }));
      this.#tick();
    });
  }

  async #readHost(): Promise<void> {
    const { name, address, labels = {} } = this.#options;
    const executables = await this.#executables.found();
    const read = readHostFacts(
      { name, address, labels, executables, dataDir: this.#layout.root },
      this.#host,
    );
    const host = this.#membership === null ? read : { ...read, identity: identityFacts(this.#membership) };
    if (JSON.stringify(host) === JSON.stringify(this.#host)) return;
    this.#host = host;
    this.#connection?.hostChanged();
  }

  // ── end ────────────────────────────────────────────────────────────────────────────────────────────────────────

  connected(): readonly string[] {
    return this.#connection?.connected() ?? [];
  }

  async close(options: { readonly stopMembers?: boolean } = {}): Promise<void> {
    this.#abort.abort();
    this.#cancelTick();
    for (const cancel of this.#cancels.splice(0)) cancel();
    this.#connection?.close();
    const members = [...this.#members.values()];
    if (options.stopMembers) await Promise.all(members.map((member) => member.stop()));
    for (const member of members) member.close();
    this.#release();
  }
}
