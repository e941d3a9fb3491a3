/** Operators on documents, and on sizes and timestamps of values. */
import { type Binary, type Document, Int32, Long, type Timestamp } from 'bson';
import { isDocument, sizeOf, typeName, typeOf } from './bson.ts';
import {
  isNullish,
  located,
  type OperatorCompiler,
  type OperatorTable,
  strict,
  variadic,
} from './expr-types.ts';
import { fieldOf } from './path.ts';
import { withField, withoutField } from './update-paths.ts';

function mergeObjects(values: readonly unknown[]): unknown {
  let result: Document = {};
  for (const value of values.length === 1 && Array.isArray(values[0]) ? values[0] : values) {
    if (isNullish(value)) continue;
    if (!isDocument(value)) {
      throw located(
        40400,
        `$mergeObjects requires object inputs, but input ${String(value)} is of type ${typeName(value)}`,
      );
    }
    result = { ...result, ...value };
  }
  return result;
}

const compileGetField: OperatorCompiler = (operand, compile) => {
  const whole = isDocument(operand) && Object.hasOwn(operand, 'field');
  const field = compile(whole ? operand['field'] : operand);
  const input = whole && Object.hasOwn(operand, 'input') ? compile(operand['input']) : undefined;
  return (scope) => {
    const name = field(scope);
    if (typeof name !== 'string') {
      throw located(
        5654602,
        `$getField requires 'field' to evaluate to type String, but got ${typeName(name)}`,
      );
    }
    const source = input ? input(scope) : scope.current;
    if (isNullish(source)) return source;
    return isDocument(source) ? fieldOf(source, name) : undefined;
  };
};

const compileSetField =
  (unset: boolean): OperatorCompiler =>
  (operand, compile, name) => {
    if (!isDocument(operand)) throw located(4161100, `${name} only supports an object as its argument`);
    const field: unknown = isDocument(operand['field']) ? operand['field']['$literal'] : operand['field'];
    if (typeof field !== 'string') {
      throw located(4161107, `${name} requires 'field' to evaluate to type String`);
    }
    const input = compile(operand['input']);
    const value = unset ? () => undefined : compile(operand['value']);
    return (scope) => {
      const source = input(scope);
      if (isNullish(source)) return null;
      if (!isDocument(source)) throw located(4161105, `${name} requires 'input' to evaluate to type Object`);
      const next = value(scope);
      return next === undefined ? withoutField(source, field) : withField(source, field, next);
    };
  };

function objectToArray([object]: readonly unknown[]): unknown {
  if (isNullish(object)) return null;
  if (!isDocument(object)) {
    throw located(40390, `$objectToArray requires a document input, found: ${typeName(object)}`);
  }
  return Object.entries(object).map(([k, v]) => ({ k, v }));
}

const ofTimestamp = (part: (timestamp: Timestamp) => number): OperatorCompiler =>
  strict(1, 1, ([value], _scope, name) => {
    if (isNullish(value)) return null;
    if (typeOf(value) !== 17)
      throw located(5687301, ` Argument to ${name} must be a timestamp, but is ${typeName(value)}`);
    return Long.fromNumber(part(value as Timestamp));
  });

export const OBJECTS: OperatorTable = {
  $mergeObjects: variadic(mergeObjects),
  $getField: compileGetField,
  $setField: compileSetField(false),
  $unsetField: compileSetField(true),
  $objectToArray: strict(1, 1, objectToArray),
  $bsonSize: strict(1, 1, ([value]) => {
    if (isNullish(value)) return null;
    if (!isDocument(value))
      throw located(31393, `$bsonSize requires a document input, found: ${typeName(value)}`);
    return new Int32(sizeOf(value));
  }),
  $binarySize: strict(1, 1, ([value]) => {
    if (isNullish(value)) return null;
    if (typeof value === 'string') return new Int32(Buffer.byteLength(value));
    if (typeOf(value) === 5) return new Int32((value as Binary).length());
    throw located(51276, `$binarySize requires a string or BinData argument, found: ${typeName(value)}`);
  }),
  $tsSecond: ofTimestamp((timestamp) => timestamp.t),
  $tsIncrement: ofTimestamp((timestamp) => timestamp.i),
};
