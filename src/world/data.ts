/** What lies in a data folder: the replicated log and what follows from it. It outlives processes and runtimes. */
import type { ManagedRole, ManagedUser } from '../clusters/index.ts';
import type { ReplicaSetConfig } from '../simulator/member/config.ts';
import type { LogView } from '../simulator/member/index.ts';
import { compareOpTimes, NOWHERE, type OpTime, type Position, reached } from '../simulator/member/optime.ts';
import { applyChunk, type Held } from './chunks.ts';

/** What one entry of the log changes. */
export type Change =
  | { readonly kind: 'noop' }
  | { readonly kind: 'write'; readonly id: number }
  | { readonly kind: 'user'; readonly user: StoredUser }
  | { readonly kind: 'dropUser'; readonly name: string }
  | { readonly kind: 'role'; readonly role: ManagedRole }
  | { readonly kind: 'fcv'; readonly version: string }
  /** On config servers: a set is a shard from now on. */
  | { readonly kind: 'shard'; readonly name: string; readonly host: string }
  | { readonly kind: 'balancer'; readonly on: boolean; readonly autoMerge: boolean }
  /** On config servers: a chunk is on this shard from now on, after that many moves. */
  | { readonly kind: 'chunk'; readonly chunk: number; readonly shard: string; readonly version: number }
  /** On shards, of the move that makes it that many: the giver takes no more, the taker has all, the giver has none, it stays. */
  | { readonly kind: 'gives' | 'gave' | 'keeps'; readonly chunk: number; readonly version: number }
  | {
      readonly kind: 'gets';
      readonly chunk: number;
      readonly version: number;
      readonly ids: readonly number[];
    };

type Placement = Extract<Change, { readonly kind: 'shard' | 'chunk' }>;

export interface Entry extends Position {
  readonly op: OpTime;
  readonly change: Change;
}

/** A user as the database keeps it. */
export interface StoredUser {
  readonly name: string;
  readonly password: string | null;
  readonly roles: ManagedUser['roles'];
}

/** See the head of this file. Changed in place by the one process that has it open. */
export class DataFolder {
  readonly log: Entry[] = [];
  config: ReplicaSetConfig | null = null;
  vote: { readonly term: number; readonly candidate: number } | null = null;
  cloning = false;
  rbid = 1;
  /** Feature compatibility version it began with; null: never opened by a server. */
  firstFcv: string | null = null;
  fcv: string | null = null;
  readonly users = new Map<string, StoredUser>();
  readonly roles = new Map<string, ManagedRole>();
  readonly writes = new Set<number>();
  /** What config servers know: shards by name, and whether the balancer and the AutoMerger may run. */
  readonly shards = new Map<string, string>();
  balancerOn = true;
  autoMerge = true;
  /** What they know of places, in the order of the log: which is a majority's is a question of when. */
  readonly placements: { readonly op: OpTime; readonly change: Placement }[] = [];
  /** What a shard knows of its chunks. */
  readonly chunks = new Map<number, Held>();

  get last(): Position {
    return this.log.at(-1) ?? NOWHERE;
  }

  /** Anything a person would miss. */
  get hasUserData(): boolean {
    return this.writes.size > 0 || this.users.size > 0 || this.shards.size > 0;
  }

  /** A server of this series opens it; a new folder takes the series as its feature compatibility version. */
  open(series: string): void {
    this.firstFcv ??= series;
    this.fcv ??= series;
  }

  append(entry: Entry): void {
    this.log.push(entry);
    this.#apply(entry.change, entry.op);
  }

  /** Takes back everything after this place. */
  rollBack(to: OpTime): void {
    let length = this.log.length;
    while (length > 0 && compareOpTimes((this.log[length - 1] as Entry).op, to) > 0) length--;
    this.replace(this.log.slice(0, length));
  }

  replace(log: readonly Entry[]): void {
    this.log.length = 0;
    this.users.clear();
    this.roles.clear();
    this.writes.clear();
    this.shards.clear();
    this.balancerOn = true;
    this.autoMerge = true;
    this.placements.length = 0;
    this.chunks.clear();
    this.fcv = this.firstFcv;
    for (const entry of log) this.append(entry);
  }

  #apply(change: Change, op: OpTime): void {
    switch (change.kind) {
      case 'noop':
        return;
      case 'write':
        this.writes.add(change.id);
        return;
      case 'user':
        this.users.set(change.user.name, change.user);
        return;
      case 'dropUser':
        this.users.delete(change.name);
        return;
      case 'role':
        this.roles.set(`${change.role.db}.${change.role.role}`, change.role);
        return;
      case 'fcv':
        this.fcv = change.version;
        return;
      case 'shard':
        this.shards.set(change.name, change.host);
        this.placements.push({ op, change });
        return;
      case 'chunk':
        this.placements.push({ op, change });
        return;
      case 'balancer':
        this.balancerOn = change.on;
        this.autoMerge = change.autoMerge;
        return;
      default:
        applyChunk(this, change);
    }
  }
}

/** The log as the machine reads it. */
export const logView = (data: DataFolder): LogView => ({
  oldest: () => data.log[0]?.op ?? null,
  last: () => data.last,
  atOrBefore: (op) => data.log.findLast((entry) => reached(op, entry.op))?.op ?? null,
});
