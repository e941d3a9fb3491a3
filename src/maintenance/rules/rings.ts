/** State Storage rings (C2.1, C2.2): whole rings count, and a ring needs a while to settle after a replica's start. */
import type { Millis } from '../../base/units.ts';
import type { Ring, StateStorage } from '../layout.ts';
import { RING_SETTLE } from '../limits.ts';
import type { Blocker, Refusal } from '../types.ts';
import { allFreeAt, goesAlong, namesText, outText, type Pass, refuse } from './look.ts';

type RingState = 'disabled' | 'restart' | 'settling' | 'ok';

const stateOf = (ring: Ring, now: Millis): RingState => {
  if (ring.disabled) return 'disabled';
  if (ring.bad > 0) return 'restart';
  return ring.lastStart + RING_SETTLE > now ? 'settling' : 'ok';
};

/** Whether a node's ring may lose this replica. More replicas of a ring that is broken anyway cost nothing more. */
export function checkRing(pass: Pass, n: number): Refusal | null {
  const at = pass.fleet.ringOf(n);
  if (at === undefined || pass.mode === 'force') return null;
  const storage = pass.fleet.storages[at[0]] as StateStorage;
  if (storage.rings[at[1]]?.disabled) return null;
  const count = { disabled: 0, restart: 1, settling: 0, ok: 0 };
  storage.rings.forEach((ring, r) => {
    if (r !== at[1]) count[stateOf(ring, pass.now)]++;
  });
  const strong = count.restart + count.settling <= 1;
  const weak = fitsWeak(pass, storage, count, strong);
  const { mode } = pass;
  if (mode === 'strong' ? strong : mode === 'weak' ? weak : strong || (weak && !holdsRing(pass, storage)))
    return null;
  return tooManyOnOneHost(pass, storage, n) ?? tooMany(pass, storage, at[1], count);
}

function fitsWeak(
  pass: Pass,
  storage: StateStorage,
  count: { readonly disabled: number; readonly restart: number; readonly settling: number },
  strong: boolean,
): boolean {
  const budget = Math.floor((storage.nToSelect - 1) / 2);
  if (count.restart + count.settling + count.disabled <= budget) return true;
  // With one or two rings to select the budget is 0: weak would refuse what strong allows.
  return budget === 0 && strong && !pass.compat.weakRingsBelowStrong;
}

/** The replicas on one host are of too many rings by themselves: then waiting does not help. */
function tooManyOnOneHost(pass: Pass, storage: StateStorage, n: number): Refusal | null {
  if (pass.compat.hostNodesUnseen) return null;
  const own = storage.rings.filter(
    (ring) => !ring.disabled && ring.nodes.some((m) => m === n || goesAlong(pass, m)),
  );
  const budget = Math.max(1, pass.mode === 'strong' ? 1 : Math.floor((storage.nToSelect - 1) / 2));
  if (own.length <= budget) return null;
  const host = pass.fleet.nodes[n]?.host;
  const along = own.flatMap((ring) => ring.nodes.filter((m) => m === n || goesAlong(pass, m)));
  const together = along.every((m) => pass.fleet.nodes[m]?.host === host);
  const where = together ? 'have replicas on one host' : 'have replicas in this group';
  const cure = together ? 'use another mode' : 'ask for them one by one, use another mode';
  const message = `${own.length} state storage rings ${where}, and ${pass.mode} allows ${budget}; ${cure}, or force (an outage)`;
  return refuse('DISALLOW', together ? 'TooManyOnOneHost' : 'TooManyTogether', message);
}

/** Whether this request has a ring of its own already. */
function holdsRing(pass: Pass, storage: StateStorage): boolean {
  for (const ring of storage.rings) {
    if (ring.bad === 0) continue;
    for (const n of ring.nodes) {
      for (const ref of pass.fleet.refs({ kind: 'node', index: n })) {
        if (ref.kind === 'pass' && ref.pass === pass.number) return true;
        if (ref.kind === 'held' && ref.permission.entry === pass.entry) return true;
      }
    }
  }
  return false;
}

function tooMany(
  pass: Pass,
  storage: StateStorage,
  own: number,
  count: { readonly disabled: number; readonly restart: number; readonly settling: number },
): Refusal {
  const by: Blocker[] = [];
  const parts: string[] = [];
  const ends: (Millis | null)[] = [];
  const of = storage.cluster === undefined ? '' : ` of ${storage.cluster}`;
  storage.rings.forEach((ring, r) => {
    const state = stateOf(ring, pass.now);
    if (r === own || (state !== 'restart' && state !== 'settling')) return;
    const until = state === 'settling' ? ring.lastStart + RING_SETTLE : restartEnds(pass, ring);
    ends.push(until);
    const out = ring.nodes.filter((n) => pass.fleet.state(n) !== 'up' || pass.fleet.nodeLocked(n));
    by.push({
      kind: 'ring',
      ring: r,
      state,
      nodes: ring.nodes.map((n) => pass.fleet.nodes[n]?.key ?? ''),
      until,
    });
    const text =
      state === 'settling'
        ? `ring ${r}${of} settles until ${new Date(ring.lastStart + RING_SETTLE).toISOString().slice(0, 19)}Z`
        : `ring ${r}${of}: ${namesText(out.map((n) => outText(pass.fleet, n)))}`;
    parts.push(text);
  });
  const budget = pass.mode === 'weak' ? Math.floor((storage.nToSelect - 1) / 2) : 1;
  const message = `too many unavailable state storage rings. Restarting rings: ${count.restart} (this one, ${own}, included). Temporary (for a 2 minutes) locked rings: ${count.settling}. Disabled rings: ${count.disabled}. Maximum allowed number of unavailable rings for this mode: ${budget}. ${parts.join('; ')}`;
  const retryAt = freeTime(ends, sparedBy(pass, storage, count.disabled));
  return refuse('DISALLOW_TEMP', 'TooManyUnavailableStateStorageRings', message.trim(), by, retryAt);
}

/** How many other rings may be out beside this one, by what the mode allows in the end. */
function sparedBy(pass: Pass, storage: StateStorage, disabled: number): number {
  const weak = pass.mode === 'weak' || (pass.mode === 'smart' && !holdsRing(pass, storage));
  return weak ? Math.max(0, Math.floor((storage.nToSelect - 1) / 2) - disabled - 1) : 0;
}

/** When no more than so many of those that are out are left; null: not known, since too many of them have no known end. */
function freeTime(ends: readonly (Millis | null)[], spared: number): Millis | null {
  const known = ends.filter((at) => at !== null).sort((a, b) => a - b);
  return known[ends.length - spared - 1] ?? null;
}

/** When the locks of a ring's replicas end; null: a replica is down, or a lock has no end. */
function restartEnds(pass: Pass, ring: Ring): Millis | null {
  let latest = Number.NEGATIVE_INFINITY;
  for (const n of ring.nodes) {
    if (pass.fleet.state(n) !== 'up') return null;
    if (!pass.fleet.nodeLocked(n)) continue;
    const at = allFreeAt(pass.fleet.refs({ kind: 'node', index: n }));
    if (at === null) return null;
    latest = Math.max(latest, at);
  }
  return latest === Number.NEGATIVE_INFINITY ? null : latest;
}
