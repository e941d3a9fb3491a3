/**
 * One control plane's end of the channels to all agents: the engine's port `Agents` over a network that loses, doubles and
 * delays. What is lost is not lost quietly: it ends as an unknown outcome, as on a real connection.
 */
import { asBelayError, BelayError } from '../base/error.ts';
import type { Rng } from '../base/rng.ts';
import { type Millis, SECOND } from '../base/units.ts';
import type {
  CommandOutcome,
  HostFacts,
  MemberCommand,
  MemberSnapshot,
  OperationFacts,
  ServiceFacts,
} from '../clusters/index.ts';
import type {
  AgentChange,
  Agents,
  Clock,
  Fence,
  HostOperation,
  HostReport,
  MemberRef,
  MemberReport,
  Proviso,
} from '../engine/ports.ts';
import type { Agent, MemberItem } from './agent.ts';
import type { Fabric } from './fabric.ts';
import type { Machine } from './machine.ts';
import { clusterOf } from './marks.ts';
import type { Timeline } from './timeline.ts';

const EFFECT_TIMEOUT: Millis = 15 * SECOND;
const LOOK_TIMEOUT: Millis = 4 * SECOND;
const ANSWER_GRACE: Millis = 2 * SECOND;
/** Two missed pings of 15 s. */
const SILENCE: Millis = 40 * SECOND;
/** A connection that is stuck for longer is broken. */
const LONGEST_HOLD: Millis = 20 * SECOND;
const RECONNECT: Millis = 1 * SECOND;

/** What becomes of one request: the world's say. */
export interface Fate {
  readonly requestLost: boolean;
  readonly answerLost: boolean;
  readonly doubled: boolean;
  /** Waits in front of the agent; everything behind it on this connection waits too. */
  readonly heldMillis: Millis;
}

export interface ChannelOptions {
  readonly name: string;
  readonly timeline: Timeline;
  readonly fabric: Fabric;
  readonly clock: Clock;
  readonly rng: Rng;
  readonly machines: ReadonlyMap<string, Machine>;
  readonly fate: (host: string, what: string) => Fate;
  /** When something that is due now gets to the process; later when it stands still. */
  readonly reached: () => Millis;
  readonly hangs: (what: { readonly serviceId?: string; readonly clusterUid?: string }) => boolean;
  /** An arrow of the executor's chain was reached; false: the process died here. */
  readonly arrow: (what: string) => boolean;
}

interface Entry {
  facts: HostFacts;
  agent: Agent | null;
  seenAt: Millis;
  readonly members: Map<string, MemberItem>;
  /** Grows with every connection: what belongs to an older one is dropped. */
  connection: number;
  /** What is under way ends when the connection does. */
  readonly open: Set<() => void>;
  /** Messages that have come and are not taken yet. */
  readonly inbox: (() => void)[];
  /** Messages on a way that is cut without anybody noticing: they arrive when it is whole again. */
  stuck: (() => void)[];
  /** Messages keep their order: nothing arrives before this. */
  toAgent: Millis;
  fromAgent: Millis;
  cancelSilence: () => void;
}

/** See the head of this file. */
export class Channel implements Agents {
  readonly #options: ChannelOptions;
  readonly #entries = new Map<string, Entry>();
  readonly #listeners = new Set<(change: AgentChange) => void>();
  #dead = false;

  constructor(options: ChannelOptions) {
    this.#options = options;
    for (const name of options.machines.keys()) this.#tryConnect(name, 0);
  }

  /** The process is gone: nothing of this end speaks or listens any more. */
  die(): void {
    this.#dead = true;
    this.#listeners.clear();
    for (const entry of this.#entries.values()) entry.cancelSilence();
  }

  // ── connections ────────────────────────────────────────────────────────────────────────────────────────────────

  #tryConnect(host: string, wait: Millis): void {
    this.#options.timeline.after(wait, () => {
      if (this.#dead) return;
      const entry = this.#entries.get(host);
      const agent = this.#options.machines.get(host)?.agent ?? null;
      if (agent === null || entry?.agent === agent) return;
      if (this.#reaches(host)) this.#hello(host, agent);
      else this.#tryConnect(host, RECONNECT);
    });
  }

  #reaches(host: string): boolean {
    return this.#options.fabric.reaches(this.#options.name, host);
  }

  /** The agent of this host came (back): it says all it knows. */
  agentStarted(host: string): void {
    this.#tryConnect(host, 20 + this.#options.rng.below(300));
  }

  /** The agent's process ended: its connection breaks at once, unless nobody can tell. */
  agentDied(host: string): void {
    const entry = this.#entries.get(host);
    if (entry === undefined || entry.agent === null) return;
    const agent = entry.agent;
    // A machine without power sends no last word.
    const { machines, rng } = this.#options;
    const told = this.#reaches(host) && (machines.get(host)?.up === true || rng.chance(0.3));
    const notice = told ? 2 : SILENCE - rng.below(15 * SECOND);
    this.#options.timeline.after(notice, () => entry.agent === agent && this.#disconnect(host, entry));
  }

  /** The way to this host was cut: noticed when pings stay unanswered. */
  wayCut(host: string, silently: boolean): void {
    const entry = this.#entries.get(host);
    if (entry === undefined || entry.agent === null) return;
    entry.cancelSilence();
    const notice = silently ? SILENCE - this.#options.rng.below(15 * SECOND) : 5;
    entry.cancelSilence = this.#options.timeline.after(notice, () => {
      if (this.#reaches(host)) return;
      this.#disconnect(host, entry);
    });
  }

  /** The way is whole again: if nobody gave up the connection meanwhile, nothing of it was lost. */
  wayHealed(host: string): void {
    const entry = this.#entries.get(host);
    if (this.#dead || entry === undefined || !this.#reaches(host)) return;
    for (const send of entry.stuck.splice(0)) send();
  }

  #hello(host: string, agent: Agent): void {
    const { clock, machines, timeline } = this.#options;
    const machine = machines.get(host) as Machine;
    const entry: Entry = this.#entries.get(host) ?? {
      facts: machine.facts,
      agent: null,
      seenAt: 0,
      members: new Map(),
      connection: 0,
      open: new Set(),
      inbox: [],
      stuck: [],
      toAgent: 0,
      fromAgent: 0,
      cancelSilence: () => {},
    };
    this.#entries.set(host, entry);
    // A newer connection takes the place of one that nobody has missed yet.
    for (const end of [...entry.open]) end();
    entry.agent = agent;
    entry.connection++;
    entry.stuck = [];
    entry.facts = machine.facts;
    entry.seenAt = clock.now();
    const before = new Map(entry.members);
    entry.members.clear();
    for (const item of agent.items()) entry.members.set(item.facts.serviceId, item);
    timeline.promised = true;
    this.#tell({ kind: 'host', host });
    for (const [id, item] of new Map([...before, ...entry.members])) this.#tellMember(host, id, item);
  }

  #disconnect(host: string, entry: Entry): void {
    if (this.#dead || entry.agent === null) return;
    entry.agent = null;
    this.#options.timeline.promised = true;
    for (const end of [...entry.open]) end();
    entry.open.clear();
    entry.stuck = [];
    this.#tell({ kind: 'host', host });
    for (const [id, item] of entry.members) this.#tellMember(host, id, item);
    this.#tryConnect(host, RECONNECT);
  }

  // ── reports ────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Something the agent says by itself. Lost when the way is cut; the next hello makes up for it. */
  fromAgent(host: string, agent: Agent, take: () => void): void {
    const entry = this.#entries.get(host);
    if (entry === undefined || entry.agent !== agent) return;
    this.#deliver(host, entry, () => {
      if (entry.agent !== agent) return;
      entry.seenAt = this.#options.clock.now();
      take();
    });
  }

  report(host: string, agent: Agent, ids: readonly string[], items: readonly (MemberItem | null)[]): void {
    this.fromAgent(host, agent, () => {
      const entry = this.#entries.get(host) as Entry;
      ids.forEach((id, index) => {
        const item = items[index] ?? null;
        const before = entry.members.get(id) ?? null;
        if (item === null) entry.members.delete(id);
        else entry.members.set(id, item);
        const known = item ?? before;
        if (known !== null) this.#tellMember(host, id, known);
      });
    });
  }

  operationChanged(host: string, agent: Agent, operation: HostOperation): void {
    this.fromAgent(host, agent, () =>
      this.#tell({ kind: 'operation', host, operationId: operation.id, clusterUid: clusterOf(operation) }),
    );
  }

  hostChanged(host: string, agent: Agent, facts: HostFacts): void {
    this.fromAgent(host, agent, () => {
      (this.#entries.get(host) as Entry).facts = facts;
      this.#tell({ kind: 'host', host });
    });
  }

  #deliver(host: string, entry: Entry, take: () => void): void {
    const { timeline, fabric, name } = this.#options;
    if (this.#dead) return;
    if (!fabric.reaches(host, name)) {
      entry.stuck.push(() => this.#deliver(host, entry, take));
      return;
    }
    const { connection } = entry;
    entry.fromAgent = Math.max(entry.fromAgent, timeline.now + fabric.delay(host, name));
    timeline.at(entry.fromAgent, () => {
      entry.inbox.push(() => {
        if (entry.connection === connection) take();
      });
      this.#read(entry);
    });
  }

  /** Takes what has come, in order; a process that stands still takes nothing until it goes on. */
  #read(entry: Entry): void {
    const { timeline, reached } = this.#options;
    while (!this.#dead && entry.inbox.length > 0) {
      const at = reached();
      if (at > timeline.now) {
        timeline.at(at, () => this.#read(entry));
        return;
      }
      timeline.promised = true;
      entry.inbox.shift()?.();
    }
  }

  #tell(change: AgentChange): void {
    for (const listener of this.#listeners) listener(change);
  }

  #tellMember(host: string, serviceId: string, { clusterUid }: MemberItem): void {
    this.#tell({ kind: 'member', host, serviceId, clusterUid });
  }

  /** When everything that is on its way to agents will have come. */
  get arrivedAt(): Millis {
    return Math.max(0, ...[...this.#entries.values()].map(({ toAgent }) => toAgent));
  }

  // ── the port ───────────────────────────────────────────────────────────────────────────────────────────────────

  hosts(): readonly HostReport[] {
    return [...this.#entries.keys()].sort().map((host) => this.host(host) as HostReport);
  }

  host(name: string): HostReport | null {
    const entry = this.#entries.get(name);
    if (entry === undefined) return null;
    return { facts: entry.facts, connected: entry.agent !== null, seenAt: entry.seenAt };
  }

  member({ host, serviceId }: MemberRef): MemberReport | null {
    const entry = this.#entries.get(host);
    const item = entry?.members.get(serviceId);
    return entry === undefined || item === undefined ? null : { facts: item.facts, observedAt: entry.seenAt };
  }

  onChange(listener: (change: AgentChange) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  publish(
    { host, serviceId }: MemberRef,
    snapshot: MemberSnapshot,
    fence: Fence,
    proviso: Proviso = {},
  ): Promise<void> {
    if (this.#options.hangs({ serviceId })) return this.#effect(host, 'publish', () => {});
    return this.#effect(host, 'publish', (agent, answer) =>
      agent.admit(fence, () => answer(() => agent.publish(serviceId, snapshot, fence, proviso))),
    );
  }

  async run(
    { host, serviceId }: MemberRef,
    command: MemberCommand,
    options: { readonly timeoutMillis: Millis; readonly stepId: string; readonly fence: Fence },
  ): Promise<CommandOutcome> {
    try {
      return await this.#effect<CommandOutcome>(
        host,
        `run ${command.kind}`,
        (agent, answer) =>
          agent.admit(options.fence, () => {
            if (this.#options.hangs({ serviceId })) return;
            try {
              agent.run(serviceId, command, options, (outcome) => answer(() => outcome));
            } catch (failure) {
              answer(() => {
                throw failure;
              });
            }
          }),
        options.timeoutMillis + ANSWER_GRACE,
      );
    } catch (failure) {
      const error = asBelayError(failure);
      if (error.retry === 'unknown-outcome') return { kind: 'unknown', message: error.message };
      throw error;
    }
  }

  startOperation(host: string, operation: HostOperation, fence: Fence): Promise<void> {
    if (this.#options.hangs({ clusterUid: clusterOf(operation) })) {
      return this.#effect(host, operation.kind, () => {});
    }
    return this.#effect(host, operation.kind, (agent, answer) =>
      agent.admit(fence, () => answer(() => agent.startOperation(operation, fence))),
    );
  }

  operation(host: string, operationId: string, fence?: Fence): Promise<OperationFacts> {
    const read = (agent: Agent): OperationFacts => agent.operation(operationId);
    if (fence === undefined) return this.#look(host, read);
    const ask = (agent: Agent, answer: (result: () => OperationFacts) => void): void =>
      agent.admit(fence, () => answer(() => read(agent)));
    return this.#ask(host, 'look', ask, LOOK_TIMEOUT, 'later');
  }

  services(host: string): Promise<readonly ServiceFacts[]> {
    return this.#look(host, (agent) => agent.services());
  }

  #look<T>(host: string, read: (agent: Agent) => T): Promise<T> {
    return this.#ask(host, 'look', (agent, answer) => answer(() => read(agent)), LOOK_TIMEOUT, 'later');
  }

  #effect<T>(
    host: string,
    what: string,
    act: (agent: Agent, answer: (result: () => T) => void) => void,
    limit: Millis = EFFECT_TIMEOUT,
  ): Promise<T> {
    return this.#ask(host, what, act, limit, 'unknown-outcome');
  }

  #ask<T>(
    host: string,
    what: string,
    act: (agent: Agent, answer: (result: () => T) => void) => void,
    limit: Millis,
    unanswered: 'later' | 'unknown-outcome',
  ): Promise<T> {
    const { timeline, fabric, name } = this.#options;
    const entry = this.#entries.get(host);
    if (this.#dead) return new Promise<never>(() => {});
    if (entry === undefined || entry.agent === null) {
      const message = `the agent on ${host} is not connected`;
      return Promise.reject(new BelayError('AgentNotConnected', message, { retry: 'later' }));
    }
    if (what !== 'look' && !this.#options.arrow(`before ${what}`)) return new Promise<never>(() => {});
    const { agent } = entry;
    const fate = this.#options.fate(host, what);
    return new Promise<T>((resolve, reject) => {
      let open = true;
      const settle = (end: () => void): void => {
        if (!open || this.#dead) return;
        open = false;
        timeline.promised = true;
        entry.open.delete(broke);
        cancel();
        end();
      };
      const fail = (code: string, message: string): void =>
        settle(() => reject(new BelayError(code, message, { retry: unanswered })));
      const broke = (): void => fail('AgentNotConnected', `the connection to ${host} broke`);
      entry.open.add(broke);
      const cancel = timeline.after(limit, () => fail('NoAnswer', `${host} did not answer in time`));
      if (fate.requestLost) return;
      const { connection } = entry;
      const answer = (result: () => T): void => {
        const value = attempt(result);
        if (fate.answerLost || entry.agent !== agent) return;
        this.#deliver(host, entry, () =>
          settle(() => {
            if (what !== 'look' && !this.#options.arrow(`after ${what}`)) return;
            if (value.ok) resolve(value.value);
            else reject(value.failure);
          }),
        );
      };
      const arrive = (): void => {
        if (this.#options.machines.get(host)?.agent !== agent || entry.connection !== connection) return;
        // The last words of a process that ended arrive at once or never.
        if (this.#dead && fate.heldMillis > 0) return;
        try {
          act(agent, answer);
        } catch (failure) {
          answer(() => {
            throw failure;
          });
        }
      };
      const send = (): void => {
        const usual = timeline.now + fabric.delay(name, host);
        const held = Math.min(Math.max(entry.toAgent, usual) + fate.heldMillis, usual + LONGEST_HOLD);
        entry.toAgent = Math.max(entry.toAgent, held);
        timeline.at(entry.toAgent, arrive);
        if (fate.doubled) timeline.at(entry.toAgent, arrive);
      };
      if (fabric.reaches(name, host)) send();
      else entry.stuck.push(send);
    });
  }
}

type Attempt<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly failure: unknown };

function attempt<T>(result: () => T): Attempt<T> {
  try {
    return { ok: true, value: result() };
  } catch (failure) {
    return { ok: false, failure };
  }
}
