import { expect, test } from 'vitest';
import type { MemberStatus, MongoDBSpec, MongoDBStatus } from '../model/index.ts';
import { managedFleet } from './managed.ts';

const member = (index: number, more: Partial<MemberStatus>): MemberStatus => ({
  name: `orders-${index}`,
  index,
  role: 'replica',
  replicaSet: 'orders',
  hostName: `h${index}`,
  health: 'healthy',
  stage: 'active',
  ...more,
});

function votesOf(members: readonly MemberStatus[]): readonly number[] {
  const spec = { maintenance: {} } as unknown as MongoDBSpec;
  const status = { members } as unknown as MongoDBStatus;
  const fleet = managedFleet({ namespace: 'default', name: 'orders', spec, status }, () => true);
  return (fleet.replicaSets?.[0]?.members ?? []).map(({ votes }) => votes);
}

test('C5.3 S13 a member nobody reports keeps the vote it had: it is no member that may go for nothing', () => {
  const unknown = { health: 'unknown' } as const;
  expect(votesOf([member(0, unknown), member(1, { votes: 1 }), member(2, unknown)])).toEqual([1, 1, 1]);
  expect(votesOf([member(0, unknown), member(1, unknown), member(2, unknown)])).toEqual([1, 1, 1]);
});

test('C2.5 who joins has no vote yet, and a configuration that gives none is believed', () => {
  expect(
    votesOf([member(0, { votes: 1 }), member(1, { stage: 'syncing' }), member(2, { votes: 0 })]),
  ).toEqual([1, 0, 0]);
});
