import type { MemberConfig } from './config.ts';
import { reached } from './optime.ts';
import { countWith, positionOf } from './peers.ts';
import { answer, refusal, refuse, type Turn } from './turn.ts';
import type { Refusal, State, Waiter } from './types.ts';

type WriteWaiter = Extract<Waiter, { kind: 'write' }>;

const holdsData = (member: MemberConfig): boolean => !member.arbiterOnly;

/** Distinct values of a tag among members accepted by the filter. */
function tagValues(s: State, tag: string, accept: (member: MemberConfig) => boolean): number {
  const values = (s.config?.members ?? [])
    .filter((member) => holdsData(member) && member.tags[tag] !== undefined && accept(member))
    .map((member) => member.tags[tag]);
  return new Set(values).size;
}

/** Why the concern can never hold in this configuration; null: it can. */
function impossible(s: State, waiter: WriteWaiter): Refusal | null {
  const { need } = waiter;
  if (s.config === null) return null;
  if (need.kind === 'count' && need.count > s.config.members.filter(holdsData).length) {
    return refusal(100, 'UnsatisfiableWriteConcern', 'Not enough data-bearing nodes');
  }
  if (need.kind !== 'mode') return null;
  const mode = s.config.settings.getLastErrorModes[need.mode];
  if (!mode) {
    const text = `No write concern mode named '${need.mode}' found in replica set configuration`;
    return refusal(79, 'UnknownReplWriteConcern', text);
  }
  const enough = Object.entries(mode).every(([tag, count]) => tagValues(s, tag, () => true) >= count);
  return enough
    ? null
    : refusal(100, 'UnsatisfiableWriteConcern', `Not enough nodes match write concern mode "${need.mode}"`);
}

function holds(s: State, waiter: WriteWaiter): boolean {
  const { need, op } = waiter;
  switch (need.kind) {
    case 'count':
      return countWith(s, op, holdsData) >= need.count;
    case 'majority':
      return reached(s.committed.op, op);
    case 'mode': {
      const mode = s.config?.settings.getLastErrorModes[need.mode];
      if (!mode) return false;
      const has = (member: MemberConfig): boolean => reached(positionOf(s, member.id), op);
      return Object.entries(mode).every(([tag, count]) => tagValues(s, tag, has) >= count);
    }
  }
}

/** Resolves a waiter if its time has come; true: it is done. */
function settle(turn: Turn, waiter: Waiter): boolean {
  const { s, now } = turn;
  if (waiter.kind === 'read') {
    const at = waiter.committed ? s.committed.op : s.applied.op;
    if (at === null || at.s < waiter.s || (at.s === waiter.s && at.i < waiter.i)) return false;
    answer(turn, waiter.id);
    return true;
  }
  if (holds(s, waiter)) {
    answer(turn, waiter.id);
    return true;
  }
  const never = impossible(s, waiter);
  if (never !== null) {
    refuse(turn, waiter.id, never);
    return true;
  }
  if (s.leader === null || s.term !== waiter.term) {
    const text =
      s.term === waiter.term
        ? 'Primary stepped down while waiting for replication'
        : `Term changed from ${waiter.term} to ${s.term} while waiting for replication, indicating that this node must have stepped down.`;
    refuse(turn, waiter.id, refusal(189, 'PrimarySteppedDown', text));
    return true;
  }
  if (waiter.deadline !== null && now >= waiter.deadline) {
    // 64's name changed with 8.1; 7.0 and 8.0 have the old one.
    const extra = { errInfo: { wtimeout: true } };
    refuse(turn, waiter.id, refusal(64, 'WriteConcernFailed', 'waiting for replication timed out', extra));
    return true;
  }
  return false;
}

/** A new waiter: answered at once when it holds already or never can. */
export function addWaiter(turn: Turn, waiter: Waiter): void {
  if (settle(turn, waiter)) return;
  const { s } = turn;
  s.waiters = [...s.waiters, waiter];
  const deadline = waiter.kind === 'write' ? waiter.deadline : null;
  if (deadline !== null) s.waitersDueAt = Math.min(deadline, s.waitersDueAt ?? deadline);
}

/** What waiters look at; while it stays the same and no deadline passes, none of them is done. */
const sameForWaiters = (before: State, s: State): boolean =>
  before.applied === s.applied &&
  before.committed === s.committed &&
  before.peers === s.peers &&
  before.config === s.config &&
  before.leader === s.leader &&
  before.term === s.term;

/** Answers those whose time has come. */
export function settleWaiters(turn: Turn, before: State): void {
  const { s, now } = turn;
  if (s.waiters.length === 0) return;
  const late = s.waitersDueAt !== null && now >= s.waitersDueAt;
  if (!late && sameForWaiters(before, s)) return;
  const left = s.waiters.filter((waiter) => !settle(turn, waiter));
  if (left.length === s.waiters.length && !late) return;
  s.waiters = left;
  s.waitersDueAt = left.reduce<number | null>((earliest, waiter) => {
    const deadline = waiter.kind === 'write' ? waiter.deadline : null;
    return deadline === null ? earliest : Math.min(deadline, earliest ?? deadline);
  }, null);
}
