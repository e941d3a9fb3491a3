/** Operators on sets: arrays whose order and repetitions don't count. */
import { isTruthy, typeName } from './bson.ts';
import { type Collator, valueKey } from './compare.ts';
import { isNullish, located, type OperatorTable, strict, variadic } from './expr-types.ts';

function asSet(
  value: unknown,
  collator: Collator | undefined,
  complaint: (type: string) => Error,
): Map<string, unknown> {
  if (!Array.isArray(value)) throw complaint(typeName(value));
  const set = new Map<string, unknown>();
  for (const element of value) {
    const key = valueKey(element, collator);
    if (!set.has(key)) set.set(key, element);
  }
  return set;
}

const complain = (code: number, text: string) => (type: string) => located(code, `${text}: ${type}`);

export const SETS: OperatorTable = {
  $setUnion: variadic((values, { collator }) => {
    if (values.some(isNullish)) return null;
    const sets = values.map((value) =>
      asSet(
        value,
        collator,
        complain(17043, 'All operands of $setUnion must be arrays. One argument is of type'),
      ),
    );
    return [...new Map(sets.flatMap((set) => [...set])).values()];
  }),
  $setIntersection: variadic((values, { collator }) => {
    if (values.some(isNullish)) return null;
    const [first, ...others] = values.map((value) =>
      asSet(
        value,
        collator,
        complain(17047, 'All operands of $setIntersection must be arrays. One argument is of type'),
      ),
    );
    return [...(first ?? [])]
      .filter(([key]) => others.every((set) => set.has(key)))
      .map(([, value]) => value);
  }),
  $setDifference: strict(2, 2, ([left, right], { collator }) => {
    if (isNullish(left) || isNullish(right)) return null;
    const complaint = complain(
      17048,
      'both operands of $setDifference must be arrays. An argument is of type',
    );
    const other = asSet(right, collator, complaint);
    return [...asSet(left, collator, complaint)].filter(([key]) => !other.has(key)).map(([, value]) => value);
  }),
  $setEquals: variadic((values, { collator }) => {
    const [first, ...others] = values.map((value) =>
      asSet(
        value,
        collator,
        complain(17044, 'All operands of $setEquals must be arrays. One argument is of type'),
      ),
    );
    return others.every((set) => set.size === first!.size && [...set.keys()].every((key) => first!.has(key)));
  }),
  $setIsSubset: strict(2, 2, ([left, right], { collator }) => {
    const complaint = complain(17046, 'both operands of $setIsSubset must be arrays. An argument is of type');
    const container = asSet(right, collator, complaint);
    return [...asSet(left, collator, complaint).keys()].every((key) => container.has(key));
  }),
  $allElementsTrue: strict(1, 1, ([array]) => {
    if (!Array.isArray(array))
      throw located(17040, `$allElementsTrue's argument must be an array, but is ${typeName(array)}`);
    return array.every(isTruthy);
  }),
  $anyElementTrue: strict(1, 1, ([array]) => {
    if (!Array.isArray(array))
      throw located(17041, `$anyElementTrue's argument must be an array, but is ${typeName(array)}`);
    return array.some(isTruthy);
  }),
};
