/** Operators on arrays. */
import { type Document, Int32 } from 'bson';
import { ServerError } from '../contracts.ts';
import { isDocument, isTruthy, render, toInteger, toNumber, typeName } from './bson.ts';
import { type Collator, compareValues, equalValues } from './compare.ts';
import {
  compileNamed,
  isNullish,
  located,
  named,
  type OperatorCompiler,
  type OperatorTable,
  type Scope,
  strict,
  variadic,
} from './expr-types.ts';
import { compileSort } from './sort.ts';

function arrayElemAt([array, index]: readonly unknown[]): unknown {
  if (isNullish(array) || isNullish(index)) return null;
  if (!Array.isArray(array)) {
    throw located(28689, `$arrayElemAt's first argument must be an array, but is ${typeName(array)}`);
  }
  const at = toInteger(index);
  if (at === undefined) {
    throw located(28690, `$arrayElemAt's second argument must be a numeric value, but is ${typeName(index)}`);
  }
  return array.at(at);
}

function arrayToObject([array]: readonly unknown[]): unknown {
  if (isNullish(array)) return null;
  if (!Array.isArray(array)) {
    throw located(40386, `$arrayToObject requires an array input, found: ${typeName(array)}`);
  }
  const entries = array.map((entry): [string, unknown] => {
    const [key, value] = Array.isArray(entry)
      ? entry
      : isDocument(entry)
        ? [entry['k'], entry['v']]
        : [undefined];
    if (typeof key !== 'string') {
      throw located(
        40394,
        `$arrayToObject requires an array of key-value pairs, where the key must be of type string. Found key type: ${typeName(key)}`,
      );
    }
    return [key, value ?? null];
  });
  return Object.fromEntries(entries);
}

function concatArrays(values: readonly unknown[]): unknown {
  if (values.some(isNullish)) return null;
  const wrong = values.find((value) => !Array.isArray(value));
  if (wrong !== undefined) throw located(28664, `$concatArrays only supports arrays, not ${typeName(wrong)}`);
  return values.flat();
}

/** `$filter`, `$map`: a variable over the elements of `input`. */
function withElement(scope: Scope, name: string, element: unknown): Scope {
  return { ...scope, variables: { ...scope.variables, [name]: element } };
}

function variableName(operand: unknown): string {
  const name = isDocument(operand) ? operand['as'] : undefined;
  return typeof name === 'string' ? name : 'this';
}

function withoutAs(operand: unknown): unknown {
  if (!isDocument(operand)) return operand;
  const { as: _as, ...rest } = operand;
  return rest;
}

const compileFilterArray: OperatorCompiler = (operand, compile, name) => {
  const variable = variableName(operand);
  const parts = compileNamed(withoutAs(operand), compile, name, ['input', 'cond'], ['limit']);
  return (scope) => {
    const input = parts['input']!(scope);
    if (isNullish(input)) return null;
    if (!Array.isArray(input))
      throw located(28651, `input to $filter must be an array not ${typeName(input)}`);
    const given = parts['limit']?.(scope);
    const limit = isNullish(given) ? Number.POSITIVE_INFINITY : (toInteger(given) ?? 0);
    if (limit <= 0) throw located(327392, '$filter: limit must be greater than 0');
    const kept: unknown[] = [];
    for (const element of input) {
      if (kept.length >= limit) break;
      if (isTruthy(parts['cond']!(withElement(scope, variable, element)))) kept.push(element);
    }
    return kept;
  };
};

const compileMap: OperatorCompiler = (operand, compile, name) => {
  const variable = variableName(operand);
  const parts = compileNamed(withoutAs(operand), compile, name, ['input', 'in'], []);
  return (scope) => {
    const input = parts['input']!(scope);
    if (isNullish(input)) return null;
    if (!Array.isArray(input)) throw located(16883, `input to $map must be an array not ${typeName(input)}`);
    return input.map((element) => parts['in']!(withElement(scope, variable, element)) ?? null);
  };
};

const compileReduce: OperatorCompiler = (operand, compile, name) => {
  const parts = compileNamed(operand, compile, name, ['input', 'initialValue', 'in'], []);
  return (scope) => {
    const input = parts['input']!(scope);
    if (isNullish(input)) return null;
    if (!Array.isArray(input)) {
      throw located(40080, `$reduce requires that 'input' be an array, found: ${render(input)}`);
    }
    return input.reduce<unknown>(
      (value, element) => parts['in']!({ ...scope, variables: { ...scope.variables, value, this: element } }),
      parts['initialValue']!(scope),
    );
  };
};

function isIn([value, array]: readonly unknown[], scope: Scope): boolean {
  if (!Array.isArray(array)) {
    throw located(40081, `$in requires an array as a second argument, found: ${typeName(array)}`);
  }
  return array.some((element) => equalValues(element, value, scope.collator));
}

function indexOfArray([array, value, start, end]: readonly unknown[], scope: Scope): unknown {
  if (isNullish(array)) return null;
  if (!Array.isArray(array)) {
    throw located(40090, `$indexOfArray requires an array as a first argument, found: ${typeName(array)}`);
  }
  const from = start === undefined ? 0 : (toInteger(start) ?? 0);
  const to = end === undefined ? array.length : Math.min(array.length, toInteger(end) ?? array.length);
  for (let index = from; index < to; index++) {
    if (equalValues(array[index], value, scope.collator)) return new Int32(index);
  }
  return new Int32(-1);
}

const endOf = (which: 'first' | 'last'): OperatorCompiler =>
  strict(1, 1, ([array], _scope, name) => {
    if (isNullish(array)) return null;
    if (!Array.isArray(array))
      throw located(28689, `${name}'s argument must be an array, but is ${typeName(array)}`);
    return array.at(which === 'first' ? 0 : -1);
  });

function range([from, to, by]: readonly unknown[]): unknown {
  const [start, end, step] = [toInteger(from), toInteger(to), by === undefined ? 1 : toInteger(by)];
  if (start === undefined)
    throw located(34443, `$range requires a numeric starting value, found value of type: ${typeName(from)}`);
  if (end === undefined)
    throw located(34445, `$range requires a numeric ending value, found value of type: ${typeName(to)}`);
  if (step === undefined)
    throw located(34447, `$range requires a numeric step value, found value of type: ${typeName(by)}`);
  if (step === 0) throw located(34449, '$range requires a non-zero step value');
  const values: Int32[] = [];
  for (let value = start; step > 0 ? value < end : value > end; value += step) values.push(new Int32(value));
  return values;
}

function sliceArray([array, second, third]: readonly unknown[]): unknown {
  if (isNullish(array) || isNullish(second) || third === null) return null;
  if (!Array.isArray(array)) {
    throw located(28724, `First argument to $slice must be an array, but is of type: ${typeName(array)}`);
  }
  const first = toInteger(second);
  if (first === undefined)
    throw located(
      28725,
      `Second argument to $slice must be a numeric value, but is of type: ${typeName(second)}`,
    );
  if (third === undefined) return first < 0 ? array.slice(first) : array.slice(0, first);
  const count = toInteger(third);
  if (count === undefined)
    throw located(28727, `Third argument to $slice must be numeric, but is of type: ${typeName(third)}`);
  if (count <= 0) throw located(28729, `Third argument to $slice must be positive: ${count}`);
  const from = first < 0 ? Math.max(0, array.length + first) : first;
  return array.slice(from, from + count);
}

/** Compares by a sort document, or whole values for 1 and -1. */
function elementOrder(sortBy: unknown, collator: Collator | undefined): (a: unknown, b: unknown) => number {
  if (isDocument(sortBy)) {
    const compare = compileSort(sortBy, collator);
    const asDocument = (value: unknown): Document => (isDocument(value) ? value : {});
    return (a, b) => compare(asDocument(a), asDocument(b));
  }
  const direction = toNumber(sortBy) === -1 ? -1 : 1;
  return (a, b) => direction * compareValues(a, b, collator);
}

const compileSortArray: OperatorCompiler = (operand, compile) => {
  if (!isDocument(operand)) throw located(2942500, '$sortArray requires an object as an argument');
  const input = compile(operand['input']);
  return (scope) => {
    const array = input(scope);
    if (isNullish(array)) return null;
    if (!Array.isArray(array)) {
      throw located(
        2942504,
        `The input argument to $sortArray must be an array, but was of type: ${typeName(array)}`,
      );
    }
    return array.toSorted(elementOrder(operand['sortBy'], scope.collator));
  };
};

const compileZip: OperatorCompiler = (operand, compile) => {
  if (!isDocument(operand)) throw located(34460, '$zip only supports an object as an argument');
  const inputs = ((operand['inputs'] as unknown[] | undefined) ?? []).map(compile);
  if (inputs.length === 0) throw located(34465, '$zip requires at least one input array');
  const defaults = ((operand['defaults'] as unknown[] | undefined) ?? []).map(compile);
  const longest = isTruthy(operand['useLongestLength']);
  return (scope) => {
    const arrays = inputs.map((input) => input(scope));
    if (arrays.some(isNullish)) return null;
    const lengths = arrays.map((array) => {
      if (!Array.isArray(array))
        throw located(34468, `$zip found a non-array expression in input: ${render(array)}`);
      return array.length;
    });
    const length = longest ? Math.max(...lengths) : Math.min(...lengths);
    return Array.from({ length }, (_unused, row) =>
      (arrays as unknown[][]).map((array, column) =>
        row < array.length ? array[row] : (defaults[column]?.(scope) ?? null),
      ),
    );
  };
};

/** `$firstN`, `$lastN`, `$minN`, `$maxN` over an array. */
const pickN = (
  pick: (array: readonly unknown[], count: number, collator: Collator | undefined) => unknown[],
): OperatorCompiler =>
  named(['n', 'input'], [], (values, scope, name) => {
    const count = toInteger(values['n']);
    if (count === undefined || count < 1)
      throw located(5787908, `'n' must be greater than 0, found ${render(values['n'])}`);
    if (!Array.isArray(values['input'])) throw located(5788200, `${name} requires an array input`);
    return pick(values['input'], count, scope.collator);
  });

const best =
  (direction: 1 | -1) => (array: readonly unknown[], count: number, collator: Collator | undefined) =>
    array
      .filter((value) => !isNullish(value))
      .toSorted((a, b) => direction * compareValues(a, b, collator))
      .slice(0, count);

export const ARRAYS: OperatorTable = {
  $arrayElemAt: strict(2, 2, arrayElemAt),
  $arrayToObject: strict(1, 1, arrayToObject),
  $concatArrays: variadic(concatArrays),
  $filter: compileFilterArray,
  $map: compileMap,
  $reduce: compileReduce,
  $in: strict(2, 2, isIn),
  $indexOfArray: strict(2, 4, indexOfArray),
  $isArray: strict(1, 1, ([value]) => Array.isArray(value)),
  $first: endOf('first'),
  $last: endOf('last'),
  $firstN: pickN((array, count) => array.slice(0, count)),
  $lastN: pickN((array, count) => array.slice(-count)),
  $minN: pickN(best(1)),
  $maxN: pickN(best(-1)),
  $range: strict(2, 3, range),
  $reverseArray: strict(1, 1, ([array]) => {
    if (isNullish(array)) return null;
    if (!Array.isArray(array))
      throw located(
        34435,
        `The argument to $reverseArray must be an array, but was of type: ${typeName(array)}`,
      );
    return array.toReversed();
  }),
  $size: strict(1, 1, ([array]) => {
    if (!Array.isArray(array)) {
      throw new ServerError(
        17124,
        'Location17124',
        `The argument to $size must be an array, but was of type: ${typeName(array)}`,
      );
    }
    return new Int32(array.length);
  }),
  $slice: strict(2, 3, sliceArray),
  $sortArray: compileSortArray,
  $zip: compileZip,
};
