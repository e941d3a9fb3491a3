/** The member machine in real time: timers, storage, connections to other members, everybody who waits for it. */
import { type Document, Long, ObjectId, Timestamp } from 'bson';
import type { Millis } from '../../base/units.ts';
import type { OpTime as BsonOpTime, DataStore, Logger, OplogEntry, ServerNode } from '../contracts.ts';
import { ServerError } from '../contracts.ts';
import type { ReplicaSetConfig } from '../member/config.ts';
import { type MemberOptions, member, newMember } from '../member/member.ts';
import type { FailedReply, PeerReply, PeerRequest } from '../member/messages.ts';
import { isWritable, memberById, selfConfig, selfHost } from '../member/turn.ts';
import type { Command, Input, LogView, Output, Refusal, State, Waiter } from '../member/types.ts';
import { type CloneProgress, CloneSessions, clone } from './clone.ts';
import { findSelf } from './find-self.ts';
import {
  batchAfter,
  hasUserData,
  isSynced,
  loadConfig,
  loadRollbackId,
  loadVote,
  logViewOf,
  saveConfig,
  saveRollbackId,
  saveSynced,
  saveVote,
} from './local-state.ts';
import { showAttr } from './log-attributes.ts';
import { decodeReply, encodeBatch, encodeReply, encodeRequest } from './peer-codec.ts';
import { PeerError, PeerUnreachable } from './peer-connection.ts';
import type { PeerPool } from './peer-pool.ts';
import { toBson } from './values.ts';

const NOTE_TIMEOUT: Millis = 2_000;
const NOOP_INTERVAL: Millis = 10_000;

export interface RuntimeOptions {
  readonly node: ServerNode;
  readonly pool: PeerPool;
  readonly member: MemberOptions;
  readonly initialSyncMillis: Millis;
  readonly closeClientConnections: () => void;
  readonly onFatal: (message: string) => void;
}

type Listener = (reason: 'stepdown' | 'rollback' | 'initialSync') => void;

/** One running member, with a life: `start`, then `stop`. */
export class Runtime {
  readonly node: ServerNode;
  readonly pool: PeerPool;
  readonly processId = new ObjectId();
  readonly sessions = new CloneSessions();
  readonly data: DataStore;
  cloning: CloneProgress | null = null;
  /** Own id for `_isSelf`. */
  readonly instanceId = new ObjectId();
  readonly #options: RuntimeOptions;
  readonly #log: LogView;
  #state: State;
  #queue: Input[] = [];
  #busy = false;
  #dirty = false;
  #stopped = false;
  #timer: NodeJS.Timeout | null = null;
  #timerAt: Millis = 0;
  #noopTimer: NodeJS.Timeout | null = null;
  #nextId = 1;
  #clusterTime = new Timestamp({ t: 0, i: 0 });
  #lastWall: Millis = 0;
  #cloneAbort = new AbortController();
  #topologyWaiters = new Set<() => void>();
  readonly #answers = new Map<
    number,
    (refusal: Refusal | null, fields: Readonly<Record<string, unknown>>) => void
  >();
  readonly #requests = new Map<number, (reply: PeerReply | Document) => void>();
  readonly #batches = new Map<number, readonly OplogEntry[]>();
  readonly #listeners = new Set<Listener>();
  readonly #abort = new AbortController();

  constructor(options: RuntimeOptions) {
    this.#options = options;
    this.node = options.node;
    this.pool = options.pool;
    this.data = options.node.data;
    this.#log = logViewOf(this.data);
    this.#state = newMember(options.member);
    this.data.onApplied((entry) => this.#onApplied(entry));
  }

  /** The machine's state as of now; read only. */
  get state(): State {
    this.#flush();
    return this.#state;
  }

  get logger(): Logger {
    return this.node.logger;
  }

  now(): Millis {
    return this.node.now().getTime();
  }

  start(): void {
    const config = loadConfig(this.data, this.logger);
    const last = this.data.lastApplied();
    if (last !== null) this.#advance(last.ts);
    this.#feed({
      kind: 'start',
      config,
      vote: loadVote(this.data),
      initialSyncPending: config !== null && !isSynced(this.data),
      hasData: hasUserData(this.data),
      rbid: loadRollbackId(this.data),
    });
    this.#noopTimer = setInterval(() => this.#writeIdleNoop(), NOOP_INTERVAL);
    this.#noopTimer.unref();
  }

  stop(): void {
    if (this.#stopped) return;
    this.#stopped = true;
    this.#abort.abort();
    this.#cloneAbort.abort();
    if (this.#timer !== null) clearTimeout(this.#timer);
    if (this.#noopTimer !== null) clearInterval(this.#noopTimer);
    this.pool.close();
    for (const wake of [...this.#topologyWaiters]) wake();
    const gone: Refusal = {
      code: 91,
      codeName: 'ShutdownInProgress',
      message: 'Replication is being shut down',
    };
    for (const resolve of [...this.#answers.values()]) resolve(gone, {});
    for (const resolve of [...this.#requests.values()]) {
      resolve({
        kind: 'failed',
        code: 91,
        codeName: 'ShutdownInProgress',
        message: gone.message,
        network: false,
      });
    }
  }

  // ── asking the machine ────────────────────────────────────────────────────────────────────────────────────────────

  /** Runs an admin command; its fields, or the refusal as ServerError. */
  async command(command: Command, signal?: AbortSignal): Promise<Document> {
    const { refusal, fields } = await this.#ask((id) => this.#feed({ kind: 'command', id, command }), signal);
    if (refusal !== null) throw this.asError(refusal);
    return fields;
  }

  /** Waits as a waiter does; null when it holds, else why not. */
  async wait(make: (id: number) => Waiter, signal: AbortSignal): Promise<Refusal | null> {
    const { refusal } = await this.#ask((id) => this.#feed({ kind: 'wait', waiter: make(id) }), signal);
    return refusal;
  }

  /** Hands in another member's request; its reply as a document. Throws ServerError. */
  request(request: PeerRequest): Promise<Document> {
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      this.#requests.set(id, (reply) => {
        this.#requests.delete(id);
        if (
          !('kind' in reply) ||
          reply['kind'] === 'entries' ||
          reply['kind'] === 'diverged' ||
          reply['kind'] === 'tooStale'
        ) {
          return resolve(reply as Document);
        }
        const answer = reply as PeerReply;
        if (answer.kind === 'failed') reject(new ServerError(answer.code, answer.codeName, answer.message));
        else if (answer.kind !== 'fetch') resolve(encodeReply(answer, this.#state.series));
      });
      this.#feed({ kind: 'request', id, request });
    });
  }

  asError(refusal: Refusal): ServerError {
    return new ServerError(refusal.code, refusal.codeName, refusal.message, { ...refusal.extra });
  }

  #ask(
    send: (id: number) => void,
    signal?: AbortSignal,
  ): Promise<{ refusal: Refusal | null; fields: Readonly<Record<string, unknown>> }> {
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      const cancel = (): void => {
        this.#answers.delete(id);
        this.#feed({ kind: 'cancelWait', id });
        reject(signal?.reason);
      };
      this.#answers.set(id, (refusal, fields) => {
        this.#answers.delete(id);
        signal?.removeEventListener('abort', cancel);
        resolve({ refusal, fields });
      });
      if (signal?.aborted) return cancel();
      signal?.addEventListener('abort', cancel, { once: true });
      send(id);
    });
  }

  // ── time and topology ─────────────────────────────────────────────────────────────────────────────────────────────

  get clusterTime(): Timestamp {
    return this.#clusterTime;
  }

  advanceClusterTime(time: Timestamp): void {
    this.#advance(time);
  }

  #advance(time: Timestamp): void {
    if (time.greaterThan(this.#clusterTime)) this.#clusterTime = new Timestamp(time.toBigInt());
  }

  /** The next optime of this primary: later than anything seen. Only the runtime and writable primaries may stamp. */
  nextOpTime(term: number): BsonOpTime {
    const seconds = Math.floor(this.now() / 1000);
    const { t, i } = this.#clusterTime;
    const ts = seconds > t ? new Timestamp({ t: seconds, i: 1 }) : new Timestamp({ t, i: i + 1 });
    this.#clusterTime = ts;
    return { ts, t: Long.fromNumber(term) };
  }

  /** Resolves when the topology counter has passed the given one, or after the wait. */
  async awaitTopologyChange(counter: Long, maxWait: Millis, signal: AbortSignal): Promise<void> {
    const passed = (): boolean => this.state.topologyCounter > counter.toNumber() || this.#stopped;
    if (passed() || signal.aborted) return;
    await new Promise<void>((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        signal.removeEventListener('abort', done);
        this.#topologyWaiters.delete(check);
        resolve();
      };
      const check = (): void => {
        if (passed()) done();
      };
      const timer = setTimeout(done, maxWait);
      signal.addEventListener('abort', done, { once: true });
      this.#topologyWaiters.add(check);
    });
  }

  onStepDown(listener: Listener): void {
    this.#listeners.add(listener);
  }

  // ── the loop ──────────────────────────────────────────────────────────────────────────────────────────────────────

  #onApplied(entry: OplogEntry): void {
    this.#advance(entry.ts);
    this.#lastWall = this.now();
    if (this.#dirty) return;
    this.#dirty = true;
    // Many entries of one command are one step of the machine.
    queueMicrotask(() => this.#flush());
  }

  #flush(): void {
    if (this.#dirty && !this.#busy) this.#run();
  }

  #feed(input: Input): void {
    if (this.#stopped) return;
    this.#queue.push(input);
    if (!this.#busy) this.#run();
  }

  #run(): void {
    this.#busy = true;
    try {
      for (;;) {
        const input = this.#dirty ? this.#appliedInput() : this.#queue.shift();
        if (input === undefined) break;
        const [state, outputs] = member(this.#state, input, this.now(), this.#log);
        this.#state = state;
        for (const output of outputs) this.#carryOutOrEnd(output);
      }
    } finally {
      this.#busy = false;
    }
    this.#schedule();
  }

  #appliedInput(): Input {
    this.#dirty = false;
    return { kind: 'applied', position: this.#log.last(), hasData: hasUserData(this.data) };
  }

  #schedule(): void {
    if (this.#stopped) return;
    const at = this.#state.dueAt;
    if (at === null || (this.#timer !== null && this.#timerAt === at)) return;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timerAt = at;
    const delay = Math.min(Math.max(1, at - this.now()), 60_000);
    this.#timer = setTimeout(() => {
      this.#timer = null;
      this.#feed({ kind: 'tick' });
    }, delay);
  }

  /** An idle primary writes now and then, so that lag and cluster time mean something. */
  #writeIdleNoop(): void {
    if (!isWritable(this.state) || this.now() - this.#lastWall < NOOP_INTERVAL) return;
    this.#appendNoop({ msg: 'periodic noop' }, this.#state.term);
  }

  /** Writes a no-op as primary, unless the log is at `until` already. */
  appendNote(o: Document, until: Timestamp | null): void {
    const last = this.data.lastApplied();
    if (until !== null && last?.ts.greaterThanOrEqual(until)) return;
    this.#appendNoop(o, this.state.term);
  }

  /** Sees to it that the log will reach a cluster time that was given out somewhere: an idle set would not by itself. */
  async encourage(time: Timestamp) {
    const { state } = this;
    const data = { msg: 'noop write for afterClusterTime read concern' };
    if (isWritable(state)) return this.appendNote(data, time);
    const primary = memberById(state, state.primaryId);
    if (!primary || primary.host === selfHost(state)) return;
    const note = { appendOplogNote: 1, data, maxClusterTime: time };
    await this.pool.call(primary.host, 'admin', note, NOTE_TIMEOUT).catch(() => {});
  }

  #appendNoop(o: Document, term: number): void {
    this.data.appendNoop(o, { stamp: () => this.nextOpTime(term), wall: this.node.now() });
  }

  // ── carrying out ──────────────────────────────────────────────────────────────────────────────────────────────────

  /** Storage that fails leaves nothing to go on with. */
  #carryOutOrEnd(output: Output): void {
    try {
      this.#carryOut(output);
    } catch (failure) {
      this.#options.onFatal(
        `${output.kind}: ${failure instanceof Error ? failure.message : String(failure)}`,
      );
    }
  }

  #carryOut(output: Output) {
    switch (output.kind) {
      case 'saveConfig':
        return saveConfig(this.data, output.config);
      case 'saveVote':
        return saveVote(this.data, output.vote);
      case 'findSelf':
        void this.#findSelf(output.token, output.config);
        return;
      case 'send':
        void this.#send(output.to, output.token, output.request, output.timeout);
        return;
      case 'answerPeer':
        this.#requests.get(output.id)?.(output.reply);
        return;
      case 'answer':
        this.#answers.get(output.id)?.(output.refusal, output.fields ?? {});
        return;
      case 'serveLog':
        this.#requests.get(output.id)?.(encodeBatch(batchAfter(this.data, output.after), output.metadata));
        return;
      case 'topology':
        for (const wake of [...this.#topologyWaiters]) wake();
        return;
      case 'leftPrimary':
        for (const listener of this.#listeners) listener(output.reason);
        return;
      case 'closeConnections':
        return this.#options.closeClientConnections();
      case 'log':
        return this.logger.log(
          output.severity,
          output.component,
          output.id,
          'ReplCoord',
          output.message,
          showAttr(output.attr),
        );
      case 'fatal':
        return this.#options.onFatal(output.message);
      case 'stateChanged':
        return;
      default:
        return this.#storage(output);
    }
  }

  #storage(
    output: Extract<
      Output,
      { kind: 'appendNoop' | 'apply' | 'rollback' | 'clone' | 'abortClone' | 'initialSyncDone' | 'stable' }
    >,
  ) {
    switch (output.kind) {
      case 'appendNoop':
        if (output.o['msg'] === 'initiating set') saveSynced(this.data, true);
        return this.#appendNoop({ ...output.o }, output.term);
      case 'apply': {
        const batch = this.#batches.get(output.token) ?? [];
        this.#batches.clear();
        return this.data.apply(batch);
      }
      case 'rollback':
        return this.#rollBack(toBson(output.to));
      case 'clone':
        void this.#clone(output.token, output.from, output.attempt);
        return;
      case 'abortClone':
        return this.#cloneAbort.abort(new Error('initial sync was cancelled'));
      case 'initialSyncDone':
        this.cloning = null;
        return saveSynced(this.data, true);
      case 'stable':
        return this.data.setStable(toBson(output.op));
    }
  }

  #rollBack(to: BsonOpTime): void {
    const { undone } = this.data.rollbackTo(to);
    const rbid = this.#state.rbid + 1;
    saveRollbackId(this.data, rbid);
    this.logger.log('I', 'ROLLBACK', 21610, 'ReplCoord', 'Rollback undid operations', {
      count: undone.length,
    });
    this.#dirty = false;
    this.#queue.unshift({ kind: 'rolledBack', position: this.#log.last(), rbid });
  }

  async #findSelf(token: number, config: ReplicaSetConfig): Promise<void> {
    const indexes = await findSelf({
      config,
      address: this.#options.member.address,
      instanceId: this.instanceId,
      pool: this.pool,
      signal: this.#abort.signal,
    });
    this.#feed({ kind: 'selfFound', token, indexes });
  }

  async #send(to: string, token: number, request: PeerRequest, timeout: Millis): Promise<void> {
    let reply: PeerReply;
    try {
      const document = await this.pool.call(to, 'admin', encodeRequest(request), timeout);
      const decoded = decodeReply(request, document);
      reply = decoded.reply;
      if (decoded.entries.length > 0) this.#batches.set(token, decoded.entries);
    } catch (failure) {
      reply = failed(failure);
    }
    this.#feed({ kind: 'reply', token, reply });
  }

  async #clone(token: number, from: string, attempt: number): Promise<void> {
    this.#cloneAbort = new AbortController();
    saveSynced(this.data, false);
    this.cloning = {
      attempt,
      source: from,
      startedAt: this.cloning?.startedAt ?? this.now(),
      beginAt: null,
      stopAt: null,
      totalDocuments: 0,
      clonedDocuments: 0,
      clonedBytes: 0,
      databases: new Map(),
    };
    try {
      const cloned = await clone({
        pool: this.pool,
        from,
        data: this.data,
        progress: this.cloning,
        signal: AbortSignal.any([this.#abort.signal, this.#cloneAbort.signal]),
        delay: this.#options.initialSyncMillis,
        now: () => this.now(),
      });
      this.#dirty = false;
      for (const listener of this.#listeners) listener('initialSync');
      this.#feed({ kind: 'cloned', token, ...cloned });
    } catch (failure) {
      const message = failure instanceof Error ? failure.message : String(failure);
      this.#feed({ kind: 'cloneFailed', token, message });
    }
  }

  /** This member is an arbiter: it holds no data. */
  get isArbiter(): boolean {
    return selfConfig(this.#state)?.arbiterOnly === true;
  }
}

function failed(failure: unknown): FailedReply {
  const message = failure instanceof Error ? failure.message : String(failure);
  if (failure instanceof PeerError) {
    return { kind: 'failed', code: failure.code, codeName: failure.codeName, message, network: false };
  }
  const timedOut = failure instanceof PeerUnreachable && failure.timedOut;
  const [code, codeName] = timedOut ? ([89, 'NetworkTimeout'] as const) : ([6, 'HostUnreachable'] as const);
  return { kind: 'failed', code, codeName, message, network: true };
}
