import { expect, test } from 'vitest';
import { OpenIntents } from './intents.ts';

interface Deploy {
  readonly kind: string;
  readonly member: string;
  readonly version: string;
}
const deploy = (member: string, version: string): Deploy => ({ kind: 'deploy', member, version });
let efforts = 0;
const effort = (): string => String(++efforts);

function opened(...steps: readonly Deploy[]) {
  const open = new OpenIntents<Deploy>((step) => step.member, []);
  const items = steps.map((step) => open.identify('uid', step, effort));
  for (const item of items) open.opened(item);
  return { open, items };
}

test('S10 a step that is still open goes on under its id; another content, target or kind is another effort', () => {
  const { open, items } = opened(deploy('x', '8'));
  const again = (step: Deploy) => open.identify('uid', step, effort);
  expect(again(deploy('x', '8'))).toMatchObject({ id: items[0]?.id, isNew: false });
  for (const other of [deploy('x', '7'), deploy('y', '8'), { ...deploy('x', '8'), kind: 'import' }]) {
    const item = again(other);
    expect(item.isNew, JSON.stringify(other)).toBe(true);
    expect(item.id).not.toBe(items[0]?.id);
  }
});

test('S16 a new effort on the same target replaces the one that is open, and nobody else’s', () => {
  const { open, items } = opened(deploy('x', '8'), deploy('y', '8'));
  const next = ['x', 'z'].map((member) => open.identify('uid', deploy(member, '9'), effort));
  expect(open.replacedBy(next)).toEqual([items[0]?.id]);
  const same = open.identify('uid', deploy('y', '8'), effort);
  expect(open.replacedBy([same])).toEqual([]);
});

test('S10 S14 what undoes an open step ends it: done again after that, it is an effort of its own', () => {
  const of = (kind: string): string => (kind === 'deploy' || kind === 'remove' ? 'presence' : kind);
  const at = { clusterUid: 'uid', target: 'x', reason: '', epoch: 1, at: 0, outcome: null };
  const entry = { ...at, id: 'old', step: 'deploy', detail: deploy('x', '8') };
  const open = new OpenIntents<Deploy>((step) => step.member, [entry], { of, anew: () => false });
  const begin = (step: Deploy) => open.identify('uid', step, effort);
  expect(begin(deploy('x', '8')).id).toBe('old');
  const undone = begin({ ...deploy('x', '8'), kind: 'remove' });
  expect(undone.isNew).toBe(true);
  expect(open.replacedBy([undone])).toEqual(['old']);
  open.opened(undone);
  open.closed(undone);
  expect(begin(deploy('x', '8'))).toMatchObject({ isNew: true });
});

test('S14 A3.1 a kind that is done anew gets another id for every try, ends the one before, and waits as long as any', () => {
  const kinds = { of: (kind: string) => kind, anew: (kind: string) => kind === 'deploy' };
  const open = new OpenIntents<Deploy>((step) => step.member, [], kinds);
  const ids: string[] = [];
  for (const wait of [1_000, 2_000, 4_000]) {
    const item = open.identify('uid', deploy('x', '8'), effort);
    expect(item.isNew).toBe(true);
    expect(open.replacedBy([item])).toEqual(ids.slice(-1));
    open.opened(item);
    open.unknown(item, 0);
    expect(open.notBefore(deploy('x', '8'))).toBe(wait);
    ids.push(item.id);
  }
  expect(new Set(ids).size).toBe(3);
});

test('A3.1 what got no answer is sent again after one second, doubling to thirty, and no other content waits for it', () => {
  const { open, items } = opened(deploy('x', '8'));
  const [item] = items;
  const waits = Array.from({ length: 8 }, () => {
    open.unknown(item as NonNullable<typeof item>, 1_000);
    return open.notBefore(deploy('x', '8')) - 1_000;
  });
  expect(waits).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]);
  expect(open.notBefore(deploy('x', '9'))).toBe(0);
});
