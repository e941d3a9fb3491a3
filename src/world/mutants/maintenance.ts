/** Bugs of the maintenance authority and of who asks it: locks, modes, deadlines, groups. */
import type { Authority, AuthorityOptions } from '../../authority/index.ts';
import { type Millis, SECOND } from '../../base/units.ts';
import type { Batch, Store } from '../../engine/ports.ts';
import type { FleetSpec, NodeSpec } from '../../maintenance/index.ts';
import type { Mutation } from '../mutation.ts';
import type { Scenario } from '../scenario.ts';
import { brain } from './brain.ts';
import type { Mutant } from './index.ts';
import { over } from './over.ts';
import { both, suffers, wants } from './suits.ts';

const LOOKS_EVERY: Millis = 5 * SECOND;

const tasked =
  (...wanted: readonly ((task: NonNullable<Scenario['tasks']>[number]) => boolean)[]) =>
  ({ tasks = [] }: Scenario): boolean =>
    tasks.some((task) => wanted.every((is) => is(task)));

/** Every node as it is said to be. */
const seenAs = (change: (node: NodeSpec) => NodeSpec): Mutation => {
  const changed = new WeakMap<FleetSpec, FleetSpec>();
  const part = (spec: FleetSpec): FleetSpec => {
    const known = changed.get(spec) ?? { ...spec, nodes: spec.nodes.map(change) };
    changed.set(spec, known);
    return known;
  };
  return {
    authority: (options) => ({
      ...options,
      source: {
        onChange: (listener) => options.source.onChange(listener),
        parts: (now) => new Map([...options.source.parts(now)].map(([name, spec]) => [name, part(spec)])),
      },
    }),
  };
};

const withStore = (change: (store: Store) => Partial<Store>): Mutation => ({
  authority: (options: AuthorityOptions) => ({
    ...options,
    store: over(options.store, change(options.store)),
  }),
});

/** People and engine get another answer than the authority gives. */
const asking = (change: (authority: Authority) => Partial<Authority>): Mutation => ({
  gate: (authority) => over(authority, change(authority)),
});

export const MAINTENANCE_MUTANTS: readonly Mutant[] = [
  {
    name: 'upgrades-unasked',
    bug: 'the authority is asked before every disruption but an upgrade',
    kind: 'maintained',
    caughtBy: ['S13'],
    budget: 20,
    from: 60,
    suits: wants('version'),
    make: () =>
      brain((provider) => {
        const { disruptions } = provider;
        provider.disruptions = (step, ...rest) =>
          step.kind === 'upgrade' ? [] : (disruptions?.(step, ...rest) ?? []);
      }),
  },
  {
    name: 'engine-forces',
    bug: 'the engine asks in the mode force: locks of others on the same set do not stop it',
    kind: 'maintained',
    caughtBy: ['S13', 'S1'],
    budget: 20,
    from: 25,
    make: () => asking((authority) => ({ acquire: (ask) => authority.acquire({ ...ask, mode: 'force' }) })),
  },
  {
    name: 'locks-forgotten',
    bug: 'what was granted to people is forgotten when the authority reads its tasks again',
    kind: 'maintained',
    caughtBy: ['S13', 'S1', 'S2'],
    budget: 10,
    from: 2350,
    suits: ({ planes, clusters, tasks = [] }) =>
      planes > 1 &&
      clusters.some(({ members }) => members > 1) &&
      tasks.filter(({ mode, scope }) => mode !== 'force' && scope === 'hosts').length > 2,
    make: () =>
      withStore((store) => ({
        list: async (query) => {
          const page = await store.list(query);
          if (query.kind !== 'MaintenanceTask') return page;
          const items = page.items.map((object) => {
            const status = object.status as {
              readonly actions?: readonly { readonly state: string }[];
            } | null;
            const actions = status?.actions?.filter(({ state }) => state === 'pending');
            return status === null ? object : { ...object, status: { ...status, actions } };
          });
          return { ...page, items };
        },
      })),
  },
  {
    name: 'never-expires',
    bug: 'deadlines never pass',
    kind: 'maintained',
    caughtBy: ['L1'],
    budget: 30,
    from: 1,
    suits: tasked(({ end }) => end === 'expire'),
    make: () => ({
      authority: (options) => {
        const { clock } = options;
        const begun = clock.now();
        // Timers ring all the same, or the world would stand still at the first deadline.
        const at: typeof clock.at = (time, call) => clock.at(Math.max(time, clock.now() + LOOKS_EVERY), call);
        return { ...options, clock: { ...clock, now: () => begun, at } };
      },
    }),
  },
  {
    name: 'all-are-well',
    bug: 'the authority takes every member for healthy',
    kind: 'maintained',
    caughtBy: ['S13'],
    budget: 20,
    from: 310,
    suits: both(
      tasked(({ mode }) => mode !== 'force'),
      suffers('hostCrash', 'agentCrash', 'cutAgent', 'isolate'),
    ),
    make: () => seenAs((node) => ({ ...node, state: 'up' })),
  },
  {
    name: 'primary-unseen',
    bug: 'hosts are granted with the primary still there, though it was to hand over first',
    kind: 'maintained',
    caughtBy: ['S13'],
    budget: 30,
    from: 1,
    suits: tasked(({ stepDown }) => stepDown),
    make: () => seenAs(({ role: _, ...node }) => node),
  },
  {
    name: 'groups-in-part',
    bug: 'a group is granted action by action',
    kind: 'maintained',
    caughtBy: ['S13'],
    budget: 60,
    from: 1,
    suits: tasked(({ together, names }) => together && names.length > 1),
    make: () =>
      asking((authority) => ({
        create: (spec, ...rest) =>
          authority.create({ ...spec, groups: spec.groups.flat().map((action) => [action]) }, ...rest),
      })),
  },
  {
    name: 'dry-runs-take',
    bug: 'a dry run is carried out',
    kind: 'maintained',
    caughtBy: ['S13', 'L1'],
    budget: 10,
    from: 1,
    suits: tasked(({ dry }) => dry),
    make: () =>
      asking((authority) => ({
        create: (spec, ...rest) => authority.create({ ...spec, dryRun: false }, ...rest),
      })),
  },
  {
    name: 'both-decide',
    bug: 'a decision is written over one that another control plane made meanwhile',
    kind: 'maintained',
    caughtBy: ['S13', 'L1', 'S1', 'S2'],
    budget: 20,
    from: 33_953,
    suits: ({ planes, rates, faults, tasks = [] }) =>
      planes > 1 &&
      (rates.storeSlow > 0.1 || faults.some((fault) => fault.kind === 'store' && fault.how === 'slow')) &&
      tasks.length > 1,
    make: () => withStore((store) => ({ commit: (batch) => commitOver(store, batch) })),
  },
];

/** Takes whatever version there is. */
async function commitOver(store: Store, batch: Batch): ReturnType<Store['commit']> {
  if (batch.state === undefined) return store.commit(batch);
  const row = await store.loadState(batch.state.uid);
  return store.commit({ ...batch, state: { ...batch.state, version: row?.version ?? 0 } });
}
