/** Planting bugs into the provider: its parts are replaced in place. */
import type { Plan, Step } from '../../clusters/index.ts';
import type { MongoDBProvider } from '../../provider/mongodb.ts';
import type { Mutation } from '../mutation.ts';

type Mutable = { -readonly [K in keyof MongoDBProvider]: MongoDBProvider[K] };
type Subject = Parameters<MongoDBProvider['plan']>[0];

/** Changes the provider in place. */
export const brain = (change: (provider: Mutable) => void): Mutation => ({ provider: change });

/** Changes what was planned; the guard lets the changed through. */
export function replan(change: (plan: Plan, subject: Subject, now: number) => Plan): Mutation {
  return brain((provider) => {
    const { plan } = provider;
    provider.plan = (subject, observed, now) => change(plan(subject, observed, now) as Plan, subject, now);
    provider.guard = () => null;
  });
}

/** The same plan with other steps. */
export const withSteps = (plan: Plan, steps: readonly Step[]): Plan =>
  plan.act === null ? plan : { ...plan, act: { ...plan.act, steps } };
