/** What each update operator does to the one value at its path. */
import { type Document, Double, Int32, Long, Timestamp } from 'bson';
import { ServerError } from '../contracts.ts';
import { isDocument, isNumeric, render, toInteger, toNumber, typeName, typeOf } from './bson.ts';
import { type Collator, compareValues, equalValues, identicalValues, valueKey } from './compare.ts';
import { compileElement, isOperatorDocument } from './match.ts';
import { regexTest } from './match-operators.ts';
import { add, bigintOf, integer, long, multiply } from './numbers.ts';
import { compileSort } from './sort.ts';
import { MISSING, UNCHANGED } from './update-paths.ts';

/** What an operator needs besides its operand. */
interface OperatorContext {
  readonly path: string;
  readonly collator?: Collator | undefined;
}
/** What differs from document to document. */
interface ApplyContext {
  readonly now: Date;
  /** The document's `_id`, for messages. */
  readonly id: unknown;
}
export type OperatorChange = (value: unknown, context: ApplyContext) => unknown;

const bad = (message: string): ServerError => new ServerError(2, 'BadValue', message);
const failedToParse = (message: string): ServerError => new ServerError(9, 'FailedToParse', message);
const mismatch = (message: string): ServerError => new ServerError(14, 'TypeMismatch', message);
const lastPart = (path: string): string => path.slice(path.lastIndexOf('.') + 1);

/** The names {@link compileOperator} knows, and `$rename`. */
export const UPDATE_OPERATORS: ReadonlySet<string> = new Set([
  '$set',
  '$setOnInsert',
  '$unset',
  '$inc',
  '$mul',
  '$min',
  '$max',
  '$currentDate',
  '$push',
  '$addToSet',
  '$pull',
  '$pullAll',
  '$pop',
  '$bit',
  '$rename',
]);

/** Compiles one operator on one path. */
export function compileOperator(name: string, operand: unknown, context: OperatorContext): OperatorChange {
  switch (name) {
    case '$set':
    case '$setOnInsert':
      return (value) => (value !== MISSING && identicalValues(value, operand) ? UNCHANGED : operand);
    case '$unset':
      return () => MISSING;
    case '$inc':
    case '$mul':
      return compileArithmetic(name, operand, context);
    case '$min':
      return (value) =>
        value === MISSING || compareValues(operand, value, context.collator) < 0 ? operand : UNCHANGED;
    case '$max':
      return (value) =>
        value === MISSING || compareValues(operand, value, context.collator) > 0 ? operand : UNCHANGED;
    case '$currentDate':
      return compileCurrentDate(operand);
    case '$bit':
      return compileBit(operand, context);
    default:
      return compileArrayOperator(name, operand, context);
  }
}

function compileArithmetic(name: string, operand: unknown, { path }: OperatorContext): OperatorChange {
  if (!isNumeric(operand)) {
    const verb = name === '$inc' ? 'increment' : 'multiply';
    throw mismatch(`Cannot ${verb} with non-numeric argument: {${path}: ${render(operand)}}`);
  }
  return (value, { id }) => {
    if (value === MISSING) return name === '$inc' ? operand : zeroLike(operand);
    if (!isNumeric(value)) {
      throw mismatch(
        `Cannot apply ${name} to a value of non-numeric type. {_id: ${render(id)}} has the field '${lastPart(path)}' of non-numeric type ${typeName(value)}`,
      );
    }
    const result = name === '$inc' ? add(value, operand) : multiply(value, operand);
    if (result === undefined) {
      throw bad(
        `Failed to apply ${name} operations to current value ((NumberLong)${String(value)}) for document {_id: ${render(id)}}`,
      );
    }
    return identicalValues(result, value) ? UNCHANGED : result;
  };
}

function zeroLike(operand: unknown): unknown {
  switch (typeOf(operand)) {
    case 16:
      return new Int32(0);
    case 18:
      return Long.ZERO;
    case 1:
      return new Double(0);
    default:
      return multiply(operand, new Int32(0));
  }
}

function compileCurrentDate(operand: unknown): OperatorChange {
  if (typeof operand === 'boolean') return (_value, { now }) => now;
  if (!isDocument(operand)) {
    throw bad(
      `${typeName(operand)} is not valid type for $currentDate. Please use a boolean ('true') or a $type expression ({$type: 'timestamp/date'}).`,
    );
  }
  const unknown = Object.keys(operand).find((name) => name !== '$type');
  if (unknown !== undefined) throw bad(`Unrecognized $currentDate option: ${unknown}`);
  const type: unknown = operand['$type'];
  if (type === 'date') return (_value, { now }) => now;
  if (type === 'timestamp') {
    return (_value, { now }) => new Timestamp({ t: Math.floor(now.getTime() / 1000), i: 1 });
  }
  throw bad(
    "The '$type' string field is required to be 'date' or 'timestamp': {$currentDate: {field : {$type: 'date'}}}",
  );
}

function compileBit(operand: unknown, { path }: OperatorContext): OperatorChange {
  if (!isDocument(operand)) {
    throw bad(
      `The $bit modifier is not compatible with a ${typeName(operand)}. You must pass in an embedded document: {$bit: {field: {and/or/xor: #}}`,
    );
  }
  const steps = Object.entries(operand);
  if (steps.length === 0) {
    throw bad(
      `You must pass in at least one bitwise operation. The format is: {$bit: {field: {and/or/xor: #}}`,
    );
  }
  for (const [name, bits] of steps) {
    if (!['and', 'or', 'xor'].includes(name)) {
      throw bad(
        `The $bit modifier only supports 'and', 'or', and 'xor', not '${name}' which is an unknown operator: {${name}: ${render(bits)}}`,
      );
    }
    if (typeOf(bits) !== 16 && typeOf(bits) !== 18) {
      throw bad(
        `The $bit modifier field must be an Integer(32/64 bit); a '${typeName(bits)}' is not supported here: {${name}: ${render(bits)}}`,
      );
    }
  }
  return (value, { id }) => {
    const start = value === MISSING ? new Int32(0) : value;
    if (typeOf(start) !== 16 && typeOf(start) !== 18) {
      throw bad(
        `Cannot apply $bit to a value of non-integral type.{_id: ${render(id)}} has the field ${lastPart(path)} of non-integer type ${typeName(value)}`,
      );
    }
    const result = steps.reduce<unknown>((bits, [name, mask]) => bitStep(name, bits, mask), start);
    return value !== MISSING && identicalValues(result, value) ? UNCHANGED : result;
  };
}

function bitStep(name: string, value: unknown, mask: unknown): unknown {
  const [a, b] = [bigintOf(value), bigintOf(mask)];
  const result = name === 'and' ? a & b : name === 'or' ? a | b : a ^ b;
  return typeOf(value) === 18 || typeOf(mask) === 18 ? long(BigInt.asIntN(64, result)) : integer(result);
}

function compileArrayOperator(name: string, operand: unknown, context: OperatorContext): OperatorChange {
  switch (name) {
    case '$push':
      return compilePush(operand, context);
    case '$addToSet':
      return compileAddToSet(operand, context);
    case '$pull':
      return compilePull(operand, context);
    case '$pullAll':
      return compilePullAll(operand, context);
    default:
      return compilePop(operand, context);
  }
}

const PUSH_MODIFIERS = new Set(['$each', '$position', '$slice', '$sort']);

function compilePush(operand: unknown, { path, collator }: OperatorContext): OperatorChange {
  const modifiers = isDocument(operand) && Object.hasOwn(operand, '$each') ? operand : { $each: [operand] };
  const unknown = Object.keys(modifiers).find((name) => !PUSH_MODIFIERS.has(name));
  if (unknown !== undefined) throw bad(`Unrecognized clause in $push: ${unknown}`);
  const added: unknown = modifiers['$each'];
  if (!Array.isArray(added)) {
    throw bad(`The argument to $each in $push must be an array but it was of type: ${typeName(added)}`);
  }
  const position = optionalInteger(modifiers, '$position');
  const slice = optionalInteger(modifiers, '$slice');
  const order =
    modifiers['$sort'] === undefined ? undefined : compileElementSort(modifiers['$sort'], collator);
  return (value, { id }) => {
    if (value !== MISSING && !Array.isArray(value)) {
      throw bad(
        `The field '${path}' must be an array but is of type ${typeName(value)} in document {_id: ${render(id)}}`,
      );
    }
    const before: unknown[] = value === MISSING ? [] : (value as unknown[]);
    let result = insertAt(before, added, position);
    if (order) result = result.toSorted(order);
    if (slice !== undefined) result = slice >= 0 ? result.slice(0, slice) : result.slice(slice);
    return value !== MISSING && identicalValues(result, before) ? UNCHANGED : result;
  };
}

function insertAt(
  before: readonly unknown[],
  added: readonly unknown[],
  position: number | undefined,
): unknown[] {
  if (position === undefined || position >= before.length) return [...before, ...added];
  const at = position < 0 ? Math.max(0, before.length + position) : position;
  return before.toSpliced(at, 0, ...added);
}

function optionalInteger(modifiers: Document, name: string): number | undefined {
  if (modifiers[name] === undefined) return undefined;
  const value = toInteger(modifiers[name]);
  if (value === undefined) {
    throw bad(
      `The value for ${name} must be an integer value but was given type: ${typeName(modifiers[name])}`,
    );
  }
  return value;
}

function compileElementSort(
  spec: unknown,
  collator: Collator | undefined,
): (a: unknown, b: unknown) => number {
  if (isDocument(spec)) {
    const compare = compileSort(spec, collator);
    const asDocument = (value: unknown): Document => (isDocument(value) ? value : {});
    return (a, b) => compare(asDocument(a), asDocument(b));
  }
  const direction = toNumber(spec);
  if (direction !== 1 && direction !== -1) {
    throw bad(
      'The $sort is invalid: use 1/-1 to sort the whole element, or {field:1/-1} to sort embedded fields',
    );
  }
  return (a, b) => direction * compareValues(a, b, collator);
}

function compileAddToSet(operand: unknown, { path, collator }: OperatorContext): OperatorChange {
  const withEach = isDocument(operand) && Object.keys(operand)[0] === '$each';
  const added: unknown = withEach ? operand['$each'] : [operand];
  if (!Array.isArray(added)) {
    throw mismatch(
      `The argument to $each in $addToSet must be an array but it was of type ${typeName(added)}`,
    );
  }
  if (withEach && Object.keys(operand).length > 1) {
    throw bad(`Found unexpected fields after $each in $addToSet: ${render(operand)}`);
  }
  return (value) => {
    if (value !== MISSING && !Array.isArray(value)) {
      throw bad(
        `Cannot apply $addToSet to non-array field. Field named '${lastPart(path)}' has non-array type ${typeName(value)}`,
      );
    }
    const before: unknown[] = value === MISSING ? [] : (value as unknown[]);
    const keys = new Set(before.map((element) => valueKey(element, collator)));
    const fresh = added.filter((element) => {
      const key = valueKey(element, collator);
      return !keys.has(key) && keys.add(key);
    });
    return value !== MISSING && fresh.length === 0 ? UNCHANGED : [...before, ...fresh];
  };
}

function compilePull(operand: unknown, { collator }: OperatorContext): OperatorChange {
  const goes = pullTest(operand, collator);
  return (value) => {
    if (value === MISSING) return UNCHANGED;
    if (!Array.isArray(value)) throw bad('Cannot apply $pull to a non-array value');
    const kept = value.filter((element) => !goes(element));
    return kept.length === value.length ? UNCHANGED : kept;
  };
}

function pullTest(operand: unknown, collator: Collator | undefined): (element: unknown) => boolean {
  if (typeOf(operand) === 11) {
    const test = regexTest(operand, undefined).visit;
    return (element) => !Array.isArray(element) && test(element);
  }
  if (isOperatorDocument(operand)) return compileElement(operand, { collator });
  if (isDocument(operand)) {
    const matches = compileElement(operand, { collator });
    return (element) => isDocument(element) && matches(element);
  }
  return (element) => equalValues(element, operand, collator);
}

function compilePullAll(operand: unknown, { collator }: OperatorContext): OperatorChange {
  if (!Array.isArray(operand)) {
    throw bad(`$pullAll requires an array argument but was given a ${typeName(operand)}`);
  }
  const keys = new Set(operand.map((element) => valueKey(element, collator)));
  return (value) => {
    if (value === MISSING) return UNCHANGED;
    if (!Array.isArray(value)) throw bad('Cannot apply $pull to a non-array value');
    const kept = value.filter((element) => !keys.has(valueKey(element, collator)));
    return kept.length === value.length ? UNCHANGED : kept;
  };
}

function compilePop(operand: unknown, { path }: OperatorContext): OperatorChange {
  const direction = toNumber(operand);
  if (direction === undefined) {
    throw failedToParse(`Expected a number in: ${lastPart(path)}: ${render(operand)}`);
  }
  if (direction !== 1 && direction !== -1)
    throw failedToParse(`$pop expects 1 or -1, found: ${render(operand)}`);
  return (value) => {
    if (value === MISSING) return UNCHANGED;
    if (!Array.isArray(value)) {
      throw mismatch(`Path '${path}' contains an element of non-array type '${typeName(value)}'`);
    }
    if (value.length === 0) return UNCHANGED;
    return direction === 1 ? value.slice(0, -1) : value.slice(1);
  };
}
