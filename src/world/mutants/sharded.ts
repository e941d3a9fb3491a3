/** Bugs that only a sharded cluster can show: wrong order, forgotten balancers, shards registered again, routers too soon. */
import type { Plan, State, Step } from '../../clusters/index.ts';
import type { Reading } from '../../provider/observe.ts';
import type { Mutation } from '../mutation.ts';
import type { Scenario } from '../scenario.ts';
import { brain, replan, withSteps } from './brain.ts';
import type { Mutant } from './index.ts';
import { over } from './over.ts';

type Role = State['members'][number]['role'];

/** Somebody wants something that restarts members, or another binary. */
const rolls = ({ edits }: Scenario): boolean =>
  edits.some(
    (edit) =>
      ['config', 'tls', 'memory', 'version', 'routerConfig'].includes(edit.kind) ||
      (edit.kind === 'operation' && edit.type === 'Restart'),
  );
const upgrades = ({ edits }: Scenario): boolean => edits.some(({ kind }) => kind === 'version');
const switchedOff = (scenario: Scenario): boolean =>
  rolls(scenario) &&
  (scenario.edits.some((edit) => edit.kind === 'operation' && edit.type === 'StopBalancer') ||
    scenario.faults.some((fault) => fault.kind === 'balancerByHand' && !fault.on));
const dies = (scenario: Scenario): boolean =>
  rolls(scenario) && (scenario.rates.shardingDeaths > 0 || scenario.rates.deaths > 0);

export const SHARDED_MUTANTS: readonly Mutant[] = [
  {
    name: 'routers-first',
    bug: 'routers get a new binary before config servers and shards',
    caughtBy: ['A8.2', 'S13'],
    budget: 30,
    from: 5,
    kind: 'sharded',
    suits: upgrades,
    make: () => upgradeInstead((role) => role !== 'router', 'router'),
  },
  {
    name: 'shards-before-config',
    bug: 'shards get a new binary before the config servers',
    caughtBy: ['A8.2', 'S13'],
    budget: 30,
    from: 5,
    kind: 'sharded',
    suits: upgrades,
    make: () => upgradeInstead((role) => role === 'configServer', 'shardServer'),
  },
  {
    name: 'balancer-left-off',
    bug: 'the balancer is not started again after a change',
    caughtBy: ['S14'],
    budget: 30,
    from: 5,
    kind: 'sharded',
    suits: rolls,
    make: () => bringsBack(false),
  },
  {
    name: 'balancer-always-on',
    bug: 'the balancer is started after a change though a person had switched it off',
    caughtBy: ['S14'],
    budget: 60,
    from: 139,
    kind: 'sharded',
    suits: switchedOff,
    make: () => bringsBack(true),
  },
  {
    name: 'auto-merger-comes-along',
    bug: 'the AutoMerger goes on with the balancer though a person had switched that alone off',
    caughtBy: ['S14'],
    budget: 5,
    from: 641_215,
    kind: 'sharded',
    make: () =>
      brain((provider) => {
        const { perform } = provider;
        provider.perform = (step, subject, context) => {
          if (step.kind !== 'startBalancer') return perform(step, subject, context);
          const { autoMerge: _, ...along } = step;
          return perform(along, subject, context);
        };
      }),
  },
  {
    name: 'balancer-forgotten',
    bug: 'a control plane that takes over does not know that the balancer was stopped',
    caughtBy: ['S14'],
    budget: 40,
    from: 43,
    kind: 'sharded',
    suits: dies,
    make: () =>
      brain((provider) => {
        const { advance } = provider;
        let known = false;
        provider.advance = (subject, observed, now) => {
          const state = advance(subject, observed, now);
          const forgets = !known && state.balancer !== null;
          known = true;
          return forgets ? { ...state, balancer: null } : state;
        };
      }),
  },
  {
    name: 'balancer-runs',
    bug: 'members are worked on while the balancer moves chunks',
    caughtBy: ['S14'],
    budget: 20,
    from: 3,
    kind: 'sharded',
    suits: rolls,
    make: () =>
      brain((provider) => {
        const { perform } = provider;
        provider.perform = (step, subject, context) =>
          step.kind === 'stopBalancer'
            ? Promise.resolve({ outcome: { kind: 'done', result: {} } })
            : perform(step, subject, context);
      }),
  },
  {
    name: 'balancer-not-awaited',
    bug: 'the balancer is told to stop, and nobody waits for the chunk that is on its way',
    caughtBy: ['S14'],
    budget: 40,
    from: 3019,
    kind: 'sharded',
    suits: rolls,
    make: () => ({
      agents: (agents) =>
        over(agents, {
          run: (ref, command, ...rest) =>
            agents.run(
              ref,
              command.kind === 'setBalancer' ? { ...command, maxTimeMillis: 1 } : command,
              ...rest,
            ),
        }),
      ...brain((provider) => {
        const { perform, plan } = provider;
        provider.perform = async (step, subject, context) => {
          const came = await perform(step, subject, context);
          const failed = step.kind === 'stopBalancer' && came.outcome.kind === 'failed';
          return failed ? { outcome: { kind: 'done', result: {} } } : came;
        };
        provider.plan = (subject, observed, now) => plan(subject, asIfStill(observed), now);
      }),
    }),
  },
  {
    name: 'adds-shards-again',
    bug: 'shards are registered again and again',
    caughtBy: ['A5.3', 'L1', 'L2'],
    budget: 10,
    from: 1,
    kind: 'sharded',
    make: () =>
      replan((plan, { state }) => {
        const shard = state.replicaSets.find(({ registered }) => registered);
        const router = state.members.find(({ role, stage }) => role === 'router' && stage === 'active');
        if (!plan.converged || state.phase !== 'running' || shard === undefined || router === undefined)
          return plan;
        const step: Step = {
          kind: 'addShard',
          replicaSet: shard.name,
          via: router.name,
          shard: `${shard.name}/${state.members.find((m) => m.replicaSet === shard.name)?.address}:27017`,
        };
        const act = { kind: 'act', steps: [step], because: 'ShardMissing', detail: 'planted' } as const;
        return { act, waits: [], blocks: [], converged: false };
      }),
  },
  {
    name: 'forgets-shards',
    bug: 'a set is called a shard without having been registered',
    caughtBy: ['L1'],
    budget: 10,
    from: 1,
    kind: 'sharded',
    make: () =>
      brain((provider) => {
        const { perform } = provider;
        provider.perform = (step, subject, context) =>
          step.kind === 'addShard'
            ? Promise.resolve({ outcome: { kind: 'done', result: {} } })
            : perform(step, subject, context);
      }),
  },
  {
    name: 'router-before-config',
    bug: 'routers are deployed with all the others, before the config servers are a set',
    caughtBy: ['A5.3'],
    budget: 10,
    from: 1,
    kind: 'sharded',
    make: () =>
      replan((plan, { state, desired }) => {
        const deploys = plan.act?.steps.some(({ kind }) => kind === 'deploy') === true;
        const routers = state.members.filter(({ role, stage }) => role === 'router' && stage === 'imported');
        const steps = routers
          .filter(({ name }) => !state.pending.some(({ member }) => member === name))
          .map(({ name: member }): Step => ({ kind: 'deploy', member, version: desired.version }));
        return deploys ? withSteps(plan, [...(plan.act?.steps ?? []), ...steps]) : plan;
      }),
  },
];

/** A reading in which no router tells that a chunk moves. */
const asIfStill = (observed: Reading): Reading => ({
  ...observed,
  members: observed.members.map((member) => {
    const database = member.facts?.database;
    if (member.facts == null || database?.kind !== 'reachable' || database.router === undefined)
      return member;
    const router = { ...database.router, balancing: false };
    return { ...member, facts: { ...member.facts, database: { ...database, router } } };
  }),
});

/** The balancer comes back like this, whatever it was. */
const bringsBack = (enable: boolean): Mutation =>
  brain((provider) => {
    const { perform } = provider;
    provider.perform = (step, subject, context) =>
      perform(step.kind === 'startBalancer' ? { ...step, enable } : step, subject, context);
  });

/** Where members of one kind would be upgraded, those of another are, as long as they need it. */
function upgradeInstead(of: (role: Role) => boolean, role: Role): Mutation {
  return replan((plan, { state }): Plan => {
    const upgrade = plan.act?.steps.find((step) => step.kind === 'upgrade');
    const own = state.members.find(({ name }) => name === upgrade?.member);
    const [other] = state.members.filter(
      (m) => m.role === role && m.deployedVersion !== null && m.deployedVersion !== upgrade?.version,
    );
    if (upgrade === undefined || own === undefined || !of(own.role) || other === undefined) return plan;
    return withSteps(plan, [{ ...upgrade, member: other.name }]);
  });
}
