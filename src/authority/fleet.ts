/** Keeps the authority's fleet up to its source: counters move where health changed, everything is laid out anew elsewhere. */
import type { Millis } from '../base/units.ts';
import { Fleet, type FleetSpec, joinFleets } from '../maintenance/index.ts';
import { SMALL_PART } from './limits.ts';
import type { FleetSource } from './ports.ts';

/** All of a part but health, as text. */
const shapes = new WeakMap<FleetSpec, string>();

function shapeOf(part: FleetSpec): string {
  const known = shapes.get(part);
  if (known !== undefined) return known;
  const nodes = part.nodes.map(
    ({ state: _s, startedAt: _a, role: _r, version: _v, note: _n, ...rest }) => rest,
  );
  const shape = JSON.stringify({ ...part, nodes });
  shapes.set(part, shape);
  return shape;
}

export class LiveFleet {
  readonly #source: FleetSource;
  #parts: ReadonlyMap<string, FleetSpec> = new Map();
  fleet = new Fleet({ nodes: [] });
  /** What is known of every node now, by key. */
  #nodes = new Map<string, FleetSpec['nodes'][number]>();

  constructor(source: FleetSource) {
    this.#source = source;
  }

  /** True: there is a new fleet, and whoever worked with the old one has to move. */
  refresh(now: Millis): boolean {
    const parts = this.#source.parts(now);
    const names = new Set([...parts.keys(), ...this.#parts.keys()]);
    const changed = [...names].filter((name) => parts.get(name) !== this.#parts.get(name));
    if (changed.length === 0) return false;
    const light = changed.every((name) => sameShape(this.#parts.get(name), parts.get(name)));
    this.#parts = parts;
    if (light) {
      for (const name of changed) this.#move(parts.get(name) as FleetSpec);
      return false;
    }
    this.fleet = new Fleet(joinFleets([...parts.values()]));
    this.#nodes = new Map(this.fleet.nodes.map((node) => [node.key, node]));
    return true;
  }

  /** A node as it is known now; the fleet's own copy may be older where only its state changed. */
  node(key: string): FleetSpec['nodes'][number] | undefined {
    return this.#nodes.get(key);
  }
  nodes(): Iterable<FleetSpec['nodes'][number]> {
    return this.#nodes.values();
  }
  part(name: string): FleetSpec | undefined {
    return this.#parts.get(name);
  }

  #move(part: FleetSpec): void {
    for (const node of part.nodes) {
      const n = this.fleet.node(node.key);
      this.#nodes.set(node.key, node);
      if (n !== undefined) this.fleet.tell(n, node);
    }
  }
}

function sameShape(before: FleetSpec | undefined, after: FleetSpec | undefined): boolean {
  if (before === undefined || after === undefined) return false;
  if (before.nodes.length > SMALL_PART || after.nodes.length > SMALL_PART) return false;
  return shapeOf(before) === shapeOf(after);
}
