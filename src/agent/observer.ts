/**
 * Watches one member's database over loopback. The server itself says when something changes: it pushes a hello over the
 * driver's monitor. Status and configuration are read after such a change, and at a slow pace for what makes none (lag,
 * peers). A quiet member costs one status in ten seconds, and no report.
 */

import { isDeepStrictEqual } from 'node:util';
import type { Document, MongoClient } from 'mongodb';
import type { Millis } from '../base/units.ts';
import {
  type DatabaseFacts,
  type PeerFacts,
  type ReplSetConfig,
  ROUTER_UNREACHED,
  type RouterFacts,
} from '../clusters/facts.ts';
import type { Login, MemberSnapshot } from '../clusters/snapshot.ts';
import type { Clock } from '../engine/ports.ts';
import { seriesOf } from '../model/index.ts';
import { bounded } from './clock.ts';
import { plain } from './commands/members.ts';
import { LAG_CONFIRM, type LagMemory, settleLag } from './lag.ts';
import {
  FCV_EVERY,
  LOGIN_RETRY_CAP,
  LOGIN_RETRY_FIRST,
  PROBE_CAP,
  PROBE_FIRST,
  STATUS_CAP,
  STATUS_FIRST,
} from './limits.ts';
import { codeOf, dropClient, endpointOf, listens, openClient, refusal } from './mongo.ts';
import { type HelloReading, readHello, readStatus, replicaSetIdOf, type StatusReading } from './reading.ts';
import { readRouter } from './router.ts';

export interface ObserverOptions {
  readonly clock: Clock;
  /** The facts changed in substance. */
  readonly changed: () => void;
  /** The database answered. */
  readonly answered: () => void;
  /** The database does not answer (any more); the process may have ended. */
  readonly lost: () => void;
  /** Who else has the port, in words; null: the member's own process, or nobody. Only its own has anything to say of it. */
  readonly stranger: (port: number) => string | null;
  /** The set this data belongs to, once read. */
  readonly identified: (replicaSetId: string) => void;
}

/** What one connection's life has shown so far. */
interface Seen {
  binaryVersion: string;
  hello: HelloReading;
  status: StatusReading | null;
  config: ReplSetConfig | null;
  fcv: string | null;
  authenticated: boolean | null;
  usersExist: boolean | null;
  router: RouterFacts | null;
}

/** A client and the newest hello its monitor got. */
interface Watched {
  readonly client: MongoClient;
  hello: Document | null;
}

export class Observer {
  readonly #options: ObserverOptions;
  readonly #lags = new Map<number, LagMemory>();
  #facts: DatabaseFacts | null = null;
  #snapshot: MemberSnapshot | null = null;
  #watched: Watched | null = null;
  #loggedIn = false;
  /** The snapshot's own login was refused: the one to come is tried. */
  #triedNext = false;
  #seen: Seen | null = null;
  /**
   * Halves of a look may be told. Not those of the first one at a process that ran before us: they would be told as a set without
   * its votes, or as a router without its config servers, though nothing happened.
   */
  #whole = true;
  /** Told once when there is something to say of the process, be it that it does not answer. */
  #looked: () => void = () => {};
  readonly looked: Promise<void>;
  /** Changes with every start and loss; what belongs to an older one ends by itself. */
  #round = 0;
  #refreshing = false;
  #refreshAgain = false;
  #pace: Millis = STATUS_FIRST;
  #loginWait: Millis = LOGIN_RETRY_FIRST;
  #loginAt: Millis = 0;
  #fcvAt: Millis = 0;
  #cancelPoll: () => void = () => {};
  #cancelProbe: () => void = () => {};

  constructor(options: ObserverOptions) {
    this.#options = options;
    this.looked = new Promise((resolve) => {
      this.#looked = resolve;
    });
  }

  get facts(): DatabaseFacts | null {
    return this.#facts;
  }

  /** A process runs with this snapshot: watch it. `adopted`: it ran before this agent did. */
  start(snapshot: MemberSnapshot, adopted = false): void {
    this.#reset();
    this.#whole = !adopted;
    this.#snapshot = snapshot;
    this.#show({ kind: 'unreachable', message: `port ${snapshot.port} does not answer yet` });
    void this.#probe(this.#round, PROBE_FIRST);
  }

  /** A newer snapshot that the running process was not restarted for: only the login may differ. */
  update(snapshot: MemberSnapshot): void {
    const before = this.#snapshot;
    if (!before) return;
    this.#snapshot = snapshot;
    // One that is given besides changes nothing for the login in use.
    const same = sameLogin(before.monitor, snapshot.monitor);
    if (same || !this.#seen) return;
    this.#triedNext = false;
    this.#logOut();
    this.poke();
  }

  /** Nothing runs. */
  stop(): void {
    this.#reset();
    this.#snapshot = null;
    this.#show(null);
    this.#looked();
  }

  /** Something was just done to the database: look now. */
  poke(): void {
    if (!this.#seen) return;
    this.#pace = STATUS_FIRST;
    this.#fcvAt = 0;
    this.#loginAt = 0;
    this.#loginWait = LOGIN_RETRY_FIRST;
    void this.#refresh(this.#round);
  }

  #reset(): void {
    this.#round++;
    this.#cancelPoll();
    this.#cancelProbe();
    dropClient(this.#watched?.client ?? null);
    this.#watched = null;
    this.#loggedIn = false;
    this.#triedNext = false;
    this.#seen = null;
    this.#whole = true;
    this.#refreshing = false;
    this.#refreshAgain = false;
    this.#lags.clear();
    this.#pace = STATUS_FIRST;
    this.#loginWait = LOGIN_RETRY_FIRST;
    this.#loginAt = 0;
  }

  #lose(round: number, failure: unknown): void {
    if (round !== this.#round) return;
    const { message } = refusal(failure);
    this.#reset();
    this.#show({ kind: 'unreachable', message });
    this.#looked();
    this.#options.lost();
    // `lost` may have found that the process is gone and stopped us.
    if (this.#snapshot) void this.#probe(this.#round, PROBE_FIRST);
  }

  // ── connect ────────────────────────────────────────────────────────────────────────────────────────────────────

  /** A bare TCP connection first: while a server starts, a driver's attempts would cost far more and take longer. */
  async #probe(round: number, wait: Millis): Promise<void> {
    const port = this.#snapshot?.port ?? 0;
    const listening = await listens(port);
    if (round !== this.#round) return;
    const { clock } = this.#options;
    const message = listening ? this.#strange() : null;
    if (message !== null) this.#show({ kind: 'unreachable', message });
    if (listening && message === null) return this.#open(round);
    this.#looked();
    this.#cancelProbe = clock.at(
      clock.now() + wait,
      () => void this.#probe(round, Math.min(PROBE_CAP, wait * 1.15)),
    );
  }

  async #open(round: number): Promise<void> {
    const snapshot = this.#snapshot;
    if (!snapshot) return;
    const watched = this.#connect(snapshot, null);
    this.#watched = watched;
    try {
      // The driver sends nothing before its monitor had a first hello, so there is one when this answers.
      const build = await this.#bounded(watched.client.db('admin').command({ buildInfo: 1 }));
      if (round !== this.#round) return;
      this.#seen = {
        binaryVersion: String(build['psmdbVersion'] ?? build['version'] ?? ''),
        hello: readHello(watched.hello ?? {}),
        status: null,
        config: null,
        fcv: null,
        authenticated: null,
        usersExist: null,
        router: snapshot.product === 'mongos' ? ROUTER_UNREACHED : null,
      };
      this.#options.answered();
      this.#combine();
      void this.#refresh(round);
    } catch (failure) {
      this.#lose(round, failure);
    }
  }

  /** A client whose hellos count as long as it is the one in use; the newest is kept for the moment it becomes that. */
  #connect(snapshot: MemberSnapshot, login: Login | null): Watched {
    const round = this.#round;
    const client = openClient(endpointOf(snapshot), login, {
      hello: (reply) => {
        // Anew for every connection: the process may have died and its port been taken before this one was made.
        const strange = watched.hello === null ? this.#strange() : null;
        if (strange !== null) {
          if (watched === this.#watched) this.#lose(round, new Error(strange));
          return;
        }
        watched.hello = reply;
        if (watched === this.#watched) this.#take(round, reply);
      },
      broken: (failure) => {
        watched.hello = null;
        if (watched === this.#watched) this.#lose(round, failure);
      },
    });
    const watched: Watched = { client, hello: null };
    return watched;
  }

  /** In words, when it is not the member's own process that has its port. */
  #strange(): string | null {
    const { port } = this.#snapshot ?? { port: 0 };
    const by = this.#options.stranger(port);
    return by === null ? null : `port ${port} is taken by ${by}`;
  }

  // ── hello ──────────────────────────────────────────────────────────────────────────────────────────────────────

  #take(round: number, reply: Document): void {
    const seen = this.#seen;
    if (!seen || round !== this.#round) return;
    const hello = readHello(reply);
    if (isDeepStrictEqual(hello, seen.hello)) return;
    seen.hello = hello;
    this.#pace = STATUS_FIRST;
    this.#combine();
    void this.#refresh(round);
  }

  // ── status ─────────────────────────────────────────────────────────────────────────────────────────────────────

  async #refresh(round: number): Promise<void> {
    if (round !== this.#round) return;
    if (this.#refreshing) {
      this.#refreshAgain = true;
      return;
    }
    this.#refreshing = true;
    this.#cancelPoll();
    const watched = this.#watched;
    try {
      await this.#read();
    } catch (failure) {
      // Another login took the client's place below the look: that says nothing of the database.
      if (round === this.#round && watched !== this.#watched) {
        this.#refreshing = false;
        void this.#refresh(round);
      } else this.#lose(round, failure);
      return;
    }
    if (round !== this.#round) return;
    this.#refreshing = false;
    this.#whole = true;
    this.#combine();
    this.#looked();
    if (this.#refreshAgain) {
      this.#refreshAgain = false;
      void this.#refresh(round);
    } else this.#schedule(round);
  }

  #schedule(round: number): void {
    const { clock } = this.#options;
    const wait = Math.min(this.#nextLook(), this.#loginDue(clock.now()));
    this.#cancelPoll();
    this.#cancelPoll = clock.at(clock.now() + wait, () => void this.#refresh(round));
    this.#pace = Math.min(STATUS_CAP, this.#pace * 1.5);
  }

  #nextLook(): Millis {
    if ([...this.#lags.values()].some((lag) => lag.doubtSince !== null)) return LAG_CONFIRM;
    return this.#quiet() ? STATUS_CAP : this.#pace;
  }

  #loginDue(now: Millis): Millis {
    const due = this.#seen?.authenticated === false || (this.#seen?.router != null && !this.#loggedIn);
    return due ? Math.max(0, this.#loginAt - now) : Number.POSITIVE_INFINITY;
  }

  /** Nothing is going on: either there is no set yet, or all of it is up and we can see it. */
  #quiet(): boolean {
    const seen = this.#seen;
    if (!seen || seen.hello.initiated === false) return true;
    if (seen.router !== null) return seen.router.configReachable && !seen.router.balancing;
    if (!seen.authenticated || seen.hello.primary === null) return false;
    return (seen.status?.peers ?? []).every(
      (peer) => peer.healthy && /^(PRIMARY|SECONDARY|ARBITER)$/.test(peer.state),
    );
  }

  async #read(): Promise<void> {
    const seen = this.#seen;
    if (!seen || !this.#watched) return;
    if (this.#snapshot?.product === 'mongos') {
      if (!this.#loggedIn) await this.#logIn(seen);
      if (this.#loggedIn) await this.#readAsRouterMonitor(seen, this.#watched.client);
      return;
    }
    if (!this.#loggedIn) await this.#readAsStranger(seen, this.#watched.client);
    if (!this.#loggedIn && seen.usersExist === true) await this.#logIn(seen);
    if (this.#loggedIn) await this.#readAsMonitor(seen, this.#watched.client);
  }

  /**
   * Whether users exist, without being one. While there is no user and no role, the localhost exception lets a loopback
   * connection call replSetGetStatus (it answers, or says 94 before the initiation); once it is closed the answer is 13.
   */
  async #readAsStranger(seen: Seen, client: MongoClient): Promise<void> {
    try {
      const reply = await this.#bounded(client.db('admin').command({ replSetGetStatus: 1 }));
      seen.usersExist = false;
      seen.status = readStatus(reply);
    } catch (failure) {
      const code = codeOf(failure);
      if (code === null) throw failure;
      if (code === 94 || code === 93 || code === 76) seen.usersExist = false;
      else if (code === 13) seen.usersExist = true;
    }
  }

  async #logIn(seen: Seen): Promise<void> {
    const { clock } = this.#options;
    const snapshot = this.#snapshot;
    if (!snapshot || clock.now() < this.#loginAt) return;
    const round = this.#round;
    const watched = this.#connect(snapshot, this.#usable(snapshot));
    const { client } = watched;
    try {
      await this.#bounded(client.db('admin').command({ connectionStatus: 1 }));
    } catch (failure) {
      dropClient(client);
      const code = codeOf(failure);
      if (code === AUTHENTICATION_FAILED && snapshot.nextMonitor !== null && !this.#triedNext) {
        // While passwords change, whichever of the two works is the right one (A13.4).
        this.#triedNext = true;
        await this.#logIn(seen);
        return;
      }
      this.#triedNext = false;
      if (code === null) throw failure;
      // A router that cannot ask its config servers knows no users: that says nothing of our password.
      seen.authenticated = snapshot.product === 'mongos' && code !== 18 ? null : false;
      this.#loginAt = clock.now() + this.#loginWait;
      this.#loginWait = Math.min(LOGIN_RETRY_CAP, this.#loginWait * 2);
      return;
    }
    // A newer snapshot may have come meanwhile: its login is the one that counts.
    if (round !== this.#round || snapshot !== this.#snapshot) {
      dropClient(client);
      return;
    }
    // No hello of it counted: members of one cluster share their passwords, and a login proves no more than that.
    if (watched.hello === null) {
      dropClient(client);
      throw new Error(this.#strange() ?? 'another process answered');
    }
    this.#use(watched);
    this.#loggedIn = true;
    seen.authenticated = true;
  }

  #usable({ monitor, nextMonitor }: MemberSnapshot): Login {
    return this.#triedNext && nextMonitor !== null ? nextMonitor : monitor;
  }

  /** The login is no good (any more): look as a stranger until one is. */
  #logOut(): void {
    const snapshot = this.#snapshot;
    if (!this.#loggedIn || !snapshot) return;
    this.#use(this.#connect(snapshot, null));
    this.#loggedIn = false;
  }

  #use(watched: Watched): void {
    const before = this.#watched;
    this.#watched = watched;
    dropClient(before?.client ?? null);
    if (watched.hello) this.#take(this.#round, watched.hello);
  }

  async #readAsMonitor(seen: Seen, client: MongoClient): Promise<void> {
    const db = client.db('admin');
    try {
      const status = readStatus(await this.#bounded(db.command({ replSetGetStatus: 1 })));
      const moved = seen.config === null || status.configVersion !== seen.config.version;
      if (moved || status.term !== seen.status?.term) {
        const reply = await this.#bounded(db.command({ replSetGetConfig: 1 }));
        seen.config = plain<ReplSetConfig>(reply['config'] as Document);
        const parameters = await this.#bounded(
          db.command({ getParameter: 1, featureCompatibilityVersion: 1 }),
        );
        seen.fcv = fcvOf(parameters);
        const id = replicaSetIdOf(seen.config);
        if (id !== null) this.#options.identified(id);
      }
      seen.status = status;
      await this.#readFcv(seen, client);
    } catch (failure) {
      const code = codeOf(failure);
      if (code === null) throw failure;
      // Dropped users or a changed password show as these; anything else (not initiated, removed) has no status to give.
      if (code === 13 || code === 18) {
        seen.authenticated = false;
        this.#logOut();
      }
      if (code === 94 || code === 93) seen.status = null;
    }
  }

  async #readAsRouterMonitor(seen: Seen, client: MongoClient): Promise<void> {
    try {
      seen.router = await readRouter((name, command) => this.#bounded(client.db(name).command(command)));
    } catch (failure) {
      if (codeOf(failure) === null) throw failure;
      seen.authenticated = false;
      seen.router = ROUTER_UNREACHED;
      this.#logOut();
    }
  }

  /** It changes only when somebody raises it, or the set becomes a shard: asked for rarely where it is that of the binary. */
  async #readFcv(seen: Seen, client: MongoClient): Promise<void> {
    const now = this.#options.clock.now();
    const every = seen.fcv === seriesOf(seen.binaryVersion) ? FCV_EVERY : STATUS_CAP;
    if (seen.fcv !== null && now - this.#fcvAt < every) return;
    const parameters = await this.#bounded(
      client.db('admin').command({ getParameter: 1, featureCompatibilityVersion: 1 }),
    );
    seen.fcv = fcvOf(parameters);
    this.#fcvAt = now;
  }

  // ── facts ──────────────────────────────────────────────────────────────────────────────────────────────────────

  #combine(): void {
    const seen = this.#seen;
    if (!seen || !this.#whole) return;
    const { hello, status } = seen;
    this.#show({
      kind: 'reachable',
      binaryVersion: seen.binaryVersion,
      featureCompatibilityVersion: seen.fcv,
      initiated: hello.initiated,
      setName: hello.setName,
      replicaSetId: seen.config ? replicaSetIdOf(seen.config) : null,
      state: hello.state ?? status?.state ?? null,
      term: status?.term ?? null,
      // A router calls itself writable; it is no primary.
      writablePrimary: seen.router === null && hello.writablePrimary,
      primary: hello.primary,
      peers: hello.initiated ? this.#settlePeers(status?.peers ?? []) : [],
      config: seen.config,
      initialSyncPercent: status?.initialSyncPercent ?? null,
      ...(status?.lastAppliedAt == null ? {} : { lastAppliedAt: status.lastAppliedAt }),
      authenticated: seen.authenticated,
      usersExist: seen.usersExist,
      ...(seen.router === null ? {} : { router: seen.router }),
    });
  }

  #settlePeers(peers: readonly PeerFacts[]): readonly PeerFacts[] {
    const now = this.#options.clock.now();
    return peers.map((peer) => {
      const memory = this.#lags.get(peer.id) ?? { shown: null, doubtSince: null };
      const settled = settleLag(memory, peer.lagMillis, now);
      this.#lags.set(peer.id, settled);
      return { ...peer, lagMillis: settled.shown };
    });
  }

  #show(facts: DatabaseFacts | null): void {
    if (isDeepStrictEqual(facts, this.#facts)) return;
    this.#facts = facts;
    this.#pace = STATUS_FIRST;
    this.#options.changed();
  }

  // ── time ───────────────────────────────────────────────────────────────────────────────────────────────────────

  #bounded<T>(answer: Promise<T>, limit?: Millis): Promise<T> {
    return bounded(this.#options.clock, answer, limit);
  }
}

/** `{version}` of the parameter; while it is being raised there is a `targetVersion` too, which is not reached yet. */
function fcvOf(parameters: Document): string | null {
  const version = (parameters['featureCompatibilityVersion'] as { version?: unknown } | undefined)?.version;
  return typeof version === 'string' ? version : null;
}

const AUTHENTICATION_FAILED = 18;

const sameLogin = (a: Login, b: Login): boolean =>
  a.user === b.user && a.password.reveal() === b.password.reveal();
