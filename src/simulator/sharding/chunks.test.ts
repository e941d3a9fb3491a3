import { Long, MaxKey, MinKey, ObjectId, Timestamp, UUID } from 'bson';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { planBalance } from './balance.ts';
import {
  type Chunk,
  coverProblem,
  initialChunks,
  moveRange,
  ownerOf,
  ownersBetween,
  ownersOf,
  type RoutingTable,
  splitAt,
  versionOf,
} from './chunks.ts';
import { compareKeys, hashOf, type KeyPattern, keyOf, parsePattern } from './shard-key.ts';
import { exactKey, targetsOf } from './targeting.ts';
import { acceptable, UNSHARDED } from './versions.ts';

const ranged = parsePattern({ a: 1 });
const hashed = parsePattern({ _id: 'hashed' });
const start = (pattern: KeyPattern, shards = ['s0', 's1', 's2']): readonly Chunk[] =>
  initialChunks(pattern, { primary: shards[0]!, shards, spread: true, perShard: 1 });
const tableOf = (pattern: KeyPattern, chunks: readonly Chunk[]): RoutingTable => ({
  ns: 'app.c',
  uuid: new UUID(),
  pattern,
  unique: false,
  epoch: new ObjectId(),
  timestamp: new Timestamp({ t: 1, i: 1 }),
  chunks,
});

test('a hashed collection begins spread over all shards, a ranged one on its primary shard', () => {
  expect(ownersOf(start(hashed))).toEqual(['s0', 's1', 's2']);
  expect(coverProblem(hashed, start(hashed))).toBeNull();
  expect(start(ranged)).toHaveLength(1);
  expect(ownersOf(start(ranged))).toEqual(['s0']);
});

test('any splits and moves leave every key with exactly one owner, and the version grows', () => {
  const key = fc.integer({ min: -1000, max: 1000 });
  const step = fc.record({ from: key, to: key, shard: fc.constantFrom('s0', 's1', 's2') });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 20 }), fc.array(key), (steps, probes) => {
      let chunks = start(ranged);
      const owners = new Map<number, string>(probes.map((probe) => [probe, 's0']));
      for (const { from, to, shard } of steps) {
        const [low, high] = from < to ? [from, to] : [to, from + 1];
        const before = versionOf(chunks);
        chunks = moveRange(chunks, [low], [high], shard);
        for (const probe of owners.keys()) if (probe >= low && probe < high) owners.set(probe, shard);
        expect(coverProblem(ranged, chunks)).toBeNull();
        expect(versionOf(chunks).greaterThan(before)).toBe(true);
      }
      const table = tableOf(ranged, chunks);
      for (const [probe, shard] of owners) expect(ownerOf(table, [probe])).toBe(shard);
    }),
  );
});

test('a split changes no owner and only the minor version', () => {
  const chunks = splitAt(splitAt(start(ranged), [10]), [20]);
  expect(chunks).toHaveLength(3);
  expect(coverProblem(ranged, chunks)).toBeNull();
  expect(versionOf(chunks).t).toBe(1);
  expect(splitAt(chunks, [10])).toBe(chunks);
});

test('what does not cover every key is named', () => {
  const [only] = start(ranged);
  expect(coverProblem(ranged, [])).toBe('no chunks');
  expect(coverProblem(ranged, [{ ...only!, min: [0] }])).toContain('MinKey');
  expect(coverProblem(ranged, [{ ...only!, max: [0] }])).toContain('MaxKey');
  const gap = [
    { ...only!, max: [0] },
    { ...only!, min: [1] },
  ];
  expect(coverProblem(ranged, gap)).toContain('do not meet');
});

// ── keys ───────────────────────────────────────────────────────────────────────────────────────────────────────────

test('numbers that are equal are one key, however they are stored', () => {
  expect(hashOf(3).equals(hashOf(Long.fromNumber(3)))).toBe(true);
  expect(hashOf(3).equals(hashOf('3'))).toBe(false);
  expect(compareKeys([3], [Long.fromNumber(3)])).toBe(0);
  expect(compareKeys([new MinKey()], [-1e308])).toBeLessThan(0);
  expect(compareKeys([new MaxKey()], [new ObjectId()])).toBeGreaterThan(0);
});

test('the key of a document: missing is null, arrays have none', () => {
  const pattern = parsePattern({ 'a.b': 1, c: 1 });
  expect(keyOf(pattern, { a: { b: 1 } })).toEqual([1, null]);
  expect(keyOf(pattern, { a: [{ b: 1 }] })).toBeNull();
  expect(keyOf(pattern, { a: { b: [1] } })).toBeNull();
  expect(() => parsePattern({ a: -1 })).toThrow('ranged');
  expect(() => parsePattern({ a: 'hashed', b: 'hashed' })).toThrow('only one');
});

// ── targeting ──────────────────────────────────────────────────────────────────────────────────────────────────────

test('every document is found on the shards its own query is sent to', () => {
  const value = fc.oneof(
    fc.integer(),
    fc.string(),
    fc.boolean(),
    fc.constant(null),
    fc.double({ noNaN: true }),
  );
  const pattern = parsePattern({ a: 'hashed', b: 1 });
  const table = tableOf(pattern, start(pattern));
  fc.assert(
    fc.property(value, value, (a, b) => {
      const owner = ownerOf(table, keyOf(pattern, { a, b })!);
      for (const query of [
        { a, b },
        { a },
        { $and: [{ a }, { b }] },
        { a: { $in: [a, 1] }, b: { $eq: b } },
        {
          $or: [
            { a, b },
            { a: 7, b: 7 },
          ],
        },
        { b },
      ])
        expect(targetsOf(table, query)).toContain(owner);
      expect(targetsOf(table, { a, b })).toEqual([owner]);
    }),
  );
});

test('ranges go to the shards they meet, everything else to all', () => {
  const chunks = moveRange(moveRange(start(ranged), [10], [20], 's1'), [20], [30], 's2');
  const table = tableOf(ranged, chunks);
  expect(targetsOf(table, { a: { $gte: 12, $lt: 15 } })).toEqual(['s1']);
  expect(targetsOf(table, { a: { $gt: 12, $lte: 22 } })).toEqual(['s1', 's2']);
  expect(targetsOf(table, { a: /x/ })).toEqual(['s0', 's1', 's2']);
  expect(targetsOf(table, { b: 1 })).toEqual(['s0', 's1', 's2']);
  expect(targetsOf(table, { a: 12 }, false)).toEqual(['s0', 's1', 's2']);
  expect(ownersBetween(table, [25], [99])).toEqual(['s2', 's0']);
  expect(exactKey(ranged, { a: 12, b: 2 })).toEqual([12]);
  expect(exactKey(ranged, { a: { $gt: 12 } })).toBeNull();
});

// ── balancing, versions ────────────────────────────────────────────────────────────────────────────────────────────

test('the balancer empties a draining shard first, then evens out, then rests', () => {
  const chunks = start(hashed);
  const shard = (name: string, bytes: number, draining = false) => ({ name, bytes, draining });
  expect(planBalance(chunks, [shard('s0', 1), shard('s1', 1, true), shard('s2', 0)], 10)).toMatchObject({
    kind: 'move',
    from: 's1',
    to: 's2',
  });
  expect(planBalance(chunks, [shard('s0', 100), shard('s1', 20), shard('s2', 60)], 10)).toMatchObject({
    kind: 'shed',
    from: 's0',
    to: 's1',
  });
  expect(planBalance(chunks, [shard('s0', 49), shard('s1', 20), shard('s2', 30)], 10)).toBeNull();
  expect(planBalance(chunks, [shard('s0', 49, true)], 10)).toBeNull();
});

test('a shard serves routers that know at least what it was told', () => {
  const version = (t: number, major: number) => ({
    epoch: new ObjectId(),
    timestamp: new Timestamp({ t, i: 0 }),
    version: new Timestamp({ t: major, i: 0 }),
  });
  expect(acceptable(version(5, 3), version(5, 2))).toBe(true);
  expect(acceptable(version(5, 2), version(5, 3))).toBe(false);
  expect(acceptable(version(4, 9), version(5, 1))).toBe(false);
  expect(acceptable(UNSHARDED, null)).toBe(true);
  expect(acceptable(UNSHARDED, version(5, 1))).toBe(false);
  expect(acceptable(version(5, 1), null)).toBe(false);
});
