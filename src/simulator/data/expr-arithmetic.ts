/** Arithmetic, trigonometry and bits. */
import { Double, Int32, Long } from 'bson';
import { ServerError } from '../contracts.ts';
import { isNumeric, toInteger, toNumber, typeName, typeOf } from './bson.ts';
import { compareExact, type Exact, exactOf, pow10, toDecimal } from './decimal.ts';
import {
  isNullish,
  located,
  type OperatorCompiler,
  type OperatorTable,
  strict,
  variadic,
} from './expr-types.ts';
import { add, bigintOf, divide, integer, long, modulo, multiply, subtract } from './numbers.ts';

const isDate = (value: unknown): value is Date => value instanceof Date;
const mismatch = (message: string): ServerError => new ServerError(14, 'TypeMismatch', message);
/** Sums and products outside of 64 bits become doubles in expressions. */
const orDouble = (result: unknown, fallback: () => number): unknown => result ?? new Double(fallback());

function addAll(values: readonly unknown[]): unknown {
  if (values.some(isNullish)) return null;
  let total: unknown = new Int32(0);
  let date: number | undefined;
  for (const value of values) {
    if (isDate(value)) {
      if (date !== undefined) throw located(16612, 'only one date allowed in an $add expression');
      date = value.getTime();
    } else if (isNumeric(value)) {
      const before = total;
      total = orDouble(add(before, value), () => toNumber(before)! + toNumber(value)!);
    } else {
      throw mismatch(`$add only supports numeric or date types, not ${typeName(value)}`);
    }
  }
  return date === undefined ? total : new Date(date + Math.trunc(toNumber(total)!));
}

function subtractTwo([left, right]: readonly unknown[]): unknown {
  if (isNullish(left) || isNullish(right)) return null;
  if (isDate(left)) {
    if (isDate(right)) return Long.fromNumber(left.getTime() - right.getTime());
    if (isNumeric(right)) return new Date(left.getTime() - Math.trunc(toNumber(right)!));
  } else if (isNumeric(left) && isNumeric(right)) {
    return orDouble(subtract(left, right), () => toNumber(left)! - toNumber(right)!);
  }
  throw mismatch(`can't $subtract ${typeName(right)} from ${typeName(left)}`);
}

function multiplyAll(values: readonly unknown[]): unknown {
  if (values.some(isNullish)) return null;
  return values.reduce<unknown>((product, value) => {
    if (!isNumeric(value)) throw mismatch(`$multiply only supports numeric types, not ${typeName(value)}`);
    return orDouble(multiply(product, value), () => toNumber(product)! * toNumber(value)!);
  }, new Int32(1));
}

function divideTwo([left, right]: readonly unknown[]): unknown {
  if (isNullish(left) || isNullish(right)) return null;
  if (!isNumeric(left) || !isNumeric(right)) {
    throw mismatch(`$divide only supports numeric types, not ${typeName(left)} and ${typeName(right)}`);
  }
  if (toNumber(right) === 0) throw new ServerError(2, 'BadValue', "can't $divide by zero");
  return divide(left, right);
}

function modTwo([left, right]: readonly unknown[]): unknown {
  if (isNullish(left) || isNullish(right)) return null;
  if (!isNumeric(left) || !isNumeric(right)) {
    throw located(16611, `$mod only supports numeric types, not ${typeName(left)} and ${typeName(right)}`);
  }
  if (toNumber(right) === 0) throw located(16610, "can't $mod by zero");
  return modulo(left, right);
}

/** An operator on one number; null stays null. */
function unary(apply: (value: unknown, name: string) => unknown): OperatorCompiler {
  return strict(1, 1, ([value], _scope, name) => {
    if (isNullish(value)) return null;
    if (!isNumeric(value))
      throw located(28765, `${name} only supports numeric types, not ${typeName(value)}`);
    return apply(value, name);
  });
}

/** A function of doubles; decimals go through double precision (34 digits are not kept). */
function real(
  apply: (value: number) => number,
  inDomain: (value: number) => boolean = () => true,
): OperatorCompiler {
  return unary((value, name) => {
    const number = toNumber(value)!;
    if (!Number.isNaN(number) && !inDomain(number)) {
      throw located(50989, `cannot apply ${name} to ${number}, value must be in its domain`);
    }
    const result = apply(number);
    return typeOf(value) === 19 ? toDecimal(exactOf(new Double(result))) : new Double(result);
  });
}

function absolute(value: unknown): unknown {
  if (toNumber(value)! >= 0) return value;
  if (typeOf(value) === 18 && bigintOf(value) === -(2n ** 63n)) {
    throw located(28680, "can't take $abs of long long min");
  }
  if (typeOf(value) === 16 && toNumber(value) === -2147483648) return Long.fromNumber(2147483648);
  return subtract(typeOf(value) === 18 ? Long.ZERO : new Int32(0), value);
}

type Rounding = (value: number) => number;

/** Rounds to a number of places; integers and decimals exactly, doubles as JavaScript can. */
function roundTo(value: unknown, places: number, how: Rounding): unknown {
  const type = typeOf(value);
  if (type === 19) return roundDecimal(value, places, how);
  if (type !== 1) {
    if (places >= 0) return value;
    const unit = 10 ** -places;
    const rounded = how(toNumber(value)! / unit) * unit;
    return type === 18 ? (long(BigInt(rounded)) ?? value) : integer(rounded);
  }
  const number = toNumber(value)!;
  if (!Number.isFinite(number)) return value;
  if (places <= 0) {
    const unit = 10 ** -places;
    return new Double(how(number / unit) * unit);
  }
  const shifted = Number(`${number}e${places}`);
  return new Double(Number.isFinite(shifted) ? Number(`${how(shifted)}e-${places}`) : number);
}

function roundDecimal(value: unknown, places: number, how: Rounding): unknown {
  const exact = exactOf(value);
  if (typeof exact === 'string' || -exact.exponent <= places) return value;
  const drop = -exact.exponent - places;
  const unit = pow10(drop);
  const low = floorDivide(exact.coefficient, unit);
  const rest = exact.coefficient - low * unit;
  // The rounding rule only looks at the last kept digit and the fraction, which fit a double well enough to decide.
  const parity = Number(low % 2n);
  const fraction = compareExact({ coefficient: rest * 2n, exponent: 0 }, { coefficient: unit, exponent: 0 });
  const sample = parity + (rest === 0n ? 0 : fraction < 0 ? 0.25 : fraction > 0 ? 0.75 : 0.5);
  const signed = how === Math.trunc && low < 0n && rest !== 0n ? 1 : how(sample) - parity;
  const result: Exact = { coefficient: low + BigInt(signed), exponent: -places };
  return toDecimal(result);
}

function floorDivide(dividend: bigint, divisor: bigint): bigint {
  const quotient = dividend / divisor;
  return dividend < 0n && quotient * divisor !== dividend ? quotient - 1n : quotient;
}

/** Half to even, as the server rounds. */
function halfEven(value: number): number {
  const floor = Math.floor(value);
  const fraction = value - floor;
  if (fraction < 0.5) return floor;
  if (fraction > 0.5) return floor + 1;
  return floor % 2 === 0 ? floor : floor + 1;
}

const rounding = (how: Rounding): OperatorCompiler =>
  strict(1, 2, ([value, places], _scope, name) => {
    if (isNullish(value) || places === null) return null;
    if (!isNumeric(value))
      throw located(51081, `${name} only supports numeric types, not ${typeName(value)}`);
    const digits = places === undefined ? 0 : toInteger(places);
    if (digits === undefined) throw located(51082, `precision argument to  ${name} must be a integral value`);
    if (digits < -20 || digits > 100) {
      throw located(51083, `cannot apply ${name} with precision value ${digits} value must be in [-20, 100]`);
    }
    return roundTo(value, digits, how);
  });

function power([base, exponent]: readonly unknown[]): unknown {
  if (isNullish(base) || isNullish(exponent)) return null;
  if (!isNumeric(base)) throw located(28762, `$pow's base must be numeric, not ${typeName(base)}`);
  if (!isNumeric(exponent))
    throw located(28763, `$pow's exponent must be numeric, not ${typeName(exponent)}`);
  const [b, e] = [toNumber(base)!, toNumber(exponent)!];
  if (b === 0 && e < 0) throw located(28764, '$pow cannot take a base of 0 and a negative exponent');
  const whole = [base, exponent].every((value) => typeOf(value) === 16 || typeOf(value) === 18);
  if (whole && e >= 0 && e < 64) {
    const exact = bigintOf(base) ** BigInt(e);
    const anyLong = typeOf(base) === 18 || typeOf(exponent) === 18;
    return (anyLong ? long(exact) : integer(exact)) ?? new Double(b ** e);
  }
  if (typeOf(base) === 19 || typeOf(exponent) === 19) return toDecimal(exactOf(new Double(b ** e)));
  return new Double(b ** e);
}

function logarithm([value, base]: readonly unknown[]): unknown {
  if (isNullish(value) || isNullish(base)) return null;
  if (!isNumeric(value)) throw located(28756, `$log's argument must be numeric, not ${typeName(value)}`);
  if (!isNumeric(base)) throw located(28757, `$log's base must be numeric, not ${typeName(base)}`);
  const [x, b] = [toNumber(value)!, toNumber(base)!];
  if (x <= 0) throw located(28758, `$log's argument must be a positive number, but is ${x}`);
  if (b <= 0 || b === 1)
    throw located(28759, `$log's base must be a positive number not equal to 1, but is ${b}`);
  return new Double(Math.log(x) / Math.log(b));
}

const bits = (start: bigint, combine: (left: bigint, right: bigint) => bigint): OperatorCompiler =>
  variadic((values, _scope, name) => {
    if (values.some(isNullish)) return null;
    for (const value of values) {
      if (typeOf(value) !== 16 && typeOf(value) !== 18) {
        throw mismatch(`${name} only supports int and long operands.`);
      }
    }
    const result = values.map(bigintOf).reduce(combine, start);
    return values.some((value) => typeOf(value) === 18) ? Long.fromBigInt(result) : integer(result);
  });

const within = (low: number, high: number) => (value: number) => value >= low && value <= high;
const finite = (value: number) => Number.isFinite(value);
const positive = (code: number, word: string): OperatorCompiler =>
  unary((value, name) => {
    const number = toNumber(value)!;
    if (number <= 0) throw located(code, `${name}'s argument must be a positive number, but is ${number}`);
    const result = word === 'ln' ? Math.log(number) : Math.log10(number);
    return typeOf(value) === 19 ? toDecimal(exactOf(new Double(result))) : new Double(result);
  });

export const ARITHMETIC: OperatorTable = {
  $add: variadic(addAll),
  $subtract: strict(2, 2, subtractTwo),
  $multiply: variadic(multiplyAll),
  $divide: strict(2, 2, divideTwo),
  $mod: strict(2, 2, modTwo),
  $abs: unary(absolute),
  $ceil: unary((value) => roundTo(value, 0, Math.ceil)),
  $floor: unary((value) => roundTo(value, 0, Math.floor)),
  $round: rounding(halfEven),
  $trunc: rounding(Math.trunc),
  $pow: strict(2, 2, power),
  $log: strict(2, 2, logarithm),
  $ln: positive(28766, 'ln'),
  $log10: positive(28761, 'log10'),
  $exp: real(Math.exp),
  $sqrt: unary((value) => {
    const number = toNumber(value)!;
    if (number < 0) throw located(28714, "$sqrt's argument must be greater than or equal to 0");
    return typeOf(value) === 19
      ? toDecimal(exactOf(new Double(Math.sqrt(number))))
      : new Double(Math.sqrt(number));
  }),
  $sin: real(Math.sin, finite),
  $cos: real(Math.cos, finite),
  $tan: real(Math.tan, finite),
  $asin: real(Math.asin, within(-1, 1)),
  $acos: real(Math.acos, within(-1, 1)),
  $atan: real(Math.atan),
  $atan2: strict(2, 2, ([y, x]) =>
    isNullish(y) || isNullish(x)
      ? null
      : new Double(Math.atan2(toNumber(y) ?? Number.NaN, toNumber(x) ?? Number.NaN)),
  ),
  $sinh: real(Math.sinh),
  $cosh: real(Math.cosh),
  $tanh: real(Math.tanh),
  $asinh: real(Math.asinh),
  $acosh: real(Math.acosh, within(1, Number.POSITIVE_INFINITY)),
  $atanh: real(Math.atanh, within(-1, 1)),
  $degreesToRadians: real((value) => (value * Math.PI) / 180),
  $radiansToDegrees: real((value) => (value * 180) / Math.PI),
  $bitAnd: bits(-1n, (left, right) => left & right),
  $bitOr: bits(0n, (left, right) => left | right),
  $bitXor: bits(0n, (left, right) => left ^ right),
  $bitNot: strict(1, 1, ([value]) => {
    if (isNullish(value)) return null;
    if (typeOf(value) === 16) return integer(~toNumber(value)!);
    if (typeOf(value) === 18) return long(~bigintOf(value));
    throw mismatch(`$bitNot only supports int and long, not: ${typeName(value)}.`);
  }),
};
