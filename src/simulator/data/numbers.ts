/** Arithmetic on BSON numbers with the server's result types: int overflows to long, anything with a double is double. */
import { Double, Int32, Long } from 'bson';
import { toNumber, typeOf } from './bson.ts';
import {
  addExact,
  decimalOfDouble,
  divideExact,
  type Extended,
  exactOf,
  modExact,
  multiplyExact,
  negateExact,
  toDecimal,
} from './decimal.ts';

const MAX_LONG = 2n ** 63n - 1n;
const MIN_LONG = -(2n ** 63n);

/** An integer as int when it fits, else long, else double. */
export function integer(value: number | bigint): Int32 | Long | Double {
  if (value >= -2147483648 && value <= 2147483647) return new Int32(Number(value));
  const exact = BigInt(value);
  return exact >= MIN_LONG && exact <= MAX_LONG ? Long.fromBigInt(exact) : new Double(Number(value));
}

/** An integer as long; undefined outside of 64 bits. */
export function long(value: bigint): Long | undefined {
  return value >= MIN_LONG && value <= MAX_LONG ? Long.fromBigInt(value) : undefined;
}

/** The integer value of an int or long, exactly. */
export function bigintOf(value: unknown): bigint {
  return BigInt(typeOf(value) === 18 ? String(value) : toNumber(value)!);
}

const isDecimal = (value: unknown): boolean => typeOf(value) === 19;
const isDouble = (value: unknown): boolean => typeOf(value) === 1;
const isLong = (value: unknown): boolean => typeOf(value) === 18;

function decimalOperand(value: unknown): Extended {
  return isDouble(value) ? decimalOfDouble(toNumber(value)!) : exactOf(value);
}

function combine(
  left: unknown,
  right: unknown,
  exact: (a: Extended, b: Extended) => Extended,
  double: (a: number, b: number) => number,
  whole: (a: bigint, b: bigint) => bigint,
): unknown {
  if (isDecimal(left) || isDecimal(right))
    return toDecimal(exact(decimalOperand(left), decimalOperand(right)));
  if (isDouble(left) || isDouble(right)) return new Double(double(toNumber(left)!, toNumber(right)!));
  const keepLong = isLong(left) || isLong(right);
  if (!keepLong) {
    const quick = double(toNumber(left)!, toNumber(right)!);
    if (Number.isSafeInteger(quick)) return integer(quick);
  }
  const result = whole(bigintOf(left), bigintOf(right));
  return keepLong ? long(result) : integer(result);
}

/** Sum; undefined when it doesn't fit 64 bits. */
export function add(left: unknown, right: unknown): unknown {
  return combine(
    left,
    right,
    addExact,
    (a, b) => a + b,
    (a, b) => a + b,
  );
}

/** Difference; undefined when it doesn't fit 64 bits. */
export function subtract(left: unknown, right: unknown): unknown {
  return combine(
    left,
    right,
    (a, b) => addExact(a, negateExact(b)),
    (a, b) => a - b,
    (a, b) => a - b,
  );
}

/** Product; undefined when it doesn't fit 64 bits. */
export function multiply(left: unknown, right: unknown): unknown {
  return combine(
    left,
    right,
    multiplyExact,
    (a, b) => a * b,
    (a, b) => a * b,
  );
}

/** Quotient: double, or decimal with a decimal. The divisor isn't zero. */
export function divide(left: unknown, right: unknown): unknown {
  if (isDecimal(left) || isDecimal(right))
    return toDecimal(divideExact(decimalOperand(left), decimalOperand(right)));
  return new Double(toNumber(left)! / toNumber(right)!);
}

/** Remainder with the sign of the dividend. The divisor isn't zero. */
export function modulo(left: unknown, right: unknown): unknown {
  return combine(
    left,
    right,
    modExact,
    (a, b) => a % b,
    (a, b) => a % b,
  );
}
