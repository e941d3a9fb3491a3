/** A fleet that tests change by hand, and what it takes to run an authority over it. */
import type { Millis } from '../../base/units.ts';
import type { Log } from '../../engine/ports.ts';
import type { FleetSpec, NodeSpec, NodeState } from '../../maintenance/index.ts';
import type { FleetSource } from '../ports.ts';

export const quiet: Log = { debug() {}, info() {}, warn() {}, error() {} };

export class PlayedFleet implements FleetSource {
  #parts: ReadonlyMap<string, FleetSpec>;
  readonly #listeners = new Set<() => void>();

  constructor(parts: Readonly<Record<string, FleetSpec>>) {
    this.#parts = new Map(Object.entries(parts));
  }

  parts(_now: Millis): ReadonlyMap<string, FleetSpec> {
    return this.#parts;
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  set(name: string, part: FleetSpec): void {
    this.#parts = new Map([...this.#parts, [name, part]]);
    for (const listener of this.#listeners) listener();
  }

  setRole(name: string, key: string, role: string): void {
    const part = this.#parts.get(name);
    if (part === undefined) return;
    this.set(name, { ...part, nodes: part.nodes.map((n) => (n.key === key ? { ...n, role } : n)) });
  }

  setNode(name: string, key: string, state: NodeState): void {
    const part = this.#parts.get(name);
    if (part === undefined) return;
    this.set(name, { ...part, nodes: part.nodes.map((n) => (n.key === key ? { ...n, state } : n)) });
  }
}

/** A replica set `default/NAME` with a member on each host. */
export function playedSet(name: string, hosts: readonly string[]): FleetSpec {
  const nodes = hosts.map(
    (host, i): NodeSpec => ({
      key: `default/${name}-${i}`,
      name: `${name}-${i}`,
      host,
      kind: 'member',
      state: 'up',
      startedAt: null,
      disks: [],
      cluster: `default/${name}`,
    }),
  );
  const members = nodes.map((n) => ({ node: n.key, votes: 1 as const, priority: 1, data: true }));
  return {
    nodes,
    replicaSets: [
      { key: `default/${name}`, role: 'replicaSet', members, writeConcern: 'majority', interruption: false },
    ],
  };
}
