import {
  Binary,
  BSONRegExp,
  Decimal128,
  type Document,
  Double,
  Int32,
  Long,
  MaxKey,
  MinKey,
  ObjectId,
  Timestamp,
} from 'bson';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { canonical, decode, encode, plain, render } from './bson.ts';
import {
  collatorOf,
  compareStrings,
  compareValues,
  equalValues,
  identicalValues,
  valueKey,
} from './compare.ts';
import { compileSort } from './sort.ts';
import { values } from './test-values.ts';

const sign = (order: number): number => Math.sign(order) + 0;

test('SIM the order of BSON values is total: reflexive, antisymmetric, transitive', () => {
  fc.assert(
    fc.property(values, values, values, (a, b, c) => {
      expect(compareValues(a, a)).toBe(0);
      expect(sign(compareValues(a, b))).toBe(sign(-compareValues(b, a)));
      const [x, y, z] = [a, b, c].toSorted((left, right) => compareValues(left, right));
      expect(compareValues(x, y)).toBeLessThanOrEqual(0);
      expect(compareValues(y, z)).toBeLessThanOrEqual(0);
      expect(compareValues(x, z)).toBeLessThanOrEqual(0);
    }),
    { numRuns: 1_000 },
  );
});

test('SIM two values have the same key exactly when they are equal', () => {
  fc.assert(
    fc.property(values, values, (a, b) => {
      expect(valueKey(a) === valueKey(b)).toBe(equalValues(a, b));
    }),
    { numRuns: 2_000 },
  );
});

test('SIM identical values are equal, and writing and reading back gives identical values', () => {
  fc.assert(
    fc.property(values, values, (a, b) => {
      if (identicalValues(a, b)) expect(equalValues(a, b)).toBe(true);
      expect(identicalValues(decode(encode({ a }))['a'], a)).toBe(true);
    }),
    { numRuns: 500 },
  );
});

test("SIM brackets come in the server's order", () => {
  const ordered: unknown[] = [
    new MinKey(),
    undefined,
    null,
    new Double(Number.NaN),
    new Double(-Infinity),
    new Int32(1),
    'text',
    {},
    [],
    new Binary(new Uint8Array(1)),
    new ObjectId('000000000000000000000000'),
    false,
    true,
    new Date(0),
    new Timestamp({ t: 0, i: 1 }),
    new BSONRegExp('a'),
    new MaxKey(),
  ];
  for (let index = 1; index < ordered.length; index++) {
    expect(compareValues(ordered[index - 1], ordered[index]), `place ${index}`).toBeLessThan(0);
  }
});

test('SIM numbers of all types compare by exact value', () => {
  const big = Long.fromString('9007199254740993');
  expect(compareValues(new Int32(1), Decimal128.fromString('1.0'))).toBe(0);
  expect(compareValues(big, new Double(2 ** 53))).toBeGreaterThan(0);
  expect(compareValues(big, Decimal128.fromString('9007199254740993'))).toBe(0);
  expect(compareValues(new Double(0.1), Decimal128.fromString('0.1'))).toBeGreaterThan(0);
  expect(compareValues(Decimal128.fromString('1E+6000'), new Double(Infinity))).toBeLessThan(0);
  expect(compareValues(new Double(-0), new Int32(0))).toBe(0);
});

test('SIM strings order by code point, not by UTF-16 unit', () => {
  expect('\u{1f600}' < '\ue000').toBe(true);
  expect(compareStrings('\u{1f600}', '\ue000')).toBeGreaterThan(0);
});

test('SIM documents compare field by field: type, name, value', () => {
  expect(compareValues({ a: 1 }, { b: 0 })).toBeLessThan(0);
  expect(compareValues({ b: 1 }, { a: 'x' })).toBeLessThan(0);
  expect(compareValues({ a: 1, b: 2 }, { b: 2, a: 1 })).not.toBe(0);
});

test('SIM collation strength decides what case and accents mean', () => {
  const first = collatorOf({ locale: 'en', strength: 1 });
  const second = collatorOf({ locale: 'en', strength: 2 });
  expect(equalValues('résumé', 'RESUME', first)).toBe(true);
  expect(equalValues('résumé', 'RESUME', second)).toBe(false);
  expect(equalValues('a', 'A', second)).toBe(true);
  expect(valueKey('a', second)).toBe(valueKey('A', second));
  expect(collatorOf({ locale: 'simple' })).toBeUndefined();
  expect(() => collatorOf({ locale: 'xxx-bad-locale!' })).toThrow(/Field 'locale' is invalid/);
});

test('SIM sorting takes the least element of arrays ascending, the greatest descending', () => {
  const documents: Document[] = [{ a: [3, 5] }, { a: 4 }, { a: [] }, {}, { a: 'x' }];
  const by = (spec: Document) => documents.toSorted(compileSort(spec)).map(({ a }) => a);
  expect(by({ a: 1 })).toEqual([[], undefined, [3, 5], 4, 'x']);
  expect(by({ a: -1 })).toEqual(['x', [3, 5], 4, undefined, []]);
});

test('SIM canonical form keeps what is canonical and wraps plain numbers', () => {
  const document = { a: new Int32(1), b: ['x', null] };
  expect(canonical(document)).toBe(document);
  expect(canonical({ a: 1, b: 1.5, c: undefined, d: [2n] })).toEqual({
    a: new Int32(1),
    b: new Double(1.5),
    d: [Long.fromNumber(2)],
  });
  expect(plain(canonical({ a: 1, b: { c: [2.5, 3n] } }))).toEqual({ a: 1, b: { c: [2.5, 3] } });
});

test('SIM deep plain values become canonical in one walk', () => {
  let deep: unknown = 1;
  for (let level = 0; level < 60; level++) deep = level % 2 === 0 ? { deep } : [deep];
  expect(plain(canonical(deep))).toEqual(deep);
});

test('SIM values print as the server prints them', () => {
  expect(render({ _id: new Int32(1), b: 'x', c: [new Double(1)], d: null })).toBe(
    '{ _id: 1, b: "x", c: [ 1.0 ], d: null }',
  );
  expect(render({ _id: new ObjectId('0123456789abcdef01234567') })).toBe(
    "{ _id: ObjectId('0123456789abcdef01234567') }",
  );
});
