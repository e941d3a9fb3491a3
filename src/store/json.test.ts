import fc from 'fast-check';
import { expect, test } from 'vitest';
import { plainJson } from './json.ts';

const anything = fc.anything({ withNullPrototype: true, withDate: true, withSparseArray: true });

/** Everything in it is frozen. */
const isFixed = (value: unknown): boolean =>
  typeof value !== 'object' ||
  value === null ||
  (Object.isFrozen(value) && Object.values(value).every(isFixed));

test('A2.1 a value is stored as its JSON text would give it back, and nobody can change it any more', () => {
  fc.assert(
    fc.property(anything, (value) => {
      const stored = plainJson(value, 'it', 1_000_000);
      expect(stored).toEqual(JSON.parse(JSON.stringify(value) ?? 'null'));
      expect(Object.is(stored, -0)).toBe(false);
      expect(isFixed(stored)).toBe(true);
    }),
    { numRuns: 500 },
  );
  const odd = JSON.parse('{"__proto__": {"a": 1}, "toString": 2}');
  expect(JSON.stringify(plainJson(odd, 'it', 1_000))).toBe(JSON.stringify(odd));
});

test('A2.1 a value is refused exactly when its text has more bytes than are allowed', () => {
  const text = fc.string({ unit: 'binary', maxLength: 40 });
  fc.assert(
    fc.property(
      fc.dictionary(text, fc.oneof(text, fc.double(), fc.array(text))),
      fc.nat(200),
      (value, limit) => {
        const bytes = new TextEncoder().encode(JSON.stringify(value)).length;
        const store = () => plainJson(value, 'it', limit);
        if (bytes > limit) expect(store).toThrow(/it/);
        else expect(store()).toEqual(JSON.parse(JSON.stringify(value)));
      },
    ),
    { numRuns: 500 },
  );
});
