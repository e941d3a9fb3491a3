/**
 * One database process: the pure member machine with a log, a data folder, a port and a network. What the real stand-in
 * does over sockets happens here by events of the timeline. Clients of it are callbacks: nothing in here is a promise.
 */
import type { Rng } from '../base/rng.ts';
import type { Millis } from '../base/units.ts';
import type { TlsMode } from '../model/index.ts';
import { majorOf, seriesOf } from '../model/index.ts';
import {
  type Command,
  type Input,
  isWritable,
  member,
  newMember,
  type Output,
  type State,
  type StateName,
  stateOf,
  type Waiter,
} from '../simulator/member/index.ts';
import type { FailedReply, PeerReply, PeerRequest } from '../simulator/member/messages.ts';
import { type OpTime, sameOpTime } from '../simulator/member/optime.ts';
import type { Refusal } from '../simulator/member/types.ts';
import { type Change, type DataFolder, type Entry, logView } from './data.ts';
import type { Fabric } from './fabric.ts';
import type { Router } from './router.ts';
import type { Timeline } from './timeline.ts';

/** An idle primary writes so often, so that lag means something. */
const NOOP_INTERVAL: Millis = 10_000;
/** The server's limit for handing over and quiescing after SIGTERM. */
const SHUTDOWN: Millis = 15_000;
/** Entries of one batch. */
const BATCH = 500;

/** All processes that listen, by `address:port`, and what happens between them. */
export interface Neighbourhood {
  readonly timeline: Timeline;
  readonly fabric: Fabric;
  readonly listening: Map<string, Mongod>;
  readonly routers: Map<string, Router>;
  /** Pairs of processes, by `address:port`, between which nothing gets through whatever their machines say. */
  readonly walls: Set<(a: string, b: string) => boolean>;
  readonly rng: Rng;
  /** Called after every step of any member with what it did. */
  readonly watch: (mongod: Mongod, outputs: readonly Output[]) => void;
  /** How long an initial sync copies, and whether it fails. */
  readonly cloneTakes: () => { readonly millis: Millis; readonly fails: boolean };
}

export interface MongodOptions {
  /** The machine. */
  readonly place: string;
  readonly address: string;
  readonly port: number;
  readonly setName: string;
  readonly configServer: boolean;
  readonly version: string;
  readonly data: DataFolder;
  readonly keyFile: string;
  readonly tlsMode: TlsMode;
  /** Whom it trusts; another bundle can be taken while it runs. */
  caPem: string;
  /** Why this configuration cannot run; null: it can. */
  readonly refuses: string | null;
  readonly startMillis: Millis;
  readonly exited: (exit: Exit) => void;
  /** Something a hello shows has changed. */
  readonly changed: () => void;
}
export interface Exit {
  readonly code: number | null;
  readonly signal: string | null;
  readonly message: string;
  /** Why its agent did not even start it. */
  readonly why?: string;
}

/** What came of a command: `lost` when the process ended before it answered. */
export type Answer =
  | { readonly kind: 'done'; readonly fields: Readonly<Record<string, unknown>> }
  | { readonly kind: 'refused'; readonly refusal: Refusal }
  | { readonly kind: 'lost' };

/** See the head of this file. */
export class Mongod {
  readonly kind = 'mongod';
  readonly options: MongodOptions;
  readonly data: DataFolder;
  readonly host: string;
  readonly pid: number;
  phase: 'starting' | 'listening' | 'gone' = 'starting';
  machine: State;
  /** When it began to listen. */
  since: Millis = 0;
  stopping = false;
  /** On the primary of config servers: the chunk that moves by its order, and who waits for its end; null: none. */
  moving: { readonly waiting: (() => void)[] } | null = null;
  readonly #near: Neighbourhood;
  readonly #inputs: Input[] = [];
  readonly #answers = new Map<number, (answer: Answer) => void>();
  readonly #requests = new Map<number, (reply: PeerReply, entries: readonly Entry[]) => void>();
  readonly #batches = new Map<number, readonly Entry[]>();
  readonly #log;
  #busy = false;
  #tickAt: Millis | null = null;
  #cancelTick: () => void = () => {};
  #nextId = 1;

  constructor(near: Neighbourhood, options: MongodOptions, pid: number) {
    this.#near = near;
    this.options = options;
    this.data = options.data;
    this.pid = pid;
    this.host = `${options.address}:${options.port}`;
    this.#log = logView(options.data);
    this.machine = newMember({
      setName: options.setName,
      address: this.host,
      seed: near.rng.below(2 ** 31),
      series: majorOf(options.version) ?? 8,
      startedAt: near.timeline.now,
      configServer: options.configServer,
    });
    near.timeline.after(options.startMillis, () => this.#listen());
  }

  // ── life ───────────────────────────────────────────────────────────────────────────────────────────────────────

  #listen(): void {
    if (this.phase !== 'starting') return;
    const problem = this.#startProblem();
    if (problem !== null) {
      this.#end(problem);
      return;
    }
    const { data } = this;
    data.open(seriesOf(this.options.version) ?? '8.0');
    this.phase = 'listening';
    this.since = this.#near.timeline.now;
    this.#near.listening.set(this.host, this);
    this.#feed({
      kind: 'start',
      config: data.config,
      vote: data.vote,
      initialSyncPending: data.cloning,
      hasData: data.hasUserData,
      rbid: data.rbid,
    });
    this.#idleNoop();
    this.options.changed();
  }

  #startProblem(): Exit | null {
    const { refuses, version, port } = this.options;
    if (refuses !== null) return { code: 2, signal: null, message: refuses };
    if (this.#near.listening.has(this.host) || this.#near.routers.has(this.host)) {
      return { code: 48, signal: null, message: `port ${port} is in use` };
    }
    const fcv = majorOf(this.data.fcv ?? seriesOf(version) ?? '') ?? 0;
    const own = majorOf(version) ?? 0;
    if (own === fcv || own === fcv + 1) return null;
    const message = `the data has feature compatibility version ${this.data.fcv}`;
    return { code: 62, signal: null, message };
  }

  /** SIGTERM: hands over, quiesces, ends. */
  terminate(): void {
    if (this.phase === 'gone' || this.stopping) return;
    this.stopping = true;
    if (this.phase === 'starting') {
      this.#end({ code: 0, signal: null, message: 'it was shut down' });
      return;
    }
    this.command({ kind: 'shutdown', force: true, timeoutMillis: SHUTDOWN }, (answer) => {
      const until = answer.kind === 'done' ? Number(answer.fields['quiesceUntil'] ?? 0) : 0;
      const end = (): void => this.#end({ code: 0, signal: null, message: 'it was shut down' });
      this.#near.timeline.at(until, end);
    });
  }

  /** Ends at once, as by SIGKILL or a machine that loses its power. */
  kill(signal = 'SIGKILL'): void {
    this.#end({ code: null, signal, message: `it was ended by ${signal}` });
  }

  #end(exit: Exit): void {
    if (this.phase === 'gone') return;
    if (this.#near.listening.get(this.host) === this) this.#near.listening.delete(this.host);
    this.phase = 'gone';
    this.#cancelTick();
    this.#inputs.length = 0;
    this.#requests.clear();
    const answers = [...this.#answers.values()];
    this.#answers.clear();
    for (const answer of answers) answer({ kind: 'lost' });
    this.#near.watch(this, []);
    this.options.exited(exit);
  }

  // ── clients ────────────────────────────────────────────────────────────────────────────────────────────────────

  get state(): StateName {
    return stateOf(this.machine);
  }

  get writable(): boolean {
    return this.phase === 'listening' && isWritable(this.machine);
  }

  command(command: Command, answer: (answer: Answer) => void): void {
    this.#ask(answer, (id) => ({ kind: 'command', id, command }));
  }

  /** Writes on a primary and waits for the majority; anything else is refused as the server does it. */
  write(change: Change, deadline: Millis | null, answer: (answer: Answer) => void): void {
    if (!this.writable) {
      answer({ kind: this.phase === 'listening' ? 'refused' : 'lost', refusal: NOT_PRIMARY } as Answer);
      return;
    }
    const op = this.#append(change, this.machine.term);
    const { term } = this.machine;
    this.#ask(answer, (id) => {
      const waiter: Waiter = { kind: 'write', id, op, need: { kind: 'majority' }, deadline, term };
      return { kind: 'wait', waiter };
    });
  }

  #ask(answer: (answer: Answer) => void, make: (id: number) => Input): void {
    if (this.phase !== 'listening') {
      answer({ kind: 'lost' });
      return;
    }
    const id = this.#nextId++;
    this.#answers.set(id, answer);
    this.#feed(make(id));
  }

  // ── the machine ────────────────────────────────────────────────────────────────────────────────────────────────

  #feed(input: Input): void {
    if (this.phase !== 'listening') return;
    this.#inputs.push(input);
    if (this.#busy) return;
    this.#busy = true;
    for (let next = this.#inputs.shift(); next !== undefined; next = this.#inputs.shift()) {
      const [state, outputs] = member(this.machine, next, this.#near.timeline.now, this.#log);
      this.machine = state;
      let shown = false;
      for (const output of outputs) {
        if (output.kind === 'topology' || output.kind === 'saveConfig') shown = true;
        this.#carryOut(output);
        if ((this.phase as string) === 'gone') break;
      }
      this.#near.watch(this, outputs);
      if (shown && this.phase === 'listening') this.options.changed();
    }
    this.#busy = false;
    this.#schedule();
  }

  #later(delay: Millis, input: () => Input): void {
    this.#near.timeline.after(delay, () => {
      if (this.phase !== 'gone') this.#feed(input());
    });
  }

  #schedule(): void {
    const at = this.machine.dueAt;
    if (this.phase !== 'listening' || at === null || this.#tickAt === at) return;
    this.#cancelTick();
    this.#tickAt = at;
    this.#cancelTick = this.#near.timeline.at(Math.max(at, this.#near.timeline.now + 1), () => {
      this.#tickAt = null;
      this.#feed({ kind: 'tick' });
    });
  }

  #idleNoop(): void {
    this.#near.timeline.after(NOOP_INTERVAL, () => {
      if (this.phase === 'gone') return;
      const idle = this.#near.timeline.now - this.data.last.wall >= NOOP_INTERVAL;
      if (idle && isWritable(this.machine)) this.#append({ kind: 'noop' }, this.machine.term);
      this.#idleNoop();
    });
  }

  #append(change: Change, term: number): OpTime {
    const { now } = this.#near.timeline;
    const last = this.data.last.op ?? { s: 0, i: 0 };
    const s = Math.max(Math.floor(now / 1000), last.s);
    const op = { t: term, s, i: s === last.s ? last.i + 1 : 1 };
    this.data.append({ op, wall: now, change });
    this.#feed(this.#applied());
    return op;
  }

  #applied(): Input {
    return { kind: 'applied', position: this.data.last, hasData: this.data.hasUserData };
  }

  #carryOut(output: Output): void {
    const { data } = this;
    switch (output.kind) {
      case 'saveConfig':
        data.config = output.config;
        return;
      case 'saveVote':
        data.vote = output.vote;
        return;
      case 'findSelf': {
        const { token, config } = output;
        const indexes = config.members.flatMap((m, index) => (m.host === this.host ? [index] : []));
        this.#later(0, () => ({ kind: 'selfFound', token, indexes }));
        return;
      }
      case 'send':
        this.#send(output.to, output.token, output.request);
        return;
      case 'answer':
        this.#answered(output.id, output.refusal, output.fields ?? {});
        return;
      case 'answerPeer':
        this.#requests.get(output.id)?.(output.reply, []);
        return;
      case 'appendNoop':
        this.#append({ kind: 'noop' }, output.term);
        return;
      case 'fatal':
        this.#end({ code: 14, signal: null, message: output.message });
        return;
      default:
        this.#store(output);
    }
  }

  #answered(id: number, refusal: Refusal | null, fields: Readonly<Record<string, unknown>>): void {
    const answer = this.#answers.get(id);
    this.#answers.delete(id);
    answer?.(refusal === null ? { kind: 'done', fields } : { kind: 'refused', refusal });
  }

  #store(output: Output): void {
    const { data } = this;
    switch (output.kind) {
      case 'serveLog':
        this.#serve(output);
        return;
      case 'apply': {
        const batch = this.#batches.get(output.token) ?? [];
        this.#batches.delete(output.token);
        this.#near.timeline.after(1, () => {
          if (this.phase === 'gone') return;
          for (const entry of batch) data.append(entry);
          this.#feed(this.#applied());
        });
        return;
      }
      case 'rollback':
        data.rollBack(output.to);
        data.rbid++;
        this.#later(1, () => ({ kind: 'rolledBack', position: data.last, rbid: data.rbid }));
        return;
      case 'clone':
        this.#clone(output.token, output.from);
        return;
      case 'initialSyncDone':
        data.cloning = false;
        return;
      default:
        return;
    }
  }

  #serve({ id, after, metadata }: Extract<Output, { kind: 'serveLog' }>): void {
    const { log } = this.data;
    const has = log.findLastIndex((entry) => sameOpTime(entry.op, after));
    const entries = has < 0 ? [] : log.slice(has + 1, has + 1 + BATCH);
    const result =
      has >= 0
        ? ({ kind: 'entries', upTo: entries.at(-1)?.op ?? null, count: entries.length } as const)
        : log.length === 0
          ? ({ kind: 'tooStale' } as const)
          : ({ kind: 'diverged', ancestor: this.#log.atOrBefore(after) } as const);
    this.#requests.get(id)?.({ kind: 'fetch', metadata, result }, entries);
  }

  #clone(token: number, from: string): void {
    const { data } = this;
    const { millis, fails } = this.#near.cloneTakes();
    data.cloning = true;
    data.replace([]);
    const source = this.#near.listening.get(from);
    const copy = [...(source?.data.log ?? [])];
    const begin = copy.at(-1);
    this.#later(millis, () => {
      const there = source?.phase === 'listening' && this.#connects(source);
      if (source === undefined || !there || begin === undefined || fails) {
        return { kind: 'cloneFailed', token, message: `${from} is not reachable` };
      }
      data.firstFcv = source.data.fcv;
      data.replace(copy);
      const stopAt = source.data.last.op ?? begin.op;
      return { kind: 'cloned', token, begin, stopAt, sourceRbid: source.data.rbid };
    });
  }

  // ── the network ────────────────────────────────────────────────────────────────────────────────────────────────

  #connects(to: Mongod): boolean {
    const { fabric, walls } = this.#near;
    if (!fabric.reaches(this.options.place, to.options.place)) return false;
    for (const wall of walls) if (wall(this.host, to.host)) return false;
    return true;
  }

  /** Whether it gets through to another member and is let in there. */
  canUse(to: Mongod): boolean {
    return (
      to.phase === 'listening' &&
      speaks(this.options.tlsMode, to.options.tlsMode) &&
      this.options.keyFile === to.options.keyFile &&
      this.#connects(to)
    );
  }

  #send(to: string, token: number, request: PeerRequest): void {
    const { timeline, fabric, listening } = this.#near;
    const target = listening.get(to);
    const { place } = this.options;
    if (target === undefined || !speaks(this.options.tlsMode, target.options.tlsMode)) {
      this.#later(1, () => ({ kind: 'reply', token, reply: unreachable(to) }));
      return;
    }
    if (!this.#connects(target)) return;
    if (this.options.keyFile !== target.options.keyFile) {
      this.#later(1, () => ({ kind: 'reply', token, reply: NOT_LET_IN }));
      return;
    }
    const there = target.options.place;
    timeline.after(fabric.delay(place, there), () => {
      target.#receive(request, (reply, entries) => {
        if (!fabric.reaches(there, place)) return;
        timeline.after(fabric.delay(there, place), () => {
          if (this.phase === 'gone') return;
          if (entries.length > 0) this.#batches.set(token, entries);
          this.#feed({ kind: 'reply', token, reply });
        });
      });
    });
  }

  #receive(request: PeerRequest, answer: (reply: PeerReply, entries: readonly Entry[]) => void): void {
    if (this.phase !== 'listening') return;
    const id = this.#nextId++;
    this.#requests.set(id, (reply, entries) => {
      this.#requests.delete(id);
      answer(reply, entries);
    });
    this.#feed({ kind: 'request', id, request });
  }
}

/** Whether a member in one TLS mode gets through to one in another: it offers TLS from preferTLS on. */
export function speaks(from: TlsMode, to: TlsMode): boolean {
  const secure = from === 'preferTLS' || from === 'requireTLS';
  return secure ? to !== 'disabled' : to !== 'requireTLS';
}

const NOT_PRIMARY: Refusal = { code: 10107, codeName: 'NotWritablePrimary', message: 'not primary' };

const unreachable = (to: string): FailedReply => ({
  kind: 'failed',
  code: 6,
  codeName: 'HostUnreachable',
  message: `Error connecting to ${to} :: caused by :: Connection refused`,
  network: true,
});

const NOT_LET_IN: FailedReply = {
  kind: 'failed',
  code: 18,
  codeName: 'AuthenticationFailed',
  message: 'Authentication failed.',
  network: false,
};
