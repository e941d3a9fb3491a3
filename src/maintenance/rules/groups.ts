/** Storage groups (C2.1, C2.2): how many virtual disks of one group may be out. */
import type { Millis } from '../../base/units.ts';
import { VDISK } from '../fleet.ts';
import { type Erasure, PARITY } from '../fleetSpec.ts';
import type { Mode, Refusal } from '../types.ts';
import {
  allFreeAt,
  blockingLock,
  bothText,
  firstLock,
  lockedRefusal,
  namesText,
  type Pass,
  refuse,
} from './look.ts';

/** One virtual disk that counts as out, with its realm. */
interface Out {
  readonly vdisk: number;
  readonly realm: number;
}

/** Whether one virtual disk may be taken. Costs O(1) unless it is refused, or its group has several disks on a node. */
export function checkVdisk(pass: Pass, v: number): Refusal | null {
  const { fleet, mode } = pass;
  const locked = lockOf(pass, v);
  if (locked !== null) return locked;
  if (mode === 'force') return null;
  const g = fleet.vdiskGroup[v] as number;
  const erasure = fleet.erasures[g] as Erasure;
  if (erasure === 'none') return noParity(pass, v, g);
  const own = pass.taken.all(g);
  if (!fits(pass, v, g, modeFor(pass, g))) return tooMany(pass, v, g, own);
  const before = own - pass.taken.now(g);
  const spread = fleet.groupShared[g] === 0;
  return before > 0 && pass.partial && mode === 'weak' && spread ? oneAtATime(pass, g) : null;
}

/** C2.4: strong, else weak as long as the request has nothing of the group from before. What one host takes along is one thing. */
function modeFor(pass: Pass, g: number): Mode {
  if (pass.mode !== 'smart') return pass.mode;
  const before = pass.taken.all(g) - pass.taken.now(g);
  return before === 0 && !holds(pass, g) ? 'weak' : 'strong';
}

/** The disk, its node or its PDisk is locked. */
function lockOf(pass: Pass, v: number): Refusal | null {
  const { fleet } = pass;
  if (fleet.vdiskStatus[v] !== VDISK.locked) return null;
  const ref =
    blockingLock(pass, { kind: 'node', index: fleet.vdiskNode[v] as number }) ??
    blockingLock(pass, { kind: 'disk', index: fleet.vdiskDisk[v] as number }) ??
    blockingLock(pass, { kind: 'vdisk', index: v });
  if (ref === undefined) return null;
  return lockedRefusal(vdiskName(pass, v), ref, ref.kind === 'pass' ? 'DISALLOW' : 'DISALLOW_TEMP');
}

/** Whether the group stays within its failure model when this disk is out as well. */
function fits(pass: Pass, v: number, g: number, mode: Mode): boolean {
  const { fleet } = pass;
  if (fleet.groupShared[g] === 1) return within(fleet.erasures[g] as Erasure, mode, outsOf(pass, v, g));
  const itself = fleet.vdiskStatus[v] === VDISK.ok ? 0 : 1;
  const out = (fleet.groupLocked[g] as number) + (fleet.groupDown[g] as number) - itself + 1;
  if (mode === 'strong') return out <= 1;
  if (fleet.erasures[g] !== 'mirror-3-dc') return out <= PARITY[fleet.erasures[g] as Erasure];
  return out <= 2 || realmsFit(realmCounts(pass, v, g, 1 - itself));
}

function realmCounts(pass: Pass, v: number, g: number, more: number): readonly number[] {
  const { fleet } = pass;
  const counts: number[] = [];
  for (let r = 0; r < fleet.realms; r++) {
    const plus = r === fleet.vdiskRealm[v] ? more : 0;
    counts.push((fleet.realmOut[g * fleet.realms + r] as number) + plus);
  }
  return counts;
}

/** mirror-3-dc, weak: all of one data centre and one of another. */
function realmsFit(counts: readonly number[]): boolean {
  const bad = counts.filter((c) => c > 0);
  return bad.length <= 1 || (bad.length === 2 && Math.min(...bad) <= 1);
}

function within(erasure: Erasure, mode: Mode, outs: readonly Out[]): boolean {
  if (mode === 'force') return true;
  if (mode === 'strong') return outs.length <= 1;
  if (erasure !== 'mirror-3-dc') return outs.length <= PARITY[erasure];
  const counts = new Map<number, number>();
  for (const { realm } of outs) counts.set(realm, (counts.get(realm) ?? 0) + 1);
  return realmsFit([...counts.values()]);
}

/** All disks of the group that are out, with this one. What is down only because its own node is counts with it. */
function outsOf(
  pass: Pass,
  v: number,
  g: number,
  counts: (u: number) => boolean = () => true,
): readonly Out[] {
  const { fleet } = pass;
  const outs: Out[] = [];
  for (const u of fleet.membersOf(g)) {
    if (u === v || (counts(u) && isOut(pass, u, v)))
      outs.push({ vdisk: u, realm: fleet.vdiskRealm[u] as number });
  }
  return outs;
}

function isOut(pass: Pass, u: number, v: number): boolean {
  const { fleet } = pass;
  if (fleet.vdiskStatus[u] !== VDISK.down) return fleet.vdiskStatus[u] === VDISK.locked;
  const sameNode = fleet.vdiskNode[u] === fleet.vdiskNode[v];
  const sameDisk = fleet.vdiskDisk[u] === fleet.vdiskDisk[v];
  if (!fleet.vdiskOk(u)) return true;
  if (fleet.state(fleet.vdiskNode[u] as number) !== 'up' && !sameNode) return true;
  return !fleet.diskOk(fleet.vdiskDisk[u] as number) && !sameDisk;
}

function refsOf(pass: Pass, u: number): ReturnType<Pass['fleet']['refs']> {
  const { fleet } = pass;
  return [
    ...fleet.refs({ kind: 'node', index: fleet.vdiskNode[u] as number }),
    ...fleet.refs({ kind: 'disk', index: fleet.vdiskDisk[u] as number }),
    ...fleet.refs({ kind: 'vdisk', index: u }),
  ];
}

/** Whether this request holds a disk of the group from an earlier pass. */
function holds(pass: Pass, g: number): boolean {
  for (const u of pass.fleet.membersOf(g)) {
    for (const ref of refsOf(pass, u))
      if (ref.kind === 'held' && ref.permission.entry === pass.entry) return true;
  }
  return false;
}

const nodeName = ({ fleet }: Pass, v: number): string =>
  fleet.nodes[fleet.vdiskNode[v] as number]?.name ?? '';
const isShared = ({ fleet }: Pass, v: number): boolean =>
  fleet.groupShared[fleet.vdiskGroup[v] as number] === 1;

/** Number of its disk: where a node has several disks of one group its name alone does not say which. */
function diskId({ fleet }: Pass, v: number): number | undefined {
  const n = fleet.vdiskNode[v] as number;
  const at = (fleet.vdiskDisk[v] as number) - (fleet.diskStart[n] as number);
  return fleet.nodes[n]?.disks[at]?.id;
}

function vdiskName(pass: Pass, v: number): string {
  const group = pass.fleet.groupNames[pass.fleet.vdiskGroup[v] as number];
  const disk = isShared(pass, v) ? `disk ${diskId(pass, v)} of ` : '';
  return `vdisk of group ${group} on ${disk}${nodeName(pass, v)}`;
}

function noParity(pass: Pass, v: number, g: number): Refusal {
  const message = `group ${pass.fleet.groupNames[g]} has no parity parts: taking ${vdiskName(pass, v)} takes its data away; only force does that`;
  return refuse('DISALLOW', 'NoParity', message, [
    { kind: 'group', group: pass.fleet.groupIds[g] as number, out: [] },
  ]);
}

function oneAtATime(pass: Pass, g: number): Refusal {
  const message = `cannot get two or more disks from the same group at the same time in partial permissions allowed mode: group ${pass.fleet.groupNames[g]} gives one per refresh`;
  return refuse('DISALLOW_TEMP', 'OneAtATime', message, [
    { kind: 'group', group: pass.fleet.groupIds[g] as number, out: [] },
  ]);
}

function tooMany(pass: Pass, v: number, g: number, own: number): Refusal {
  const { fleet, mode } = pass;
  const judged = modeFor(pass, g);
  const id = fleet.groupIds[g] as number;
  const name = fleet.groupNames[g] as string;
  const erasure = fleet.erasures[g] as Erasure;
  // A group of actions, or the nodes of one host, that are too many by themselves: waiting does not help.
  const together = own > 0 && (!pass.partial || own === pass.taken.now(g));
  const hopeless =
    together && (pass.compat.compositeNeverWaits || !within(erasure, judged, ownOuts(pass, v, g)));
  if (hopeless) {
    const mine = ownOuts(pass, v, g);
    const nodes = [...new Set(mine.map((o) => fleet.nodes[fleet.vdiskNode[o.vdisk] as number]?.name ?? ''))];
    const message = `The request is incorrect: too many disks from the one group (${name}, ${erasure}): those of ${namesText(nodes)}`;
    return refuse('DISALLOW', 'WrongRequest', message, [{ kind: 'group', group: id, out: [] }]);
  }
  const outs = outsOf(pass, v, g);
  const others = outs.filter((o) => o.vdisk !== v);
  const names = outNames(pass, v, others);
  const rule = `${mode} allows ${judged === 'weak' ? weakRule(erasure) : '1'}`;
  const message = `too many unavailable vdisks: ${outs.length} of ${fleet.membersOf(g).length} in group ${name} (${erasure}) would be out, ${rule}; out: ${namesText(names)}`;
  const by = [{ kind: 'group' as const, group: id, out: others.map((o) => nodeKey(pass, o.vdisk)) }];
  return refuse('DISALLOW_TEMP', 'TooManyUnavailableVDisks', message, by, freeTime(pass, v, others, judged));
}

const nodeKey = (pass: Pass, u: number): string =>
  pass.fleet.nodes[pass.fleet.vdiskNode[u] as number]?.key ?? '';
const weakRule = (erasure: Erasure): string =>
  erasure === 'mirror-3-dc' ? 'one data centre and one disk of another' : String(PARITY[erasure]);

/** Those that are out, and why: once for all disks of a node that are out for one reason. */
function outNames(pass: Pass, v: number, others: readonly Out[]): readonly string[] {
  // What a node takes with it is asked for with it, and stands in nobody's way.
  const along = ({ vdisk: u }: Out): boolean =>
    pass.fleet.vdiskNode[u] === pass.fleet.vdiskNode[v] &&
    refsOf(pass, u).every((ref) => ref.kind === 'pass');
  const foreign = others.filter((out) => !along(out) || !isShared(pass, v));
  const disks = new Map<string, { readonly name: string; readonly why: string; readonly ids: unknown[] }>();
  for (const { vdisk: u } of foreign.length === 0 ? others : foreign) {
    const name = nodeName(pass, u);
    const why = bothText(faultText(pass, u), firstLock(refsOf(pass, u)));
    const known = disks.get(`${name} ${why}`);
    if (known === undefined) disks.set(`${name} ${why}`, { name, why, ids: [diskId(pass, u)] });
    else known.ids.push(diskId(pass, u));
  }
  return [...disks.values()].map(({ name, why, ids }) => {
    const which = isShared(pass, v) ? `disk${ids.length === 1 ? '' : 's'} ${ids.join(', ')} of ` : '';
    return `${which}${name} (${why})`;
  });
}

/** Why a virtual disk would be out also without its locks; null: it would be available. */
function faultText({ fleet }: Pass, u: number): string | null {
  const state = fleet.state(fleet.vdiskNode[u] as number);
  if (state !== 'up') return state;
  if (!fleet.diskOk(fleet.vdiskDisk[u] as number)) return 'its disk is not Normal';
  return fleet.vdiskOk(u) ? null : 'its virtual disk is not Ok';
}

/** Only what this request itself takes: if that is too much already, waiting does not help. */
const ownOuts = (pass: Pass, v: number, g: number): readonly Out[] =>
  outsOf(pass, v, g, (u) => refsOf(pass, u).some((ref) => ref.kind === 'pass' && ref.pass === pass.number));

/** When enough locks of the group have ended, if locks are what stands in the way. */
function freeTime(pass: Pass, v: number, others: readonly Out[], mode: Mode): Millis | null {
  const g = pass.fleet.vdiskGroup[v] as number;
  const ends = others
    .map((out) => ({ out, at: allFreeAt(refsOf(pass, out.vdisk)) }))
    .filter((e): e is { out: Out; at: Millis } => e.at !== null && faultText(pass, e.out.vdisk) === null)
    .sort((a, b) => a.at - b.at);
  let left = others;
  const target: Out = { vdisk: v, realm: pass.fleet.vdiskRealm[v] as number };
  for (const end of ends) {
    left = left.filter((o) => o !== end.out);
    if (within(pass.fleet.erasures[g] as Erasure, mode, [...left, target])) return end.at;
  }
  return null;
}
