/** Random fleets of both worlds for property tests. */
import fc from 'fast-check';
import type {
  Erasure,
  FleetSpec,
  GroupSpec,
  LimitSetSpec,
  NodeSpec,
  NodeState,
  ReplicaSetSpec,
} from '../fleetSpec.ts';

const state = fc.oneof(
  { weight: 8, arbitrary: fc.constant<NodeState>('up') },
  { weight: 2, arbitrary: fc.constant<NodeState>('down') },
  { weight: 1, arbitrary: fc.constant<NodeState>('unknown') },
);

const node = (key: string, kind: NodeSpec['kind'], host: number, now: NodeState, age: number): NodeSpec => ({
  key,
  name: key,
  kind,
  host: `h${host}`,
  state: now,
  startedAt: age,
  cluster: 'c',
  disks: kind === 'storage' ? [{ id: 0, ok: true }] : [],
});

/** A YDB cluster: groups over random nodes, rings, tenants, tablets, limits. Start times are -121 s or -1 s from zero. */
export const ydbFleet: fc.Arbitrary<FleetSpec> = fc
  .record({
    states: fc.array(state, { minLength: 9, maxLength: 20 }),
    hosts: fc.array(fc.nat(11), { minLength: 20, maxLength: 20 }),
    ages: fc.array(fc.constantFrom(-121_000, -121_000, -121_000, -1_000), { minLength: 20, maxLength: 20 }),
    dynamic: fc.nat(5),
    groups: fc.array(
      fc.record({
        erasure: fc.constantFrom<Erasure>('block-4-2', 'block-4-2', 'mirror-3-dc', 'mirror-3', 'none'),
        picks: fc.array(fc.nat(19), { minLength: 3, maxLength: 9 }),
        bad: fc.boolean(),
      }),
      { maxLength: 5 },
    ),
    rings: fc.array(fc.array(fc.nat(19), { minLength: 1, maxLength: 3 }), { maxLength: 5 }),
    nToSelect: fc.integer({ min: 1, max: 5 }),
    disabled: fc.array(fc.nat(4), { maxLength: 1 }),
    limit: fc.record({ nodes: fc.nat(4), percent: fc.constantFrom(0, 13, 30) }),
    tablets: fc.array(fc.nat(19), { maxLength: 6 }),
  })
  .map((r): FleetSpec => {
    const count = r.states.length;
    const nodes = r.states.map((now, i) =>
      node(`n${i}`, i < r.dynamic ? 'dynamic' : 'storage', r.hosts[i] ?? 0, now, r.ages[i] ?? 0),
    );
    const storage = nodes.slice(r.dynamic);
    const pick = (i: number): string => storage[i % storage.length]?.key ?? '';
    const groups = r.groups.map(
      (g, id): GroupSpec => ({
        id,
        erasure: g.erasure,
        vdisks: [...new Set(g.picks.map(pick))].map((key, k) => ({
          node: key,
          disk: 0,
          realm: k % 3,
          ok: !(g.bad && k === 0),
        })),
      }),
    );
    const taken = new Set<string>();
    const rings = r.rings
      .map((ring) =>
        [...new Set(ring.map((i) => `n${i % count}`))].filter((key) => !taken.has(key) && taken.add(key)),
      )
      .filter((ring) => ring.length > 0);
    const limit = (kind: LimitSetSpec['kind'], keys: readonly string[]): LimitSetSpec => ({
      kind,
      name: kind,
      nodes: keys,
      nodesLimit: kind === 'tablets' ? 0 : r.limit.nodes,
      percentLimit: kind === 'tablets' ? 0 : r.limit.percent,
    });
    const tablets = [...new Set(r.tablets.map(pick))];
    return {
      nodes,
      groups,
      stateStorages: rings.length === 0 ? [] : [{ nToSelect: r.nToSelect, rings, disabled: r.disabled }],
      limits: [
        limit(
          'cluster',
          nodes.map((n) => n.key),
        ),
        ...(r.dynamic > 0
          ? [
              limit(
                'tenant',
                nodes.slice(0, r.dynamic).map((n) => n.key),
              ),
            ]
          : []),
        ...(tablets.length > 0 ? [limit('tablets', tablets)] : []),
      ],
    };
  });

const member = fc.record({
  state,
  votes: fc.constantFrom<0 | 1>(1, 1, 1, 1, 0),
  priority: fc.constantFrom(0, 1, 1, 1, 5),
  data: fc.constantFrom(true, true, true, true, false),
  delayed: fc.constantFrom(false, false, false, false, true),
  host: fc.nat(9),
});

/** Replica sets of one to seven members on shared hosts, some of them shards behind a config-server set, and routers. */
export const mongoFleet: fc.Arbitrary<FleetSpec> = fc
  .record({
    sets: fc.array(
      fc.record({
        members: fc.array(member, { minLength: 1, maxLength: 7 }),
        writeConcern: fc.constantFrom<'majority' | number>('majority', 'majority', 1, 2, 3),
        interruption: fc.constantFrom(false, false, true),
        shard: fc.boolean(),
      }),
      { minLength: 1, maxLength: 5 },
    ),
    routers: fc.array(fc.record({ state, host: fc.nat(9) }), { maxLength: 4 }),
  })
  .map(({ sets, routers }): FleetSpec => {
    const nodes: NodeSpec[] = [];
    const replicaSets = sets.map((set, s): ReplicaSetSpec => {
      const members = set.members.map((m, i) => {
        const key = `s${s}-${i}`;
        nodes.push(node(key, 'member', m.host, m.state, -121_000));
        return {
          node: key,
          votes: m.votes,
          priority: m.votes === 1 && m.data ? m.priority : 0,
          data: m.data,
          delayed: m.delayed,
        };
      });
      const { writeConcern, interruption } = set;
      const shard = s > 0 && set.shard;
      const role = s === 0 ? 'config' : shard ? 'shard' : 'replicaSet';
      return {
        key: `s${s}`,
        role,
        members,
        writeConcern,
        interruption,
        ...(shard ? { configSet: 's0' } : {}),
      };
    });
    for (const [i, r] of routers.entries()) nodes.push(node(`r${i}`, 'router', r.host, r.state, -121_000));
    const names = routers.map((_, i) => `r${i}`);
    const limits: readonly LimitSetSpec[] =
      names.length === 0
        ? []
        : [{ kind: 'routers', name: 'events', nodes: names, nodesLimit: 0, percentLimit: 30 }];
    return { nodes, replicaSets, limits };
  });

export const anyFleet: fc.Arbitrary<FleetSpec> = fc.oneof(ydbFleet, mongoFleet);
