import { formatBytes } from '../../base/units.ts';
import type { Step } from '../decisions.ts';
import { pendingOf } from '../state.ts';
import { componentOf } from '../topology.ts';
import type { MemberState } from '../types.ts';
import { act, backingOff, helpNeeded, type Planner, type Scene, verdict } from './planner.ts';

/**
 * A6.6: a volume that is to be larger grows, on the volume itself and never by way of its runtime. It comes before
 * everything that needs a running process, since a full disk is what stops one (STO-04), and changes nobody's place in the
 * set (STO-01). A smaller size is refused at admission.
 */
export const planVolumes: Planner = (scene) => {
  const { desired, state, observed } = scene;
  if (desired.deleting !== null || desired.suspend || !observed.capabilities.diskGrowth) return null;
  const todo = state.members.filter((m) => sizeFor(scene, m) !== null && pendingOf(state, m.name) === null);
  if (todo.length === 0) return null;
  const held = todo.map((m) => backingOff(scene, 'growVolume', m.name));
  const help = todo.map((m) => helpNeeded(scene, 'growVolume', m.name));
  const steps = todo
    .filter((_, i) => held[i] === null)
    .map((m): Step => ({ kind: 'growVolume', member: m.name, sizeBytes: sizeFor(scene, m) ?? 0 }));
  const size = formatBytes(Math.max(...steps.map((s) => (s.kind === 'growVolume' ? s.sizeBytes : 0))));
  const detail = `volumes of ${todo.map((m) => m.name).join(', ')} grow to ${size}`;
  const go = steps.length === 0 ? null : act('VolumeGrowth', steps, detail);
  return verdict([go, ...held, ...help], false);
};

/** The size it is to grow to; null: it is as large as it should be, or not known to be smaller. */
export function sizeFor({ desired }: Pick<Scene, 'desired'>, member: MemberState): number | null {
  if (member.volumeId === null || member.stage === 'removing') return null;
  const wanted = componentOf(desired, member.role)?.volumeBytes ?? null;
  const has = member.volumeBytes ?? null;
  return wanted !== null && has !== null && wanted > has ? wanted : null;
}
