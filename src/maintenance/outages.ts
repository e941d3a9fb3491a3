import type { Millis } from '../base/units.ts';
import type { Fleet, Item, LockRef } from './fleet.ts';
import { APPROVED_PRIORITY, DEFAULT_DURATION, MEMBER_SETTLE } from './limits.ts';
import { itemsOf, resolve } from './resolve.ts';
import type { Action, Announcement, Permission } from './types.ts';

const endOf = ({ from }: Announcement, { duration }: Action): Millis => from + (duration ?? DEFAULT_DURATION);

/**
 * Outages that somebody tells of, and moments after work: they count from their beginning to their end, whatever they do to
 * availability.
 */
export class Outages {
  #all: readonly Announcement[] = [];

  /** In place of those there were. */
  load(all: readonly Announcement[]): void {
    this.#all = all;
  }

  get all(): readonly Announcement[] {
    return this.#all;
  }

  /** When the first of their actions is over; infinite without one. */
  get nextEnd(): Millis {
    return this.#all.reduce(
      (min, a) => a.actions.reduce((m, action) => Math.min(m, endOf(a, action) + 1), min),
      Number.POSITIVE_INFINITY,
    );
  }

  add(announcement: Announcement): void {
    this.#all = [...this.#all, announcement];
  }

  withdraw(id: string): void {
    this.#all = this.#all.filter((a) => a.id !== id);
  }

  /** Those all of whose actions are over are forgotten. */
  expire(now: Millis): void {
    this.#all = this.#all.filter((a) => a.actions.some((action) => endOf(a, action) >= now));
  }

  /** What is out at any moment of a span, as locks. */
  during(fleet: Fleet, from: Millis, to: Millis): readonly (readonly [Item, LockRef])[] {
    return this.#all.flatMap((a) =>
      a.actions.flatMap((action) => {
        const until = endOf(a, action);
        if (a.from > to || until <= from) return [];
        const ref: LockRef = {
          kind: 'announced',
          priority: APPROVED_PRIORITY,
          owner: a.owner,
          until,
          ...(a.after === undefined ? {} : { after: a.after }),
        };
        return itemsOf(fleet, resolve(fleet, action)).map((item) => [item, ref] as const);
      }),
    );
  }
}

/**
 * Members that were worked on count as out for a moment longer: until what is known of them is from afterwards. Null: none
 * was.
 */
export function settling(
  fleet: Fleet,
  task: string,
  { id, owner, action }: Permission,
  from: Millis,
): Announcement | null {
  const target = action.type === 'lock' ? resolve(fleet, action) : null;
  if (target?.kind !== 'nodes') return null;
  const members = target.nodes.filter((n) => fleet.memberOf(n) !== undefined);
  if (members.length === 0) return null;
  const actions = members.map(
    (n): Action => ({
      type: 'lock',
      scope: { kind: 'node', node: fleet.nodes[n]?.key ?? '' },
      duration: MEMBER_SETTLE,
    }),
  );
  return { id: `settle-${id}`, owner, after: task, actions, from };
}
