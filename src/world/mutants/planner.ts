/** Bugs of the brain: wrong steps, wrong words, missing questions. */
import type { Plan, ReplSetConfig, State, Step } from '../../clusters/index.ts';
import type { Report } from '../../engine/provider.ts';
import { brain, replan, withSteps } from './brain.ts';
import type { Mutant } from './index.ts';
import { ambushed, wants } from './suits.ts';

const acting = (steps: readonly Step[], because: 'UsersChanged' | 'Deleting'): Plan => ({
  act: { kind: 'act', steps, because, detail: 'planted' },
  waits: [],
  blocks: [],
  converged: false,
});

export const PLANNER_MUTANTS: readonly Mutant[] = [
  {
    name: 'guard-agrees',
    bug: 'the guard always agrees',
    caughtBy: ['S1', 'S2', 'S3', 'S4', 'S6', 'S10', 'S11', 'L1', 'S13'],
    budget: 60,
    from: 33,
    suits: ambushed,
    make: () =>
      brain((provider) => {
        provider.guard = () => null;
      }),
  },
  {
    name: 'asks-nobody',
    bug: 'the maintenance authority is not asked before a member is taken down',
    caughtBy: ['S13'],
    budget: 60,
    from: 10,
    make: () =>
      brain((provider) => {
        provider.disruptions = () => [];
      }),
  },
  {
    name: 'initiates-each',
    bug: 'every member is initiated as a set of its own',
    caughtBy: ['S6', 'L1'],
    budget: 30,
    from: 1,
    make: () =>
      replan((plan, { state }) =>
        withSteps(
          plan,
          (plan.act?.steps ?? []).flatMap((step) => (step.kind === 'initiate' ? alone(step, state) : [step])),
        ),
      ),
  },
  {
    name: 'reloads-all',
    bug: 'a rolling change goes to all members at once',
    caughtBy: ['S1', 'S2', 'S3', 'S13'],
    budget: 60,
    from: 10,
    make: () =>
      replan((plan, { state }) => {
        const reload = plan.act?.steps.find((step) => step.kind === 'reload');
        if (reload === undefined) return plan;
        return withSteps(
          plan,
          state.members.map(({ name }) => ({ ...reload, member: name })),
        );
      }),
  },
  {
    name: 'primary-first',
    bug: 'a primary is reloaded instead of handing over',
    caughtBy: ['S3', 'S1', 'S13'],
    budget: 100,
    from: 10,
    make: () =>
      replan((plan, { state }) => {
        const handOver = plan.act?.steps.find((step) => step.kind === 'stepDown');
        if (handOver === undefined) return plan;
        const configVersion = state.configVersion + 1;
        return withSteps(plan, [{ kind: 'reload', member: handOver.member, configVersion }]);
      }),
  },
  {
    name: 'joins-with-vote',
    bug: 'a new member joins with its vote and priority at once',
    caughtBy: ['S5', 'S13'],
    budget: 150,
    from: 12,
    make: () =>
      replan((plan) =>
        withSteps(
          plan,
          (plan.act?.steps ?? []).map((step) =>
            step.kind === 'reconfig' ? { ...step, config: voting(step.config) } : step,
          ),
        ),
      ),
  },
  {
    name: 'wipes-suspended',
    bug: 'volumes of a suspended cluster are deleted',
    caughtBy: ['S4', 'S11', 'WRITES', 'A13'],
    budget: 60,
    from: 13,
    suits: wants('suspend'),
    make: () =>
      replan((plan, { state }) => {
        const left = state.members.filter(({ volumeId }) => volumeId !== null);
        if (state.phase !== 'suspended' || left.length === 0 || state.pending.length > 0) return plan;
        return acting(
          left.map(({ name }) => ({ kind: 'deleteVolume', member: name })),
          'Deleting',
        );
      }),
  },
  {
    name: 'repairs-for-ever',
    bug: 'system users are made equal again and again',
    caughtBy: ['L1', 'L2'],
    budget: 10,
    from: 1,
    make: () =>
      replan((plan, { state }) => {
        const [set] = state.replicaSets;
        const [member] = state.members;
        if (!plan.converged || set === undefined || member === undefined || state.phase !== 'running')
          return plan;
        return acting(
          [{ kind: 'reconcileSystemUsers', replicaSet: set.name, via: member.name }],
          'UsersChanged',
        );
      }),
  },
  {
    name: 'gives-up',
    bug: 'what failed once is never tried again',
    caughtBy: ['L1'],
    budget: 60,
    from: 1,
    make: () =>
      replan((plan, { state }, now) => {
        const [retry] = state.retries;
        if (retry === undefined || plan.act === null) return plan;
        const wait = { kind: 'wait', on: 'Backoff', until: now + 60_000, detail: retry.message } as const;
        return { act: null, waits: [wait], blocks: [], converged: false };
      }),
  },
  {
    name: 'no-time',
    bug: 'a wait does not say until when',
    caughtBy: ['L3'],
    budget: 5,
    from: 1,
    make: () => replan((plan) => ({ ...plan, waits: plan.waits.map((wait) => ({ ...wait, until: 0 })) })),
  },
  {
    name: 'says-nothing',
    bug: 'an intent is written without its reason',
    caughtBy: ['L3', 'S16'],
    budget: 5,
    from: 1,
    make: () =>
      replan((plan) =>
        plan.act === null ? plan : { ...plan, act: { ...plan.act, because: '' as 'Deleting' } },
      ),
  },
  {
    name: 'ignores-pause',
    bug: 'a paused cluster is worked on',
    caughtBy: ['S11', 'L1', 'S13'],
    budget: 60,
    from: 46,
    suits: wants('pause'),
    make: () =>
      brain((provider) => {
        const { desired } = provider;
        provider.desired = (object) => ({ ...desired(object), paused: false });
      }),
  },
  {
    name: 'ready-too-soon',
    bug: 'Ready is said as soon as the set has a primary',
    caughtBy: ['S15', 'L1', 'L2'],
    budget: 80,
    from: 2,
    make: () =>
      brain((provider) => {
        const { report } = provider;
        provider.report = (...words) => readySoon(report(...words));
      }),
  },
  {
    name: 'says-done',
    bug: 'a user is called applied without being so',
    caughtBy: ['L1'],
    budget: 20,
    from: 1,
    make: () =>
      brain((provider) => {
        const { perform } = provider;
        provider.perform = (step, subject, context) =>
          step.kind === 'applyUser'
            ? Promise.resolve({ outcome: { kind: 'done', result: {} } })
            : perform(step, subject, context);
      }),
  },
  {
    name: 'keeps-users',
    bug: 'a user whose document is gone stays in the database',
    caughtBy: ['L1'],
    budget: 60,
    from: 46,
    suits: wants('dropUser'),
    make: () =>
      brain((provider) => {
        const { perform } = provider;
        provider.perform = (step, subject, context) =>
          step.kind === 'dropUser'
            ? Promise.resolve({ outcome: { kind: 'done', result: {} } })
            : perform(step, subject, context);
      }),
  },
  {
    name: 'jumps-tls',
    bug: 'a TLS mode is reached in one step instead of phase by phase',
    caughtBy: ['S12'],
    budget: 200,
    from: 12,
    suits: wants('tls'),
    make: () =>
      brain((provider) => {
        const { advance } = provider;
        provider.advance = (subject, observed, now) => {
          const state = advance(subject, observed, now);
          const { tlsMode } = subject.desired;
          const { goal } = state;
          if (goal === null || goal.tlsMode === tlsMode || state.phase !== 'running') return state;
          const hash = goal.hash.replace(`"tlsMode":"${goal.tlsMode}"`, `"tlsMode":"${tlsMode}"`);
          return { ...state, goal: { tlsMode, hash } };
        };
      }),
  },
  {
    name: 'forgets-import',
    bug: 'an import whose answer was lost is done anew somewhere else',
    caughtBy: ['S10', 'L1', 'L2'],
    budget: 300,
    from: 14,
    make: () =>
      brain((provider) => {
        const { advance } = provider;
        provider.advance = (subject, observed, now) => {
          const state = advance(subject, observed, now);
          const known = state.pending.filter(({ operationId }) => operationId !== null);
          return known.length === state.pending.length ? state : { ...state, pending: known };
        };
        const { plan } = provider;
        provider.plan = (subject, observed, now) => elsewhere(plan(subject, observed, now) as Plan, now);
      }),
  },
];

function alone(step: Extract<Step, { kind: 'initiate' }>, state: State): readonly Step[] {
  return state.members.map(({ name, index }) => ({
    ...step,
    replicaSet: step.replicaSet,
    via: name,
    config: { ...step.config, members: step.config.members.filter(({ _id }) => _id === index) },
  }));
}

const voting = (config: ReplSetConfig): ReplSetConfig => ({
  ...config,
  members: config.members.map((row) => ({ ...row, votes: 1, priority: 1 })),
});

function readySoon(report: Report): Report {
  const status = report.status as Readonly<Record<string, unknown>> & {
    readonly primary?: string;
    readonly phase?: string;
    readonly conditions: readonly { readonly type: string }[];
  };
  if (status.primary === undefined || status.phase === 'Deleting') return report;
  const conditions = status.conditions.map((c) => (c.type === 'Ready' ? { ...c, status: 'True' } : c));
  return { ...report, status: { ...status, phase: 'Ready', conditions } };
}

/** Another host than the one with the first letter of the alphabet that was chosen: by the time, which always differs. */
function elsewhere(plan: Plan, now: number): Plan {
  const steps = (plan.act?.steps ?? []).map((step): Step => {
    if (step.kind !== 'import') return step;
    const host = `h${1 + (now % 3)}`;
    return { ...step, placement: { ...step.placement, host, address: `${host}.test` } };
  });
  return withSteps(plan, steps);
}
