/**
 * The locks a desk keeps in its fleet: of what is held, and, for a check of one priority, of what more urgent entries wait for.
 * The second kind stays where it is between checks of the same priority, so that a check costs what changed since the last.
 */
import type { Millis } from '../base/units.ts';
import { type Compat, compatOf } from './compat.ts';
import type { Fleet, Item, LockRef } from './fleet.ts';
import { DEFAULT_DURATION } from './limits.ts';
import { isFinal } from './reasons.ts';
import { itemsOf, resolve, type Target } from './resolve.ts';
import type { Entry, Pending, Permission } from './types.ts';

type Lock = readonly [Item, LockRef];

export class Locks {
  readonly #fleet: Fleet;
  readonly #compat: Compat;
  /** By permission. */
  readonly #held = new Map<string, readonly Lock[]>();
  /** Entries with something pending, by priority. */
  readonly #waiting = new Map<number, Map<string, Entry>>();
  /** Pending actions of entries more urgent than this stand in the fleet as locks. */
  #priority = Number.NEGATIVE_INFINITY;
  readonly #covered = new Map<string, readonly Lock[]>();
  /** Entries that changed since they were last laid over. */
  readonly #stale = new Map<string, Entry>();

  constructor(fleet: Fleet, compat: Compat) {
    this.#fleet = fleet;
    this.#compat = compat;
  }

  // ── what is held ───────────────────────────────────────────────────────────────────────────────────────────────────

  /** Locks what a permission is about, once. */
  hold(entry: Entry, permission: Permission): void {
    if (this.#held.has(permission.id)) return;
    const { priority, action } = permission;
    const ref: LockRef = { kind: 'held', priority, permission, task: entryName(entry) };
    const target = resolve(this.#fleet, action);
    const items = action.type === 'lock' ? itemsOf(this.#fleet, target) : this.#aside(entry, target);
    this.#held.set(permission.id, this.#lock(items, ref));
  }

  /** Drained and cordoned nodes go on serving what they have, but nobody can rely on them: they fill a place in the limits (MNT-17). */
  #aside(entry: Entry, target: Target): readonly Item[] {
    if (target.kind !== 'nodes' || compatOf(entry, this.#compat).cordonedNotCounted) return [];
    return target.nodes.map((index) => ({ kind: 'aside', index }));
  }

  release(permissionId: string): void {
    this.#unlock(this.#held.get(permissionId));
    this.#held.delete(permissionId);
  }

  /** Frees what is up, and keeps what is down locked: how the original treats a permission past its deadline. */
  releaseUp(permissionId: string): void {
    const locks = this.#held.get(permissionId) ?? [];
    const isUp = ([item]: Lock): boolean =>
      item.kind === 'host' || this.#fleet.state(this.#nodeOf(item)) === 'up';
    this.#unlock(locks.filter(isUp));
    this.#held.set(
      permissionId,
      locks.filter((lock) => !isUp(lock)),
    );
  }

  #nodeOf(item: Item): number {
    if (item.kind === 'disk') return this.#fleet.diskNode[item.index] as number;
    return item.kind === 'vdisk' ? (this.#fleet.vdiskNode[item.index] as number) : item.index;
  }

  // ── what is waited for ─────────────────────────────────────────────────────────────────────────────────────────────

  queue(entry: Entry): void {
    const at = this.#waiting.get(entry.priority);
    if (at === undefined) this.#waiting.set(entry.priority, new Map([[entry.id, entry]]));
    else at.set(entry.id, entry);
    if (entry.priority < this.#priority) this.#stale.set(entry.id, entry);
  }

  unqueue(id: string, priority: number): void {
    this.#waiting.get(priority)?.delete(id);
    if (this.#waiting.get(priority)?.size === 0) this.#waiting.delete(priority);
    this.#stale.delete(id);
    this.#uncover(id);
  }

  /** From now on pending actions of strictly more urgent entries count as locks (C3.1). */
  lookAs(priority: number): void {
    const [low, high] = [Math.min(priority, this.#priority), Math.max(priority, this.#priority)];
    for (const [at, entries] of this.#waiting) {
      if (at < low || at >= high) continue;
      for (const entry of entries.values()) {
        if (priority > this.#priority) this.#cover(entry);
        else this.#uncover(entry.id);
      }
    }
    this.#priority = priority;
    for (const entry of this.#stale.values()) if (entry.priority < priority) this.#cover(entry);
    this.#stale.clear();
  }

  #cover(entry: Entry): void {
    if (this.#covered.has(entry.id)) return;
    const { priority, owner } = entry;
    // What waits in vain holds nobody back.
    const real = compatOf(entry, this.#compat).hopelessStaysPending
      ? entry.pending
      : entry.pending.filter((p) => p.refusal === null || !isFinal(p.refusal.reason));
    // One of a group that waits in vain has all of it wait in vain.
    if (!entry.partial && real.length < entry.pending.length) return;
    const rest = restAt(entry);
    const locks = real.flatMap((p) => {
      const until = hadAt(entry, p, rest);
      const ref: LockRef = { kind: 'queued', priority, task: entryName(entry), owner, until };
      return this.#lock(itemsOf(this.#fleet, resolve(this.#fleet, p.action)), ref);
    });
    this.#covered.set(entry.id, locks);
  }

  #uncover(id: string): void {
    this.#unlock(this.#covered.get(id));
    this.#covered.delete(id);
  }

  // ── all of them ────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Leaves the fleet as it was without any of them. */
  clear(): void {
    for (const locks of [...this.#held.values(), ...this.#covered.values()]) this.#unlock(locks);
    this.#held.clear();
    this.#covered.clear();
    this.#waiting.clear();
    this.#stale.clear();
    this.#priority = Number.NEGATIVE_INFINITY;
  }

  #lock(items: readonly Item[], ref: LockRef): readonly Lock[] {
    for (const item of items) this.#fleet.lock(item, ref);
    return items.map((item) => [item, ref] as const);
  }

  #unlock(locks: readonly Lock[] | undefined): void {
    for (const [item, ref] of locks ?? []) this.#fleet.unlock(item, ref);
  }
}

/** When an action that waits will have been granted and be over, by all deadlines that are known; null: nobody knows. */
function hadAt(entry: Entry, { action, refusal }: Pending, rest: Millis | null): Millis | null {
  const from = refusal === null ? rest : refusal.retryAt;
  return from === null ? null : from + (action.duration ?? entry.duration ?? DEFAULT_DURATION);
}

/** What was not looked at waits for the rest of its group, or for the first of the task's own locks to end. */
function restAt({ pending, held }: Entry): Millis | null {
  const looked = pending.find((p) => p.refusal !== null)?.refusal;
  if (looked != null) return looked.retryAt;
  const ends = held.flatMap((p) => p.deadline ?? []);
  return ends.length === 0 ? null : ends.reduce((a, b) => Math.min(a, b));
}

/** What people call an entry: a task by its name, work of the control plane by what it does. */
export const entryName = (entry: Entry): string =>
  entry.uid?.startsWith('hold:') === true && entry.description !== ''
    ? entry.description
    : (entry.uid ?? entry.id);
