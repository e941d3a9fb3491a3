/**
 * The one maintenance authority at run time: durable, shared by all control planes on a store, and the only place that
 * grants (C1.6, C3.2, S13). Decisions are made by the pure desk one at a time; each is written under a counter that two
 * control planes cannot both move, and made anew by the one that comes second.
 */
import { BelayError } from '../base/error.ts';
import type { Millis } from '../base/units.ts';
import type { Holder } from '../engine/gate.ts';
import type { Clock, Log, NewEvent, Store, StoredObject } from '../engine/ports.ts';
import {
  type ActionRef,
  type Admission,
  admitMember,
  BETTER,
  type CompleteReply,
  completeActions,
  createTask,
  currentTask,
  Desk,
  type DeskOptions,
  dropTask,
  type Entry,
  extendActions,
  Fleet,
  getTask,
  HAND_OVER_TAKES,
  type HandOver,
  isHold,
  listTasks,
  type MemberAsk,
  ORIGINAL,
  refreshTask,
  releaseMember,
  sameAsk,
  specDocument,
  type TaskOptions,
  type TaskReply,
  type TaskSpec,
  type TaskStatus,
  taskSpecOf,
  withdrawPending,
} from '../maintenance/index.ts';
import { isDnsName } from '../model/index.ts';
import { eventsOf, switchEvent } from './events.ts';
import { TaskFeed } from './feed.ts';
import { LiveFleet } from './fleet.ts';
import { goOn, isHandingOver, waitsForHandOver } from './handOvers.ts';
import {
  Ledger,
  placeOf,
  type Switched,
  TASK_KIND,
  type TaskDocument,
  type TaskPlace,
  taskKey,
} from './ledger.ts';
import { ATTEMPTS, SWEEP_RETRY, WISH_PATIENCE, WISH_REFRESH } from './limits.ts';
import type { FleetSource } from './ports.ts';
import { hostHolders, nodeHolder } from './taskHolders.ts';
import {
  type HostView,
  hostViews,
  type NodeView,
  nodeViews,
  type TopologyHolder,
  topologyHolders,
} from './views.ts';

export interface AuthorityOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly source: FleetSource;
  readonly desk?: DeskOptions;
}

export class Authority {
  readonly #options: AuthorityOptions;
  readonly #ledger: Ledger;
  readonly #live: LiveFleet;
  readonly #feed: TaskFeed;
  readonly #abort = new AbortController();
  readonly #listeners = new Set<() => void>();
  #desk: Desk;
  #disabled = false;
  #switched: Switched | undefined;
  /** False: what is in memory may not be what is in the store. */
  #loaded = false;
  #places = new Map<string, TaskPlace>();
  #turn: Promise<unknown> = Promise.resolve();
  #cancelTimer: (() => void) | null = null;
  #following: Promise<void> = Promise.resolve();
  #stopSource: () => void = () => {};
  /** A look at hand-overs, or at what others decided, is to come. */
  #looking = false;

  constructor(options: AuthorityOptions) {
    this.#options = options;
    this.#ledger = new Ledger(options.store);
    this.#live = new LiveFleet(options.source);
    this.#desk = new Desk(new Fleet({ nodes: [] }), undefined, options.desk);
    const { store, clock, log } = options;
    this.#feed = new TaskFeed(
      { store, clock, log, signal: this.#abort.signal },
      {
        adopt: (object) => this.adopt(object),
        gone: (object) => this.#gone(object),
        decided: () => this.#hear(),
        missed: () => {
          this.#loaded = false;
        },
      },
    );
  }

  /** Reads what stands and follows what others do from now on. */
  async open(): Promise<void> {
    const { resourceVersion } = await this.#options.store.list({ kind: TASK_KIND, limit: 1 });
    await this.#transact(() => undefined);
    this.#following = this.#feed.follow(resourceVersion);
    this.#stopSource = this.#options.source.onChange(() => this.#lookSoon());
  }

  async close(): Promise<void> {
    this.#abort.abort();
    this.#cancelTimer?.();
    this.#stopSource();
    await this.#following;
    await this.#turn.catch(() => undefined);
  }

  /** Something was granted, given back or asked for, here or elsewhere. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  // ── tasks ──────────────────────────────────────────────────────────────────────────────────────────────────────────

  /** A new task. Nothing is left behind unless the answer is SUCCESS. An empty identity is given one. */
  async create(asked: TaskSpec, topology: string | undefined, options: TaskOptions = {}): Promise<TaskReply> {
    const uid = asked.uid === '' ? `m-${crypto.randomUUID().slice(0, 8)}` : asked.uid;
    const spec = { ...asked, uid };
    if (spec.dryRun)
      return this.#transact((desk, now) => {
        if (options.evenOff === true) desk.configure({ disabled: false });
        return createTask(desk, spec, now, options);
      });
    const name = isDnsName(uid) ? uid : `task-${crypto.randomUUID()}`;
    const release = this.#feed.claim(name);
    let place: TaskPlace | null = null;
    try {
      return await this.#transact(async (desk, now) => {
        // Made by us a moment ago, and decided on by another control plane meanwhile.
        const ours = desk.task(uid);
        if (place !== null && ours !== undefined && this.#places.get(ours.id)?.uid === place.uid)
          return getTask(desk, uid, now);
        const reply = createTask(desk, spec, now, options);
        if (reply.entry === null) return reply;
        // The object is made before the decision is written, empty: whoever sees it first decides on it, and once only.
        place ??= await this.#place(name, specDocument(spec, topology, name, options.compat === ORIGINAL));
        if (place === null) {
          desk.drop(reply.entry.id);
          const issues = [`Maintenance task already exists: ${uid}`];
          return { ...reply, status: 'BAD_REQUEST' as const, issues, groups: [], entry: null };
        }
        this.#places.set(reply.entry.id, place);
        return reply;
      }).then(async (reply) => {
        if (reply.entry === null && place !== null) await this.#ledger.remove(taskKey(name));
        // The identity is taken by a task that nobody has decided on yet: an earlier try, whose answer was lost.
        const taken = reply.entry === null && place === null && (await this.#ledger.undecided(uid)) !== null;
        return taken ? { ...reply, issues: [`Maintenance task already exists: ${uid}`] } : reply;
      });
    } finally {
      release();
    }
  }

  async #place(name: string, spec: TaskDocument): Promise<TaskPlace | null> {
    try {
      return await this.#ledger.place(name, spec);
    } catch (failure) {
      if (failure instanceof BelayError && failure.code === 'AlreadyExists') return null;
      throw failure;
    }
  }

  refresh(uid: string): Promise<TaskReply> {
    return this.#transact((desk, now) => {
      const entry = desk.task(uid);
      const keeps = entry !== undefined && waitsForHandOver(entry) && isHandingOver(desk, entry, now);
      if (keeps) {
        desk.stillWanted(entry.id, now);
        return { ...getTask(desk, uid, now), retryAfter: now + HAND_OVER_TAKES };
      }
      return refreshTask(desk, uid, now);
    }).then((reply) => this.#orUndecided(uid, reply));
  }

  get(uid: string): Promise<TaskReply> {
    return this.#transact((desk, now) => {
      const entry = desk.task(uid);
      const handing = entry !== undefined && waitsForHandOver(entry) && isHandingOver(desk, entry, now);
      return handing ? getTask(desk, uid, now) : currentTask(desk, uid, now);
    }).then((reply) => this.#orUndecided(uid, reply));
  }

  /** One that is not known may be a document nobody has decided on yet: whoever made it got no answer. */
  async #orUndecided(uid: string, reply: TaskReply): Promise<TaskReply> {
    if (reply.entry !== null) return reply;
    const object = await this.#ledger.undecided(uid);
    const refused = object === null ? await this.#ledger.refused(uid) : null;
    if (refused !== null) {
      const why = (refused.status as { readonly message?: string }).message ?? '';
      return { ...reply, issues: [`Maintenance task ${uid} was refused: ${why}`] };
    }
    if (object === null) return reply;
    return (await this.adopt(object)) ?? this.#transact((desk, now) => getTask(desk, uid, now));
  }

  /** Of one owner, or of all when it is empty. The engine's own holds are no tasks; `holds`: they are listed as well. */
  list(owner: string, { holds = false } = {}): Promise<readonly string[]> {
    return this.#transact((desk, now) =>
      listTasks(desk, owner, now).filter((uid) => holds || !uid.startsWith('hold:')),
    );
  }

  /** `by`: who asks, for the record. */
  async drop(uid: string, options: TaskOptions = {}, by = ''): Promise<TaskReply> {
    const reply = await this.#transact((desk, now) => dropTask(desk, uid, now, options), { by });
    if (reply.status === 'SUCCESS') return reply;
    const object = (await this.#ledger.undecided(uid)) ?? (await this.#ledger.refused(uid));
    if (object === null) return reply;
    await this.#ledger.remove(taskKey(object.metadata.name));
    return { ...reply, status: 'SUCCESS', issues: [] };
  }

  /** One task as it stands; null: there is none. A document that nobody has decided on yet stays undecided. */
  find(uid: string): Promise<Entry | null> {
    return this.#transact((desk, now) => {
      desk.expire(now);
      return desk.task(uid) ?? null;
    });
  }

  complete(ids: readonly (ActionRef | string)[], by = ''): Promise<CompleteReply> {
    return this.#transact((desk, now) => completeActions(desk, ids, now), { by });
  }

  /** Granted actions are held for so long from now on; SUCCESS, or BAD_REQUEST when one of them is not held any more. */
  extend(ids: readonly string[], duration: Millis): Promise<TaskStatus> {
    return this.#transact((desk, now) => extendActions(desk, ids, duration, now));
  }

  /** What a task waits for is not wanted any more; what it holds stays held. */
  withdraw(uid: string, by = ''): Promise<TaskReply> {
    return this.#transact((desk, now) => withdrawPending(desk, uid, now), { by });
  }

  /** How far the drain of an action is, in percent; null: it has ended. */
  progress(id: string, percent: number | null): Promise<void> {
    return this.#transact((desk) => desk.progress(id, percent));
  }

  /** Switches new grants off or on for everybody; what is held stays held. */
  async setDisabled(disabled: boolean, by = ''): Promise<void> {
    await this.#transact((_, at) => {
      if (this.#disabled === disabled) return;
      this.#disabled = disabled;
      this.#switched = { by, at };
    });
    // Documents that came while it was off are decided on now.
    if (disabled) return;
    this.#loaded = false;
    await this.#transact(() => undefined);
  }

  /** Whether new grants are switched off, and who switched last; undefined: nobody has. */
  switchState(): Promise<{ readonly disabled: boolean; readonly switched: Switched | undefined }> {
    return this.#transact(() => ({ disabled: this.#disabled, switched: this.#switched }));
  }

  /** Topology a task's nodes belong to, by their keys; undefined: managed databases. */
  topologyOf(reply: TaskReply): string | undefined {
    for (const { action } of reply.groups.flat()) {
      const { scope } = action;
      const key =
        scope.kind === 'node'
          ? scope.node
          : scope.kind === 'disks' && scope.disks[0]?.kind === 'id'
            ? scope.disks[0].node
            : null;
      const node = key === null ? undefined : this.#live.node(key);
      if (node?.id !== undefined) return node.cluster;
    }
    return undefined;
  }

  /** Name of the object a task is kept in. */
  nameOf(entry: Entry): string | null {
    return this.#places.get(entry.id)?.key.name ?? null;
  }

  // ── the engine's own work ──────────────────────────────────────────────────────────────────────────────────────────

  /**
   * May this member be taken down now? Granted: until it is released or its deadline has passed. Refused: the wish is
   * remembered and goes before less urgent ones, as long as it is repeated within two minutes.
   */
  async acquire(ask: MemberAsk): Promise<Admission> {
    return this.#transact((desk, now) => {
      const known = desk.task(`hold:${ask.id}`);
      const fresh = known !== undefined && sameAsk(known, ask) && known.refreshedAt + WISH_REFRESH > now;
      if (fresh) {
        const tried = admitMember(desk, ask, now, { dry: true });
        if (tried.kind === 'refused') return tried;
      }
      return admitMember(desk, ask, now);
    });
  }

  /** Only asks; nothing is locked and nothing remembered. */
  mayTake(ask: MemberAsk): Promise<Admission> {
    return this.#transact((desk, now) => admitMember(desk, ask, now, { dry: true }));
  }

  /** The work is done, or is not wanted any more. */
  release(id: string): Promise<void> {
    return this.#transact((desk) => releaseMember(desk, id));
  }

  /** Ids of what the engine holds or waits for, of those that begin so. From memory: as this process last knew it. */
  holds(prefix: string): readonly string[] {
    return [...this.#desk.entries()]
      .filter((entry) => isHold(entry) && entry.uid?.startsWith(`hold:${prefix}`))
      .map((entry) => String(entry.uid).slice('hold:'.length));
  }

  /** Members that are to hand over before a person's task gets them. From memory: as this process last knew it. */
  handOvers(): readonly HandOver[] {
    return this.#desk.handOvers();
  }

  // ── views ──────────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Every node with its holder, deadline and waiting tasks; of one topology or database when it is named. */
  nodes(cluster?: string): Promise<readonly NodeView[]> {
    return this.#transact((desk, now) => {
      desk.expire(now);
      return nodeViews(desk, this.#live.nodes(), cluster);
    });
  }

  hosts(): Promise<readonly HostView[]> {
    return this.#transact((desk, now) => {
      desk.expire(now);
      return hostViews(desk, [...this.#live.nodes()], now);
    });
  }

  /** Who holds something of this topology, each permission once. */
  topologyHolders(topology: string): Promise<readonly TopologyHolder[]> {
    return this.#transact((desk, now) => {
      desk.expire(now);
      return topologyHolders(desk, topology);
    });
  }

  /** Which person's task holds a node, by key; null: none. From memory: as this process last knew it. */
  holderOf(key: string): Holder | null {
    return nodeHolder(this.#desk, key, this.#options.clock.now());
  }

  /** Which person's task holds a host as a whole; null: none. From memory: as this process last knew it. */
  hostHolderOf(host: string): Holder | null {
    for (const [held, holder] of hostHolders(this.#desk, this.#options.clock.now()))
      if (held === host) return holder;
    return null;
  }

  /** Hosts that people's tasks hold as a whole. From memory, too. */
  heldHosts(): ReadonlyMap<string, Holder> {
    return new Map(hostHolders(this.#desk, this.#options.clock.now()));
  }

  /** The part of the fleet with this name, `topology/NAME` or a database's `mongodb/NAMESPACE/NAME`. */
  part(name: string): ReturnType<LiveFleet['part']> {
    this.#live.refresh(this.#options.clock.now());
    return this.#live.part(name);
  }

  // ── one decision at a time ─────────────────────────────────────────────────────────────────────────────────────────

  #transact<T>(work: (desk: Desk, now: Millis) => T | Promise<T>, { by = '' } = {}): Promise<T> {
    const turn = this.#turn.then(() => this.#decide(work, by));
    this.#turn = turn.catch(() => undefined);
    return turn;
  }

  async #decide<T>(work: (desk: Desk, now: Millis) => T | Promise<T>, by: string): Promise<T> {
    for (let left = ATTEMPTS; ; left--) {
      await this.#catchUp();
      const book = this.#desk.book();
      const before = new Map(book.entries.map((entry) => [entry.id, entry]));
      const disabled = this.#disabled;
      try {
        const result = await work(this.#desk, this.#options.clock.now());
        await this.#write(before, disabled !== this.#disabled, by);
        return result;
      } catch (failure) {
        // Whatever was decided in memory is not known to be written: only the store tells. Until it does, what was known stands:
        // a hold that was given back in vain is given back again.
        this.#loaded = false;
        this.#desk.replaceBook(book);
        const raced = failure instanceof BelayError && failure.code === 'StateConflict';
        if (!raced || left <= 1) throw failure;
      }
    }
  }

  /** Memory as the store and the source have it. */
  async #catchUp(): Promise<void> {
    const { clock } = this.#options;
    if (!this.#loaded || !(await this.#ledger.isCurrent())) {
      this.#loaded = false;
      const loaded = await this.#ledger.load();
      this.#live.refresh(clock.now());
      this.#disabled = loaded.disabled;
      this.#switched = loaded.switched;
      this.#places = new Map(loaded.places);
      this.#desk.replaceBook(loaded.book);
      this.#loaded = true;
      this.#feed.found(loaded.undecided);
      for (const key of loaded.ended) this.#clear(key);
    }
    this.#live.refresh(clock.now());
    if (this.#desk.fleet !== this.#live.fleet) this.#desk.replaceFleet(this.#live.fleet);
    this.#desk.configure({ disabled: this.#disabled });
    this.#desk.takeChanges();
  }

  /** Whoever ended this task did not come to take its object away. */
  #clear(key: TaskPlace['key']): void {
    if (this.#abort.signal.aborted) return;
    this.#ledger.remove(key).catch(() => {
      const { clock } = this.#options;
      clock.at(clock.now() + SWEEP_RETRY, () => this.#clear(key));
    });
  }

  async #write(before: ReadonlyMap<string, Entry>, switches: boolean, by: string): Promise<void> {
    const ids = this.#desk.takeChanges();
    const real = ids.filter((id) => before.get(id) !== this.#desk.entry(id));
    if (real.length === 0 && !switches) return;
    const changed: { place: TaskPlace; entry: Entry | null }[] = [];
    const events: NewEvent[] = [];
    const now = this.#options.clock.now();
    for (const id of real) {
      const entry = this.#desk.entry(id) ?? null;
      const place = this.#places.get(id);
      if (place === undefined) continue;
      changed.push({ place, entry });
      events.push(...eventsOf(place, before.get(id) ?? null, entry, now, by));
    }
    const holds = [...this.#desk.entries()].filter(isHold);
    if (switches) events.push(switchEvent(this.#disabled, this.#switched?.by ?? '', now));
    await this.#ledger.commit(this.#desk.book(), holds, changed, events, this.#disabled, this.#switched);
    for (const { place, entry } of changed) {
      if (entry !== null) continue;
      // Its locks are gone with the commit; that the object lingers for a moment means nothing.
      await this.#ledger.remove(place.key).catch(() => this.#clear(place.key));
    }
    for (const id of real) if (this.#desk.entry(id) === undefined) this.#places.delete(id);
    this.#schedule();
    this.#tellListeners();
  }

  #tellListeners(): void {
    for (const listener of this.#listeners) listener();
    this.#lookSoon();
  }

  // ── hand-overs ─────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Somebody waits for a hand-over and something moved: once for everything that moves now. */
  #lookSoon(): void {
    if (this.#looking || this.#abort.signal.aborted || this.#desk.handOvers().length === 0) return;
    this.#looking = true;
    const looked = this.#transact((desk, now) => {
      this.#looking = false;
      for (const entry of [...desk.entries()]) if (waitsForHandOver(entry)) goOn(desk, entry, now);
    });
    looked.catch((failure) => {
      this.#looking = false;
      this.#options.log.warn('a hand-over could not be followed up', { failure: String(failure) });
    });
  }

  // ── time and others ────────────────────────────────────────────────────────────────────────────────────────────────

  #schedule(): void {
    this.#cancelTimer?.();
    const { clock } = this.#options;
    const wishes = [...this.#desk.entries()].filter((e) => isHold(e) && e.held.length === 0);
    const next = Math.min(this.#desk.nextDeadline, ...wishes.map((e) => e.refreshedAt + WISH_PATIENCE));
    if (!Number.isFinite(next)) return;
    this.#cancelTimer = clock.at(Math.max(next, clock.now()), () => this.#sweep());
  }

  /** Deadlines that have passed and wishes nobody repeats. */
  #sweep(): void {
    if (this.#abort.signal.aborted) return;
    const swept = this.#transact((desk, now) => {
      desk.expire(now);
      for (const entry of [...desk.entries()]) {
        const idle = isHold(entry) && entry.held.length === 0 && entry.refreshedAt + WISH_PATIENCE <= now;
        if (idle) desk.drop(entry.id);
      }
    });
    swept.then(
      () => this.#schedule(),
      (failure) => {
        this.#options.log.warn('maintenance deadlines could not be written', { failure: String(failure) });
        const { clock } = this.#options;
        this.#cancelTimer = clock.at(clock.now() + SWEEP_RETRY, () => this.#sweep());
      },
    );
  }

  /** Another control plane may have decided something that matters to those who listen here. */
  async #hear(): Promise<void> {
    const current = this.#loaded && (await this.#ledger.isCurrent().catch(() => true));
    if (current || this.#abort.signal.aborted) return;
    await this.#transact(() => undefined).catch(() => undefined);
    this.#tellListeners();
  }

  async #gone(object: StoredObject): Promise<void> {
    const id = [...this.#places].find(([, place]) => place.uid === object.metadata.uid)?.[0];
    if (id === undefined) return;
    await this.#transact((desk) => desk.drop(id)).catch((failure) => {
      this.#loaded = false;
      this.#options.log.warn('a dropped task could not be forgotten yet', { failure: String(failure) });
    });
  }

  /**
   * Decides on a document that somebody has applied. One that can never be granted says so in its status and stays; while grants
   * are switched off nothing is decided.
   */
  async adopt(object: StoredObject): Promise<TaskReply | null> {
    const spec = object.spec as TaskDocument;
    const name = object.metadata.name;
    return this.#transact(async (desk, now) => {
      const current = await this.#options.store.get(taskKey(name));
      if (current === null || current.status !== null || current.metadata.uid !== object.metadata.uid)
        return null;
      const reply = createTask(desk, taskSpecOf(name, spec, 'unknown'), now, {
        compat: spec.compat === true ? ORIGINAL : BETTER,
      });
      if (reply.entry === null && reply.status === 'UNAVAILABLE' && this.#disabled) return reply;
      if (reply.entry === null) await this.#ledger.refuse(object, reply.issues.join('; '));
      else this.#places.set(reply.entry.id, placeOf(object));
      return reply;
    });
  }
}
