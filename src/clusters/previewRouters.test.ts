/** Plans of a sharded cluster of which a router is down. */
import { expect, test } from 'vitest';
import type { MemberFacts } from './facts.ts';
import { host, observed, sharded } from './fixtures.ts';
import { advance } from './learn.ts';
import { plan } from './plan.ts';
import { type Foreseen, foresee } from './preview.ts';
import { perform } from './previewModel.ts';
import { initialState } from './state.ts';
import type { Desired, Observed } from './types.ts';

const executables = { mongod: ['8.0.32-14'], mongos: ['8.0.32-14'] };
const hosts = ['db1', 'db2', 'db3'].map((name) => host(name, { executables }));

const lines = ({ steps }: Foreseen): readonly string[] =>
  steps.map((s) => `${s.verb} ${s.targets.join(' ')}`);

type Config = Record<string, unknown>;

const wanted = (generation: number, { router = {}, shard = {} }: Record<string, Config>): Desired => {
  const plain = sharded({ generation });
  const parts = plain.sharded as NonNullable<Desired['sharded']>;
  return {
    ...plain,
    sharded: {
      ...parts,
      router: { ...parts.router, mongodConfig: router },
      shard: { ...parts.shard, mongodConfig: shard },
    },
  };
};

const changedFacts = (
  from: Observed,
  name: string,
  change: (facts: MemberFacts) => MemberFacts,
): Observed => ({
  ...from,
  members: from.members.map((m) => (m.name === name && m.facts ? { ...m, facts: change(m.facts) } : m)),
});

/** A cluster whose first router was given what it cannot take. */
function rejecting(shard: Config = {}) {
  const there = foresee(observed({ hosts }), sharded(), initialState(sharded()), 0);
  const bad = wanted(2, { router: { nonsense: 1 }, shard });
  let model = { observed: there.observed, state: there.state, initiated: {} };
  for (let at = 1_000_000; at < 1_200_000; at += 1000) {
    const state = advance(model.state, bad, model.observed, at);
    const { act } = plan(model.observed, bad, state, at);
    model = act === null ? { ...model, state } : perform({ ...model, state }, act, bad, at);
    const [step] = act?.steps ?? [];
    if (step?.kind !== 'reload' || !step.member.includes('mongos')) continue;
    const seen = changedFacts(model.observed, step.member, (facts) => ({
      ...facts,
      configError: 'Unrecognized option: nonsense',
      process: { kind: 'absent' } as MemberFacts['process'],
      database: null,
    }));
    return { router: step.member, observed: seen, state: model.state, at };
  }
  throw new Error('no router was given it');
}

test('STK-04 the plan of a corrected spec of routers ends without the old refusal and says all that follows', () => {
  const { router, observed: seen, state, at } = rejecting();
  const told = foresee(seen, wanted(3, {}), state, at + 600_000);
  expect([told.refusals, told.converges]).toEqual([[], true]);
  expect(lines(told)).toEqual([`reload ${router}`]);
});

test('STK-04 A8.3 so it is while the balancer rests, which runs again in the end', () => {
  const shard = { operationProfiling: { slowOpThresholdMs: 1 } };
  const { router, observed: seen, state, at } = rejecting(shard);
  const told = foresee(seen, wanted(3, { shard }), state, at + 600_000);
  expect([told.refusals, told.converges]).toEqual([[], true]);
  expect(lines(told)).toEqual([`reload ${router}`, 'startBalancer cluster']);
});

test('L3 while a router is not reported the plan says what it waits for, and every step from then on', () => {
  const there = foresee(observed({ hosts }), sharded(), initialState(sharded()), 0);
  const want = wanted(2, { router: { net: { maxIncomingConnections: 100 } } });
  const whole = foresee(there.observed, want, there.state, 1_000_000);
  const members = there.observed.members.map((m) =>
    m.name === 'events-mongos-1' ? { ...m, connected: false } : m,
  );
  const told = foresee({ ...there.observed, members }, want, there.state, 1_000_000);
  expect(told.waits.map((w) => w.on)).toContain('AgentNotConnected');
  expect([lines(told), told.converges]).toEqual([lines(whole), true]);
});
