/** The operators that stand at a field in a filter: comparisons, sets, types, regular expressions, bits. */
import type { Binary, BSONRegExp, Document } from 'bson';
import { ServerError } from '../contracts.ts';
import {
  bsonClass,
  isDocument,
  isNumeric,
  isTruthy,
  render,
  TYPE_ALIASES,
  toInteger,
  toNumber,
  typeOf,
} from './bson.ts';
import { bracketOf, type Collator, compareValues, equalValues, valueKey } from './compare.ts';
import type { MatchDetails } from './path.ts';

/**
 * One condition on the value at the end of a path. `visit` sees arrays whole and looks at elements itself where the
 * operator does so. `negated`: holds when no visited value passes. `group`: all of these conditions together (for `$not`).
 */
export interface LeafMatcher {
  readonly negated?: boolean;
  readonly visit: (value: unknown, details?: MatchDetails) => boolean;
  readonly group?: readonly LeafMatcher[];
}

const bad = (message: string): ServerError => new ServerError(2, 'BadValue', message);

/** Applies a test to the value and, when it is an array, to its elements first; records the element's position. */
function eachElement(test: (value: unknown) => boolean): LeafMatcher['visit'] {
  return (value, details) => {
    if (Array.isArray(value)) {
      const index = value.findIndex(test);
      if (index >= 0) {
        if (details) details.index = index;
        return true;
      }
    }
    return test(value);
  };
}

/** Equality; null also matches missing. */
export function equalityTest(operand: unknown, collator: Collator | undefined): LeafMatcher {
  if (operand === null || operand === undefined) {
    return { visit: eachElement((value) => value === null || value === undefined) };
  }
  return { visit: eachElement((value) => value !== undefined && equalValues(value, operand, collator)) };
}

function orderTest(
  operand: unknown,
  holds: (order: number) => boolean,
  collator: Collator | undefined,
): LeafMatcher {
  if (typeOf(operand) === 11) throw bad("Can't have RegEx as arg to predicate over field");
  const bracket = bracketOf(operand);
  const anyBracket = bracket === -1 || bracket === 127;
  const nan = isNumeric(operand) && Number.isNaN(toNumber(operand));
  const test = (value: unknown): boolean => {
    const actual = value === undefined ? null : value;
    if (bracketOf(actual) !== bracket) {
      return anyBracket && value !== undefined && holds(compareValues(actual, operand, collator));
    }
    // NaN is equal to itself and not ordered against other numbers.
    if (bracket === 10 && nan !== Number.isNaN(toNumber(actual))) return false;
    return holds(compareValues(actual, operand, collator));
  };
  return { visit: eachElement(test) };
}

/** Compiles one operator of an operator document, except `$not`, `$elemMatch` and `$all`, which need the whole language. */
export function compileFieldOperator(
  operator: string,
  operand: unknown,
  whole: Document,
  collator: Collator | undefined,
): LeafMatcher | undefined {
  switch (operator) {
    case '$eq':
      return equalityTest(operand, collator);
    case '$ne':
      if (typeOf(operand) === 11) throw bad("Can't have regex as arg to $ne.");
      return { ...equalityTest(operand, collator), negated: true };
    case '$gt':
      return orderTest(operand, (order) => order > 0, collator);
    case '$gte':
      return orderTest(operand, (order) => order >= 0, collator);
    case '$lt':
      return orderTest(operand, (order) => order < 0, collator);
    case '$lte':
      return orderTest(operand, (order) => order <= 0, collator);
    case '$in':
      return inTest('$in', operand, collator);
    case '$nin':
      return { ...inTest('$nin', operand, collator), negated: true };
    case '$exists':
      return { visit: (value) => value !== undefined, negated: !isTruthy(operand) };
    case '$type':
      return typeTest(operand);
    case '$regex':
      return regexTest(operand, whole['$options']);
    case '$comment':
      return undefined;
    default:
      return compileRareOperator(operator, operand);
  }
}

function compileRareOperator(operator: string, operand: unknown): LeafMatcher {
  switch (operator) {
    case '$mod':
      return modTest(operand);
    case '$size':
      return sizeTest(operand);
    case '$bitsAllSet':
      return bitsTest(operator, operand, (value, mask) => (value & mask) === mask);
    case '$bitsAllClear':
      return bitsTest(operator, operand, (value, mask) => (value & mask) === 0n);
    case '$bitsAnySet':
      return bitsTest(operator, operand, (value, mask) => (value & mask) !== 0n);
    case '$bitsAnyClear':
      return bitsTest(operator, operand, (value, mask) => (value & mask) !== mask);
    case '$near':
    case '$nearSphere':
    case '$geoNear':
      throw new ServerError(
        291,
        'NoQueryExecutionPlans',
        'error processing query: planner returned error :: caused by :: unable to find index for $geoNear query',
      );
    case '$geoWithin':
    case '$geoIntersects':
      throw bad(`${operator} is not supported by the simulator`);
    default:
      throw bad(`unknown operator: ${operator}`);
  }
}

function inTest(name: string, operand: unknown, collator: Collator | undefined): LeafMatcher {
  if (!Array.isArray(operand)) throw bad(`${name} needs an array`);
  const keys = new Set<string>();
  const regexes: RegExp[] = [];
  let withNull = false;
  for (const element of operand) {
    if (isDocument(element) && Object.keys(element)[0]?.startsWith('$') && !('$ref' in element)) {
      throw bad(`cannot nest $ under ${name}`);
    }
    if (typeOf(element) === 11) regexes.push(toRegExp(element, undefined));
    if (element === null || element === undefined) withNull = true;
    keys.add(valueKey(element, collator));
  }
  const test = (value: unknown): boolean => {
    if (value === undefined || value === null) return withNull;
    if (keys.has(valueKey(value, collator))) return true;
    return regexes.length > 0 && isText(value) && regexes.some((regex) => regex.test(String(value)));
  };
  return { visit: eachElement(test) };
}

const isText = (value: unknown): boolean => typeof value === 'string' || bsonClass(value) === 'BSONSymbol';

const CODES_BY_ALIAS: ReadonlyMap<string, number> = new Map(
  Object.entries(TYPE_ALIASES).map(([code, alias]) => [alias, Number(code)]),
);
const NUMBER_CODES = [1, 16, 18, 19];

/** Type numbers for `$type` and `bsonType`. Errors: 2 BadValue for unknown names and numbers. */
export function typeCodes(operand: unknown): readonly number[] {
  if (Array.isArray(operand)) {
    if (operand.length === 0) throw new ServerError(9, 'FailedToParse', '$type must match at least one type');
    return operand.flatMap(typeCodes);
  }
  if (typeof operand === 'string') {
    if (operand === 'number') return NUMBER_CODES;
    const code = CODES_BY_ALIAS.get(operand);
    if (code === undefined) throw bad(`Unknown type name alias: ${operand}`);
    return [code];
  }
  const code = toNumber(operand);
  if (code === undefined)
    throw new ServerError(14, 'TypeMismatch', 'type must be represented as a number or a string');
  if (!Number.isInteger(code) || !(String(code) in TYPE_ALIASES)) {
    throw bad(`Invalid numerical type code: ${render(operand)}`);
  }
  return [code];
}

function typeTest(operand: unknown): LeafMatcher {
  const codes = new Set(typeCodes(operand));
  return { visit: eachElement((value) => value !== undefined && codes.has(typeOf(value))) };
}

const FLAGS_TAKEN = 'imsxu';

/** A PCRE pattern as a JavaScript one. Errors: 51091 for invalid patterns, 51108 for invalid flags. */
export function toRegExp(operand: unknown, options: unknown): RegExp {
  const [pattern, ownFlags] = regexSource(operand);
  const flags = options === undefined ? ownFlags : String(options);
  for (const flag of flags) {
    if (!FLAGS_TAKEN.includes(flag)) {
      throw new ServerError(51108, 'Location51108', `invalid flag in regex options: ${flag}`);
    }
  }
  const inline = /^\(\?([imsx]+)\)/.exec(pattern);
  const allFlags = new Set([...flags, ...(inline?.[1] ?? '')]);
  let source = inline ? pattern.slice(inline[0].length) : pattern;
  if (allFlags.has('x'))
    source = source.replace(/\\.|\s+|#.*$/gm, (text) => (text.startsWith('\\') ? text : ''));
  source = source
    .replaceAll('\\A', '^')
    .replaceAll('\\z', '$')
    .replaceAll('\\Z', '$')
    .replaceAll('(?<!:', '(?<!');
  const jsFlags = ['i', 'm', 's'].filter((flag) => allFlags.has(flag)).join('');
  try {
    return new RegExp(source, jsFlags);
  } catch (failure) {
    const reason = failure instanceof Error ? failure.message : String(failure);
    throw new ServerError(51091, 'Location51091', `Regular expression is invalid: ${reason}`);
  }
}

function regexSource(operand: unknown): [string, string] {
  if (typeof operand === 'string') return [operand, ''];
  if (operand instanceof RegExp) return [operand.source, operand.flags.replace(/[^ims]/g, '')];
  if (bsonClass(operand) === 'BSONRegExp') {
    const regex = operand as BSONRegExp;
    return [regex.pattern, regex.options.replace(/[lu]/g, '')];
  }
  throw bad('$regex has to be a string');
}

/** A regular expression against strings; also equal to the same regular expression stored as a value. */
export function regexTest(operand: unknown, options: unknown): LeafMatcher {
  if (options !== undefined && typeof options !== 'string') throw bad('$options has to be a string');
  const regex = toRegExp(operand, options);
  const stored = typeOf(operand) === 11 ? operand : undefined;
  const test = (value: unknown): boolean =>
    isText(value)
      ? regex.test(String(value))
      : stored !== undefined && value !== undefined && equalValues(value, stored);
  return { visit: eachElement(test) };
}

function modTest(operand: unknown): LeafMatcher {
  if (!Array.isArray(operand)) throw bad('malformed mod, needs to be an array');
  if (operand.length < 2) throw bad('malformed mod, not enough elements');
  if (operand.length > 2) throw bad('malformed mod, too many elements');
  const [divisor, remainder] = operand.map((part) => toNumber(part));
  if (divisor === undefined || !Number.isFinite(divisor)) throw bad('malformed mod, divisor is not a number');
  if (remainder === undefined) throw bad('malformed mod, remainder is not a number');
  const whole = Math.trunc(divisor);
  if (whole === 0) throw bad('divisor cannot be 0');
  const expected = Math.trunc(remainder);
  const test = (value: unknown): boolean => {
    const number = isNumeric(value) ? toNumber(value)! : Number.NaN;
    return Number.isFinite(number) && Math.trunc(number) % whole === expected;
  };
  return { visit: eachElement(test) };
}

function sizeTest(operand: unknown): LeafMatcher {
  const size = toInteger(operand);
  if (size === undefined) {
    throw bad(`Failed to parse $size. Expected an integer, but got: ${render(operand)}`);
  }
  if (size < 0)
    throw bad(`Failed to parse $size. Expected a non-negative number in: $size: ${render(operand)}`);
  return { visit: (value) => Array.isArray(value) && value.length === size };
}

function bitsTest(
  name: string,
  operand: unknown,
  holds: (value: bigint, mask: bigint) => boolean,
): LeafMatcher {
  const mask = bitMask(name, operand);
  const test = (value: unknown): boolean => {
    const bits = bitsOf(value);
    return bits !== undefined && holds(bits, mask);
  };
  return { visit: eachElement(test) };
}

function bitMask(name: string, operand: unknown): bigint {
  if (Array.isArray(operand)) {
    return operand.reduce<bigint>((mask, position) => {
      const bit = toInteger(position);
      if (bit === undefined || bit < 0)
        throw bad(`Failed to parse bit position. Expected a non-negative number in: ${name}`);
      return mask | (1n << BigInt(bit));
    }, 0n);
  }
  const bits = bitsOf(operand);
  if (bits === undefined)
    throw bad(`${name} takes an Array, a number, or a BinData but received: ${render(operand)}`);
  if (isNumeric(operand) && toNumber(operand)! < 0) {
    throw bad(`Failed to parse bitmask. Expected a non-negative number in: ${name}: ${render(operand)}`);
  }
  return bits;
}

/** A value as bits, two's complement; undefined when it has none. Binary data is little-endian. */
function bitsOf(value: unknown): bigint | undefined {
  if (isNumeric(value)) {
    const number = toNumber(value)!;
    if (!Number.isInteger(number) || Math.abs(number) > 2 ** 63) return undefined;
    return BigInt(typeOf(value) === 18 ? String(value) : number);
  }
  if (typeOf(value) !== 5) return undefined;
  const bytes = value instanceof Uint8Array ? value : (value as Binary).value();
  return bytes.reduceRight((bits, byte) => (bits << 8n) | BigInt(byte), 0n);
}
