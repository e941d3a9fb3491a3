/** From a server's status to facts. */
import { expect, test } from 'vitest';
import { readStatus, replicaSetIdOf } from './reading.ts';

const at = (seconds: number): Date => new Date(1_700_000_000_000 + seconds * 1_000);
const row = (id: number, state: number, applied: Date, more = {}) => ({
  _id: id,
  name: `db${id}:27017`,
  health: 1,
  state,
  optimeDate: applied,
  ...more,
});
const own = { self: true, configVersion: 7 };

test('S1 A6.3 lag is the distance to the primary; without one, or of one whose writes are not known, nobody knows it', () => {
  const lags = (...members: readonly object[]) => readStatus({ members }).peers.map((p) => p.lagMillis);
  expect(lags(row(0, 1, at(100)), row(1, 2, at(88), own), row(2, 2, at(101)))).toEqual([0, 12_000, 0]);
  expect(lags(row(0, 2, at(100)), row(1, 2, at(88), own))).toEqual([null, null]);
  expect(lags(row(0, 1, at(100)), row(1, 8, new Date(0), { health: 0 }))).toEqual([0, null]);
});

test('QRM-01 the time of the newest write is told by a member that sees no primary, and it is its own', () => {
  const status = (first: number) =>
    readStatus({ myState: 2, members: [row(0, first, at(100)), row(1, 2, at(88), own)] });
  expect(status(2).lastAppliedAt).toBe(at(88).getTime());
  expect(status(1).lastAppliedAt).toBeNull();
});

test('STK-09 a member tells its own version of the configuration, not another’s', () => {
  const members = [row(0, 1, at(1), { configVersion: 8 }), row(1, 2, at(1), own)];
  expect(readStatus({ myState: 2, term: 3, members })).toMatchObject({
    state: 'SECONDARY',
    term: 3,
    configVersion: 7,
  });
  expect(readStatus({ members: [members[0]] }).configVersion).toBeNull();
});

test('A6.3 initial sync is told in whole percent, and as nothing done while its size is not known', () => {
  const percent = (initialSyncStatus?: object) => readStatus({ initialSyncStatus }).initialSyncPercent;
  expect(percent()).toBeNull();
  expect(percent({})).toBe(0);
  expect(percent({ approxTotalDataSize: 0, approxTotalBytesCopied: 0 })).toBe(0);
  expect(percent({ approxTotalDataSize: 3, approxTotalBytesCopied: 2 })).toBe(66);
  expect(percent({ approxTotalDataSize: 3, approxTotalBytesCopied: 4 })).toBe(100);
});

test('INI-06 the id of a set is read from its configuration only', () => {
  const config = { _id: 'orders', version: 1, members: [] };
  expect(replicaSetIdOf(config)).toBeNull();
  expect(replicaSetIdOf({ ...config, settings: { replicaSetId: { $oid: 'ab12' } } })).toBe('ab12');
});
