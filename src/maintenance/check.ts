/** The check of one action (C5.1). It looks at counters, keeps temporary locks while it looks, and leaves none behind. */
import type { Item, LockRef } from './fleet.ts';
import { itemsOf, type Target } from './resolve.ts';
import { checkVdisk } from './rules/groups.ts';
import { checkLimits, checkNodeFree, checkTablets } from './rules/limits.ts';
import { allFreeAt, blockingLock, freeAt, lockedRefusal, type Pass } from './rules/look.ts';
import { checkRing } from './rules/rings.ts';
import { checkMember, checkPrimaries } from './rules/sets.ts';
import type { Action, Refusal } from './types.ts';

/** Temporary locks of a pass, to be taken back (C5.2). Costs what was touched. */
export class UndoLog {
  readonly #entries: (readonly [Item, LockRef])[] = [];
  readonly #pass: Pass;

  constructor(pass: Pass) {
    this.#pass = pass;
  }

  /** A point to roll back to. */
  mark(): number {
    return this.#entries.length;
  }

  lock(item: Item, ref: LockRef): void {
    this.#pass.fleet.lock(item, ref);
    this.#entries.push([item, ref]);
    if (ref.kind === 'pass') count(this.#pass, item, 1);
  }

  rollback(mark: number): void {
    while (this.#entries.length > mark) {
      const [item, ref] = this.#entries.pop() as readonly [Item, LockRef];
      this.#pass.fleet.unlock(item, ref);
      if (ref.kind === 'pass') count(this.#pass, item, -1);
    }
  }
}

/** Keeps how many disks of each group the pass has taken. */
function count(pass: Pass, item: Item, by: number): void {
  const { fleet, taken } = pass;
  const add = (v: number): void => {
    taken.add(fleet.vdiskGroup[v] as number, by);
  };
  if (item.kind === 'vdisk') {
    add(item.index);
    return;
  }
  if (item.kind === 'device' || item.kind === 'aside' || item.kind === 'host') return;
  const [from, to] = item.kind === 'node' ? fleet.vdisksOf(item.index) : fleet.vdisksOfDisk(item.index);
  for (let v = from; v < to; v++) add(v);
}

/** Null: the action may be done, and its locks are in the log. A refusal: nothing of it is left, but for hand-overs. */
export function checkAction(pass: Pass, log: UndoLog, action: Action, target: Target): Refusal | null {
  if (target.kind === 'none') return target.refusal;
  if (target.kind === 'emptyHost') return checkHost(pass, log, target.host);
  pass.ownNodes.clear();
  pass.taken.begin();
  const mark = log.mark();
  const ref: LockRef = { kind: 'pass', priority: pass.priority, pass: pass.number };
  const refusal =
    target.kind === 'nodes'
      ? checkNodes(pass, log, action, target.nodes, ref)
      : checkDisks(pass, log, target, ref);
  // What only waits for a hand-over has its place: what comes after it in the request must not take it.
  if (refusal?.reason === 'PrimaryStepsDown') return refusal;
  if (refusal !== null || target.kind === 'disks') log.rollback(mark);
  if (refusal !== null) return refusal;
  if (target.kind === 'disks') for (const item of itemsOf(pass.fleet, target)) log.lock(item, ref);
  return null;
}

/** A host that carries nothing can only be somebody else's. */
function checkHost(pass: Pass, log: UndoLog, h: number): Refusal | null {
  const item: Item = { kind: 'host', index: h };
  const lock = blockingLock(pass, item);
  if (lock === undefined) {
    log.lock(item, { kind: 'pass', priority: pass.priority, pass: pass.number });
    return null;
  }
  const twice = !pass.partial && !pass.compat.hopelessStaysPending;
  const at = allFreeAt(pass.fleet.refs(item)) ?? freeAt(lock);
  return lockedRefusal(`host ${pass.fleet.hostName(h)}`, lock, undefined, twice, at);
}

/** Every node of a host in turn; each sees the temporary locks of those before it. */
function checkNodes(
  pass: Pass,
  log: UndoLog,
  action: Action,
  nodes: readonly number[],
  ref: LockRef,
): Refusal | null {
  const late: number[] = [];
  for (const n of nodes) {
    const refusal = checkNode(pass, log, n, ref);
    if (refusal !== null && !(action.reboot === true && pass.fleet.state(n) === 'down')) return refusal;
    pass.ownNodes.add(n);
    if (pass.compat.hostNodesUnseen) late.push(n);
    else log.lock({ kind: 'node', index: n }, ref);
  }
  for (const n of late) log.lock({ kind: 'node', index: n }, ref);
  return checkPrimaries(pass, nodes);
}

function checkNode(pass: Pass, log: UndoLog, n: number, ref: LockRef): Refusal | null {
  return (
    checkNodeFree(pass, n) ??
    checkLimits(pass, n) ??
    checkVdisks(pass, log, pass.fleet.vdisksOf(n), ref) ??
    checkMember(pass, n) ??
    checkRing(pass, n) ??
    checkTablets(pass, n)
  );
}

/** Virtual disks in turn. Only where a node carries several of one group do they have to see each other. */
function checkVdisks(
  pass: Pass,
  log: UndoLog,
  [from, to]: readonly [number, number],
  ref: LockRef,
): Refusal | null {
  const mark = log.mark();
  for (let v = from; v < to; v++) {
    const refusal = checkVdisk(pass, v);
    if (refusal !== null) {
      log.rollback(mark);
      return refusal;
    }
    if (pass.fleet.groupShared[pass.fleet.vdiskGroup[v] as number] === 1)
      log.lock({ kind: 'vdisk', index: v }, ref);
  }
  log.rollback(mark);
  return null;
}

function checkDisks(
  pass: Pass,
  log: UndoLog,
  target: Extract<Target, { kind: 'disks' }>,
  ref: LockRef,
): Refusal | null {
  const { fleet } = pass;
  for (const d of target.disks) {
    const lock = blockingLock(pass, { kind: 'disk', index: d });
    if (lock !== undefined)
      return lockedRefusal(diskName(pass, d), lock, lock.kind === 'pass' ? 'DISALLOW' : undefined);
    const node = blockingLock(pass, { kind: 'node', index: fleet.diskNode[d] as number });
    if (node !== undefined) return lockedRefusal(fleet.nodes[fleet.diskNode[d] as number]?.name ?? '', node);
    const [from, to] = fleet.vdisksOfDisk(d);
    for (let v = from; v < to; v++) {
      const refusal = takeVdisk(pass, log, v, ref);
      if (refusal !== null) return refusal;
    }
  }
  for (const v of target.vdisks) {
    const refusal = takeVdisk(pass, log, v, ref);
    if (refusal !== null) return refusal;
  }
  return null;
}

function takeVdisk(pass: Pass, log: UndoLog, v: number, ref: LockRef): Refusal | null {
  const refusal = checkVdisk(pass, v);
  if (refusal === null) log.lock({ kind: 'vdisk', index: v }, ref);
  return refusal;
}

const diskName = (pass: Pass, d: number): string => {
  const n = pass.fleet.diskNode[d] as number;
  const at = d - (pass.fleet.diskStart[n] as number);
  return `disk ${pass.fleet.nodes[n]?.disks[at]?.id} of ${pass.fleet.nodes[n]?.name}`;
};
