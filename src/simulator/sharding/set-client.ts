/** Follows a replica set from outside: knows its members and primary, and sends commands there, through failovers. */
import { setTimeout as pause } from 'node:timers/promises';
import type { Document, ObjectId } from 'bson';
import { type Millis, SECOND } from '../../base/units.ts';
import { fail } from '../commands/errors.ts';
import type { ServerError } from '../contracts.ts';
import { toNumber } from '../data/index.ts';
import { PeerError, PeerUnreachable } from '../replication/peer-connection.ts';
import type { PeerPool } from '../replication/peer-pool.ts';
import type { SetAddress } from './set-name.ts';

/** A member that does not say hello within this time is not there. */
const HELLO_LIMIT: Millis = 5 * SECOND;
/** How often members are asked while someone waits for a primary, and how often otherwise. */
const LOOK_LIMIT: Millis = 500;
const SEARCH_PAUSE: Millis = 100;
const WATCH_PAUSE: Millis = 2 * SECOND;
/** A command that takes longer than this is given up. */
const COMMAND_LIMIT: Millis = 600 * SECOND;

/** A command is sent again at most so often. */
const MAX_SENDS = 10;

/** Codes of members that cannot serve now; the command was not run. */
const NOT_PRIMARY: ReadonlySet<number> = new Set([10107, 13435]);
/** Codes of members that are going away; the command may have been run. */
const GOING: ReadonlySet<number> = new Set([91, 189, 11600, 11602, 13436]);

/** When a command may be sent again: whenever it failed on the way, only when it was surely not run, or not at all. */
export type Resend = 'always' | 'unsent' | 'never';

export interface SendOptions {
  readonly resend: Resend;
  readonly timeout?: Millis;
  /** Waits no longer than this for a primary. */
  readonly select?: Millis;
  /** Whom to ask; the primary when it says nothing. */
  readonly preference?: Document | undefined;
}

/** A reply and the member it came from. */
export interface Answer {
  readonly reply: Document;
  readonly host: string;
}

export interface SetClientOptions extends SetAddress {
  readonly pool: PeerPool;
  /** How long a primary is looked for. */
  readonly select: Millis;
  /** Members must speak at least this; 188 else. */
  readonly minWireVersion?: number;
  readonly onTime?: (reply: Document) => void;
}

/** One member's last `hello`. */
interface Seen {
  readonly hello: Document;
  readonly at: Millis;
}

/** The view of one set, with a life. */
export class SetClient {
  readonly name: string;
  readonly #options: SetClientOptions;
  #hosts: readonly string[];
  #seen = new Map<string, Seen>();
  #primary: string | null = null;
  #electionId: ObjectId | null = null;
  #refusal: ServerError | null = null;
  #looking: Promise<void> | null = null;
  /** Members that do not let us in. */
  readonly #refused = new Map<string, ServerError>();
  /** Members that owe an answer. */
  readonly #asked = new Set<string>();
  #watching = false;
  #closed = false;

  constructor(options: SetClientOptions) {
    this.name = options.name;
    this.#options = options;
    this.#hosts = options.hosts;
  }

  /** Members as the set tells them; the seeds before it told any. */
  get hosts(): readonly string[] {
    return this.#hosts;
  }

  /** Takes in what the metadata says about members, as long as the set has not told itself. */
  suggest(hosts: readonly string[]): void {
    if (this.#seen.size === 0) this.#hosts = hosts;
  }

  close(): void {
    this.#closed = true;
  }

  /** The last `hello` of the primary, after {@link primary}. */
  primaryHello(): Document | undefined {
    return this.#primary === null ? undefined : this.#seen.get(this.#primary)?.hello;
  }

  /** The primary's address. 133 when none is found in time, 188 when it is too old, 18 when no member lets us in. */
  async primary(select: Millis = this.#options.select): Promise<string> {
    const until = performance.now() + select;
    for (;;) {
      if (this.#primary !== null) return this.#primary;
      await this.#look();
      if (this.#primary !== null) return this.#primary;
      if (this.#refusal !== null) throw this.#refusal;
      // All are there, and none lets us in: waiting will not help.
      const refused = this.#hosts.map((host) => this.#refused.get(host));
      if (refused.every((error) => error !== undefined)) throw refused[0]!;
      if (performance.now() >= until || this.#closed) throw this.#noMember('primary');
      await pause(SEARCH_PAUSE);
    }
  }

  /** A member that fits a read preference; the primary for everything this does not know. */
  async member(preference: Document | undefined, select: Millis = this.#options.select): Promise<string> {
    const mode = String(preference?.['mode'] ?? 'primary');
    if (mode === 'primary') return this.primary(select);
    const until = performance.now() + select;
    for (;;) {
      if (this.#seen.size === 0) await this.#look();
      const secondaries = this.#fitting(preference);
      if (mode !== 'primaryPreferred' && secondaries.length > 0) return secondaries[0]!;
      if (mode !== 'secondary' && this.#primary !== null) return this.#primary;
      if (secondaries.length > 0) return secondaries[0]!;
      if (performance.now() >= until || this.#closed) throw this.#noMember(mode);
      await this.#look();
      await pause(SEARCH_PAUSE);
    }
  }

  #fitting(preference: Document | undefined): readonly string[] {
    const tagSets: unknown = preference?.['tags'];
    const fits = (hello: Document): boolean =>
      !Array.isArray(tagSets) ||
      tagSets.length === 0 ||
      tagSets.some((set: Document) =>
        Object.entries(set).every(([name, value]) => hello['tags']?.[name] === value),
      );
    return [...this.#seen.entries()]
      .filter(([host, { hello }]) => hello['secondary'] === true && fits(hello) && this.#hosts.includes(host))
      .map(([host]) => host);
  }

  #noMember(mode: string): ServerError {
    return fail(133, `Could not find host matching read preference { mode: "${mode}" } for set ${this.name}`);
  }

  /** Runs a command on the primary and gives its reply, good or bad. Throws ServerError when no answer can be had. */
  async run(db: string, command: Document, options: SendOptions): Promise<Document> {
    return (await this.runAt(db, command, options)).reply;
  }

  /** Like {@link run}, telling also who answered. With a read preference another member may. */
  async runAt(db: string, command: Document, options: SendOptions): Promise<Answer> {
    const select = options.select ?? this.#options.select;
    for (let left = MAX_SENDS; ; left -= 1) {
      const host = await this.member(options.preference, select);
      let reply: Document;
      try {
        reply = await this.ask(host, db, command, options);
      } catch (failure) {
        const sure = failure instanceof PeerUnreachable && failure.definite;
        if ((options.resend === 'always' || (sure && options.resend === 'unsent')) && left > 0) continue;
        throw unreachable(failure, host);
      }
      const code = toNumber(reply['ok']) === 1 ? 0 : (toNumber(reply['code']) ?? 0);
      if (!this.#meansOther(code)) return { reply, host };
      this.lost(host);
      const again = options.resend === 'always' || (options.resend === 'unsent' && NOT_PRIMARY.has(code));
      if (!again || left === 0) return { reply, host };
      await pause(SEARCH_PAUSE);
    }
  }

  /** Like {@link run}; a bad reply is thrown too. */
  async call(db: string, command: Document, options: SendOptions): Promise<Document> {
    const reply = await this.run(db, command, options);
    if (toNumber(reply['ok']) === 1) return reply;
    throw fail(toNumber(reply['code']) ?? 8, String(reply['errmsg']));
  }

  /** Runs a command on one member. Throws PeerUnreachable or PeerError. */
  async ask(host: string, db: string, command: Document, options: SendOptions): Promise<Document> {
    try {
      const reply = await this.#options.pool.ask(host, db, command, {
        timeout: options.timeout ?? COMMAND_LIMIT,
        again: options.resend === 'always',
      });
      this.#options.onTime?.(reply);
      return reply;
    } catch (failure) {
      this.lost(host);
      throw failure;
    }
  }

  #meansOther(code: number): boolean {
    return NOT_PRIMARY.has(code) || GOING.has(code);
  }

  /** Forgets that a member was primary. */
  lost(host: string): void {
    this.#seen.delete(host);
    if (this.#primary === host) this.#primary = null;
  }

  /** Asks all members who they are; resolves as soon as one is primary. Everyone who waits shares one look. */
  #look(): Promise<void> {
    this.#looking ??= this.#askAll().finally(() => {
      this.#looking = null;
    });
    return this.#looking;
  }

  async #askAll(): Promise<void> {
    this.#refusal = null;
    const silent = this.#hosts.filter((host) => !this.#asked.has(host));
    const looks = silent.map((host) => this.#ask(host));
    const found = looks.map(async (look) =>
      (await look) === 'primary' ? true : Promise.reject(new Error('other')),
    );
    const answered = Promise.allSettled(looks);
    // Who hangs must not hold up those that answer.
    const patience = new Promise((resolve) => setTimeout(resolve, LOOK_LIMIT).unref());
    await Promise.race([Promise.any(found).catch(() => answered), answered, patience]);
    this.#watch();
  }

  /** Asks one member, unless it still owes an answer. */
  async #ask(host: string): Promise<'primary' | 'other' | 'gone'> {
    this.#asked.add(host);
    this.#refused.delete(host);
    try {
      const reply = await this.#options.pool.ask(
        host,
        'admin',
        { hello: 1 },
        { timeout: HELLO_LIMIT, again: true },
      );
      return this.#learn(host, reply) ? 'primary' : 'other';
    } catch (failure) {
      if (failure instanceof PeerUnreachable) this.#gone(host);
      if (failure instanceof PeerError) this.#refused.set(host, fail(failure.code, failure.message));
      return 'gone';
    } finally {
      this.#asked.delete(host);
    }
  }

  #gone(host: string): void {
    this.lost(host);
    this.#options.pool.drop(host);
  }

  /** True when that member is the primary. */
  #learn(host: string, hello: Document): boolean {
    if (hello['setName'] !== this.name) {
      this.lost(host);
      return false;
    }
    this.#seen.set(host, { hello, at: performance.now() });
    if (hello['isWritablePrimary'] !== true) {
      if (this.#primary === host) this.#primary = null;
      // While no primary is known anybody's word counts: it may be a member that was added since.
      const others = this.#primary === null ? namedIn(hello).filter((one) => !this.#hosts.includes(one)) : [];
      if (others.length > 0) this.#hosts = [...this.#hosts, ...others];
      return false;
    }
    const id = hello['electionId'] as ObjectId | undefined;
    if (id !== undefined && this.#electionId !== null && id.toHexString() < this.#electionId.toHexString())
      return false;
    const wire = toNumber(hello['maxWireVersion']) ?? 0;
    if (wire < (this.#options.minWireVersion ?? 0)) {
      this.#refusal = tooOld(host, wire, this.#options.minWireVersion ?? 0);
      return false;
    }
    this.#electionId = id ?? null;
    this.#primary = host;
    const told = namedIn(hello);
    if (told.length > 0) {
      for (const old of this.#hosts) if (!told.includes(old)) this.#seen.delete(old);
      this.#hosts = told;
    }
    return true;
  }

  /** Looks now and then, so that a primary that hangs or changes is noticed by those who wait for it. */
  #watch(): void {
    if (this.#watching || this.#closed) return;
    this.#watching = true;
    setTimeout(() => {
      this.#watching = false;
      if (!this.#closed) void this.#look();
    }, WATCH_PAUSE).unref();
  }
}

/** Members that a hello tells of. */
const namedIn = (hello: Document): readonly string[] => [
  ...((hello['hosts'] ?? []) as string[]),
  ...((hello['passives'] ?? []) as string[]),
];

function tooOld(host: string, wire: number, wanted: number): ServerError {
  return fail(
    188,
    `Server at ${host} reports maximum wire version ${wire}, but this version of mongos requires at least ${wanted}.`,
  );
}

/** A failure on the way to a member as clients are told. */
export function unreachable(failure: unknown, host: string): ServerError {
  if (failure instanceof PeerError) return fail(failure.code, failure.message);
  if (failure instanceof PeerUnreachable)
    return fail(failure.timedOut ? 89 : 6, `${failure.message} :: caused by :: no answer from ${host}`);
  throw failure;
}
