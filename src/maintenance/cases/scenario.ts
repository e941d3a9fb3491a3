/** Scenario files in the form of the maintenance cases: their schema, and the played cluster behind a scenario. */
import { type Millis, SECOND } from '../../base/units.ts';
import type { GroupSpec, LimitSetSpec, NodeSpec, NodeState, StateStorageSpec } from '../fleetSpec.ts';
import type { FleetSpec } from '../index.ts';

export type Json = Readonly<Record<string, unknown>>;

export interface Scenario {
  readonly id: string;
  readonly layer: 'cms' | 'maintenance' | 'ydbops' | 'unit';
  readonly status: 'current' | 'adapted' | 'derived' | 'quirk';
  readonly note?: string;
  readonly cluster: ClusterShape;
  readonly mock?: Json;
  readonly steps: readonly Json[];
}

/** The compact shape of a cluster; `meta.cluster_shape` of the file says what it stands for. */
export interface ClusterShape {
  readonly nodes: number | Json;
  readonly pdisks?: number;
  readonly erasure?: string;
  readonly hosts?: string;
  readonly tenants?: Json;
  readonly state_storage?: {
    readonly nto_select: number;
    readonly rings: readonly (readonly number[])[];
    readonly disabled_rings?: readonly number[];
  };
  readonly sys_tablets?: { readonly nodes: readonly number[] };
  readonly limits?: Json;
  readonly age_seconds?: number;
  readonly flags?: Json;
  readonly sentinel?: boolean;
  readonly bridge_piles?: string;
  /** ydbops scenarios: node ids of each group; `nodes` then holds what is special about a node. */
  readonly storage_groups?: readonly (readonly number[])[];
}

/** When a scenario begins. */
export const START: Millis = Date.UTC(2026, 0, 1);
const VDISKS_PER_DISK = 4;

const numbers = (value: unknown): readonly number[] => (Array.isArray(value) ? value.map(Number) : []);

/** The cluster of a scenario, changed by its `set` steps. Nodes are keyed by their index in the scenario. */
export class World {
  now: Millis = START;
  disabled = false;
  readonly #shape: ClusterShape;
  readonly #states = new Map<number, NodeState>();
  readonly #started = new Map<number, Millis>();
  readonly #evicted = new Set<number>();
  readonly #badDisks = new Set<string>();
  readonly #badVdisks = new Set<string>();
  #limits: Json;
  #rings: ClusterShape['state_storage'];

  constructor(shape: ClusterShape) {
    this.#shape = shape;
    this.#limits = shape.limits ?? {};
    this.#rings = shape.state_storage;
  }

  get flags(): Json {
    return this.#shape.flags ?? {};
  }

  /** One `set` step. Throws for a word it does not know: a scenario must not pass because it was not understood. */
  set(change: Json): void {
    for (const [what, value] of Object.entries(change)) this.#set(what, value);
  }

  #set(what: string, value: unknown): void {
    const states: Readonly<Record<string, NodeState>> = { down: 'down', up: 'up', unknown: 'unknown' };
    const state = states[what];
    const key = (pair: unknown): string => numbers(pair).join('/');
    const pairs = (): readonly string[] => (value as readonly unknown[]).map(key);
    if (state !== undefined) for (const n of numbers(value)) this.#states.set(n, state);
    else if (what === 'limits') this.#limits = value as Json;
    else if (what === 'disable_maintenance') this.disabled = value === true;
    else if (what === 'vdisks_evicted') for (const n of numbers(value)) this.#evicted.add(n);
    else if (what === 'vdisks_restored') for (const n of numbers(value)) this.#evicted.delete(n);
    else if (what === 'vdisk_not_replicated' || what === 'vdisk_down')
      for (const p of pairs()) this.#badVdisks.add(p);
    else if (what === 'vdisk_replicated' || what === 'vdisk_up')
      for (const p of pairs()) this.#badVdisks.delete(p);
    else if (what === 'pdisk_down') for (const p of pairs()) this.#badDisks.add(p);
    else if (what === 'pdisk_up') for (const p of pairs()) this.#badDisks.delete(p);
    else if (what === 'restarted' || what === 'started')
      for (const n of numbers(value)) {
        this.#states.set(n, 'up');
        this.#started.set(n, this.now);
      }
    else if (what === 'state_storage') this.#rings = value as ClusterShape['state_storage'];
    else throw new Error(`the scenario sets ${what}, which means nothing here`);
  }

  /** Host of a node by its index. */
  host(n: number): string {
    if (this.#shape.hosts === 'shared') return '::1';
    return this.#shape.storage_groups === undefined ? `host-${n}` : `ydb-${n + 1}.ydb.tech`;
  }

  /** What the authority knows of the cluster now. */
  spec(): FleetSpec {
    const nodes = this.#nodes();
    const piles = this.#piles(nodes);
    return {
      nodes,
      groups:
        this.#shape.storage_groups === undefined
          ? piles.flatMap((pile, i) => this.#groups(pile, i))
          : this.#listed(),
      stateStorages: this.#storages(),
      limits: [
        ...piles.map((pile, i) => this.#limit('cluster', `${i}`, pile)),
        ...this.#tenants(nodes),
        ...this.#tablets(),
      ],
    };
  }

  #count(): number {
    if (typeof this.#shape.nodes === 'number') return this.#shape.nodes;
    return Math.max(...(this.#shape.storage_groups ?? [[0]]).flat());
  }

  #special(n: number): Json {
    return typeof this.#shape.nodes === 'number' ? {} : ((this.#shape.nodes[String(n + 1)] as Json) ?? {});
  }

  #tenant(n: number): string | undefined {
    return (this.#shape.tenants?.[String(n)] ?? this.#special(n)['tenant']) as string | undefined;
  }

  #disks(n: number): number {
    if (this.#tenant(n) !== undefined) return 0;
    return this.#shape.pdisks ?? (this.#shape.tenants === undefined ? 1 : 0);
  }

  #nodes(): readonly NodeSpec[] {
    const age = (this.#shape.age_seconds ?? 121) * SECOND;
    return Array.from({ length: this.#count() }, (_, n): NodeSpec => {
      const tenant = this.#tenant(n);
      const special = this.#special(n);
      const given = (special['state'] as string | undefined)?.toLowerCase();
      return {
        key: String(n),
        name: `node '${n + 1}'`,
        id: n + 1,
        host: this.host(n),
        port: 19001,
        cluster: 'scenario',
        kind: tenant === undefined ? 'storage' : 'dynamic',
        ...(tenant === undefined ? {} : { tenant }),
        version: (special['version'] as string | undefined) ?? 'ydb-stable-24-1-1',
        state: this.#states.get(n) ?? (given === undefined || given === 'up' ? 'up' : 'down'),
        startedAt: this.#started.get(n) ?? START - age,
        disks: Array.from({ length: this.#disks(n) }, (_unused, id) => ({
          id,
          path: `/${n + 1}/pdisk-${id}.data`,
          ok: !this.#badDisks.has(`${n}/${id}`),
        })),
      };
    });
  }

  /** Nodes by pile; without a bridge there is one. */
  #piles(nodes: readonly NodeSpec[]): readonly (readonly NodeSpec[])[] {
    if (this.#shape.bridge_piles === undefined) return [nodes];
    return [0, 1].map((parity) => nodes.filter((node) => ((node.id ?? 0) + 1) % 2 === parity));
  }

  #groups(pile: readonly NodeSpec[], number: number): readonly GroupSpec[] {
    const storage = pile.filter((node) => node.kind === 'storage');
    const erasure = this.#shape.erasure ?? (storage.length >= 8 ? 'block-4-2' : 'none');
    const block = erasure === 'mirror-3-dc' ? 9 : erasure === 'block-4-2' ? 8 : erasure === 'none' ? 1 : 3;
    const disks = Math.max(0, ...storage.map((node) => node.disks.length));
    const groups = new Map<number, GroupSpec>();
    storage.forEach((node, at) => {
      const index = Number(node.key);
      if (this.#evicted.has(index)) return;
      for (const { id: p } of node.disks) {
        for (let k = 0; k < VDISKS_PER_DISK; k++) {
          const id = number * 1_000_000 + (Math.floor(at / block) * disks + p) * VDISKS_PER_DISK + k;
          this.#place(groups, id, erasure, node, p, k, at % block);
        }
      }
    });
    return [...groups.values()];
  }

  #place(
    groups: Map<number, GroupSpec>,
    id: number,
    erasure: string,
    node: NodeSpec,
    disk: number,
    k: number,
    at: number,
  ): void {
    const simplified = erasure === 'mirror-3-dc-simplified';
    // Three disks of every node belong to one group; the fourth position of a disk is left free.
    if (simplified && k === VDISKS_PER_DISK - 1) return;
    const realm = simplified ? at : erasure === 'mirror-3-dc' ? Math.floor(at / 3) : 0;
    const ok = !this.#badVdisks.has(`${id}/${node.key}`);
    const group = simplified ? Math.floor(id / VDISKS_PER_DISK) : id;
    const known = groups.get(group)?.vdisks ?? [];
    const scheme = (simplified ? 'mirror-3-dc' : erasure) as GroupSpec['erasure'];
    groups.set(group, {
      id: group,
      erasure: scheme,
      vdisks: [...known, { node: node.key, disk, realm, ok }],
    });
  }

  /** Groups of a ydbops scenario: one disk on each of the named nodes. */
  #listed(): readonly GroupSpec[] {
    return (this.#shape.storage_groups ?? []).map((ids, id) => ({
      id,
      erasure: 'block-4-2',
      vdisks: ids
        .filter((node) => this.#tenant(node - 1) === undefined)
        .map((node) => ({ node: String(node - 1), disk: 0, realm: 0, ok: true })),
    }));
  }

  #storages(): readonly StateStorageSpec[] {
    const storage = this.#rings;
    if (storage === undefined) return [];
    return [
      {
        nToSelect: storage.nto_select,
        rings: storage.rings.map((ring) => ring.map(String)),
        disabled: storage.disabled_rings ?? [],
      },
    ];
  }

  #limit(kind: LimitSetSpec['kind'], name: string, nodes: readonly { readonly key: string }[]): LimitSetSpec {
    const prefix = kind === 'cluster' ? 'cluster' : 'tenant';
    return {
      kind,
      name,
      nodes: nodes.map((node) => node.key),
      nodesLimit: Number(this.#limits[`${prefix}_limit`] ?? 0),
      percentLimit: Number(this.#limits[`${prefix}_ratio`] ?? 0),
    };
  }

  #tenants(nodes: readonly NodeSpec[]): readonly LimitSetSpec[] {
    const names = new Set(nodes.flatMap((node) => node.tenant ?? []));
    return [...names].map((name) =>
      this.#limit(
        'tenant',
        name,
        nodes.filter((node) => node.tenant === name),
      ),
    );
  }

  #tablets(): readonly LimitSetSpec[] {
    const nodes = this.#shape.sys_tablets?.nodes;
    if (nodes === undefined) return [];
    return [{ kind: 'tablets', name: 'tablet', nodes: nodes.map(String), nodesLimit: 0, percentLimit: 0 }];
  }
}
