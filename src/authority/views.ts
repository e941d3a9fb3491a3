/** Nodes and hosts as people look at them: state, holder, deadline, who waits, and what to be careful about (C6.4). */
import { DAY, formatDuration, type Millis } from '../base/units.ts';
import {
  canHandOver,
  type Desk,
  type Entry,
  entryName,
  itemsOf,
  type NodeSpec,
  resolve,
} from '../maintenance/index.ts';

/** A task that has waited or been held for so long is probably forgotten. */
const STALE: Millis = DAY;

export interface Holder {
  readonly task: string;
  readonly owner: string;
  readonly permission: string;
  readonly until: Millis | null;
}

export interface NodeView {
  readonly node: NodeSpec;
  /** `Maintenance`: locked and not up, so nobody has to worry; `Up` may be locked as well. */
  readonly state: 'Up' | 'Down' | 'Unknown' | 'Maintenance';
  readonly holders: readonly Holder[];
  /** It is primary, and another member could lead. */
  readonly canHandOver: boolean;
}

/** Who holds something of a topology. */
export interface TopologyHolder extends Holder {
  readonly nodes: readonly NodeSpec[];
}

export interface HostView {
  readonly host: string;
  readonly nodes: readonly NodeView[];
  readonly state: 'Up' | 'Down' | 'Partly' | 'Maintenance' | 'Empty';
  readonly holders: readonly Holder[];
  /** Tasks that wait for this host or something on it. */
  readonly waiting: readonly {
    /** Its name; of the control plane's own work, what it does. */
    readonly task: string;
    readonly owner: string;
    readonly priority: number;
    /** Nobody has asked for it again in time: it holds nobody back. */
    readonly stale: boolean;
  }[];
  readonly warnings: readonly string[];
}

const STATES = { up: 'Up', down: 'Down', unknown: 'Unknown' } as const;

export function nodeViews(desk: Desk, nodes: Iterable<NodeSpec>, cluster?: string): readonly NodeView[] {
  const views: NodeView[] = [];
  for (const node of nodes) {
    if (node.host === '' || (cluster !== undefined && node.cluster !== cluster)) continue;
    views.push(nodeView(desk, node));
  }
  return views;
}

function nodeView(desk: Desk, node: NodeSpec): NodeView {
  const n = desk.fleet.node(node.key);
  const holders = n === undefined ? [] : holdersOf(desk, { kind: 'node', index: n });
  const state = holders.length > 0 && node.state !== 'up' ? 'Maintenance' : STATES[node.state];
  return { node, state, holders, canHandOver: n !== undefined && canHandOver(desk.fleet, n) };
}

function holdersOf(desk: Desk, item: Parameters<Desk['fleet']['refs']>[0]): readonly Holder[] {
  return desk.fleet.refs(item).flatMap((ref): readonly Holder[] => {
    if (ref.kind !== 'held') return [];
    const { owner, id, deadline } = ref.permission;
    return [{ task: ref.task, owner, permission: id, until: deadline }];
  });
}

/** Who holds something of a topology, and the nodes it is on: nodes or disks, each permission once. */
export function topologyHolders(desk: Desk, topology: string): readonly TopologyHolder[] {
  const { fleet } = desk;
  return [...desk.entries()].flatMap((entry) =>
    entry.held.flatMap(({ id, owner, action, deadline }): readonly TopologyHolder[] => {
      const nodes = itemsOf(fleet, resolve(fleet, action)).flatMap(({ kind, index }) => {
        const node = fleet.nodes[index];
        // Of a node that is set aside nothing is down. A disk's node is among them, as its device.
        const isHeld = (kind === 'node' || kind === 'device') && node?.cluster === topology;
        return isHeld ? [node] : [];
      });
      return nodes.length === 0
        ? []
        : [{ task: entryName(entry), owner, permission: id, until: deadline, nodes }];
    }),
  );
}

export function hostViews(desk: Desk, nodes: readonly NodeSpec[], now: Millis): readonly HostView[] {
  const byHost = new Map<string, NodeSpec[]>([...desk.fleet.hosts()].map((host) => [host, []]));
  for (const node of nodes) byHost.get(node.host)?.push(node);
  const waiting = waitingByHost(desk);
  const byName = new Map([...desk.entries()].map((entry) => [entryName(entry), entry]));
  return [...byHost]
    .map(([host, there]) => hostView(desk, host, there, waiting.get(host) ?? [], byName, now))
    .sort((a, b) => (a.host < b.host ? -1 : 1));
}

function hostView(
  desk: Desk,
  host: string,
  nodes: readonly NodeSpec[],
  waiting: HostView['waiting'],
  byName: ReadonlyMap<string, Entry>,
  now: Millis,
): HostView {
  const views = nodes.map((node) => nodeView(desk, node));
  const h = desk.fleet.hostAt(host);
  // One that carries nothing is held itself.
  const itself = h === undefined ? [] : holdersOf(desk, { kind: 'host', index: h });
  const holders = new Map([...itself, ...views.flatMap((v) => v.holders)].map((p) => [p.permission, p]));
  const up = views.filter((v) => v.node.state === 'up').length;
  const maintenance = views.length === 0 ? itself.length > 0 : views.every((v) => v.holders.length > 0);
  const state = maintenance
    ? 'Maintenance'
    : views.length === 0
      ? 'Empty'
      : up === views.length
        ? 'Up'
        : up === 0
          ? 'Down'
          : 'Partly';
  const warnings = [...coLocation(desk, nodes), ...stale([...holders.values()], waiting, byName, now)];
  return { host, nodes: views, state, holders: [...holders.values()], waiting, warnings };
}

/** Two members of one set on one machine fall together. */
function coLocation(desk: Desk, nodes: readonly NodeSpec[]): readonly string[] {
  const bySet = new Map<string, string[]>();
  for (const node of nodes) {
    const n = desk.fleet.node(node.key);
    const set = n === undefined ? undefined : desk.fleet.setOf(n)?.spec.key;
    if (set === undefined) continue;
    const names = bySet.get(set);
    if (names === undefined) bySet.set(set, [node.name]);
    else names.push(node.name);
  }
  return [...bySet]
    .filter(([, names]) => names.length > 1)
    .map(([set, names]) => `${names.join(' and ')} of ${set} are on one host and go down together`);
}

function stale(
  holders: readonly Holder[],
  waiting: HostView['waiting'],
  byName: ReadonlyMap<string, Entry>,
  now: Millis,
): readonly string[] {
  const tasks = new Set([...holders, ...waiting].map((h) => h.task));
  return [...tasks].flatMap((uid) => {
    const entry = byName.get(uid);
    if (entry === undefined) return [];
    const ago = formatDuration(now - entry.refreshedAt);
    if (entry.stale === true)
      return [
        `task ${uid} of ${entry.owner} waits and was last asked for ${ago} ago: it holds nobody back until it is refreshed`,
      ];
    if (now - entry.refreshedAt < STALE) return [];
    return [`task ${uid} of ${entry.owner} was last refreshed ${ago} ago: still wanted?`];
  });
}

function waitingByHost(desk: Desk): ReadonlyMap<string, HostView['waiting'][number][]> {
  const found = new Map<string, HostView['waiting'][number][]>();
  for (const entry of desk.entries()) {
    const { owner, priority } = entry;
    const row = { task: entryName(entry), owner, priority, stale: entry.stale === true };
    const hosts = new Set<string>();
    for (const { action } of entry.pending) {
      const target = resolve(desk.fleet, action);
      if (action.scope.kind === 'host') hosts.add(action.scope.host);
      if (target.kind === 'nodes') for (const n of target.nodes) hosts.add(desk.fleet.nodes[n]?.host ?? '');
      if (target.kind === 'disks')
        for (const d of target.disks) hosts.add(desk.fleet.nodes[desk.fleet.diskNode[d] ?? 0]?.host ?? '');
    }
    for (const host of hosts) {
      const rows = found.get(host);
      if (rows === undefined) found.set(host, [row]);
      else rows.push(row);
    }
  }
  return found;
}
