/** Two sets of three members on three hosts, a store, and as many authorities over them as a test opens. */
import { onTestFinished } from 'vitest';
import { MINUTE } from '../../base/units.ts';
import type { Store } from '../../engine/ports.ts';
import { ManualClock } from '../../engine/testing/clock.ts';
import type { Action, MemberAsk, TaskReply, TaskSpec } from '../../maintenance/index.ts';
import { taskOf } from '../../maintenance/testing/tasks.ts';
import { openMemoryStore } from '../../store/memory.ts';
import { memoryDisk } from '../../store/memory-tables.ts';
import { Authority } from '../authority.ts';
import { PlayedFleet, playedSet, quiet } from './played.ts';

/** Members that were worked on count as out a moment longer. */
export const SETTLED = 6_000;
export const HOSTS = ['h0', 'h1', 'h2'];

export interface Stage {
  readonly clock: ManualClock;
  readonly source: PlayedFleet;
  readonly store: Store;
  another(store?: Store): Promise<Authority>;
}

export function stage(): Stage {
  const clock = new ManualClock(0);
  const disk = memoryDisk();
  const store = openMemoryStore({ clock, disk });
  const source = new PlayedFleet({ a: playedSet('a', HOSTS), b: playedSet('b', HOSTS) });
  const another = async (of: Store = store): Promise<Authority> => {
    const authority = new Authority({ store: of, clock, log: quiet, source });
    await authority.open();
    onTestFinished(() => authority.close());
    return authority;
  };
  return { clock, source, store, another };
}

export const host = (name: string, minutes = 10): Action => ({
  type: 'lock',
  scope: { kind: 'host', host: name },
  duration: minutes * MINUTE,
});
export const task = (uid: string, hosts: readonly string[], more: Partial<TaskSpec> = {}): TaskSpec =>
  taskOf(
    uid,
    hosts.map((h) => [host(h)]),
    { description: 'kernel', ...more },
  );
export const states = (reply: TaskReply): readonly string[] =>
  reply.groups.flat().map((a) => `${(a.action.scope as { host: string }).host} ${a.status}`);
export const member = (node: string, more: Partial<MemberAsk> = {}): MemberAsk => ({
  id: `cluster/${node}`,
  node: `default/${node}`,
  holder: 'MongoDB default/a',
  why: 'restart',
  priority: 0,
  mode: 'strong',
  duration: 5 * MINUTE,
  ...more,
});

/** The store, whose disk is full whenever the test says so. */
export function fullDisk(store: Store): { full: boolean; readonly store: Store } {
  const disk = { full: false, store };
  disk.store = new Proxy(store, {
    get: (target, name) => {
      if (name === 'commit' && disk.full) return () => Promise.reject(new Error('disk full'));
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
  return disk;
}
