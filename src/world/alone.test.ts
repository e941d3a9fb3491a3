/**
 * Checkers that are never the first to notice a planted bug (docs/mutants.md), since others notice it sooner: each alone, at
 * a bug that gets past every line of defence before it.
 */
import { expect, test } from 'vitest';
import type { Plan, Step } from '../clusters/index.ts';
import { brain, replan, withSteps } from './mutants/brain.ts';
import { MUTANTS } from './mutants/index.ts';
import type { Mutation } from './mutation.ts';
import { runSeed } from './run.ts';
import type { ScenarioKind } from './scenario.ts';

const LIMIT = 120_000;
/** Seeds that are enough, from the first that is known to show it. */
const BUDGET = 60;

const planted = (name: string): Mutation => {
  const mutant = MUTANTS.find((m) => m.name === name);
  if (mutant === undefined) throw new Error(`no planted bug ${name}`);
  return mutant.make();
};

/** Neither guard nor maintenance authority stand in its way. */
const undefended = (bug: Mutation): Mutation =>
  brain((provider) => {
    bug.provider?.(provider);
    provider.guard = () => null;
    provider.disruptions = () => [];
  });

/** The compatibility version is raised as soon as one member runs the new binary. */
const raisesTooSoon = (): Mutation =>
  brain((provider) => {
    const { plan } = provider;
    provider.guard = () => null;
    provider.plan = (subject, observed, now) => {
      const planned = plan(subject, observed, now) as Plan;
      const next = planned.act?.steps.find((step) => step.kind === 'upgrade');
      const first = subject.state.members.find(
        (m) => next !== undefined && m.name !== next.member && m.deployedVersion === next.version,
      );
      if (next === undefined || first === undefined) return planned;
      const version = next.version.split('.').slice(0, 2).join('.');
      const raise: Step = { kind: 'setFcv', replicaSet: first.replicaSet, via: first.name, version };
      return withSteps(planned, [raise, ...(planned.act?.steps ?? [])]);
    };
  });

/** Whatever is seen, the cluster is called Ready. */
const alwaysReady = (): Mutation =>
  brain((provider) => {
    const { report } = provider;
    provider.report = (...args) => {
      const told = report(...args);
      const conditions = (told.status['conditions'] as readonly { readonly type: string }[]).map((c) =>
        c.type === 'Ready' ? { ...c, status: 'True' } : c,
      );
      return { ...told, status: { ...told.status, phase: 'Ready', conditions } };
    };
  });

/** An operation is called done as soon as it runs. */
const doneAtOnce = (): Mutation =>
  brain((provider) => {
    const { report } = provider;
    provider.report = (...args) => {
      const told = report(...args);
      const others = told.others.map((other) => {
        const value = other.value as { readonly state?: string };
        const runs = other.key.kind === 'Operation' && value.state === 'Running';
        return runs ? { ...other, value: { ...value, state: 'Succeeded' } } : other;
      });
      return { ...told, others };
    };
  });

/** Config servers of a suspended cluster lose their volumes: every document is there, and nobody knows where. */
const forgetsPlaces = (): Mutation =>
  replan((plan, { state }) => {
    const left = state.members.filter(({ role, volumeId }) => role === 'configServer' && volumeId !== null);
    if (state.phase !== 'suspended' || left.length === 0 || state.pending.length > 0) return plan;
    const steps = left.map(({ name }): Step => ({ kind: 'deleteVolume', member: name }));
    const act = { kind: 'act', steps, because: 'Deleting', detail: 'planted' } as const;
    return { act, waits: [], blocks: [], converged: false };
  });

/** A change goes to all routers at once, and nobody is asked. */
const allRouters = (): Mutation =>
  undefended(
    brain((provider) => {
      const { plan } = provider;
      provider.plan = (subject, observed, now) => {
        const planned = plan(subject, observed, now) as Plan;
        const reload = planned.act?.steps.find((step) => step.kind === 'reload');
        const routers = subject.state.members.filter(({ role }) => role === 'router');
        if (reload === undefined || !routers.some(({ name }) => name === reload.member)) return planned;
        return withSteps(
          planned,
          routers.map(({ name }): Step => ({ ...reload, member: name })),
        );
      };
    }),
  );

test.each<readonly [string, string, number, () => Mutation, ScenarioKind]>([
  ['S2', 'all members are reloaded at once', 10, () => undefended(planted('reloads-all')), 'replicaSets'],
  ['S1', 'all routers are restarted at once', 20, allRouters, 'sharded'],
  [
    'S7',
    'the compatibility version is raised before all binaries are there',
    71,
    raisesTooSoon,
    'replicaSets',
  ],
  ['S11', 'a paused cluster is worked on', 98, () => planted('ignores-pause'), 'replicaSets'],
  ['S15', 'a cluster is called Ready whatever is seen', 9, alwaysReady, 'replicaSets'],
  [
    'WRITES',
    'volumes of a suspended cluster are deleted',
    53,
    () => planted('wipes-suspended'),
    'replicaSets',
  ],
  ['WRITES', 'config servers forget where chunks were moved', 3010, forgetsPlaces, 'sharded'],
  ['A13', 'an operation is called done as soon as it runs', 11, doneAtOnce, 'replicaSets'],
])(
  '%s is noticed by its own checker: %s',
  async (heed, _, from, make, kind) => {
    for (let seed = from; seed < from + BUDGET; seed++) {
      const { violation } = await runSeed(seed, { mutation: make(), heed, kind });
      if (violation === null) continue;
      expect(violation.invariant).toBe(heed);
      return;
    }
    throw new Error(`${heed} noticed nothing in ${BUDGET} worlds`);
  },
  LIMIT,
);
