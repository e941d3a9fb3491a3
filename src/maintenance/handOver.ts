import type { Fleet } from './fleet.ts';
import { isElectable } from './layout.ts';
import type { Entry, Mode, Pending } from './types.ts';

/** A member that somebody's task waits for to hand over. */
export interface HandOver {
  /** Key of the member. */
  readonly node: string;
  readonly task: string;
  readonly owner: string;
  readonly priority: number;
  readonly mode: Mode;
}

export const handsOver = ({ refusal }: Pick<Pending, 'refusal'>): boolean =>
  refusal?.reason === 'PrimaryStepsDown';

/** Primaries an action waits for. */
const leadersOf = (pending: Pending): readonly string[] =>
  handsOver(pending)
    ? (pending.refusal?.by ?? []).flatMap((b) => (b.kind === 'primary' ? [b.node] : []))
    : [];

/** Members that are to hand over before something is granted, each for the most urgent task that waits for it. */
export function handOversOf(entries: Iterable<Entry>): readonly HandOver[] {
  const found = new Map<string, HandOver>();
  for (const entry of entries) {
    if (entry.stepDown !== true || entry.stale === true) continue;
    const { priority, mode, owner } = entry;
    for (const node of entry.pending.flatMap(leadersOf)) {
      const known = found.get(node);
      if (known !== undefined && known.priority <= priority) continue;
      found.set(node, { node, task: entry.uid ?? entry.id, owner, priority, mode });
    }
  }
  return [...found.values()];
}

/** Whether a node leads its set and another could take over, so that it may hand over before it goes down. */
export function canHandOver(fleet: Fleet, n: number): boolean {
  const [set, member] = [fleet.setOf(n), fleet.memberOf(n)];
  if (set === undefined || member === undefined || fleet.told(n)?.role !== 'PRIMARY') return false;
  const itself = fleet.state(n) === 'up' && !fleet.nodeLocked(n) && isElectable(member) ? 1 : 0;
  return set.electable > itself;
}
