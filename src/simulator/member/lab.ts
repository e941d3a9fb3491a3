import { makeRng, type Rng } from '../../base/rng.ts';
import type { Millis } from '../../base/units.ts';
import type { ReplicaSetConfig } from './config.ts';
import { type MemberOptions, member, newMember } from './member.ts';
import type { FailedReply, PeerReply, PeerRequest } from './messages.ts';
import { compareOpTimes, NOWHERE, type OpTime, type Position, reached, sameOpTime } from './optime.ts';
import { isWritable, stateOf } from './turn.ts';
import type { Command, Input, LogView, Output, Refusal, State, StateName, Waiter } from './types.ts';

/** One process of the lab: the machine's state, its log, and what survives a crash. */
export interface LabNode {
  readonly host: string;
  state: State;
  up: boolean;
  /** Everything in its data, in order; the log others can read begins at `logStart`. */
  log: Position[];
  logStart: number;
  disk: {
    config: ReplicaSetConfig | null;
    vote: { term: number; candidate: number } | null;
    cloning: boolean;
    rbid: number;
  };
  batches: Map<number, readonly Position[]>;
  /** Grows with every restart; messages to an earlier life are lost. */
  life: number;
  tickAt: Millis | null;
}

interface Answer {
  readonly refusal: Refusal | null;
  readonly fields: Readonly<Record<string, unknown>>;
}

export interface LabOptions {
  readonly seed?: number;
  readonly clocks?: State['clocks'];
  /** Chance that a message or its answer is lost. */
  readonly loss?: number;
  readonly maxDelay?: Millis;
  readonly setName?: string;
}

const START = 1_700_000_000_000;

/**
 * A few members, a virtual clock and a network in one thread: the smallest driver of the machine. Used to tell its story in
 * tests; equal seeds give equal histories.
 */
export class Lab {
  now: Millis = START;
  readonly nodes = new Map<string, LabNode>();
  /** Every log line, transition and refusal, for reading. */
  readonly story: string[] = [];
  /** Called after every step of any member. */
  watch: (node: LabNode, outputs: readonly Output[]) => void = () => {};
  readonly answers = new Map<number, Answer>();
  /** Every initial sync fails. */
  failClones = false;
  /** Members whose logins all others refuse. */
  readonly refuseLogins = new Set<string>();
  readonly #rng: Rng;
  readonly #options: LabOptions;
  #events: { at: Millis; seq: number; run: () => void }[] = [];
  #seq = 0;
  #nextId = 1;
  #cut = new Set<string>();

  constructor(hosts: readonly string[], options: LabOptions = {}) {
    this.#options = options;
    this.#rng = makeRng(options.seed ?? 1);
    for (const host of hosts) this.add(host);
  }

  /** Starts one more process without data. */
  add(host: string): LabNode {
    const node: LabNode = {
      host,
      state: newMember(this.#memberOptions(host, 0)),
      up: true,
      log: [],
      logStart: 0,
      disk: { config: null, vote: null, cloning: false, rbid: 1 },
      batches: new Map(),
      life: 1,
      tickAt: null,
    };
    this.nodes.set(host, node);
    this.#start(node);
    return node;
  }

  node(host: string): LabNode {
    const node = this.nodes.get(host);
    if (!node) throw new Error(`no ${host}`);
    return node;
  }

  stateOf(host: string): StateName | 'gone' {
    const node = this.node(host);
    return node.up ? stateOf(node.state) : 'gone';
  }

  /** The writable primary with the highest term. */
  primary(): LabNode | undefined {
    return [...this.nodes.values()]
      .filter((node) => node.up && isWritable(node.state))
      .sort((a, b) => b.state.term - a.state.term)[0];
  }

  crash(host: string): void {
    const node = this.node(host);
    node.up = false;
    node.life++;
    node.batches.clear();
  }

  restart(host: string): void {
    const node = this.node(host);
    node.up = true;
    node.life++;
    node.state = newMember(this.#memberOptions(host, node.life));
    this.#start(node);
  }

  /** Cuts both directions between the groups; members of one group still hear each other. */
  partition(...groups: readonly (readonly string[])[]): void {
    this.#cut.clear();
    for (const [index, group] of groups.entries()) {
      for (const other of groups.slice(index + 1)) {
        for (const a of group)
          for (const b of other) {
            this.#cut.add(`${a}>${b}`);
            this.#cut.add(`${b}>${a}`);
          }
      }
    }
  }

  heal(): void {
    this.#cut.clear();
  }

  /** A client's write on this member; null when it takes none. */
  write(host: string): OpTime | null {
    const node = this.node(host);
    if (!node.up || !isWritable(node.state)) return null;
    return this.#append(node, node.state.term);
  }

  /** Gives the command to a member; its answer is found by the id. */
  command(host: string, command: Command): number {
    const id = this.#nextId++;
    this.#step(this.node(host), { kind: 'command', id, command });
    return id;
  }

  wait(host: string, waiter: DistributiveOmit<Waiter, 'id'>): number {
    const id = this.#nextId++;
    this.#step(this.node(host), { kind: 'wait', waiter: { ...waiter, id } as Waiter });
    return id;
  }

  initiate(
    host: string,
    members: readonly Record<string, unknown>[],
    settings: Record<string, unknown> = {},
  ): number {
    const document = { _id: this.#options.setName ?? 'rs0', version: 1, members, settings };
    return this.command(host, { kind: 'initiate', document, newSetId: '0123456789abcdef01234567' });
  }

  /** Lets time pass until the condition holds; false when it did not within the limit. */
  until(condition: () => boolean, limit: Millis = 60_000): boolean {
    const end = this.now + limit;
    while (!condition()) if (!this.#next(end)) return false;
    return true;
  }

  run(duration: Millis): void {
    const end = this.now + duration;
    while (this.#next(end));
  }

  // ── inside ──────────────────────────────────────────────────────────────────────────────────────────────────────

  #memberOptions(host: string, life: number): MemberOptions {
    const names = [...this.nodes.keys(), host];
    return {
      setName: this.#options.setName ?? 'rs0',
      address: host,
      seed: (this.#options.seed ?? 1) * 1000 + names.indexOf(host) * 17 + life,
      clocks: this.#options.clocks ?? {},
      startedAt: this.now,
    };
  }

  #start(node: LabNode): void {
    this.#step(node, {
      kind: 'start',
      config: node.disk.config,
      vote: node.disk.vote,
      initialSyncPending: node.disk.cloning,
      hasData: node.log.length > 0,
      rbid: node.disk.rbid,
    });
  }

  #at(at: Millis, run: () => void): void {
    this.#events.push({ at, seq: this.#seq++, run });
  }

  #next(end: Millis): boolean {
    let best = 0;
    if (this.#events.length === 0) return false;
    for (let i = 1; i < this.#events.length; i++) {
      const [a, b] = [this.#events[i]!, this.#events[best]!];
      if (a.at < b.at || (a.at === b.at && a.seq < b.seq)) best = i;
    }
    const event = this.#events[best]!;
    if (event.at > end) {
      this.now = end;
      return false;
    }
    this.#events[best] = this.#events[this.#events.length - 1]!;
    this.#events.pop();
    this.now = Math.max(this.now, event.at);
    event.run();
    return true;
  }

  #later(node: LabNode, delay: Millis, input: () => Input): void {
    const { life } = node;
    this.#at(this.now + delay, () => {
      if (node.up && node.life === life) this.#step(node, input());
    });
  }

  #step(node: LabNode, input: Input): void {
    if (!node.up) return;
    const [state, outputs] = member(node.state, input, this.now, logView(node));
    node.state = state;
    for (const output of outputs) this.#carryOut(node, output);
    this.watch(node, outputs);
    this.#scheduleTick(node);
  }

  #scheduleTick(node: LabNode): void {
    const at = node.state.dueAt;
    if (at === null || (node.tickAt !== null && node.tickAt <= at && node.tickAt > this.now)) return;
    node.tickAt = Math.max(at, this.now + 1);
    const { life } = node;
    const { tickAt } = node;
    this.#at(tickAt, () => {
      if (node.life !== life || node.tickAt !== tickAt) return;
      node.tickAt = null;
      this.#step(node, { kind: 'tick' });
    });
  }

  #append(node: LabNode, term: number): OpTime {
    const last = node.log.at(-1)?.op ?? { s: 0, i: 0 };
    const s = Math.max(Math.floor(this.now / 1000), last.s);
    const op = { t: term, s, i: s === last.s ? last.i + 1 : 1 };
    node.log.push({ op, wall: this.now });
    this.#later(node, 0, () => ({ kind: 'applied', position: node.log.at(-1) ?? NOWHERE, hasData: true }));
    return op;
  }

  #carryOut(node: LabNode, output: Output) {
    const say = (text: string): void => {
      this.story.push(`${((this.now - START) / 1000).toFixed(3)} ${node.host} ${text}`);
    };
    switch (output.kind) {
      case 'saveConfig':
        node.disk.config = output.config;
        return;
      case 'saveVote':
        node.disk.vote = output.vote;
        return;
      case 'findSelf': {
        const { token, config } = output;
        const indexes = config.members.flatMap((m, index) => (m.host === node.host ? [index] : []));
        return this.#later(node, 0, () => ({ kind: 'selfFound', token, indexes }));
      }
      case 'send':
        return this.#send(node, output.to, output.token, output.request);
      case 'answer':
        this.answers.set(output.id, { refusal: output.refusal, fields: output.fields ?? {} });
        if (output.refusal) say(`refuses: ${output.refusal.code} ${output.refusal.message}`);
        return;
      case 'appendNoop':
        this.#append(node, output.term);
        return;
      case 'stateChanged':
        return say(`${output.from} → ${output.to}`);
      case 'log':
        return say(`[${output.id}] ${output.message}`);
      case 'fatal':
        say(`FATAL ${output.message}`);
        return this.crash(node.host);
      case 'answerPeer':
        return this.#pending.get(output.id)?.(output.reply);
      default:
        return this.#storage(node, output);
    }
  }

  readonly #pending = new Map<number, (reply: PeerReply, entries?: readonly Position[]) => void>();

  #storage(node: LabNode, output: Output) {
    switch (output.kind) {
      case 'serveLog': {
        const has = node.log.findIndex(
          (entry, index) => index >= node.logStart && sameOpTime(entry.op, output.after),
        );
        const entries = has < 0 ? [] : node.log.slice(has + 1, has + 101);
        const oldest = logView(node).oldest();
        const result =
          has >= 0
            ? ({ kind: 'entries', upTo: entries.at(-1)?.op ?? null, count: entries.length } as const)
            : !reached(output.after, oldest)
              ? ({ kind: 'tooStale' } as const)
              : ({ kind: 'diverged', ancestor: logView(node).atOrBefore(output.after) } as const);
        this.#pending.get(output.id)?.({ kind: 'fetch', metadata: output.metadata, result }, entries);
        return;
      }
      case 'apply': {
        const batch = node.batches.get(output.token) ?? [];
        node.batches.delete(output.token);
        const { life } = node;
        this.#at(this.now + 1, () => {
          if (!node.up || node.life !== life) return;
          node.log.push(...batch);
          const position = node.log.at(-1) ?? NOWHERE;
          this.#step(node, { kind: 'applied', position, hasData: true });
        });
        return;
      }
      case 'rollback':
        node.log = node.log.filter((entry) => reached(output.to, entry.op));
        node.disk.rbid++;
        return this.#later(node, 1, () => ({
          kind: 'rolledBack',
          position: node.log.at(-1) ?? NOWHERE,
          rbid: node.disk.rbid,
        }));
      case 'clone':
        return this.#clone(node, output.token, output.from);
      case 'initialSyncDone':
        node.disk.cloning = false;
        return;
      default:
        return;
    }
  }

  #clone(node: LabNode, token: number, from: string): void {
    node.disk.cloning = true;
    node.log = [];
    node.logStart = 0;
    const source = this.node(from);
    const copy = [...source.log];
    const begin = copy.at(-1);
    this.#later(node, 20, () => {
      if (this.failClones || !source.up || !begin || this.#blocked(node.host, from)) {
        return { kind: 'cloneFailed', token, message: `${from} is not reachable` };
      }
      node.log = copy;
      node.logStart = copy.length - 1;
      const stopAt = source.log.at(-1)?.op ?? begin.op!;
      return { kind: 'cloned', token, begin, stopAt, sourceRbid: source.disk.rbid };
    });
  }

  #blocked(from: string, to: string): boolean {
    return this.#cut.has(`${from}>${to}`);
  }

  #delay(): Millis {
    return 1 + this.#rng.below(this.#options.maxDelay ?? 3);
  }

  #lost(): boolean {
    return this.#rng.chance(this.#options.loss ?? 0);
  }

  #send(from: LabNode, to: string, token: number, request: PeerRequest) {
    const target = this.nodes.get(to);
    if (this.#blocked(from.host, to) || this.#lost()) return;
    if (!target?.up) {
      const reply: FailedReply = {
        kind: 'failed',
        code: 6,
        codeName: 'HostUnreachable',
        message: `Error connecting to ${to} :: caused by :: Connection refused`,
        network: true,
      };
      return this.#later(from, 1, () => ({ kind: 'reply', token, reply }));
    }
    if (this.refuseLogins.has(from.host)) {
      const refused = { kind: 'failed', code: 18, codeName: 'AuthenticationFailed' } as const;
      const reply = { ...refused, message: 'Authentication failed.', network: false };
      return this.#later(from, 1, () => ({ kind: 'reply', token, reply }));
    }
    const { life } = target;
    const fromLife = from.life;
    this.#at(this.now + this.#delay(), () => {
      if (!target.up || target.life !== life) return;
      const id = this.#nextId++;
      this.#pending.set(id, (reply, entries) => {
        this.#pending.delete(id);
        if (this.#blocked(to, from.host) || this.#lost()) return;
        this.#at(this.now + this.#delay(), () => {
          if (!from.up || from.life !== fromLife) return;
          if (entries) from.batches.set(token, entries);
          this.#step(from, { kind: 'reply', token, reply });
        });
      });
      this.#step(target, { kind: 'request', id, request });
    });
  }
}

type DistributiveOmit<T, K extends PropertyKey> = T extends unknown ? Omit<T, K> : never;

function logView(node: LabNode): LogView {
  return {
    oldest: () => node.log[node.logStart]?.op ?? null,
    last: () => node.log.at(-1) ?? NOWHERE,
    atOrBefore: (op) => {
      for (let i = node.log.length - 1; i >= node.logStart; i--) {
        if (compareOpTimes(node.log[i]!.op, op) <= 0) return node.log[i]!.op;
      }
      return null;
    },
  };
}

/** A lab whose set is initiated and settled: one primary, everybody readable. Members may carry more fields than the host. */
export function settledLab(
  members: readonly (string | Record<string, unknown>)[],
  options: LabOptions & { readonly settings?: Record<string, unknown> } = {},
): Lab {
  const full = members.map((member, _id) =>
    typeof member === 'string' ? { _id, host: member } : { _id, ...member },
  );
  const hosts = full.map((member) => String((member as Record<string, unknown>)['host']));
  const lab = new Lab(hosts, options);
  lab.initiate(hosts[0]!, full, options.settings ?? {});
  const settled = lab.until(
    () =>
      lab.primary() !== undefined &&
      hosts.every((host) => /^(PRIMARY|SECONDARY|ARBITER)$/.test(lab.stateOf(host))),
  );
  if (!settled) throw new Error(`never settled:\n${lab.story.join('\n')}`);
  lab.run(3_000);
  return lab;
}

/** The current configuration as a client would send it back, with changes. */
export function nextConfig(
  lab: Lab,
  change: (members: Record<string, unknown>[]) => Record<string, unknown>[],
): Record<string, unknown> {
  const config = lab.primary()!.state.config!;
  const members = config.members.map(({ id, newlyAdded: _, horizons, ...rest }) => ({
    _id: id,
    ...rest,
    ...(horizons ? { horizons } : {}),
  }));
  return {
    _id: config.setName,
    version: config.version + 1,
    members: change(members),
    settings: { ...config.settings },
  };
}

/** Runs an unforced reconfig on the primary until it is answered; gives `null` or the refusal. */
export function reconfigure(
  lab: Lab,
  document: unknown,
  options: {
    readonly force?: boolean;
    readonly on?: string;
    readonly maxTimeMillis?: Millis;
    readonly explicitDefault?: boolean;
  } = {},
): Refusal | null | 'open' {
  const id = lab.command(options.on ?? lab.primary()!.host, {
    kind: 'reconfig',
    document,
    options: {
      force: options.force ?? false,
      maxTimeMillis: options.maxTimeMillis ?? 5_000,
      explicitDefault: options.explicitDefault ?? false,
      defaultMode: null,
      jump: 7,
    },
  });
  lab.until(() => lab.answers.has(id), 40_000);
  const given = lab.answers.get(id);
  return given === undefined ? 'open' : given.refusal;
}
