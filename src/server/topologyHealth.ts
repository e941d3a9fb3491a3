/**
 * Health of a topology that somebody observes: what a push does not name stays as it was told last, and as old (C5.3). Several
 * control planes on one store take pushes; a counter beside the status lets none of them write over what another one noted.
 */
import { BelayError } from '../base/error.ts';
import { formatCount, type Millis } from '../base/units.ts';
import { DEFAULT_NAMESPACE, healthProblems, type Topology, type TopologyHealth } from '../model/index.ts';
import type { ApiDeps } from './deps.ts';
import { getObject } from './objects.ts';

/** Each time somebody else was faster one of us got through, so this is more than enough. */
const ATTEMPTS = 20;

export interface Noted {
  readonly observedAt: string;
  /** Of how many nodes something is told now. */
  readonly nodes: number;
}

/** Notes it. `NotFound`: there is no such topology; `Invalid`: with everything that is not in it, and nothing is noted. */
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
  const spec = object.spec as Topology['spec'];
  const now = clock.now();
  const problems = healthProblems(news, spec, now);
  if (problems.length > 0) {
    const count = formatCount(problems.length, 'problem');
    throw new BelayError('Invalid', `health of topology ${name} has ${count}`, { retry: 'never', problems });
  }
  const health = mergedHealth((object.status as Topology['status'] | null)?.health, news, spec, now);
  const { generation } = object.metadata;
  const value = { observedGeneration: generation, phase: 'Ready', conditions: [], warnings: [], health };
  const version = counter?.version ?? 0;
  await store.commit({
    state: { uid, version, value: { schema: 1, pushes: version + 1 } },
    status: [{ key, uid: object.metadata.uid, value }],
  });
  return { observedAt: health.observedAt, nodes: health.nodes.length };
}

type Health = NonNullable<NonNullable<Topology['status']>['health']>;

/** What was told before and is still there, with the time it was told at, and the news. */
function mergedHealth(known: Health | undefined, news: TopologyHealth, spec: Topology['spec'], now: Millis) {
  const observedAt = new Date(now).toISOString();
  const before = known?.observedAt;
  const states = new Map(known?.nodes.map((n) => [n.id, n]));
  // A push that tells other things of a node makes what is known of its state no younger.
  const nodes = news.nodes.map((n) => {
    const told = states.get(n.id);
    const at = told?.observedAt ?? before;
    return n.state === undefined && told?.state !== undefined && at !== undefined
      ? { ...n, observedAt: at }
      : n;
  });
  const since =
    known?.nodesSince ??
    (known?.nodes.some((n) => n.state !== undefined)
      ? before
      : news.nodes.some((n) => n.state !== undefined)
        ? observedAt
        : undefined);
  const there = thingsIn(spec);
  const eachOf = <V extends VDisk>(told: readonly V[]): readonly V[] => each(told, spec);
  return {
    nodes: merged(known?.nodes ?? [], nodes, before, (n) => `${n.id}`, there.nodes),
    disks: merged(known?.disks ?? [], news.disks, before, (d) => `${d.node}/${d.disk}`, there.disks),
    vdisks: merged(eachOf(known?.vdisks ?? []), eachOf(news.vdisks), before, vdiskKey, there.vdisks),
    observedAt,
    ...(since === undefined ? {} : { nodesSince: since }),
  };
}

/** What a document names, by the keys health has: what is gone from it is told no more. */
function thingsIn({ nodes, storageGroups }: Topology['spec']) {
  return {
    nodes: new Set(nodes.map((n) => `${n.id}`)),
    disks: new Set(nodes.flatMap((n) => n.disks.map((d) => `${n.id}/${d.id}`))),
    vdisks: new Set(storageGroups.flatMap((g) => g.vdisks.map((v) => vdiskKey({ ...v, group: g.id })))),
  };
}

type VDisk = TopologyHealth['vdisks'][number];
const vdiskKey = ({ group, node, disk }: Pick<VDisk, 'group' | 'node' | 'disk'>): string =>
  `${group}/${node}/${disk}`;

/** Each virtual disk by itself, also where all of a group on one node were told together. */
function each<V extends VDisk>(told: readonly V[], { storageGroups }: Topology['spec']): readonly V[] {
  const named = new Set(told.map(vdiskKey));
  const groups = new Map(storageGroups.map((g) => [g.id, g.vdisks]));
  return told.flatMap((v) => {
    if (v.disk !== undefined) return [v];
    const there = (groups.get(v.group) ?? []).filter(({ node }) => node === v.node);
    const all = there.map(({ disk }) => ({ ...v, disk }));
    return all.filter((one) => !named.has(vdiskKey(one)));
  });
}

type Told<T> = T & { readonly observedAt?: string | undefined };

function merged<T extends object>(
  known: readonly Told<T>[],
  news: readonly Told<T>[],
  last: string | undefined,
  keyOf: (item: Told<T>) => string,
  there: ReadonlySet<string>,
): readonly Told<T>[] {
  const all = new Map<string, Told<T>>();
  for (const item of known) {
    const observedAt = item.observedAt ?? last;
    const aged = observedAt === undefined ? item : { ...item, observedAt };
    if (there.has(keyOf(item))) all.set(keyOf(item), aged);
  }
  for (const item of news) {
    const { observedAt: _, ...before } = { ...all.get(keyOf(item)) };
    all.set(keyOf(item), { ...before, ...item } as Told<T>);
  }
  return [...all.values()];
}
