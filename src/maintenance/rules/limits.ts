/** Limits on unavailable nodes (C4): per database, per cluster, on nodes of system tablets, on routers. */

import type { Millis } from '../../base/units.ts';
import type { LimitSetSpec } from '../fleetSpec.ts';
import type { LimitSet } from '../layout.ts';
import type { Mode, ReasonCode, Refusal } from '../types.ts';
import {
  allFreeAt,
  blockingLock,
  freeAt,
  goesAlong,
  lockedRefusal,
  namesText,
  outText,
  type Pass,
  refuse,
} from './look.ts';

const REASON: Readonly<Record<LimitSetSpec['kind'], ReasonCode>> = {
  cluster: 'DisabledNodesLimitReached',
  tenant: 'TenantDisabledNodesLimitReached',
  tablets: 'SysTabletsNodeLimitReached',
  routers: 'RouterLimitReached',
};

/** Whether the node itself may be locked at all: not locked already, not of unknown state. */
export function checkNodeFree(pass: Pass, n: number): Refusal | null {
  const { fleet } = pass;
  const name = fleet.nodes[n]?.name ?? '';
  const items = [{ kind: 'node', index: n } as const, { kind: 'device', index: n } as const];
  const lock = items.map((item) => blockingLock(pass, item)).find((ref) => ref !== undefined);
  if (lock !== undefined) {
    const twice = !pass.partial && !pass.compat.hopelessStaysPending;
    // Whoever wants it more urgently has it first.
    const at = allFreeAt(items.flatMap((item) => fleet.refs(item))) ?? freeAt(lock);
    return lockedRefusal(name, lock, undefined, twice, at);
  }
  if (fleet.state(n) !== 'unknown' || fleet.memberOf(n) !== undefined) return null;
  if (fleet.nodes[n]?.kind === 'router') return null;
  const why = fleet.told(n)?.note ?? 'nobody has reported it';
  const message = `Cannot lock ${name}: node state: 'Unspecified': ${why}, so nobody knows what it carries now`;
  return refuse('DISALLOW_TEMP', 'NodeUnknown', message, [
    { kind: 'node', node: fleet.nodes[n]?.key ?? '', state: 'unknown' },
  ]);
}

/** Cluster, tenant and router limits of one node. A node that is down already makes nothing worse. */
export function checkLimits(pass: Pass, n: number): Refusal | null {
  const { fleet } = pass;
  if (pass.mode === 'force' || fleet.state(n) === 'down') return null;
  for (const kind of ['cluster', 'tenant', 'routers'] as const) {
    if (kind === 'tenant' && pass.ignoreTenants) continue;
    for (const s of fleet.limitSetsOf(n)) {
      const set = fleet.limitSets[s] as LimitSet;
      if (set.spec.kind !== kind) continue;
      const refusal = checkLimit(pass, set, n);
      if (refusal !== null) return refusal;
    }
  }
  return null;
}

function checkLimit(pass: Pass, set: LimitSet, n: number): Refusal | null {
  const { nodesLimit, percentLimit, kind, name } = set.spec;
  // It fills a place already: taking it makes nothing worse.
  if (counts(pass, set, n)) return null;
  const disabled = disabledWith(pass, set, n);
  // One node, or one host with all its nodes, may always go when nothing else is out (C4.1).
  if (othersOut(pass, set, n) === 0) return null;
  const alone = disabled - othersOut(pass, set, n);
  if (nodesLimit > 0 && disabled > nodesLimit) {
    const sentence = `${disabled} of at most ${nodesLimit} nodes of ${kind} ${name} would be unavailable`;
    const most = Math.max(nodesLimit, alone);
    return tooManyTogether(pass, set, n, most) ?? tooMany(pass, set, sentence, disabled - most);
  }
  if (percentLimit > 0 && disabled * 100 > set.total * percentLimit) {
    const sentence = `${disabled} of ${set.total} nodes of ${kind} ${name} would be unavailable, the limit is ${percentLimit} %`;
    const most = Math.max(Math.floor((set.total * percentLimit) / 100), alone);
    return tooManyTogether(pass, set, n, most) ?? tooMany(pass, set, sentence, disabled - most);
  }
  return null;
}

/** Unavailable nodes: each counts once, locked or down or both (MNT-04). */
const outNow = (pass: Pass, set: LimitSet): number =>
  set.locked + set.down + (pass.compat.unknownNotCounted ? 0 : set.unknown);

const counts = (pass: Pass, set: LimitSet, n: number): boolean =>
  set.out.has(n) &&
  !(pass.compat.unknownNotCounted && pass.fleet.state(n) === 'unknown' && !pass.fleet.nodeOccupied(n));

/** Unavailable nodes once this one is taken too. */
const disabledWith = (pass: Pass, set: LimitSet, n: number): number =>
  outNow(pass, set) + (counts(pass, set, n) ? 0 : 1);

function othersOut(pass: Pass, set: LimitSet, n: number): number {
  let others = outNow(pass, set) - (counts(pass, set, n) ? 1 : 0);
  for (const own of pass.ownNodes) if (own !== n && counts(pass, set, own)) others--;
  return others;
}

/** Nodes that can run a system tablet: strong leaves half of them, weak one. Dynamic nodes run none. */
export function checkTablets(pass: Pass, n: number): Refusal | null {
  const { fleet, mode } = pass;
  if (mode === 'force' || fleet.state(n) === 'down' || fleet.nodes[n]?.kind === 'dynamic') return null;
  for (const s of fleet.limitSetsOf(n)) {
    const set = fleet.limitSets[s] as LimitSet;
    if (set.spec.kind !== 'tablets') continue;
    const disabled = disabledWith(pass, set, n);
    const fits = (how: Mode): boolean =>
      how === 'strong' ? disabled * 2 <= set.total : disabled < set.total;
    const ok = mode === 'smart' ? fits('strong') || (!holdsOf(pass, set) && fits('weak')) : fits(mode);
    if (ok) continue;
    const rule = mode === 'weak' ? 'at least one must stay' : 'at least half must stay';
    const most = mode === 'weak' ? set.total - 1 : Math.floor(set.total / 2);
    const sentence = `${disabled} of ${set.total} nodes that can run system tablet ${set.spec.name} would be unavailable, ${rule}`;
    return tooManyTogether(pass, set, n, most) ?? tooMany(pass, set, sentence, disabled - most);
  }
  return null;
}

/** Whether this request holds a node of the set already, from this pass or an earlier one. */
function holdsOf(pass: Pass, set: LimitSet): boolean {
  for (const n of set.out) {
    for (const ref of pass.fleet.refs({ kind: 'node', index: n })) {
      if (ref.kind === 'pass' && ref.pass === pass.number) return true;
      if (ref.kind === 'held' && ref.permission.entry === pass.entry) return true;
    }
  }
  return false;
}

/** A group that is more than the limit by itself, with everything else up: then waiting does not help. */
function tooManyTogether(pass: Pass, set: LimitSet, n: number, most: number): Refusal | null {
  if (pass.partial || pass.compat.hopelessStaysPending) return null;
  const own = [...new Set([...set.out, n])].filter((m) => m === n || goesAlong(pass, m));
  // What is down already is out without the group.
  if (own.length <= most) return null;
  const message = `${own.length} of ${set.total} nodes of ${set.spec.kind} ${set.spec.name} are asked for together, at most ${most} may be unavailable; ${cureOf(pass, set, own)}, or force`;
  return refuse('DISALLOW', 'TooManyTogether', message);
}

/** A host as a whole is one, whatever is on it; nodes of system tablets are counted also then. */
function cureOf(pass: Pass, set: LimitSet, own: readonly number[]): string {
  const hosts = new Set(own.map((m) => pass.fleet.nodes[m]?.host));
  if (hosts.size > 1) return 'ask for them one by one';
  return set.spec.kind === 'tablets' ? 'use another mode' : `ask for host ${[...hosts].join()} as a whole`;
}

/** `excess`: so many have to be back before this one may go. */
function tooMany(pass: Pass, set: LimitSet, sentence: string, excess: number): Refusal {
  const out = [...set.out].sort((a, b) => a - b);
  const keys = out.map((n) => pass.fleet.nodes[n]?.key ?? '');
  const message = `${kindText(set)} limit reached: ${sentence}; out: ${namesText(out.slice(0, 6).map((n) => outText(pass.fleet, n)))}`;
  const by = [{ kind: 'limit' as const, of: `${set.spec.kind} ${set.spec.name}`, out: keys.slice(0, 20) }];
  return refuse('DISALLOW_TEMP', REASON[set.spec.kind], message, by, backAt(pass, out, excess));
}

/** When so many of them are back, as far as locks alone keep them out; null: nobody knows. */
function backAt({ fleet }: Pass, out: readonly number[], count: number): Millis | null {
  const times = out.flatMap((n) => {
    if (fleet.state(n) !== 'up') return [];
    const [node, device, aside] = (['node', 'device', 'aside'] as const).map((kind) =>
      fleet.refs({ kind, index: n }),
    );
    return allFreeAt([...(node ?? []), ...(device ?? []), ...(aside ?? [])]) ?? [];
  });
  return times.sort((a, b) => a - b)[count - 1] ?? null;
}

const kindText = (set: LimitSet): string =>
  set.spec.kind === 'tablets' ? 'system tablets node' : `${set.spec.kind} unavailable nodes`;
