import { Decimal128, type Document, Double, Int32, Long, Timestamp } from 'bson';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { ServerError } from '../contracts.ts';
import { runUpdatePipeline } from './aggregate.ts';
import { canonicalDocument, plain } from './bson.ts';
import { identicalValues } from './compare.ts';
import { applyDiff, computeDiff, describeUpdate } from './diff.ts';
import { compileFilter } from './match.ts';
import { documents } from './test-values.ts';
import { compileUpdate } from './update.ts';
import { documentFromFilter } from './upsert.ts';

const now = new Date(1_700_000_000_000);

function update(
  before: Document,
  change: Document | Document[],
  options: { filter?: Document; arrayFilters?: Document[]; inserting?: boolean } = {},
): Document {
  const given = Array.isArray(change) ? change.map(canonicalDocument) : canonicalDocument(change);
  const arrayFilters = options.arrayFilters?.map(canonicalDocument);
  const compiled = compileUpdate(given, { arrayFilters, runPipeline: runUpdatePipeline });
  const document = canonicalDocument(before);
  const details = {};
  if (options.filter) compileFilter(canonicalDocument(options.filter))(document, details);
  return compiled.apply(document, { now, inserting: options.inserting ?? false, details });
}
function refused(before: Document, change: Document | Document[], options = {}): [number, string] {
  try {
    update(before, change, options);
  } catch (error) {
    if (error instanceof ServerError) return [error.code, error.message];
    throw error;
  }
  throw new Error('not refused');
}

test.each<[string, Document, Document, Document]>([
  ['$set nested', { a: { b: 1 } }, { $set: { 'a.c': 2 } }, { a: { b: 1, c: 2 } }],
  ['$set creates the way', {}, { $set: { 'a.b.c': 1 } }, { a: { b: { c: 1 } } }],
  ['$set in an array', { a: [1, 2] }, { $set: { 'a.1': 5 } }, { a: [1, 5] }],
  ['$set past the end pads with null', { a: [1] }, { $set: { 'a.3': 4 } }, { a: [1, null, null, 4] }],
  ['$unset', { a: 1, b: 2 }, { $unset: { a: '' } }, { b: 2 }],
  ['$unset in an array leaves null', { a: [1, 2] }, { $unset: { 'a.0': 1 } }, { a: [null, 2] }],
  ["$unset of what isn't there", { a: 1 }, { $unset: { 'b.c': 1 } }, { a: 1 }],
  ['$inc', { a: 1 }, { $inc: { a: 2, b: 3 } }, { a: 3, b: 3 }],
  ['$mul of missing is zero', {}, { $mul: { a: 3 } }, { a: 0 }],
  ['$min and $max', { a: 5, b: 5 }, { $min: { a: 3 }, $max: { b: 7 } }, { a: 3, b: 7 }],
  ['$min across types', { a: 5 }, { $min: { a: null } }, { a: null }],
  ['$rename', { a: 1, b: 2 }, { $rename: { a: 'c' } }, { b: 2, c: 1 }],
  ['$rename into a path', { a: 1 }, { $rename: { a: 'c.d' } }, { c: { d: 1 } }],
  ['$setOnInsert of an existing document', { a: 1 }, { $setOnInsert: { b: 1 } }, { a: 1 }],
  ['$push', { a: [1] }, { $push: { a: 2 } }, { a: [1, 2] }],
  ['$push makes the array', {}, { $push: { a: 2 } }, { a: [2] }],
  [
    '$push $each $position',
    { a: [1, 4] },
    { $push: { a: { $each: [2, 3], $position: 1 } } },
    { a: [1, 2, 3, 4] },
  ],
  [
    '$push $sort $slice',
    { a: [3, 1] },
    { $push: { a: { $each: [2], $sort: -1, $slice: 2 } } },
    { a: [3, 2] },
  ],
  [
    '$push $sort by field',
    { a: [{ x: 2 }] },
    { $push: { a: { $each: [{ x: 1 }], $sort: { x: 1 } } } },
    { a: [{ x: 1 }, { x: 2 }] },
  ],
  ['$push negative $slice', { a: [1, 2] }, { $push: { a: { $each: [3], $slice: -2 } } }, { a: [2, 3] }],
  ['$addToSet', { a: [1] }, { $addToSet: { a: { $each: [1, 2, 2] } } }, { a: [1, 2] }],
  ['$pull by value', { a: [1, 2, 1] }, { $pull: { a: 1 } }, { a: [2] }],
  ['$pull by condition', { a: [1, 5, 9] }, { $pull: { a: { $gt: 4 } } }, { a: [1] }],
  ['$pull documents', { a: [{ x: 1, y: 1 }, { x: 2 }] }, { $pull: { a: { x: 1 } } }, { a: [{ x: 2 }] }],
  ['$pullAll', { a: [1, 2, 3] }, { $pullAll: { a: [1, 3] } }, { a: [2] }],
  ['$pop last and first', { a: [1, 2], b: [1, 2] }, { $pop: { a: 1, b: -1 } }, { a: [1], b: [2] }],
  ['$bit', { a: 13 }, { $bit: { a: { and: 10 } } }, { a: 8 }],
  ['replacement keeps the id first', { _id: 1, a: 1 }, { b: 2 }, { _id: 1, b: 2 }],
  [
    'new fields come in the order of their names',
    { _id: 1 },
    { $set: { z: 1, b: 2, 'a.10': 1, 'a.9': 2 } },
    { _id: 1, a: { 9: 2, 10: 1 }, b: 2, z: 1 },
  ],
])('SIM updates: %s', (_title, before, change, after) => {
  expect(plain(update(before, change))).toEqual(after);
  expect(Object.keys(update(before, change))).toEqual(Object.keys(after));
});

test('SIM updates keep number types: int to long on overflow, double and decimal win', () => {
  const inc = (a: unknown, by: unknown) => update({ a }, { $inc: { a: by } })['a'];
  expect(inc(new Int32(1), new Int32(1))).toEqual(new Int32(2));
  expect(inc(new Int32(1), Long.fromNumber(1))).toEqual(Long.fromNumber(2));
  expect(inc(new Int32(2147483647), new Int32(1))).toEqual(Long.fromNumber(2147483648));
  expect(inc(new Int32(1), new Double(0.5))).toEqual(new Double(1.5));
  expect(inc(new Int32(1), Decimal128.fromString('0.1'))).toEqual(Decimal128.fromString('1.1'));
  expect(inc(Long.fromString('9007199254740993'), new Int32(1))).toEqual(Long.fromString('9007199254740994'));
  expect(update({ a: 3 }, { $mul: { a: Long.fromNumber(2) } })['a']).toEqual(Long.fromNumber(6));
});

test('SIM an update that changes nothing gives the same document back', () => {
  const document = canonicalDocument({ _id: 1, a: { b: [1] } });
  const apply = (change: Document) =>
    compileUpdate(canonicalDocument(change), { runPipeline: runUpdatePipeline }).apply(document, {
      now,
      inserting: false,
    });
  for (const change of [
    { $set: { 'a.b': [1] } },
    { $inc: { n: 0 } },
    { $addToSet: { 'a.b': 1 } },
    { $unset: { x: 1 } },
    { $pull: { 'a.b': 7 } },
    { a: { b: [1] } },
  ]) {
    const same = apply(change) === document;
    expect(same, JSON.stringify(change)).toBe(!('$inc' in change));
  }
});

test('SIM positions in arrays: $, $[], $[name]', () => {
  const before = { _id: 1, a: [{ x: 1 }, { x: 2 }, { x: 3 }] };
  expect(plain(update(before, { $set: { 'a.$.y': 1 } }, { filter: { 'a.x': 2 } }))).toEqual({
    _id: 1,
    a: [{ x: 1 }, { x: 2, y: 1 }, { x: 3 }],
  });
  expect(plain(update(before, { $inc: { 'a.$[].x': 10 } }))).toEqual({
    _id: 1,
    a: [{ x: 11 }, { x: 12 }, { x: 13 }],
  });
  expect(
    plain(update(before, { $set: { 'a.$[e].x': 0 } }, { arrayFilters: [{ 'e.x': { $gte: 2 } }] })),
  ).toEqual({
    _id: 1,
    a: [{ x: 1 }, { x: 0 }, { x: 0 }],
  });
});

test('SIM $currentDate gives dates and timestamps', () => {
  const after = update({}, { $currentDate: { a: true, b: { $type: 'timestamp' } } });
  expect(after['a']).toEqual(now);
  expect(after['b']).toEqual(new Timestamp({ t: 1_700_000_000, i: 1 }));
});

test("SIM pipelines update with the document's own fields", () => {
  expect(
    plain(update({ _id: 1, a: 2, b: 3 }, [{ $set: { c: { $add: ['$a', '$b'] } } }, { $unset: 'a' }])),
  ).toEqual({
    _id: 1,
    b: 3,
    c: 5,
  });
  expect(refused({}, [{ $match: {} }])[0]).toBe(72);
});

test.each<[Document, Document | Document[], number, string, object?]>([
  [
    {},
    { $foo: { a: 1 } },
    9,
    'Unknown modifier: $foo. Expected a valid update modifier or pipeline-style update specified as an array',
  ],
  [
    {},
    { $set: 5 },
    9,
    'Modifiers operate on fields but we found type int instead. For example: {$mod: {<field>: ...}} not {$set: 5}',
  ],
  [{}, { $set: { a: 1 }, $inc: { a: 1 } }, 40, "Updating the path 'a' would create a conflict at 'a'"],
  [{}, { $set: { 'a.b': 1, a: 2 } }, 40, "Updating the path 'a' would create a conflict at 'a'"],
  [
    { _id: 1 },
    { $set: { _id: 2 } },
    66,
    "Performing an update on the path '_id' would modify the immutable field '_id'",
  ],
  [
    { _id: 1 },
    { _id: 2, a: 1 },
    66,
    "After applying the update, the (immutable) field '_id' was found to have been altered to _id: 2",
  ],
  [
    { _id: 1, a: 'x' },
    { $inc: { a: 1 } },
    14,
    "Cannot apply $inc to a value of non-numeric type. {_id: 1} has the field 'a' of non-numeric type string",
  ],
  [{}, { $inc: { a: 'x' } }, 14, 'Cannot increment with non-numeric argument: {a: "x"}'],
  [{ a: 5 }, { $set: { 'a.b': 1 } }, 28, "Cannot create field 'b' in element {a: 5}"],
  [
    { _id: 1, a: 5 },
    { $push: { a: 1 } },
    2,
    "The field 'a' must be an array but is of type int in document {_id: 1}",
  ],
  [
    { a: 5 },
    { $addToSet: { a: 1 } },
    2,
    "Cannot apply $addToSet to non-array field. Field named 'a' has non-array type int",
  ],
  [{ a: 5 }, { $pull: { a: 1 } }, 2, 'Cannot apply $pull to a non-array value'],
  [{ a: 5 }, { $pop: { a: 1 } }, 14, "Path 'a' contains an element of non-array type 'int'"],
  [{ a: [] }, { $pop: { a: 5 } }, 9, '$pop expects 1 or -1, found: 5'],
  [
    { a: [1] },
    { $set: { 'a.$': 1 } },
    2,
    'The positional operator did not find the match needed from the query.',
  ],
  [{}, { $set: { 'a.$[e]': 1 } }, 2, "No array filter found for identifier 'e' in path 'a.$[e]'"],
  [
    {},
    { $set: { 'a.$[]': 1 } },
    2,
    "The path 'a' must exist in the document in order to apply array updates.",
  ],
  [
    {},
    { $set: { a: 1 } },
    9,
    "The array filter for identifier 'e' was not used in the update { $set: { a: 1 } }",
    { arrayFilters: [{ e: 1 }] },
  ],
  [{}, { a: 1, $set: { b: 1 } }, 52, "The dollar ($) prefixed field '$set' in '$set' is not allowed"],
  [
    {},
    { $set: { 'a..b': 1 } },
    56,
    "The update path 'a..b' contains an empty field name, which is not allowed.",
  ],
  [{}, { $currentDate: { a: 5 } }, 2, 'int is not valid type for $currentDate.'],
  [
    { a: Long.MAX_VALUE },
    { $inc: { a: 1 } },
    2,
    'Failed to apply $inc operations to current value ((NumberLong)9223372036854775807)',
  ],
])('SIM update of %j by %j is refused', (before, change, code, message, options) => {
  const [actual, text] = refused(before, change, options);
  expect(text).toContain(message);
  expect(actual).toBe(code);
});

test('SIM an upsert starts from the equalities of the filter', () => {
  const start = (filter: Document) => plain(documentFromFilter(canonicalDocument(filter)));
  expect(start({ a: 1, 'b.c': 2, d: { $gt: 3 }, _id: 7 })).toEqual({ _id: 7, a: 1, b: { c: 2 } });
  expect(start({ $and: [{ a: { $eq: 1 } }, { b: { $in: [2] } }], $or: [{ c: 3 }] })).toEqual({
    a: 1,
    b: 2,
    c: 3,
  });
  expect(start({ $or: [{ a: 1 }, { a: 2 }], b: /x/ })).toEqual({});
  expect(() => start({ a: 1, $and: [{ a: 2 }] })).toThrow(/matched twice/);
});

test('SIM a diff applied to the old document gives the new one, once or twice', () => {
  fc.assert(
    fc.property(documents, documents, (before, after) => {
      const diff = computeDiff(before, after);
      const once = applyDiff(before, diff);
      expect(identicalValues(once, after)).toBe(true);
      expect(identicalValues(applyDiff(once, diff), after)).toBe(true);
      if (identicalValues(before, after)) expect(diff).toEqual({});
    }),
    { numRuns: 2_000 },
  );
});

test('SIM diffs tell change streams what changed', () => {
  const before = canonicalDocument({ a: 1, b: { c: 1, d: 2 }, e: [1, 2, 3] });
  const after = canonicalDocument({ a: 2, b: { d: 2, x: 1 }, e: [1, 9] });
  const described = describeUpdate({ $v: 2, diff: computeDiff(before, after) });
  expect(plain(described.updatedFields)).toEqual({ a: 2, 'b.x': 1, 'e.1': 9 });
  expect(described.removedFields).toEqual(['b.c']);
  expect(described.truncatedArrays).toEqual([{ field: 'e', newSize: 2 }]);
});
