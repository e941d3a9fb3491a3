import {
  Binary,
  BSONRegExp,
  Decimal128,
  type Document,
  Double,
  Int32,
  Long,
  ObjectId,
  Timestamp,
} from 'bson';
import { expect, test } from 'vitest';
import type { ServerError } from '../contracts.ts';
import { canonical, canonicalDocument, plain } from './bson.ts';
import { evaluate } from './expression.ts';
import { openMemoryStore } from './store.ts';
import { contextWithClock } from './test-values.ts';

const value = (expression: unknown, document: Document = {}, variables: Document = {}): unknown =>
  evaluate(canonical(expression), canonicalDocument(document), canonicalDocument(variables));
const date = new Date('2024-03-10T15:04:05.678Z');

test.each<[string, unknown, unknown]>([
  ['int + int', { $add: [1, 2] }, new Int32(3)],
  ['int + long', { $add: [1, Long.fromNumber(2)] }, Long.fromNumber(3)],
  ['int overflow', { $add: [2147483647, 1] }, Long.fromNumber(2147483648)],
  ['long overflow is double', { $add: [Long.MAX_VALUE, 1] }, new Double(2 ** 63)],
  ['int + double', { $add: [1, 0.5] }, new Double(1.5)],
  ['decimals', { $multiply: [Decimal128.fromString('0.1'), 3] }, Decimal128.fromString('0.3')],
  [
    'decimal division',
    { $divide: [Decimal128.fromString('1'), 3] },
    Decimal128.fromString('0.3333333333333333333333333333333333'),
  ],
  ['null wins', { $add: [1, null] }, null],
  ['dates', { $add: [date, 1000] }, new Date(date.getTime() + 1000)],
  ['date minus date', { $subtract: [new Date(5), new Date(2)] }, Long.fromNumber(3)],
  ['division is double', { $divide: [6, 3] }, new Double(2)],
  ['$mod keeps ints', { $mod: [-7, 3] }, new Int32(-1)],
  ['$pow', { $pow: [2, 10] }, new Int32(1024)],
  ['$round half to even', { $round: [2.5] }, new Double(2)],
  ['$round places', { $round: [1.255, 2] }, new Double(1.26)],
  ['$round decimals', { $round: [Decimal128.fromString('-2.675'), 2] }, Decimal128.fromString('-2.68')],
  ['$trunc', { $trunc: [-1.7] }, new Double(-1)],
  ['$abs', { $abs: -3 }, new Int32(3)],
  ['$sum over an array', { $sum: [[1, 2, 'x']] }, new Int32(3)],
  ['$avg', { $avg: [1, 2] }, new Double(1.5)],
  ['$bitXor', { $bitXor: [5, 1] }, new Int32(4)],
])('SIM arithmetic keeps types: %s', (_title, expression, result) => {
  expect(value(expression)).toEqual(result);
});

const document = {
  a: 1,
  s: 'héllo wörld',
  list: [3, 1, 2],
  docs: [{ x: 1 }, { x: 2 }, 5, { y: 1 }],
  nested: { b: { c: 7 } },
  when: date,
};

test.each<[string, unknown, unknown]>([
  ['paths', '$nested.b.c', 7],
  ['paths through arrays', '$docs.x', [1, 2]],
  ['missing in an object', { o: { m: '$nope', a: '$a' } }, { o: { a: 1 } }],
  ['missing in an array', ['$nope', '$a'], [null, 1]],
  ['$$ROOT', '$$ROOT.a', 1],
  ['$literal', { $literal: '$a' }, '$a'],
  ['$let', { $let: { vars: { x: '$a' }, in: { $add: ['$$x', 1] } } }, 2],
  ['$cond', { $cond: [{ $gt: ['$a', 0] }, 'yes', 'no'] }, 'yes'],
  // biome-ignore lint/suspicious/noThenProperty: the server's own name
  ['$cond by names', { $cond: { if: false, then: 1, else: 2 } }, 2],
  ['$ifNull', { $ifNull: ['$nope', null, 'x'] }, 'x'],
  [
    '$switch',
    // biome-ignore lint/suspicious/noThenProperty: the server's own name
    { $switch: { branches: [{ case: { $eq: ['$a', 2] }, then: 'two' }], default: 'other' } },
    'other',
  ],
  ['comparison across types', { $lt: [5, 'x'] }, true],
  ['missing is below null', { $lt: ['$nope', null] }, true],
  ['$and of nothing', { $and: [] }, true],
  ['$not', { $not: ['$nope'] }, true],
  ['$filter', { $filter: { input: '$list', cond: { $gte: ['$$this', 2] } } }, [3, 2]],
  ['$map', { $map: { input: '$list', as: 'n', in: { $multiply: ['$$n', 2] } } }, [6, 2, 4]],
  ['$reduce', { $reduce: { input: '$list', initialValue: 0, in: { $add: ['$$value', '$$this'] } } }, 6],
  ['$arrayElemAt', { $arrayElemAt: ['$list', -1] }, 2],
  ['$slice', { $slice: ['$list', 1, 1] }, [1]],
  ['$concatArrays', { $concatArrays: ['$list', [9]] }, [3, 1, 2, 9]],
  ['$in', { $in: [2, '$list'] }, true],
  ['$indexOfArray', { $indexOfArray: ['$list', 2] }, 2],
  ['$size', { $size: '$docs' }, 4],
  ['$range', { $range: [0, 6, 2] }, [0, 2, 4]],
  ['$sortArray', { $sortArray: { input: '$list', sortBy: -1 } }, [3, 2, 1]],
  [
    '$zip',
    { $zip: { inputs: [[1, 2], ['a']], useLongestLength: true } },
    [
      [1, 'a'],
      [2, null],
    ],
  ],
  ['$reverseArray', { $reverseArray: '$list' }, [2, 1, 3]],
  ['$firstN', { $firstN: { n: 2, input: '$list' } }, [3, 1]],
  ['$maxN', { $maxN: { n: 2, input: '$list' } }, [3, 2]],
  [
    '$setUnion',
    {
      $setUnion: [
        [1, 2],
        [2, 3],
      ],
    },
    [1, 2, 3],
  ],
  ['$setIsSubset', { $setIsSubset: [[1], '$list'] }, true],
  ['$setDifference', { $setDifference: ['$list', [1]] }, [3, 2]],
  ['$objectToArray', { $objectToArray: { k: 1 } }, [{ k: 'k', v: 1 }]],
  [
    '$arrayToObject',
    {
      $arrayToObject: [
        [
          ['a', 1],
          ['b', 2],
        ],
      ],
    },
    { a: 1, b: 2 },
  ],
  ['$mergeObjects', { $mergeObjects: [{ a: 1 }, null, { b: 2 }] }, { a: 1, b: 2 }],
  ['$getField', { $getField: { field: 'x', input: { x: 3 } } }, 3],
  ['$setField', { $setField: { field: 'a.b', input: {}, value: 1 } }, { 'a.b': 1 }],
  ['$concat', { $concat: ['a', 'b'] }, 'ab'],
  ['$toUpper is ASCII only', { $toUpper: '$s' }, 'HéLLO WöRLD'],
  ['$split', { $split: ['a,b', ','] }, ['a', 'b']],
  ['$substrCP', { $substrCP: ['$s', 1, 4] }, 'éllo'],
  ['$strLenBytes', { $strLenBytes: '$s' }, 13],
  ['$indexOfCP', { $indexOfCP: ['$s', 'w'] }, 6],
  ['$trim', { $trim: { input: '  x ' } }, 'x'],
  ['$ltrim chars', { $ltrim: { input: 'xxay', chars: 'x' } }, 'ay'],
  ['$replaceAll', { $replaceAll: { input: 'a.a', find: 'a', replacement: { $literal: '$' } } }, '$.$'],
  ['$regexMatch', { $regexMatch: { input: '$s', regex: 'WÖR', options: 'i' } }, true],
  [
    '$regexFind',
    { $regexFind: { input: 'xay', regex: '(a)(b)?' } },
    { match: 'a', idx: 1, captures: ['a', null] },
  ],
  ['$strcasecmp', { $strcasecmp: ['abc', 'ABD'] }, -1],
  ['$type', { $type: '$nope' }, 'missing'],
  ['$toString of a double', { $toString: 1.5 }, '1.5'],
  ['$toInt', { $toInt: '42' }, 42],
  ['$convert onError', { $convert: { input: 'x', to: 'int', onError: 'bad' } }, 'bad'],
  ['$isNumber', { $isNumber: 1 }, true],
  ['$year', { $year: '$when' }, 2024],
  ['$hour in a zone', { $hour: { date: '$when', timezone: 'America/New_York' } }, 11],
  ['$isoWeek', { $isoWeek: '$when' }, 10],
  ['$dayOfWeek', { $dayOfWeek: '$when' }, 1],
  [
    '$dateToString',
    { $dateToString: { date: '$when', format: '%Y-%m-%d %H:%M:%S.%L %j %z', timezone: '+02:00' } },
    '2024-03-10 17:04:05.678 070 +0200',
  ],
  ['$dateToString by default', { $dateToString: { date: '$when' } }, '2024-03-10T15:04:05.678Z'],
  [
    '$dateFromString',
    { $dateFromString: { dateString: '10/03/2024', format: '%d/%m/%Y' } },
    new Date('2024-03-10'),
  ],
  ['$dateFromParts', { $dateFromParts: { year: 2024, month: 14, day: 1 } }, new Date('2025-02-01')],
  [
    '$dateAdd across a change of clocks',
    {
      $dateAdd: {
        startDate: new Date('2024-03-09T17:00:00Z'),
        unit: 'day',
        amount: 1,
        timezone: 'America/New_York',
      },
    },
    new Date('2024-03-10T16:00:00Z'),
  ],
  [
    '$dateAdd to a shorter month',
    { $dateAdd: { startDate: new Date('2024-01-31'), unit: 'month', amount: 1 } },
    new Date('2024-02-29'),
  ],
  [
    '$dateDiff',
    { $dateDiff: { startDate: new Date('2024-01-31'), endDate: new Date('2024-03-01'), unit: 'month' } },
    2,
  ],
  [
    '$dateTrunc',
    { $dateTrunc: { date: '$when', unit: 'hour', binSize: 6 } },
    new Date('2024-03-10T12:00:00Z'),
  ],
  [
    '$dateTrunc week',
    { $dateTrunc: { date: '$when', unit: 'week', startOfWeek: 'monday' } },
    new Date('2024-03-04'),
  ],
])('SIM expressions: %s', (_title, expression, result) => {
  expect(plain(value(expression, document))).toEqual(result);
});

test.each<[unknown, number]>([
  [{ $nope: 1 }, 168],
  [{ $add: ['x', 1] }, 14],
  [{ $divide: [1, 0] }, 2],
  [{ $cond: [1, 2] }, 16020],
  ['$$nope', 17276],
  [{ $toInt: 'x' }, 241],
  [{ $arrayElemAt: [1, 0] }, 28689],
  [{ $a: 1, $b: 2 }, 15983],
  [{ $size: 1 }, 17124],
  [{ $hour: { date: new Date(0), timezone: 'Nowhere/Land' } }, 40485],
  [{ $switch: { branches: [] } }, 40068],
])('SIM expression %j is refused with %i', (expression, code) => {
  try {
    value(expression);
  } catch (error) {
    expect((error as ServerError).code).toBe(code);
    return;
  }
  throw new Error('not refused');
});

function filled() {
  const store = openMemoryStore();
  const clock = contextWithClock();
  const orders = [
    { _id: 1, item: 'a', qty: 2, tags: ['x', 'y'] },
    { _id: 2, item: 'b', qty: Long.fromNumber(1), tags: [] },
    { _id: 3, item: 'a', qty: 2.5 },
    { _id: 4, item: null, qty: 4, tags: 'z' },
    { _id: 5, qty: 5, tags: null },
  ];
  for (const order of orders) store.insert('db.orders', order, clock);
  store.insert('db.items', { _id: 'a', price: 10, related: ['b'] }, clock);
  store.insert('db.items', { _id: 'b', price: 20, related: ['c'] }, clock);
  store.insert('db.items', { _id: 'c', price: 30, related: [] }, clock);
  return store;
}

const run = (pipeline: Document[], ns: string | null = 'db.orders', options: Document = {}): Document[] =>
  filled()
    .aggregate(ns, 'db', pipeline, options)
    .map((result) => plain(result) as Document);

test('SIM $group collects by value; missing and null are one group', () => {
  expect(
    run([{ $group: { _id: '$item', total: { $sum: '$qty' }, n: { $count: {} }, ids: { $push: '$_id' } } }]),
  ).toEqual([
    { _id: 'a', total: 4.5, n: 2, ids: [1, 3] },
    { _id: 'b', total: 1, n: 1, ids: [2] },
    { _id: null, total: 9, n: 2, ids: [4, 5] },
  ]);
  const [only] = filled().aggregate('db.orders', 'db', [
    { $group: { _id: null, sum: { $sum: 1 }, avg: { $avg: '$qty' } } },
  ]);
  expect(only).toEqual({ _id: null, sum: new Int32(5), avg: new Double(2.9) });
});

test('SIM accumulators of groups', () => {
  const [result] = run([
    { $sort: { qty: -1 } },
    {
      $group: {
        _id: null,
        first: { $first: '$_id' },
        last: { $last: '$_id' },
        min: { $min: '$qty' },
        max: { $max: '$qty' },
        set: { $addToSet: '$item' },
        top: { $top: { sortBy: { qty: 1 }, output: '$_id' } },
        two: { $firstN: { n: 2, input: '$_id' } },
        dev: { $stdDevPop: '$qty' },
      },
    },
  ]);
  expect(result).toMatchObject({
    first: 5,
    last: 2,
    min: 1,
    max: 5,
    set: [null, 'a', 'b'],
    top: 2,
    two: [5, 4],
  });
  expect(result!['dev']).toBeCloseTo(1.428, 2);
});

test('SIM $unwind, with index and with empty ones kept', () => {
  expect(run([{ $unwind: '$tags' }, { $project: { tags: 1 } }])).toEqual([
    { _id: 1, tags: 'x' },
    { _id: 1, tags: 'y' },
    { _id: 4, tags: 'z' },
  ]);
  const kept = run([
    { $unwind: { path: '$tags', includeArrayIndex: 'at', preserveNullAndEmptyArrays: true } },
  ]);
  expect(kept.map(({ _id, tags, at }) => [_id, tags, at])).toEqual([
    [1, 'x', 0],
    [1, 'y', 1],
    [2, undefined, null],
    [3, undefined, null],
    [4, 'z', null],
    [5, null, null],
  ]);
});

test('SIM $lookup by fields, by pipeline and by both', () => {
  const joined = run([{ $lookup: { from: 'items', localField: 'item', foreignField: '_id', as: 'found' } }]);
  expect(joined.map(({ found }) => found.length)).toEqual([1, 1, 1, 0, 0]);
  const piped = run([
    { $match: { _id: 1 } },
    {
      $lookup: {
        from: 'items',
        let: { q: '$qty' },
        pipeline: [
          { $match: { $expr: { $gt: ['$price', { $multiply: ['$$q', 8] }] } } },
          { $project: { _id: 1 } },
        ],
        as: 'found',
      },
    },
  ]);
  expect(piped[0]!['found']).toEqual([{ _id: 'b' }, { _id: 'c' }]);
});

test('SIM $graphLookup follows to the depth asked for', () => {
  const graph = (rest: Document) =>
    run([
      { $match: { _id: 1 } },
      {
        $graphLookup: {
          from: 'items',
          startWith: '$item',
          connectFromField: 'related',
          connectToField: '_id',
          as: 'way',
          depthField: 'd',
          ...rest,
        },
      },
    ])[0]!['way'].map(({ _id, d }: Document) => [_id, d]);
  expect(graph({})).toEqual([
    ['a', 0],
    ['b', 1],
    ['c', 2],
  ]);
  expect(graph({ maxDepth: 1 })).toEqual([
    ['a', 0],
    ['b', 1],
  ]);
});

test('SIM stages that shape documents', () => {
  expect(run([{ $match: { _id: 1 } }, { $set: { 'n.m': '$qty', tags: '$$REMOVE' } }])).toEqual([
    { _id: 1, item: 'a', qty: 2, n: { m: 2 } },
  ]);
  expect(run([{ $match: { _id: 1 } }, { $unset: ['tags', 'qty'] }])).toEqual([{ _id: 1, item: 'a' }]);
  expect(run([{ $limit: 1 }, { $replaceWith: { id: '$_id' } }])).toEqual([{ id: 1 }]);
  expect(run([{ $match: { _id: 1 } }, { $project: { _id: 0, double: { $multiply: ['$qty', 2] } } }])).toEqual(
    [{ double: 4 }],
  );
  expect(run([{ $skip: 3 }, { $count: 'n' }])).toEqual([{ n: 2 }]);
  expect(run([{ $match: { _id: 99 } }, { $count: 'n' }])).toEqual([]);
  expect(run([{ $sample: { size: 2 } }])).toHaveLength(2);
});

test('SIM stages that bring together', () => {
  expect(run([{ $sortByCount: '$item' }]).map(({ count }) => count)).toEqual([2, 2, 1]);
  expect(run([{ $bucket: { groupBy: '$qty', boundaries: [0, 2, 4], default: 'more' } }])).toEqual([
    { _id: 0, count: 1 },
    { _id: 2, count: 2 },
    { _id: 'more', count: 2 },
  ]);
  expect(run([{ $bucketAuto: { groupBy: '$qty', buckets: 2 } }]).map(({ count }) => count)).toEqual([3, 2]);
  expect(
    run([{ $facet: { a: [{ $count: 'n' }], b: [{ $match: { _id: 1 } }, { $project: { _id: 1 } }] } }]),
  ).toEqual([{ a: [{ n: 5 }], b: [{ _id: 1 }] }]);
  expect(
    run([
      { $match: { _id: 1 } },
      { $unionWith: { coll: 'items', pipeline: [{ $match: { _id: 'a' } }] } },
    ]).map(({ _id }) => _id),
  ).toEqual([1, 'a']);
});

test('SIM $documents, $redact and variables from outside', () => {
  expect(run([{ $documents: [{ a: 1 }, { a: 2 }] }, { $match: { a: 2 } }], null)).toEqual([{ a: 2 }]);
  expect(
    run(
      [
        { $documents: [{ a: 1, s: { hide: true, x: 1 }, t: { x: 2 } }] },
        { $redact: { $cond: ['$hide', '$$PRUNE', '$$DESCEND'] } },
      ],
      null,
    ),
  ).toEqual([{ a: 1, t: { x: 2 } }]);
  expect(
    run([{ $match: { $expr: { $eq: ['$_id', '$$want'] } } }, { $project: { w: '$$want' } }], 'db.orders', {
      let: { want: 3 },
    }),
  ).toEqual([{ _id: 3, w: 3 }]);
});

test('SIM window stages work on plain numbers', () => {
  expect(
    run([
      { $match: { item: 'a' } },
      {
        $setWindowFields: {
          sortBy: { _id: 1 },
          output: { sum: { $sum: '$qty', window: { documents: ['unbounded', 'current'] } } },
        },
      },
      { $project: { sum: 1 } },
    ]),
  ).toEqual([
    { _id: 1, sum: 2 },
    { _id: 3, sum: 4.5 },
  ]);
});

test("SIM sorting in a pipeline is the server's order", () => {
  const mixed = [
    true,
    'x',
    { a: 1 },
    null,
    new ObjectId(),
    3,
    new Date(0),
    [],
    new Binary(new Uint8Array(1)),
    new Timestamp({ t: 1, i: 1 }),
    new BSONRegExp('x'),
  ];
  const sorted = filled().aggregate(null, 'db', [
    { $documents: mixed.map((v, n) => ({ v: { $literal: v }, n })) },
    { $sort: { v: 1 } },
  ]);
  expect(sorted.map(({ n }) => plain(n))).toEqual([7, 3, 5, 1, 2, 8, 4, 0, 6, 9, 10]);
});

test.each<[Document[], number]>([
  [[{ $nope: 1 }], 40324],
  [[{ $match: {}, $limit: 1 }], 40323],
  [[{ $limit: 0 }], 15958],
  [[{ $group: {} }], 15955],
  [[{ $group: { _id: 1, a: { $nope: 1 } } }], 15952],
  [[{ $sort: {} }], 15976],
  [[{ $unwind: 'tags' }], 28818],
  [[{ $count: '' }], 40156],
  [[{ $match: {} }, { $documents: [] }], 40602],
  [[{ $facet: { a: [{ $facet: {} }] } }], 40600],
])('SIM pipeline %j is refused with %i', (pipeline, code) => {
  try {
    run(pipeline);
  } catch (error) {
    expect((error as ServerError).code).toBe(code);
    return;
  }
  throw new Error('not refused');
});

test('SIM a pipeline over a database needs a stage that makes documents', () => {
  expect(() => run([{ $match: {} }], null)).toThrow(/a collection is required/);
});
