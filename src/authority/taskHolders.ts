/** Which people's tasks hold nodes and hosts, as a desk knows it: whoever reads it from memory reads what was last known. */
import type { Millis } from '../base/units.ts';
import type { Holder } from '../engine/gate.ts';
import { type Desk, ENGINE_OWNER, entryName, isHold } from '../maintenance/index.ts';

/** Which person's task holds a node, by key; null: none. */
export function nodeHolder(desk: Desk, key: string, now: Millis): Holder | null {
  const n = desk.fleet.node(key);
  if (n === undefined) return null;
  for (const ref of desk.fleet.refs({ kind: 'node', index: n })) {
    if (ref.kind !== 'held' || ref.permission.owner === ENGINE_OWNER) continue;
    const { deadline, owner } = ref.permission;
    if (deadline === null || deadline > now) return { task: ref.task, owner, until: deadline };
  }
  return null;
}

/** Hosts that people's tasks hold as a whole, each with its holder. */
export function* hostHolders(desk: Desk, now: Millis): Iterable<readonly [string, Holder]> {
  for (const entry of desk.entries()) {
    if (isHold(entry)) continue;
    for (const { action, deadline, owner } of entry.held)
      if (action.scope.kind === 'host' && (deadline ?? now + 1) > now)
        yield [action.scope.host, { task: entryName(entry), owner, until: deadline }];
  }
}
