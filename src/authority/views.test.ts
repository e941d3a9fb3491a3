/** Hosts and nodes as people see them (C6.4). */
import { expect, test } from 'vitest';
import { DAY } from '../base/units.ts';
import {
  type Action,
  createTask,
  Desk,
  Fleet,
  joinFleets,
  type NodeSpec,
  type NodeState,
} from '../maintenance/index.ts';
import { playedSet } from './testing/played.ts';
import { hostViews, nodeViews } from './views.ts';

/** Hosts with members in these states, one set each. */
function fleet(states: Readonly<Record<string, readonly NodeState[]>>) {
  const parts = Object.entries(states).map(([host, of]) => {
    const set = playedSet(
      `of-${host}`,
      of.map(() => host),
    );
    return { ...set, nodes: set.nodes.map((n, i): NodeSpec => ({ ...n, state: of[i] as NodeState })) };
  });
  const desk = new Desk(new Fleet(joinFleets([...parts, { nodes: [], hosts: Object.keys(states) }])));
  return { desk, nodes: parts.flatMap((p) => p.nodes) };
}
const force = (uid: string, actions: readonly Action[], more: object = {}) => ({
  uid,
  owner: 'eve',
  description: '',
  mode: 'force' as const,
  priority: 0,
  dryRun: false,
  maxInFlight: 0,
  groups: actions.map((a) => [a]),
  ...more,
});
const node = (key: string): Action => ({
  type: 'lock',
  scope: { kind: 'node', node: key },
  duration: 60_000,
});

test('C6.4 C5.3 a host is up when all on it is, down when nothing is, empty without anything, in maintenance when all of it is held', () => {
  const { desk, nodes } = fleet({
    b: ['up', 'up'],
    a: ['up', 'down'],
    d: ['down', 'unknown'],
    c: [],
    e: ['down', 'up'],
    f: ['down', 'up'],
  });
  for (const key of ['default/of-e-0', 'default/of-e-1', 'default/of-f-0'])
    expect(createTask(desk, force(key.replace('/', '-'), [node(key)]), 0).status).toBe('SUCCESS');
  const views = hostViews(desk, nodes, 0);
  expect(views.map((h) => `${h.host} ${h.state}`)).toEqual([
    'a Partly',
    'b Up',
    'c Empty',
    'd Down',
    'e Maintenance',
    'f Partly',
  ]);
  // One that is held and up is up: nobody has taken it down yet.
  expect(views[4]?.nodes.map((n) => n.state)).toEqual(['Maintenance', 'Up']);
  expect(views[3]?.nodes.map((n) => n.state)).toEqual(['Down', 'Unknown']);
  const [held, free] = views[5]?.nodes ?? [];
  expect(held?.holders).toMatchObject([{ task: 'default-of-f-0', owner: 'eve', until: 60_000 }]);
  expect(held?.holders[0]?.permission).toMatch(/^eve-p-/);
  expect(free?.holders).toEqual([]);
});

test('C6.4 a host without anything on it that a task holds is in maintenance, and shows the holder', () => {
  const { desk, nodes } = fleet({ a: [], b: [] });
  const lock: Action = { type: 'lock', scope: { kind: 'host', host: 'a' }, duration: 60_000 };
  createTask(desk, force('e1', [lock]), 0);
  createTask(desk, force('e2', [lock], { owner: 'adam' }), 0);
  const [held, free] = hostViews(desk, nodes, 0);
  expect([held?.state, free?.state, free?.holders]).toEqual(['Maintenance', 'Empty', []]);
  expect(held?.holders).toEqual([{ task: 'e1', owner: 'eve', permission: 'eve-p-1', until: 60_000 }]);
  expect(held?.waiting.map((w) => w.task)).toEqual(['e2']);
});

test('C1.5 nodes of one database or topology, or all; one without a host is nowhere', () => {
  const { desk, nodes } = fleet({ a: ['up'], b: ['up'] });
  const homeless = { ...(nodes[0] as NodeSpec), key: 'x', host: '' };
  const names = (cluster?: string): readonly string[] =>
    nodeViews(desk, [...nodes, homeless], cluster).map((v) => v.node.key);
  expect(names()).toEqual(['default/of-a-0', 'default/of-b-0']);
  expect(names('default/of-b')).toEqual(['default/of-b-0']);
  expect(names('default/none')).toEqual([]);
});

test('C6.4 C1.2 who waits is shown at each host it waits for, once, whatever it asked for; who was not refreshed for a day is doubted', () => {
  const { desk, nodes } = fleet({ a: ['up', 'up'], b: ['up'] });
  createTask(
    desk,
    force('first', [{ type: 'lock', scope: { kind: 'host', host: 'a' }, duration: 9 * DAY }]),
    0,
  );
  const both = [node('default/of-a-0'), node('default/of-a-1')];
  createTask(desk, force('second', both, { mode: 'strong', owner: 'bob', priority: 3 }), 5);
  const at = (now: number) => hostViews(desk, nodes, now);
  const [a, b] = at(DAY - 1);
  expect(a?.waiting).toEqual([{ task: 'second', owner: 'bob', priority: 3, stale: false }]);
  expect(b?.waiting).toEqual([]);
  const doubts = (now: number) => at(now)[0]?.warnings.filter((w) => w.startsWith('task'));
  expect(doubts(DAY - 1)).toEqual([]);
  expect(doubts(DAY)).toEqual(['task first of eve was last refreshed 1 d ago: still wanted?']);
  expect(doubts(DAY + 5)).toHaveLength(2);
  expect(a?.warnings).toEqual(['of-a-0 and of-a-1 of default/of-a are on one host and go down together']);
  expect(b?.warnings).toEqual([]);
});
