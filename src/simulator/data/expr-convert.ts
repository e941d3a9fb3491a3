/** Conversions between types, and questions about types. */
import { Decimal128, Double, Int32, type Long, ObjectId, type Timestamp } from 'bson';
import { ServerError } from '../contracts.ts';
import { isNumeric, isTruthy, toNumber, typeName, typeOf } from './bson.ts';
import { decimalOfDouble, type Extended, exactOf, toDecimal } from './decimal.ts';
import { compileNamed, isNullish, type OperatorCompiler, type OperatorTable, strict } from './expr-types.ts';
import { typeCodes } from './match-operators.ts';
import { bigintOf, long } from './numbers.ts';

const failure = (message: string): ServerError => new ServerError(241, 'ConversionFailure', message);

function unsupported(value: unknown, target: string): ServerError {
  return failure(
    `Unsupported conversion from ${typeName(value)} to ${target} in $convert with no onError value`,
  );
}

function unparsable(text: unknown, why: string): ServerError {
  return failure(`Failed to parse number '${String(text)}' in $convert with no onError value: ${why}`);
}

/** Strings of values, as `$toString` and the older string operators make them; null and missing are ''. */
export function coerceToString(value: unknown): string {
  if (isNullish(value)) return '';
  return toText(value);
}

function toText(value: unknown): string {
  switch (typeOf(value)) {
    case 2:
    case 14:
    case 7:
    case 18:
    case 19:
    case 13:
      return typeOf(value) === 13 ? String((value as { code: unknown }).code) : String(value);
    case 8:
      return value ? 'true' : 'false';
    case 16:
    case 1:
      return numberText(toNumber(value)!);
    case 9:
      return (value as Date).toISOString();
    case 17:
      return new Date((value as Timestamp).t * 1000).toISOString();
    default:
      throw unsupported(value, 'string');
  }
}

function numberText(value: number): string {
  if (Number.isNaN(value)) return 'NaN';
  return Number.isFinite(value) ? String(value) : value > 0 ? 'Infinity' : '-Infinity';
}

const toBool = (value: unknown): boolean => isTruthy(value);

/** The exact integer a value stands for when it becomes an int or long: fractions are cut off. */
function wholeOf(value: unknown, target: string): bigint {
  switch (typeOf(value)) {
    case 16:
    case 18:
      return bigintOf(value);
    case 1:
    case 19: {
      const number = toNumber(value)!;
      if (!Number.isFinite(number)) {
        throw failure(
          `Attempt to convert ${Number.isNaN(number) ? 'NaN' : 'infinity'} value to integer type in $convert with no onError value`,
        );
      }
      return BigInt(Math.trunc(number));
    }
    case 8:
      return value ? 1n : 0n;
    case 9:
      if (target === 'long') return BigInt((value as Date).getTime());
      throw unsupported(value, target);
    case 2:
      if (!/^[+-]?\d+$/.test(value as string)) throw unparsable(value, 'Did not consume whole string.');
      return BigInt(value as string);
    default:
      throw unsupported(value, target);
  }
}

function toInt(value: unknown): Int32 {
  const whole = wholeOf(value, 'int');
  if (whole < -2147483648n || whole > 2147483647n) {
    throw failure(
      `Conversion would overflow target type in $convert with no onError value: ${String(value)}`,
    );
  }
  return new Int32(Number(whole));
}

function toLong(value: unknown): Long {
  const result = long(wholeOf(value, 'long'));
  if (result) return result;
  throw failure(`Conversion would overflow target type in $convert with no onError value: ${String(value)}`);
}

function toDouble(value: unknown): Double {
  switch (typeOf(value)) {
    case 8:
      return new Double(value ? 1 : 0);
    case 9:
      return new Double((value as Date).getTime());
    case 2: {
      const text = value as string;
      if (text.trim() !== text || text === '' || Number.isNaN(Number(text))) {
        if (text !== 'NaN') throw unparsable(text, 'Did not consume whole string.');
      }
      return new Double(Number(text));
    }
    default:
      if (!isNumeric(value)) throw unsupported(value, 'double');
      return new Double(toNumber(value)!);
  }
}

function toDecimalValue(value: unknown): Decimal128 {
  const of = (number: Extended) => toDecimal(number);
  switch (typeOf(value)) {
    case 8:
      return of({ coefficient: value ? 1n : 0n, exponent: 0 });
    case 9:
      return of({ coefficient: BigInt((value as Date).getTime()), exponent: 0 });
    case 2:
      try {
        return Decimal128.fromStringWithRounding(value as string);
      } catch {
        throw unparsable(value, 'Failed to parse string to decimal');
      }
    case 1:
      return of(decimalOfDouble(toNumber(value)!));
    default:
      if (!isNumeric(value)) throw unsupported(value, 'decimal');
      return of(exactOf(value));
  }
}

function toDate(value: unknown): Date {
  switch (typeOf(value)) {
    case 9:
      return value as Date;
    case 7:
      return (value as ObjectId).getTimestamp();
    case 17:
      return new Date((value as Timestamp).t * 1000);
    case 18:
    case 1:
    case 19:
      return new Date(Math.trunc(toNumber(value)!));
    case 2:
      return parseDate(value as string);
    default:
      throw unsupported(value, 'date');
  }
}

/** Dates the server reads without a format: ISO 8601 and friends; no zone means UTC. */
export function parseDate(text: string): Date {
  const iso = /^\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?)?(Z|[+-]\d{2}:?\d{2})?$/.exec(
    text,
  );
  const complete = iso && !iso[1] ? `${text.replace(' ', 'T')}${text.length > 10 ? 'Z' : ''}` : text;
  const time = Date.parse(complete);
  if (Number.isNaN(time)) throw failure(`Error parsing date string '${text}'`);
  return new Date(time);
}

function toObjectId(value: unknown): ObjectId {
  if (typeOf(value) === 7) return value as ObjectId;
  if (typeof value !== 'string') throw unsupported(value, 'objectId');
  if (!/^[0-9a-fA-F]{24}$/.test(value)) {
    throw failure(
      `Failed to parse objectId '${value}' in $convert with no onError value: Invalid string length for parsing to OID, expected 24 but found ${value.length}`,
    );
  }
  return new ObjectId(value);
}

const CONVERTERS: Readonly<Record<number, (value: unknown) => unknown>> = {
  1: toDouble,
  2: toText,
  7: toObjectId,
  8: toBool,
  9: toDate,
  16: toInt,
  18: toLong,
  19: toDecimalValue,
};

const shorthand = (convert: (value: unknown) => unknown): OperatorCompiler =>
  strict(1, 1, ([value]) => (isNullish(value) ? null : convert(value)));

const compileConvert: OperatorCompiler = (operand, compile, name) => {
  const parts = compileNamed(
    operand,
    compile,
    name,
    ['input', 'to'],
    ['onError', 'onNull', 'format', 'subtype'],
  );
  return (scope) => {
    const target = parts['to']!(scope);
    const input = parts['input']!(scope);
    if (isNullish(input)) return parts['onNull'] ? parts['onNull'](scope) : null;
    if (isNullish(target)) return null;
    const [code] = typeCodes(target);
    try {
      const convert = CONVERTERS[code!];
      if (!convert) throw unsupported(input, String(target));
      return convert(input);
    } catch (error) {
      if (parts['onError'] && error instanceof ServerError && error.code === 241)
        return parts['onError'](scope);
      throw error;
    }
  };
};

export const CONVERSIONS: OperatorTable = {
  $convert: compileConvert,
  $toBool: shorthand(toBool),
  $toDate: shorthand(toDate),
  $toDecimal: shorthand(toDecimalValue),
  $toDouble: shorthand(toDouble),
  $toInt: shorthand(toInt),
  $toLong: shorthand(toLong),
  $toObjectId: shorthand(toObjectId),
  $toString: shorthand(toText),
  $isNumber: strict(1, 1, ([value]) => isNumeric(value)),
  $type: strict(1, 1, ([value]) => typeName(value)),
};
