/**
 * Exact arithmetic on numbers of any BSON type as sign × coefficient × 10^exponent, for the cases where plain numbers can't
 * decide: Decimal128 against everything, Long against large doubles.
 */
import { Decimal128, type Long } from 'bson';
import { toNumber, typeOf } from './bson.ts';

/** A finite number, exactly. */
export interface Exact {
  readonly coefficient: bigint;
  readonly exponent: number;
}
/** Any number: finite, or one of the three that aren't. */
export type Extended = Exact | 'NaN' | 'Infinity' | '-Infinity';

const TEN = 10n;

/** A power of ten as bigint. */
export const pow10 = (exponent: number): bigint => TEN ** BigInt(exponent);

/** The exact value of a BSON number. */
export function exactOf(value: unknown): Extended {
  switch (typeOf(value)) {
    case 18:
      return { coefficient: typeof value === 'bigint' ? value : (value as Long).toBigInt(), exponent: 0 };
    case 19:
      return parseDecimal(String(value));
    default:
      return exactOfDouble(toNumber(value) ?? Number.NaN);
  }
}

function parseDecimal(text: string): Extended {
  if (text === 'NaN' || text === 'Infinity' || text === '-Infinity') return text;
  const match = /^(-?)(\d+)(?:\.(\d*))?(?:E([+-]?\d+))?$/i.exec(text);
  if (!match) return 'NaN';
  const fraction = match[3] ?? '';
  const coefficient = BigInt(`${match[1] ?? ''}${match[2] ?? '0'}${fraction}`);
  return { coefficient, exponent: Number(match[4] ?? 0) - fraction.length };
}

function exactOfDouble(value: number): Extended {
  if (Number.isNaN(value)) return 'NaN';
  if (!Number.isFinite(value)) return value > 0 ? 'Infinity' : '-Infinity';
  if (Number.isInteger(value)) return { coefficient: BigInt(value), exponent: 0 };
  // A double is m × 2^-k; times 5^k / 5^k that is (m × 5^k) × 10^-k.
  let shift = 0;
  let scaled = value;
  while (!Number.isInteger(scaled)) {
    // Doubling is exact: a number with a fraction is below 2^53.
    scaled *= 2;
    shift += 1;
  }
  return { coefficient: BigInt(scaled) * 5n ** BigInt(shift), exponent: -shift };
}

const RANKS: Readonly<Record<string, number>> = { NaN: 0, '-Infinity': 1, Infinity: 3 };
const rank = (value: Extended): number => (typeof value === 'string' ? RANKS[value]! : 2);

/** Compares exactly; NaN is equal to itself and below everything. */
export function compareExact(left: Extended, right: Extended): number {
  const byRank = rank(left) - rank(right);
  if (byRank !== 0 || typeof left === 'string' || typeof right === 'string') return Math.sign(byRank);
  return compareFinite(left, right);
}

function compareFinite(left: Exact, right: Exact): number {
  const signs = Number(sign(left.coefficient)) - Number(sign(right.coefficient));
  if (signs !== 0 || left.coefficient === 0n) return Math.sign(signs);
  const magnitude = digits(left) + left.exponent - (digits(right) + right.exponent);
  if (magnitude !== 0) return left.coefficient > 0n ? Math.sign(magnitude) : -Math.sign(magnitude);
  const [a, b] = align(left, right);
  return a < b ? -1 : a > b ? 1 : 0;
}

const sign = (value: bigint): number => (value > 0n ? 1 : value < 0n ? -1 : 0);
const digits = (value: Exact): number => {
  const text = value.coefficient.toString();
  return value.coefficient < 0n ? text.length - 1 : text.length;
};

function align(left: Exact, right: Exact): [bigint, bigint, number] {
  const exponent = Math.min(left.exponent, right.exponent);
  return [
    left.coefficient * pow10(left.exponent - exponent),
    right.coefficient * pow10(right.exponent - exponent),
    exponent,
  ];
}

/** The number as Decimal128, rounded to 34 digits. */
export function toDecimal(value: Extended): Decimal128 {
  if (typeof value === 'string') return Decimal128.fromString(value);
  return Decimal128.fromStringWithRounding(`${value.coefficient}E${value.exponent}`);
}

/** A double as the server converts it to decimal: 15 significant digits. */
export function decimalOfDouble(value: number): Extended {
  if (!Number.isFinite(value) || Number.isInteger(value)) return exactOfDouble(value);
  return parseDecimal(value.toPrecision(15));
}

/** Sum, exactly. */
export function addExact(left: Extended, right: Extended): Extended {
  if (typeof left === 'string' || typeof right === 'string') return special(left, right, (a, b) => a + b);
  if (Math.abs(left.exponent - right.exponent) > 6_200) return left.exponent > right.exponent ? left : right;
  const [a, b, exponent] = align(left, right);
  return { coefficient: a + b, exponent };
}

/** Product, exactly. */
export function multiplyExact(left: Extended, right: Extended): Extended {
  if (typeof left === 'string' || typeof right === 'string') return special(left, right, (a, b) => a * b);
  return { coefficient: left.coefficient * right.coefficient, exponent: left.exponent + right.exponent };
}

/** Quotient to 40 significant digits (so that rounding to 34 is right). The divisor isn't zero. */
export function divideExact(left: Extended, right: Extended): Extended {
  if (typeof left === 'string' || typeof right === 'string') return special(left, right, (a, b) => a / b);
  const scale = Math.max(0, 40 + digits(right) - digits(left));
  const quotient = (left.coefficient * pow10(scale)) / right.coefficient;
  return trim({ coefficient: quotient, exponent: left.exponent - right.exponent - scale });
}

/** Remainder with the sign of the dividend. The divisor isn't zero. */
export function modExact(left: Extended, right: Extended): Extended {
  if (typeof left === 'string' || typeof right === 'string') return special(left, right, (a, b) => a % b);
  const [a, b, exponent] = align(left, right);
  return { coefficient: a % b, exponent };
}

/** The other sign. */
export function negateExact(value: Extended): Extended {
  if (value === 'NaN') return value;
  if (typeof value === 'string') return value === 'Infinity' ? '-Infinity' : 'Infinity';
  return { coefficient: -value.coefficient, exponent: value.exponent };
}

function special(left: Extended, right: Extended, operate: (a: number, b: number) => number): Extended {
  const asNumber = (value: Extended): number =>
    typeof value === 'string' ? Number(value) : sign(value.coefficient);
  return exactOfDouble(operate(asNumber(left), asNumber(right)));
}

/** Without trailing zeros, so that equal numbers have one form; zero has exponent 0. */
export function trim(value: Exact): Exact {
  if (value.coefficient === 0n) return { coefficient: 0n, exponent: 0 };
  const text = value.coefficient.toString();
  const zeros = text.length - text.replace(/0+$/, '').length;
  if (zeros === 0) return value;
  return { coefficient: BigInt(text.slice(0, text.length - zeros)), exponent: value.exponent + zeros };
}
