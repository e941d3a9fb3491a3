/**
 * Health of a topology that somebody observes: what a push does not name stays as it was told last. Several control planes on
 * one store take pushes; a counter beside the status lets none of them write over what another one noted meanwhile.
 */
import { BelayError } from '../base/error.ts';
import { DEFAULT_NAMESPACE, type Topology, type TopologyHealth } from '../model/index.ts';
import type { ApiDeps } from './deps.ts';
import { getObject } from './objects.ts';

/** Each time somebody else was faster one of us got through, so this is more than enough. */
const ATTEMPTS = 20;

export interface Noted {
  readonly observedAt: string;
  /** Of how many nodes something is told now. */
  readonly nodes: number;
}

/** Notes it. `NotFound`: there is no such topology. */
export async function noteHealth(
  deps: Pick<ApiDeps, 'store' | 'clock'>,
  name: string,
  news: TopologyHealth,
): Promise<Noted> {
  for (let left = ATTEMPTS; ; left--) {
    try {
      return await noteOnce(deps, name, news);
    } catch (failure) {
      if (!(failure instanceof BelayError) || failure.code !== 'StateConflict' || left <= 1) throw failure;
    }
  }
}

async function noteOnce(
  { store, clock }: Pick<ApiDeps, 'store' | 'clock'>,
  name: string,
  news: TopologyHealth,
): Promise<Noted> {
  const uid = `health of topology ${name}`;
  // The counter first: whatever comes in after it makes the write fail.
  const counter = await store.loadState(uid);
  const key = { kind: 'Topology', namespace: DEFAULT_NAMESPACE, name };
  const object = await getObject({ store }, key);
  const known = (object.status as Topology['status'] | null)?.health;
  const observedAt = new Date(clock.now()).toISOString();
  const health = {
    nodes: merged(known?.nodes ?? [], news.nodes, (n) => `${n.id}`),
    disks: merged(known?.disks ?? [], news.disks, (d) => `${d.node}/${d.disk}`),
    vdisks: merged(known?.vdisks ?? [], news.vdisks, (v) => `${v.group}/${v.node}`),
    observedAt,
  };
  const { generation } = object.metadata;
  const value = { observedGeneration: generation, phase: 'Ready', conditions: [], warnings: [], health };
  const version = counter?.version ?? 0;
  await store.commit({
    state: { uid, version, value: { schema: 1, pushes: version + 1 } },
    status: [{ key, uid: object.metadata.uid, value }],
  });
  return { observedAt, nodes: health.nodes.length };
}

function merged<T extends object>(
  known: readonly T[],
  news: readonly T[],
  keyOf: (item: T) => string,
): readonly T[] {
  const all = new Map(known.map((item) => [keyOf(item), item]));
  for (const item of news) all.set(keyOf(item), { ...all.get(keyOf(item)), ...item });
  return [...all.values()];
}
