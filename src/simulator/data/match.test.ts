import { BSONRegExp, Decimal128, type Document, Int32, Long, MinKey } from 'bson';
import fc from 'fast-check';
import { Query } from 'mingo';
import { expect, test } from 'vitest';
import { ServerError } from '../contracts.ts';
import { canonicalDocument } from './bson.ts';
import { compileFilter } from './match.ts';
import { values } from './test-values.ts';

const matches = (filter: Document, document: Document): boolean =>
  compileFilter(canonicalDocument(filter))(canonicalDocument(document));
const refusal = (filter: Document): [number, string] => {
  try {
    compileFilter(canonicalDocument(filter));
  } catch (error) {
    if (error instanceof ServerError) return [error.code, error.message];
  }
  throw new Error('not refused');
};

const YES: readonly [string, Document, Document][] = [
  ['equality across numeric types', { a: 1 }, { a: Long.fromNumber(1) }],
  ['equality with decimals', { a: 0.5 }, { a: Decimal128.fromString('0.5') }],
  ['an element of an array', { a: 2 }, { a: [1, 2] }],
  ['a whole array', { a: [1, 2] }, { a: [1, 2] }],
  ['null is missing', { a: null }, {}],
  ['null through a scalar', { 'a.b': null }, { a: 5 }],
  ['paths through arrays', { 'a.b': 2 }, { a: [{ b: 1 }, { b: 2 }] }],
  ['positions in arrays', { 'a.1.b': 2 }, { a: [{ b: 1 }, { b: 2 }] }],
  ['nested arrays by position', { 'a.0.1': 2 }, { a: [[1, 2]] }],
  ['comparison inside one bracket', { a: { $gt: 1 } }, { a: 2 }],
  ['$gte null finds missing', { a: { $gte: null } }, {}],
  ['$gt MinKey finds anything there', { a: { $gt: new MinKey() } }, { a: 'x' }],
  ['different elements for two conditions', { a: { $gt: 4, $lt: 2 } }, { a: [1, 5] }],
  ['$in with regex', { a: { $in: [/^x/, 3] } }, { a: 'xy' }],
  ['$nin of missing', { a: { $nin: [1] } }, {}],
  ['$ne over arrays', { a: { $ne: 3 } }, { a: [1, 2] }],
  ['$not with operators', { a: { $not: { $gt: 5 } } }, { a: 3 }],
  ['$not of missing', { a: { $not: { $gt: 5 } } }, {}],
  ['$exists with null', { a: { $exists: true } }, { a: null }],
  ['$exists false', { a: { $exists: false } }, { b: 1 }],
  ['$exists false through empty array', { 'a.b': { $exists: false } }, { a: [] }],
  ['$type by alias', { a: { $type: 'long' } }, { a: Long.fromNumber(1) }],
  ['$type number', { a: { $type: 'number' } }, { a: Decimal128.fromString('1') }],
  ['$type array', { a: { $type: 'array' } }, { a: [] }],
  ['$type by number of elements', { a: { $type: 2 } }, { a: [1, 'x'] }],
  ['$mod', { a: { $mod: [4, 1] } }, { a: 5.7 }],
  ['$regex with options', { a: { $regex: 'ABC', $options: 'i' } }, { a: 'xabcx' }],
  ['a regular expression value', { a: new BSONRegExp('^a', '') }, { a: ['b', 'ab'] }],
  ['$all', { a: { $all: [1, 2] } }, { a: [2, 1, 3] }],
  ['$all with a scalar', { a: { $all: [1] } }, { a: 1 }],
  [
    '$all with $elemMatch',
    { a: { $all: [{ $elemMatch: { b: 1 } }, { $elemMatch: { b: 2 } }] } },
    { a: [{ b: 1 }, { b: 2 }] },
  ],
  [
    '$elemMatch on documents',
    { a: { $elemMatch: { b: 1, c: 2 } } },
    {
      a: [
        { b: 1, c: 3 },
        { b: 1, c: 2 },
      ],
    },
  ],
  ['$elemMatch on values', { a: { $elemMatch: { $gt: 1, $lt: 3 } } }, { a: [0, 2] }],
  ['$size', { a: { $size: 2 } }, { a: [1, 2] }],
  ['$bitsAllSet', { a: { $bitsAllSet: [0, 2] } }, { a: 5 }],
  ['$bitsAnyClear by mask', { a: { $bitsAnyClear: 6 } }, { a: 2 }],
  ['$and, $or, $nor', { $and: [{ a: 1 }, { $or: [{ b: 1 }, { b: 2 }] }], $nor: [{ c: 1 }] }, { a: 1, b: 2 }],
  ['$expr', { $expr: { $gt: ['$a', '$b'] } }, { a: 2, b: 1 }],
  [
    '$jsonSchema',
    { $jsonSchema: { required: ['a'], properties: { a: { bsonType: 'int', minimum: 1 } } } },
    { a: 1 },
  ],
  ['$comment is nothing', { $comment: 'x', a: 1 }, { a: 1 }],
  ['NaN equals NaN', { a: Number.NaN }, { a: Number.NaN }],
  ['a document by value', { a: { b: 1 } }, { a: { b: 1 } }],
];
test.each(YES)('SIM filters: %s', (_title, filter, document) => {
  expect(matches(filter, document)).toBe(true);
});

const NO: readonly [string, Document, Document][] = [
  ['other brackets', { a: { $gt: 1 } }, { a: 'x' }],
  ['missing is not less than a number', { a: { $lt: 1 } }, {}],
  ['null through an empty array', { 'a.b': null }, { a: [] }],
  ['null through scalars in an array', { 'a.b': null }, { a: [1, 2] }],
  ['one element for $elemMatch', { a: { $elemMatch: { $gt: 4, $lt: 2 } } }, { a: [1, 5] }],
  ['field order of documents', { a: { b: 1, c: 2 } }, { a: { c: 2, b: 1 } }],
  ['$not over both conditions of different elements', { a: { $not: { $gt: 4, $lt: 2 } } }, { a: [1, 5] }],
  ['$ne when an element is equal', { a: { $ne: 1 } }, { a: [1, 2] }],
  ['$all of nothing', { a: { $all: [] } }, { a: [] }],
  ['$size of a scalar', { a: { $size: 1 } }, { a: 1 }],
  ['NaN has no order', { a: { $lt: 5 } }, { a: Number.NaN }],
  ['inherited names', { constructor: { $exists: true } }, {}],
  ['$jsonSchema with a wrong type', { $jsonSchema: { properties: { a: { bsonType: 'string' } } } }, { a: 1 }],
];
test.each(NO)("SIM filters don't match: %s", (_title, filter, document) => {
  expect(matches(filter, document)).toBe(false);
});

test.each<[Document, number, string]>([
  [{ a: { $foo: 1 } }, 2, 'unknown operator: $foo'],
  [{ $foo: 1 }, 2, 'unknown top level operator: $foo'],
  [{ a: { $in: 1 } }, 2, '$in needs an array'],
  [{ $and: [] }, 2, '$and/$or/$nor must be a nonempty array'],
  [{ a: { $type: 'nope' } }, 2, 'Unknown type name alias: nope'],
  [{ a: { $regex: '(' } }, 51091, 'Regular expression is invalid'],
  [{ a: { $mod: [0, 1] } }, 2, 'divisor cannot be 0'],
  [{ a: { $near: [1, 2] } }, 291, 'unable to find index for $geoNear query'],
  [{ $text: { $search: 'x' } }, 27, 'text index required for $text query'],
  [{ a: { $not: 1 } }, 2, '$not needs a regex or a document'],
  [{ $expr: { $nope: 1 } }, 168, "Unrecognized expression '$nope'"],
])("SIM %j is refused with the server's error", (filter, code, message) => {
  const [actual, text] = refusal(filter);
  expect(actual).toBe(code);
  expect(text).toContain(message);
});

test.each<[string, Document, unknown, boolean]>([
  ['bsonType', { bsonType: ['int', 'null'] }, null, true],
  ['enum', { enum: [1, 'x'] }, Long.fromNumber(1), true],
  ['exclusive minimum', { minimum: 3, exclusiveMinimum: true }, 3, false],
  ['maximum', { maximum: 3 }, 3, true],
  ['numbers say nothing about strings', { maximum: 3 }, 'x', true],
  ['pattern', { pattern: '^a' }, 'ba', false],
  ['maxLength counts code points', { maxLength: 1 }, '\u{1f600}', true],
  ['items', { items: { bsonType: 'int' } }, [1, 'x'], false],
  ['uniqueItems', { uniqueItems: true }, [1, Long.fromNumber(1)], false],
  ['additionalProperties', { properties: { a: {} }, additionalProperties: false }, { a: 1, b: 1 }, false],
  ['patternProperties', { patternProperties: { '^n': { bsonType: 'int' } } }, { n1: 'x' }, false],
  ['dependencies', { dependencies: { a: ['b'] } }, { a: 1 }, false],
  ['oneOf', { oneOf: [{ minimum: 1 }, { minimum: 2 }] }, 1, true],
  ['not', { not: { bsonType: 'int' } }, 1, false],
])('SIM schemas: %s', (_title, schema, value, holds) => {
  expect(matches({ $jsonSchema: { properties: { v: schema } } }, { v: value })).toBe(holds);
});

test('SIM the position of the matching element is told', () => {
  const position = (filter: Document, document: Document) => {
    const details: { index?: number } = {};
    compileFilter(canonicalDocument(filter))(canonicalDocument(document), details);
    return details.index;
  };
  expect(position({ a: 2 }, { a: [1, 2] })).toBe(1);
  expect(position({ 'a.b': { $gt: 1 } }, { a: [{ b: 1 }, { b: 2 }] })).toBe(1);
  expect(position({ a: { $elemMatch: { b: 3 } } }, { a: [{ b: 1 }, { b: 2 }, { b: 3 }] })).toBe(2);
});

const simple = fc.oneof(fc.integer({ min: 0, max: 4 }), fc.constantFrom('a', 'b', 'c'), fc.boolean());
const field = fc.oneof(simple, fc.array(simple, { minLength: 1, maxLength: 3 }));
const plainDocuments = fc.record({ a: field, b: field }, { requiredKeys: [] });
const condition = fc.oneof(
  simple,
  fc.record({ $eq: simple }),
  fc.record({ $ne: simple }),
  fc.record({ $gt: fc.integer({ min: 0, max: 4 }) }),
  fc.record({ $lte: fc.integer({ min: 0, max: 4 }) }),
  fc.record({ $in: fc.array(simple, { maxLength: 3 }) }),
  fc.record({ $nin: fc.array(simple, { maxLength: 3 }) }),
  fc.record({ $exists: fc.boolean() }),
  fc.record({ $not: fc.record({ $gt: fc.integer({ min: 0, max: 4 }) }) }),
  fc.record({ $size: fc.integer({ min: 1, max: 3 }) }),
);
// Without `$all`: the other implementation wants an array there, the server takes a scalar too.
const filters = fc.oneof(
  fc.record({ a: condition }),
  fc.record({ a: condition, b: condition }),
  fc.record({ $or: fc.array(fc.record({ a: condition }), { minLength: 1, maxLength: 2 }) }),
  fc.record({ $nor: fc.array(fc.record({ b: condition }), { minLength: 1, maxLength: 2 }) }),
);

test('SIM on simple values the matcher agrees with another implementation', () => {
  fc.assert(
    fc.property(filters, plainDocuments, (filter, document) => {
      expect(matches(filter, document)).toBe(new Query(filter).test(document));
    }),
    { numRuns: 1_500 },
  );
});

test('SIM every stored value is found by equality and by $in, and not by $ne', () => {
  fc.assert(
    fc.property(values, (value) => {
      if (value instanceof BSONRegExp) return;
      const document = { a: value, n: new Int32(1) };
      expect(compileFilter({ a: { $eq: value } })(document)).toBe(true);
      expect(compileFilter({ a: { $in: [value] } })(document)).toBe(true);
      expect(compileFilter({ a: { $ne: value } })(document)).toBe(false);
    }),
  );
});
