/** Health moves counters of the fleet there is; everything else makes a new one (C5.4). */
import { expect, test } from 'vitest';
import type { FleetSpec, NodeSpec } from '../maintenance/index.ts';
import { LiveFleet } from './fleet.ts';
import { SMALL_PART } from './limits.ts';
import { PlayedFleet, playedSet } from './testing/played.ts';

const changed = (part: FleetSpec, change: Partial<NodeSpec>): FleetSpec => ({
  ...part,
  nodes: part.nodes.map((n, i) => (i === 0 ? { ...n, ...change } : n)),
});
const hosts = (count: number): readonly string[] => Array.from({ length: count }, (_, i) => `h${i}`);

test('C5.4 C5.3 a change of health, role, version or start is told to the fleet there is; a change of shape makes another', () => {
  const [a, b] = [playedSet('a', hosts(3)), playedSet('b', hosts(3))];
  const source = new PlayedFleet({ a, b });
  const live = new LiveFleet(source);
  expect(live.refresh(0)).toBe(true);
  const first = live.fleet;
  expect(live.refresh(0)).toBe(false);
  const health = { state: 'down', role: 'PRIMARY', version: '8.0', startedAt: 5, note: 'n' } as const;
  source.set('a', changed(a, health));
  expect([live.refresh(1), live.fleet === first]).toEqual([false, true]);
  expect(live.node('default/a-0')).toMatchObject(health);
  expect(live.fleet.state(live.fleet.node('default/a-0') ?? -1)).toBe('down');
  expect([...live.nodes()].filter((n) => n.state === 'down').map((n) => n.key)).toEqual(['default/a-0']);
  expect(live.part('a')?.nodes[0]?.state).toBe('down');
  // One that moved to another host, beside another that only changed its health.
  source.set('a', changed(changed(a, health), { host: 'h9' }));
  source.set('b', changed(b, { state: 'unknown' }));
  expect(live.refresh(2)).toBe(true);
  expect(live.fleet).not.toBe(first);
  expect([live.node('default/a-0')?.host, live.node('default/b-0')?.state]).toEqual(['h9', 'unknown']);
  source.set('b', { ...b, replicaSets: (b.replicaSets ?? []).map((r) => ({ ...r, interruption: true })) });
  expect(live.refresh(3)).toBe(true);
});

test('MNT-28 C5.4 a part that comes or goes makes another fleet, and one that is large is not compared', () => {
  const a = playedSet('a', hosts(3));
  let parts = new Map<string, FleetSpec>([['a', a]]);
  const live = new LiveFleet({ parts: () => parts, onChange: () => () => {} });
  live.refresh(0);
  parts = new Map([...parts, ['b', playedSet('b', hosts(3))]]);
  expect([live.refresh(0), live.node('default/b-0')?.host]).toEqual([true, 'h0']);
  parts = new Map([['a', a]]);
  expect([live.refresh(0), live.node('default/b-0'), live.part('b')]).toEqual([true, undefined, undefined]);
  const again = (count: number): boolean => {
    const part = playedSet('big', hosts(count));
    parts = new Map([['big', part]]);
    live.refresh(0);
    parts = new Map([['big', changed(part, { state: 'down' })]]);
    return live.refresh(0);
  };
  expect([again(SMALL_PART), again(SMALL_PART + 1)]).toEqual([false, true]);
  expect(live.node('default/big-0')?.state).toBe('down');
});
