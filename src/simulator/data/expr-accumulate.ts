/** Accumulators: over the documents of a group, and the same ones as expressions over values. */
import { type Document, Double, Int32 } from 'bson';
import { ServerError } from '../contracts.ts';
import { isDocument, isNumeric, render, toInteger, toNumber, typeName } from './bson.ts';
import { type Collator, compareValues, valueKey } from './compare.ts';
import {
  type Compile,
  type Evaluator,
  isNullish,
  located,
  type OperatorCompiler,
  type OperatorTable,
  type Scope,
} from './expr-types.ts';
import { add, divide } from './numbers.ts';
import { compileSort } from './sort.ts';

/** The state of one accumulator for one group. */
export interface Accumulator {
  add(scope: Scope): void;
  result(): unknown;
}

/** Compiles an accumulator of `$group`; the function it gives makes the state of each group. */
type AccumulatorCompiler = (
  operand: unknown,
  compile: Compile,
  name: string,
) => (collator?: Collator) => Accumulator;

/** Adds up the numbers among values, with the server's types; others don't count. */
function sumOf(values: readonly unknown[]): unknown {
  return values.filter(isNumeric).reduce<unknown>(addLoose, new Int32(0));
}

function addLoose(total: unknown, value: unknown): unknown {
  return add(total, value) ?? new Double(toNumber(total)! + toNumber(value)!);
}

function averageOf(values: readonly unknown[]): unknown {
  const numbers = values.filter(isNumeric);
  return numbers.length === 0 ? null : divide(sumOf(numbers), new Int32(numbers.length));
}

function extremeOf(values: readonly unknown[], direction: 1 | -1, collator?: Collator): unknown {
  let best: unknown;
  for (const value of values) {
    if (isNullish(value)) continue;
    if (best === undefined || direction * compareValues(value, best, collator) < 0) best = value;
  }
  return best ?? null;
}

function deviationOf(values: readonly unknown[], sample: boolean): unknown {
  const numbers = values.filter(isNumeric).map((value) => toNumber(value)!);
  const divisor = sample ? numbers.length - 1 : numbers.length;
  if (divisor < 1) return null;
  const mean = numbers.reduce((total, value) => total + value, 0) / numbers.length;
  const squares = numbers.reduce((total, value) => total + (value - mean) ** 2, 0);
  return new Double(Math.sqrt(squares / divisor));
}

function percentilesOf(values: readonly unknown[], points: readonly unknown[]): unknown[] {
  const sorted = values
    .filter(isNumeric)
    .map((value) => toNumber(value)!)
    .toSorted((left, right) => left - right);
  return points.map((point) => {
    const rank = Math.max(0, Math.ceil((toNumber(point) ?? 0) * sorted.length) - 1);
    return sorted.length === 0 ? null : new Double(sorted[rank]!);
  });
}

// ── as expressions ─────────────────────────────────────────────────────────────────────────────────────────────────

/** One argument that is an array is looked into; several arguments are the values themselves. */
function overValues(apply: (values: readonly unknown[], scope: Scope) => unknown): OperatorCompiler {
  return (operand, compile) => {
    const parts = (Array.isArray(operand) ? operand : [operand]).map(compile);
    return (scope) => {
      const values = parts.map((part) => part(scope));
      const [only] = values;
      return apply(values.length === 1 && Array.isArray(only) ? only : values, scope);
    };
  };
}

const percentileExpression =
  (median: boolean): OperatorCompiler =>
  (operand, compile, name) => {
    const { input, points } = percentileOperands(operand, compile, name, median);
    return (scope) => {
      const given = input(scope);
      const found = percentilesOf(Array.isArray(given) ? given : [given], points(scope));
      return median ? found[0] : found;
    };
  };

function percentileOperands(operand: unknown, compile: Compile, name: string, median: boolean) {
  if (!isDocument(operand))
    throw located(7429703, `specification must be an object; found ${name}: ${render(operand)}`);
  const input = compile(operand['input']);
  const p = compile(operand['p']);
  const points = (scope: Scope): unknown[] =>
    median ? [new Double(0.5)] : ((p(scope) as unknown[] | undefined) ?? []);
  return { input, points };
}

export const ACCUMULATOR_EXPRESSIONS: OperatorTable = {
  $sum: overValues(sumOf),
  $avg: overValues(averageOf),
  $min: overValues((values, { collator }) => extremeOf(values, 1, collator)),
  $max: overValues((values, { collator }) => extremeOf(values, -1, collator)),
  $stdDevPop: overValues((values) => deviationOf(values, false)),
  $stdDevSamp: overValues((values) => deviationOf(values, true)),
  $median: percentileExpression(true),
  $percentile: percentileExpression(false),
};

// ── over groups ────────────────────────────────────────────────────────────────────────────────────────────────────

/** Collects a value per document and works it out at the end. */
function collecting(
  finish: (values: readonly unknown[], collator?: Collator) => unknown,
): AccumulatorCompiler {
  return (operand, compile) => {
    const evaluate = compile(operand);
    return (collator) => {
      const values: unknown[] = [];
      return { add: (scope) => void values.push(evaluate(scope)), result: () => finish(values, collator) };
    };
  };
}

const sum: AccumulatorCompiler = (operand, compile) => {
  const evaluate = compile(operand);
  return () => {
    let total: unknown = new Int32(0);
    return {
      add: (scope) => {
        const value = evaluate(scope);
        if (isNumeric(value)) total = addLoose(total, value);
      },
      result: () => total,
    };
  };
};

const count: AccumulatorCompiler = () => () => {
  let seen = 0;
  return { add: () => void seen++, result: () => new Int32(seen) };
};

const one: Scope = { root: {}, current: {}, variables: {}, collator: undefined };

function countOf(expression: Evaluator, name: string): number {
  const n = toInteger(expression(one));
  if (n === undefined || n < 1) throw located(5787908, `'n' must be greater than 0 in ${name}`);
  return n;
}

/** `$firstN`, `$lastN`, `$minN`, `$maxN`. */
function collectN(
  pick: (values: readonly unknown[], n: number, collator?: Collator) => unknown[],
): AccumulatorCompiler {
  return (operand, compile, name) => {
    if (!isDocument(operand))
      throw located(5787900, `specification must be an object; found ${name}: ${render(operand)}`);
    const input = compile(operand['input']);
    const n = countOf(compile(operand['n']), name);
    return (collator) => {
      const values: unknown[] = [];
      return {
        add: (scope) => void values.push(input(scope) ?? null),
        result: () => pick(values, n, collator),
      };
    };
  };
}

const bestN =
  (direction: 1 | -1) =>
  (values: readonly unknown[], n: number, collator?: Collator): unknown[] =>
    values
      .filter((value) => !isNullish(value))
      .toSorted((left, right) => direction * compareValues(left, right, collator))
      .slice(0, n);

/** `$top`, `$bottom` and their N forms: output of the documents first (or last) in a sort. */
function sorted(end: 'top' | 'bottom', single: boolean): AccumulatorCompiler {
  return (operand, compile, name) => {
    if (!isDocument(operand))
      throw located(5788001, `specification must be an object; found ${name}: ${render(operand)}`);
    const output = compile(operand['output']);
    const n = single ? 1 : countOf(compile(operand['n']), name);
    const sortBy = operand['sortBy'] as Document;
    return (collator) => {
      const compare = compileSort(sortBy, collator);
      const rows: { document: Document; value: unknown }[] = [];
      return {
        add: (scope) => void rows.push({ document: scope.current as Document, value: output(scope) ?? null }),
        result: () => {
          const ordered = rows.toSorted((left, right) => compare(left.document, right.document));
          const picked = (end === 'top' ? ordered.slice(0, n) : ordered.slice(-n)).map(({ value }) => value);
          return single ? (picked[0] ?? null) : picked;
        },
      };
    };
  };
}

function addToSet(values: readonly unknown[], collator?: Collator): unknown[] {
  const set = new Map<string, unknown>();
  for (const value of values) {
    if (value === undefined) continue;
    const key = valueKey(value, collator);
    if (!set.has(key)) set.set(key, value);
  }
  return [...set.values()];
}

function merge(values: readonly unknown[]): Document {
  let result: Document = {};
  for (const value of values) {
    if (isNullish(value)) continue;
    if (!isDocument(value)) {
      throw located(
        40400,
        `$mergeObjects requires object inputs, but input ${render(value)} is of type ${typeName(value)}`,
      );
    }
    result = { ...result, ...value };
  }
  return result;
}

const percentileGroup =
  (median: boolean): AccumulatorCompiler =>
  (operand, compile, name) => {
    const { input, points } = percentileOperands(operand, compile, name, median);
    return () => {
      const values: unknown[] = [];
      return {
        add: (scope) => void values.push(input(scope)),
        result: () => {
          const found = percentilesOf(values, points(one));
          return median ? found[0] : found;
        },
      };
    };
  };

const ACCUMULATORS: Readonly<Record<string, AccumulatorCompiler>> = {
  $sum: sum,
  $count: count,
  $avg: collecting(averageOf),
  $min: collecting((values, collator) => extremeOf(values, 1, collator)),
  $max: collecting((values, collator) => extremeOf(values, -1, collator)),
  $first: collecting((values) => values[0] ?? null),
  $last: collecting((values) => values.at(-1) ?? null),
  $push: collecting((values) => values.filter((value) => value !== undefined)),
  $addToSet: collecting(addToSet),
  $stdDevPop: collecting((values) => deviationOf(values, false)),
  $stdDevSamp: collecting((values) => deviationOf(values, true)),
  $mergeObjects: collecting(merge),
  $firstN: collectN((values, n) => values.slice(0, n)),
  $lastN: collectN((values, n) => values.slice(-n)),
  $minN: collectN(bestN(1)),
  $maxN: collectN(bestN(-1)),
  $top: sorted('top', true),
  $topN: sorted('top', false),
  $bottom: sorted('bottom', true),
  $bottomN: sorted('bottom', false),
  $median: percentileGroup(true),
  $percentile: percentileGroup(false),
};

/** Compiles one accumulator field of `$group`. Errors: 40234, 40238, 15952 as the server gives them. */
export function compileAccumulator(
  field: string,
  spec: unknown,
  compile: Compile,
): (collator?: Collator) => Accumulator {
  if (!isDocument(spec) || Object.keys(spec).length === 0) {
    throw located(40234, `The field '${field}' must be an accumulator object`);
  }
  const names = Object.keys(spec);
  if (names.length > 1) throw located(40238, `The field '${field}' must specify one accumulator`);
  const name = names[0]!;
  const compiler = Object.hasOwn(ACCUMULATORS, name) ? ACCUMULATORS[name] : undefined;
  if (!compiler) throw new ServerError(15952, 'Location15952', `unknown group operator '${name}'`);
  return compiler(spec[name], compile, name);
}
