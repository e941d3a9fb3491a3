/**
 * Rules about several fields of a Topology, and about health that is pushed for one: what is named must be there, and there
 * once. A name that leads nowhere would make a node look as if it carried nothing, and it could be taken with data on it (C6.3).
 */
import type { Problem } from '../../base/error.ts';
import { formatCount, MINUTE, type Millis } from '../../base/units.ts';
import { type Loose, listAt, mapAt, numberAt, textAt } from '../paths.ts';
import type { Topology, TopologyHealth } from './maintenance.ts';

/** Clocks of machines differ. A start that is told to be later than this from now is a mistake, and its ring would never settle. */
export const START_AHEAD: Millis = 5 * MINUTE;

type Found = { problems: Problem[]; warnings: Problem[] };

/** Notes each name with the path it came at first, and says when it comes again. */
class Names<K> {
  readonly #at = new Map<K, string>();
  readonly #problems: Problem[];
  constructor(problems: Problem[]) {
    this.#problems = problems;
  }
  has(name: K): boolean {
    return this.#at.has(name);
  }
  /** False: it was there already. */
  add(name: K, path: string, what: string): boolean {
    const first = this.#at.get(name);
    if (first === undefined) this.#at.set(name, path);
    else this.#problems.push({ path, message: `${what} is given twice, first at ${first}` });
    return first === undefined;
  }
}

/** All rules of a Topology document. Takes unfinished documents: what is no number is passed over, the schema says that. */
export function topologyRules(document: Loose): Found {
  const problems: Problem[] = [];
  const spec = mapAt(document, 'spec');
  const nodes = nodeRules(spec, problems);
  const warnings: Problem[] = [];
  groupRules(spec, nodes, { problems, warnings });
  ringRules(spec, nodes, problems);
  tabletRules(spec, nodes, problems);
  return { problems, warnings };
}

/** What is known of a node of the document. */
interface Known {
  readonly disks: ReadonlySet<number>;
  readonly pile: string;
}
type Nodes = ReadonlyMap<number, Known>;

function nodeRules(spec: Loose, problems: Problem[]): Nodes {
  const nodes = new Map<number, Known>();
  const ids = new Names<number>(problems);
  const paths = new Names<string>(problems);
  for (const [i, node] of listAt(spec, 'nodes').entries()) {
    const at = `spec.nodes[${i}]`;
    const id = numberAt(node, 'id');
    const host = textAt(node, 'host') ?? '';
    const disks = new Set<number>();
    const own = new Names<number>(problems);
    for (const [d, disk] of listAt(node, 'disks').entries()) {
      const number = numberAt(disk, 'id');
      if (number !== undefined && own.add(number, `${at}.disks[${d}].id`, `disk ${number}`))
        disks.add(number);
      const path = textAt(disk, 'path');
      if (path !== undefined)
        paths.add(`${host}\n${path}`, `${at}.disks[${d}].path`, `disk ${path} of host ${host}`);
    }
    if (id !== undefined && ids.add(id, `${at}.id`, `node ${id}`))
      nodes.set(id, { disks, pile: textAt(node, 'pile') ?? '' });
  }
  return nodes;
}

function groupRules(spec: Loose, nodes: Nodes, found: Found): void {
  const { problems } = found;
  const ids = new Names<number>(problems);
  for (const [g, group] of listAt(spec, 'storageGroups').entries()) {
    const at = `spec.storageGroups[${g}]`;
    const id = numberAt(group, 'id');
    if (id !== undefined) ids.add(id, `${at}.id`, `storage group ${id}`);
    const places = new Names<string>(problems);
    for (const [v, vdisk] of listAt(group, 'vdisks').entries()) {
      const node = numberAt(vdisk, 'node');
      const disk = numberAt(vdisk, 'disk');
      if (node === undefined || disk === undefined) continue;
      const path = `${at}.vdisks[${v}]`;
      const known = nodes.get(node);
      if (known === undefined) problems.push(noNode(`${path}.node`, node));
      else if (!known.disks.has(disk))
        problems.push({ path: `${path}.disk`, message: `node ${node} has no disk ${disk}` });
      places.add(`${node}/${disk}`, path, `disk ${disk} of node ${node}`);
    }
    shapeRules(group, `${at}.vdisks`, found);
  }
}

/**
 * Virtual disks a group has at least. With fewer, or with data centres that are not told apart, a verdict would count on copies
 * that are not there. A pool may be set up with more.
 */
const SIZES: ReadonlyMap<string, number> = new Map([
  ['none', 1],
  ['block-4-2', 8],
  ['mirror-3-dc', 9],
  ['mirror-3of4', 8],
]);
/** Realms of mirror-3-dc, and virtual disks in each of them at least. */
const REALMS = 3;

function shapeRules(group: unknown, path: string, { problems, warnings }: Found): void {
  const erasure = textAt(group, 'erasure') ?? '';
  const size = SIZES.get(erasure);
  if (size === undefined || !Array.isArray(mapAt(group)['vdisks'])) return;
  const vdisks = listAt(group, 'vdisks');
  const has = `has ${formatCount(vdisks.length, 'virtual disk')}, a group of ${erasure}`;
  if (vdisks.length < size) {
    const message = `${has} has ${size}: name those that are missing, or correct the erasure`;
    problems.push({ path, message });
    return;
  }
  if (vdisks.length > size) {
    const message = `${has} usually has ${size}: look whether all of them belong to it`;
    warnings.push({ path, message });
  }
  if (erasure !== 'mirror-3-dc') return;
  const realms = new Map<number, number>();
  for (const vdisk of vdisks) {
    const realm = numberAt(vdisk, 'realm') ?? 0;
    realms.set(realm, (realms.get(realm) ?? 0) + 1);
  }
  const counts = [...realms].sort(([a], [b]) => a - b);
  if (counts.length === REALMS && counts.every(([, count]) => count >= REALMS)) return;
  const told = counts.map(([realm, count]) => `${count} in realm ${realm}`).join(', ');
  const message = `has ${told}, a group of ${erasure} has ${REALMS} in each of ${REALMS} realms: give each virtual disk the realm of its data centre`;
  problems.push({ path, message });
}

function ringRules(spec: Loose, nodes: Nodes, problems: Problem[]): void {
  const storage = mapAt(spec, 'stateStorage');
  const rings = listAt(storage, 'rings');
  const members = new Names<number>(problems);
  for (const [r] of rings.entries()) {
    const at = `spec.stateStorage.rings[${r}]`;
    const piles = new Set<string>();
    for (const [i, node] of listAt(rings[r]).entries()) {
      if (typeof node !== 'number') continue;
      const known = nodes.get(node);
      if (known === undefined) problems.push(noNode(`${at}[${i}]`, node));
      else piles.add(known.pile);
      members.add(node, `${at}[${i}]`, `node ${node}`);
    }
    if (Array.isArray(rings[r]) && listAt(rings[r]).length === 0)
      problems.push({ path: at, message: 'must name at least one node' });
    if (piles.size > 1)
      problems.push({
        path: at,
        message: `its nodes are of several piles: ${[...piles].map((p) => p || '(none)').join(', ')}`,
      });
  }
  const select = numberAt(storage, 'nToSelect');
  if (select !== undefined && rings.length < select) {
    const message = `must be at most the number of rings, ${rings.length}`;
    problems.push({ path: 'spec.stateStorage.nToSelect', message });
  }
  const disabled = new Names<number>(problems);
  for (const [i, ring] of listAt(storage, 'disabledRings').entries()) {
    if (typeof ring !== 'number') continue;
    const path = `spec.stateStorage.disabledRings[${i}]`;
    if (ring >= rings.length)
      problems.push({ path, message: `there is no ring ${ring}; they are numbered from 0` });
    disabled.add(ring, path, `ring ${ring}`);
  }
}

function tabletRules(spec: Loose, nodes: Nodes, problems: Problem[]): void {
  const names = new Names<number>(problems);
  for (const [i, node] of listAt(spec, 'systemTabletNodes').entries()) {
    if (typeof node !== 'number') continue;
    const path = `spec.systemTabletNodes[${i}]`;
    if (!nodes.has(node)) problems.push(noNode(path, node));
    names.add(node, path, `node ${node}`);
  }
}

const noNode = (path: string, node: number): Problem => ({ path, message: `there is no node ${node}` });

/** Starts of nodes that lie in the future, seen from `now`. */
export function startProblems(spec: Loose, now: Millis): readonly Problem[] {
  return listAt(spec, 'nodes').flatMap((node, i) =>
    startProblem(`spec.nodes[${i}].startedAt`, textAt(node, 'startedAt'), now),
  );
}

function startProblem(path: string, startedAt: string | undefined, now: Millis): readonly Problem[] {
  if (startedAt === undefined || !(Date.parse(startedAt) > now + START_AHEAD)) return [];
  return [{ path, message: 'must not lie in the future: no node has started then' }];
}

/** How a push may name a virtual disk. */
const namesOf = ({ node, disk }: { readonly node: number; readonly disk: number }): readonly string[] => [
  `node ${node}`,
  `disk ${disk} of node ${node}`,
];

/** Everything in a push that the topology does not have, or that is told twice. */
export function healthProblems(
  news: TopologyHealth,
  spec: Topology['spec'],
  now: Millis,
): readonly Problem[] {
  const problems: Problem[] = [];
  const disks = new Map(spec.nodes.map((node) => [node.id, new Set(node.disks.map((disk) => disk.id))]));
  const groups = new Map(spec.storageGroups.map((g) => [g.id, new Set(g.vdisks.flatMap(namesOf))]));
  const nodeNames = new Names<number>(problems);
  for (const [i, { id, state, startedAt, version }] of news.nodes.entries()) {
    const path = `nodes[${i}].id`;
    if (!disks.has(id)) problems.push(noNode(path, id));
    nodeNames.add(id, path, `node ${id}`);
    problems.push(...startProblem(`nodes[${i}].startedAt`, startedAt, now));
    if (state === undefined && startedAt === undefined && version === undefined) {
      const message = 'is required where nothing else is told of a node: Up, Down or Unknown';
      problems.push({ path: `nodes[${i}].state`, message });
    }
  }
  const diskNames = new Names<string>(problems);
  for (const [i, { node, disk }] of news.disks.entries()) {
    const known = disks.get(node);
    if (known === undefined) problems.push(noNode(`disks[${i}].node`, node));
    else if (!known.has(disk))
      problems.push({ path: `disks[${i}].disk`, message: `node ${node} has no disk ${disk}` });
    diskNames.add(`${node}/${disk}`, `disks[${i}]`, `disk ${disk} of node ${node}`);
  }
  const vdiskNames = new Names<string>(problems);
  for (const [i, { group, node, disk }] of news.vdisks.entries()) {
    const known = groups.get(group);
    const on = disk === undefined ? `node ${node}` : `disk ${disk} of node ${node}`;
    if (known === undefined)
      problems.push({ path: `vdisks[${i}].group`, message: `there is no storage group ${group}` });
    else if (!known.has(on)) {
      const message = `storage group ${group} has no virtual disk on ${on}`;
      problems.push({ path: `vdisks[${i}].${disk === undefined ? 'node' : 'disk'}`, message });
    }
    vdiskNames.add(`${group} ${on}`, `vdisks[${i}]`, `the virtual disk of group ${group} on ${on}`);
  }
  return problems;
}
