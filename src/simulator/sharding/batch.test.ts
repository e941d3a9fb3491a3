import { ObjectId, Timestamp, UUID } from 'bson';
import { expect, test } from 'vitest';
import { addReply, newTotals, rounds } from './batch.ts';
import { indexName, supportsKey } from './indexes.ts';
import { changedChunks, isBalancing, tableOf } from './metadata.ts';
import { countShape, foreignCollections, splitPipeline } from './pipeline.ts';
import { parseSet, setString } from './set-name.ts';
import { parsePattern } from './shard-key.ts';

const statement = (index: number, ...shards: string[]) => ({ index, shards });

test('ordered statements keep their order: only neighbours for the same shard travel together', () => {
  const list = [
    statement(0, 'a'),
    statement(1, 'a'),
    statement(2, 'b'),
    statement(3, 'a', 'b'),
    statement(4, 'a'),
  ];
  const sent = rounds(list, true).map((round) =>
    round.map(({ shard, statements }) => `${shard}:${statements.map(({ index }) => index)}`),
  );
  expect(sent).toEqual([['a:0,1'], ['b:2'], ['a:3', 'b:3'], ['a:4']]);
});

test('unordered statements go out at once, one message for each shard', () => {
  const list = [statement(0, 'a'), statement(1, 'b'), statement(2, 'a', 'b')];
  const [only] = rounds(list, false);
  expect(only!.map(({ shard, statements }) => [shard, statements.map(({ index }) => index)])).toEqual([
    ['a', [0, 2]],
    ['b', [1, 2]],
  ]);
});

test('replies of shards become one, with the client’s positions', () => {
  const totals = newTotals();
  const group = { shard: 'a', statements: [statement(3, 'a'), statement(7, 'a')] };
  addReply(totals, { n: 1, nModified: 1, writeErrors: [{ index: 1, code: 11000 }] }, group);
  addReply(totals, { n: 2, upserted: [{ index: 0, _id: 'x' }], writeConcernError: { code: 64 } }, group);
  expect(totals).toMatchObject({
    n: 3,
    nModified: 1,
    writeErrors: [{ index: 7, code: 11000 }],
    upserted: [{ index: 3, _id: 'x' }],
    concernErrors: [{ code: 64 }],
  });
});

test('a pipeline is cut before the first stage that needs all documents', () => {
  const match = { $match: { a: 1 } };
  const sort = { $sort: { a: 1 } };
  expect(splitPipeline([match, { $group: { _id: '$a' } }])).toEqual({
    shard: [match],
    merge: [{ $group: { _id: '$a' } }],
  });
  expect(splitPipeline([match, sort, { $limit: 5 }])).toEqual({
    shard: [match, sort, { $limit: 5 }],
    merge: [sort, { $limit: 5 }],
  });
  expect(splitPipeline([match])).toEqual({ shard: [match], merge: [] });
});

test('shards count for themselves where the pipeline only counts', () => {
  expect(countShape([{ $group: { _id: 1, n: { $sum: 1 } } }])?.result(7)).toEqual({ _id: 1, n: 7 });
  expect(countShape([{ $count: 'all' }])?.result(0)).toBeNull();
  expect(countShape([{ $group: { _id: '$a', n: { $sum: 1 } } }])).toBeNull();
  expect(countShape([{ $group: { _id: 1, n: { $sum: '$x' } } }])).toBeNull();
  expect(countShape([{ $skip: 1 }])).toBeNull();
});

test('joined collections are found at any depth', () => {
  const pipeline = [
    { $lookup: { from: 'a', pipeline: [{ $unionWith: 'b' }] } },
    { $facet: { x: [{ $graphLookup: { from: 'c' } }] } },
    { $unionWith: { coll: 'd', pipeline: [{ $lookup: { from: 'a' } }] } },
  ];
  expect(foreignCollections(pipeline)).toEqual(['a', 'b', 'c', 'd']);
});

test('connection strings of sets', () => {
  expect(parseSet('rs0/b:1,a', 27018)).toEqual({ name: 'rs0', hosts: ['b:1', 'a:27018'] });
  expect(setString({ name: 'rs0', hosts: ['b:1', 'a:2'] })).toBe('rs0/a:2,b:1');
  for (const bad of ['a:1', 'rs0/', '/a:1', '']) expect(parseSet(bad, 1)).toBeNull();
});

test('an index supports a shard key when it begins with it', () => {
  const pattern = parsePattern({ a: 1, b: 'hashed' });
  const index = (key: object, more: object = {}) => ({ name: indexName(key), key, ...more });
  expect(supportsKey(index({ a: 1, b: 'hashed', c: 1 }), pattern)).toBe(true);
  expect(supportsKey(index({ a: 1, b: 1 }), pattern)).toBe(false);
  expect(supportsKey(index({ b: 'hashed', a: 1 }), pattern)).toBe(false);
  expect(supportsKey(index({ a: 1, b: 'hashed' }, { sparse: true }), pattern)).toBe(false);
  expect(indexName({ a: 1, b: 'hashed' })).toBe('a_1_b_hashed');
});

test('only chunks that changed are written again, and those that moved remember since when', () => {
  const uuid = new UUID();
  const at = (t: number, i: number) => new Timestamp({ t, i });
  const stored = [
    {
      _id: new ObjectId(),
      uuid,
      min: { a: 0 },
      max: { a: 5 },
      shard: 's0',
      lastmod: at(1, 0),
      onCurrentShardSince: at(7, 0),
    },
    {
      _id: new ObjectId(),
      uuid,
      min: { a: 5 },
      max: { a: 9 },
      shard: 's0',
      lastmod: at(1, 1),
      onCurrentShardSince: at(7, 0),
    },
  ];
  const collection = { _id: 'app.c', uuid, key: { a: 1 }, lastmodEpoch: new ObjectId(), timestamp: at(1, 1) };
  const table = tableOf(collection, stored)!;
  const [kept, moved] = table.chunks;
  const wanted = [kept!, { ...moved!, shard: 's1', lastmod: at(2, 0) }];
  const changed = changedChunks(table, stored, wanted, at(9, 9));
  expect(changed).toHaveLength(1);
  expect(changed[0]).toMatchObject({ _id: stored[1]!._id, shard: 's1', onCurrentShardSince: at(9, 9) });
  expect(tableOf(collection, [])).toBeNull();
});

test('the balancer runs until somebody stops it', () => {
  expect(isBalancing(undefined)).toBe(true);
  expect(isBalancing({ mode: 'full', stopped: false })).toBe(true);
  expect(isBalancing({ mode: 'off', stopped: true })).toBe(false);
  expect(isBalancing({ stopped: true })).toBe(false);
});
