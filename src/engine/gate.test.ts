import { expect, test } from 'vitest';
import {
  type Admission,
  admitMember,
  Desk,
  Fleet,
  type MemberAsk,
  releaseMember,
} from '../maintenance/index.ts';
import { passGate } from './gate.ts';

/** Three members of one set on three hosts, and the real desk. */
function desk(): Desk {
  const nodes = [0, 1, 2].map((i) => ({
    key: `default/orders-${i}`,
    name: `orders-${i}`,
    host: `db${i}`,
    kind: 'member' as const,
    state: 'up' as const,
    startedAt: null,
    disks: [],
    cluster: 'default/orders',
  }));
  const members = nodes.map(({ key }) => ({ node: key, votes: 1 as const, priority: 1, data: true }));
  const set = {
    key: 'default/orders',
    role: 'replicaSet' as const,
    members,
    writeConcern: 'majority' as const,
    interruption: false,
  };
  return new Desk(new Fleet({ nodes, replicaSets: [set] }));
}

const ask = (member: string): MemberAsk => ({
  id: `uid/${member}`,
  node: `default/${member}`,
  holder: 'MongoDB default/orders',
  why: 'restart with configuration 2',
  priority: 100,
  mode: 'strong',
  duration: 60_000,
});

const gateOf = (at: Desk) => ({
  acquire: async (asked: MemberAsk): Promise<Admission> => admitMember(at, asked, 1_000),
  mayTake: async (asked: MemberAsk): Promise<Admission> => admitMember(at, asked, 1_000, { dry: true }),
  release: async (id: string) => releaseMember(at, id),
  holds: () => [],
  onChange: () => () => {},
});

const step = (member: string) => ({ kind: 'reload', member });
const asks = ({ member }: { readonly member: string }): readonly MemberAsk[] => [ask(member)];

test('C3.2 S2 S13 a second member waits at the gate with the words of the authority; asking again for the first is asking once', async () => {
  const gate = gateOf(desk());
  const first = await passGate(gate, [step('orders-0')], asks, 5_000, 1_000);
  expect([first.steps.length, first.waits]).toEqual([1, []]);
  expect(first.grants.get(JSON.stringify(step('orders-0')))?.[0]?.node).toBe('default/orders-0');
  const both = await passGate(gate, [step('orders-0'), step('orders-1')], asks, 5_000, 1_000);
  expect(both.steps).toEqual([step('orders-0')]);
  expect(both.waits).toMatchObject([{ on: 'MaintenanceGrant' }]);
  expect(both.waits[0]?.detail).toMatch(/^orders-1: restart with configuration 2 waits: .*orders-0/);
});

test('C1.2 the wait ends when the lock does, as far as that is known, and else after the usual time', async () => {
  const at = desk();
  const gate = gateOf(at);
  await passGate(gate, [step('orders-0')], asks, 5_000, 1_000);
  const until = async (now: number): Promise<number | undefined> =>
    (await passGate(gate, [step('orders-1')], asks, 5_000, now)).waits[0]?.until;
  // Sixty seconds of the lock, and five in which its member settles.
  expect(await until(1_000)).toBe(66_000);
  // A lock that is told of late: it should be over by now.
  expect(await until(67_000)).toBe(72_000);
  await gate.release('uid/orders-0');
  expect((await passGate(gate, [step('orders-1')], asks, 5_000, 1_000)).steps).toHaveLength(1);
});

test('a step that takes nothing down passes without a question', async () => {
  const gate = { ...gateOf(desk()), acquire: () => Promise.reject(new Error('asked')) };
  const passed = await passGate(gate, [step('x')], () => [], 5_000, 1_000);
  expect(passed.steps).toHaveLength(1);
});

test('S2 S13 a step that takes two members down passes with both grants or not at all', async () => {
  const at = desk();
  const both = () => [ask('orders-0'), ask('orders-1')];
  const passed = await passGate(gateOf(at), [step('orders-0')], both, 5_000, 1_000);
  expect(passed.steps).toEqual([]);
  expect(passed.grants.size).toBe(0);
  expect(passed.waits[0]?.detail).toMatch(/^orders-1: /);
});

test('S13 A14.2 of several that are needed nothing is locked in vain, each is asked for once, and the refused one is named', async () => {
  const at = desk();
  const force = (member: string): MemberAsk => ({ ...ask(member), mode: 'force' });
  admitMember(at, { ...ask('orders-2'), id: 'someone' }, 1_000);
  const asked: string[] = [];
  const gate = gateOf(at);
  const counting = {
    ...gate,
    acquire: (one: MemberAsk) => {
      asked.push(one.id);
      return gate.acquire(one);
    },
  };
  const all = () => ['orders-0', 'orders-1', 'orders-2'].map(force);
  const steps = ['orders-0', 'orders-1', 'orders-2'].map(step);
  const passed = await passGate(counting, steps, all, 5_000, 1_000);
  expect(passed.steps).toEqual([]);
  expect(passed.waits).toHaveLength(1);
  expect(passed.waits[0]?.detail).toMatch(/^orders-2: /);
  expect(asked).toEqual(['uid/orders-2']);
  expect([...at.entries()].flatMap((entry) => entry.held.map((held) => held.action.scope))).toHaveLength(1);
  releaseMember(at, 'someone');
  asked.length = 0;
  expect((await passGate(counting, steps, all, 5_000, 1_000)).steps).toHaveLength(3);
  expect([...asked].sort()).toEqual(['uid/orders-0', 'uid/orders-1', 'uid/orders-2']);
});
