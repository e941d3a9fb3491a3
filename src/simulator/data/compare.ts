/**
 * The server's total order over BSON values, equality, and keys that are equal exactly when values are.
 * Brackets: MinKey < undefined < null < numbers < strings and symbols < objects < arrays < binary < ObjectId < booleans <
 * dates < timestamps < regular expressions < code < code with scope < MaxKey. Numbers of all types compare by exact value.
 */
import type { Binary, BSONRegExp, Code, Document, Long, ObjectId, Timestamp } from 'bson';
import { ServerError } from '../contracts.ts';
import { type BsonType, render, toNumber, typeOf } from './bson.ts';
import { compareExact, type Exact, type Extended, exactOf, trim } from './decimal.ts';

/** How strings compare under a collation; absent means byte order. */
export interface Collator {
  readonly compare: (left: string, right: string) => number;
  /** The string all equal strings share (approximate: Unicode folding by strength). */
  readonly fold: (text: string) => string;
}

const BRACKETS: Readonly<Record<BsonType, number>> = {
  [-1]: -1,
  6: 0,
  10: 5,
  16: 10,
  1: 10,
  18: 10,
  19: 10,
  2: 15,
  14: 15,
  3: 20,
  4: 25,
  5: 30,
  7: 35,
  8: 40,
  9: 45,
  17: 47,
  11: 50,
  12: 55,
  13: 60,
  15: 65,
  127: 127,
};

/** The bracket of a value in the total order; comparisons in filters only look inside one bracket. */
export function bracketOf(value: unknown): number {
  return BRACKETS[typeOf(value)];
}

/** Negative, zero or positive. Undefined (missing) is below null here; sort keys turn it into null first. */
export function compareValues(left: unknown, right: unknown, collator?: Collator): number {
  if (left === right && typeof left !== 'number') return 0;
  const leftType = typeOf(left);
  const rightType = typeOf(right);
  const bracket = BRACKETS[leftType];
  if (bracket !== BRACKETS[rightType]) return bracket - BRACKETS[rightType];
  switch (bracket) {
    case 10:
      return compareNumbers(left, leftType, right, rightType);
    case 15:
      return collator
        ? collator.compare(String(left), String(right))
        : compareStrings(String(left), String(right));
    case 20:
      return compareDocuments(left as Document, right as Document, collator);
    case 25:
      return compareArrays(left as unknown[], right as unknown[], collator);
    case 30:
      return compareBinary(left as Binary, right as Binary);
    default:
      return compareScalars(bracket, left, right, collator);
  }
}

function compareScalars(bracket: number, left: unknown, right: unknown, collator?: Collator): number {
  switch (bracket) {
    case 35:
      return compareBytes((left as ObjectId).id, (right as ObjectId).id);
    case 40:
      return Number(left) - Number(right);
    case 45:
      return (left as Date).getTime() - (right as Date).getTime();
    case 47:
      return compareTimestamps(left as Timestamp, right as Timestamp);
    case 50: {
      const [a, b] = [regexParts(left), regexParts(right)];
      return compareStrings(a[0], b[0]) || compareStrings(a[1], b[1]);
    }
    case 60:
      return compareStrings(codeText(left), codeText(right));
    case 65:
      return (
        compareStrings(codeText(left), codeText(right)) ||
        compareDocuments((left as Code).scope ?? {}, (right as Code).scope ?? {}, collator)
      );
    default:
      return 0;
  }
}

const codeText = (value: unknown): string => String((value as Code).code);

function regexParts(value: unknown): [string, string] {
  if (value instanceof RegExp) return [value.source, value.flags];
  return [(value as BSONRegExp).pattern, (value as BSONRegExp).options];
}

/** Orders timestamps by seconds, then increment (both unsigned). */
export function compareTimestamps(left: Timestamp, right: Timestamp): number {
  return left.t - right.t || left.i - right.i;
}

function compareNumbers(left: unknown, leftType: BsonType, right: unknown, rightType: BsonType): number {
  if (leftType !== 18 && leftType !== 19 && rightType !== 18 && rightType !== 19) {
    return comparePlain(toNumber(left)!, toNumber(right)!);
  }
  if (leftType === 18 && rightType === 18 && typeof left === 'object' && typeof right === 'object') {
    return (left as Long).compare(right as Long);
  }
  return compareExact(exactOf(left), exactOf(right));
}

function comparePlain(left: number, right: number): number {
  if (left < right) return -1;
  if (left > right) return 1;
  if (left === right) return 0;
  // At least one is NaN, which is below every number and equal to itself.
  return Number(Number.isNaN(right)) - Number(Number.isNaN(left));
}

/** Orders strings by their UTF-8 bytes, which is code-point order and not JavaScript's UTF-16 order. */
export function compareStrings(left: string, right: string): number {
  const length = Math.min(left.length, right.length);
  for (let index = 0; index < length; index++) {
    const a = left.charCodeAt(index);
    const b = right.charCodeAt(index);
    if (a !== b) return codePointRank(a) - codePointRank(b);
  }
  return left.length - right.length;
}

// Surrogates stand for code points above U+FFFF and must sort after U+E000 to U+FFFF.
const codePointRank = (unit: number): number =>
  unit < 0xd800 ? unit : unit < 0xe000 ? unit + 0x2000 : unit - 0x800;

function compareDocuments(left: Document, right: Document, collator?: Collator): number {
  const leftNames = Object.keys(left);
  const rightNames = Object.keys(right);
  const length = Math.min(leftNames.length, rightNames.length);
  for (let index = 0; index < length; index++) {
    const [a, b] = [leftNames[index]!, rightNames[index]!];
    const byType = bracketOf(left[a]) - bracketOf(right[b]);
    if (byType !== 0) return byType;
    const byName = compareStrings(a, b);
    if (byName !== 0) return byName;
    const byValue = compareValues(left[a], right[b], collator);
    if (byValue !== 0) return byValue;
  }
  return leftNames.length - rightNames.length;
}

function compareArrays(left: readonly unknown[], right: readonly unknown[], collator?: Collator): number {
  const length = Math.min(left.length, right.length);
  for (let index = 0; index < length; index++) {
    const order = compareValues(left[index], right[index], collator);
    if (order !== 0) return order;
  }
  return left.length - right.length;
}

function compareBinary(left: Binary | Uint8Array, right: Binary | Uint8Array): number {
  const [a, b] = [binaryParts(left), binaryParts(right)];
  return a[1].length - b[1].length || a[0] - b[0] || compareBytes(a[1], b[1]);
}

function binaryParts(value: Binary | Uint8Array): [number, Uint8Array] {
  return value instanceof Uint8Array ? [0, value] : [value.sub_type, value.value()];
}

function compareBytes(left: Uint8Array, right: Uint8Array): number {
  return Buffer.compare(left, right);
}

/** Equality in the sense of the order: 1 equals 1.0, field order matters. */
export function equalValues(left: unknown, right: unknown, collator?: Collator): boolean {
  return compareValues(left, right, collator) === 0;
}

/**
 * True when two values are the same bytes in BSON: types and field order included. What an update compares with to tell
 * whether it changed anything.
 */
export function identicalValues(left: unknown, right: unknown): boolean {
  if (left === right) return true;
  const type = typeOf(left);
  if (type !== typeOf(right)) return false;
  if (type === 3) return identicalDocuments(left as Document, right as Document);
  if (type === 4) {
    const [a, b] = [left as unknown[], right as unknown[]];
    return a.length === b.length && a.every((element, index) => identicalValues(element, b[index]));
  }
  if (type === 19) return String(left) === String(right);
  if (type === 1) return Object.is(toNumber(left), toNumber(right));
  return compareValues(left, right) === 0;
}

function identicalDocuments(left: Document, right: Document): boolean {
  const names = Object.keys(left);
  const others = Object.keys(right);
  return (
    names.length === others.length &&
    names.every((name, index) => name === others[index] && identicalValues(left[name], right[name]))
  );
}

/** A string that is the same for two values exactly when {@link equalValues} holds. */
export function valueKey(value: unknown, collator?: Collator): string {
  switch (typeOf(value)) {
    case 16:
    case 1:
    case 18:
    case 19:
      return numberKey(value);
    case 2:
    case 14:
      return `s${collator ? collator.fold(String(value)) : String(value)}`;
    case 7:
      return `o${(value as ObjectId).toHexString()}`;
    case 3:
      return documentKey(value as Document, collator);
    case 4:
      return `[${(value as unknown[]).map((element) => lengthPrefixed(valueKey(element, collator))).join('')}`;
    default:
      return scalarKey(value);
  }
}

const lengthPrefixed = (text: string): string => `${text.length}:${text}`;

function documentKey(value: Document, collator?: Collator): string {
  const parts = Object.keys(value).map(
    (name) => lengthPrefixed(name) + lengthPrefixed(valueKey(value[name], collator)),
  );
  return `{${parts.join('')}`;
}

function scalarKey(value: unknown): string {
  const type = typeOf(value);
  switch (type) {
    case 5: {
      const [subtype, bytes] = binaryParts(value as Binary);
      return `b${subtype}:${Buffer.from(bytes).toString('latin1')}`;
    }
    case 8:
      return value ? 't' : 'f';
    case 9:
      return `d${(value as Date).getTime()}`;
    case 17:
      return `T${(value as Timestamp).t}:${(value as Timestamp).i}`;
    case 11: {
      const [pattern, options] = regexParts(value);
      return `r${lengthPrefixed(pattern)}${options}`;
    }
    case 13:
      return `c${codeText(value)}`;
    case 15:
      return `C${lengthPrefixed(codeText(value))}${documentKey((value as Code).scope ?? {})}`;
    default:
      return `?${type}`;
  }
}

function numberKey(value: unknown): string {
  const type = typeOf(value);
  if (type === 16) return `n${toNumber(value)!}`;
  if (type === 1) {
    const number = toNumber(value)!;
    // Integers beyond 2^53 print with exponents; everything that isn't a safe integer goes the exact way.
    if (Number.isSafeInteger(number)) return `n${number === 0 ? 0 : number}`;
  }
  return `n${extendedKey(exactOf(value))}`;
}

function extendedKey(value: Extended): string {
  if (typeof value === 'string') return value;
  const { coefficient, exponent }: Exact = trim(value);
  return exponent >= 0 && exponent < 40
    ? (coefficient * 10n ** BigInt(exponent)).toString()
    : `${coefficient}E${exponent}`;
}

const collators = new Map<string, Collator>();

/**
 * The comparer for a collation document; undefined for none or `locale: 'simple'`. Strength 1 ignores case and accents, 2
 * ignores case, 3 (default) neither. Errors: 40414 without locale, 2 BadValue for an unknown locale.
 */
export function collatorOf(collation: Document | undefined): Collator | undefined {
  if (collation === undefined || Object.keys(collation).length === 0) return undefined;
  const locale: unknown = collation['locale'];
  if (typeof locale !== 'string') {
    throw new ServerError(
      40414,
      'Location40414',
      "BSON field 'collation.locale' is missing but a required field",
    );
  }
  if (locale === 'simple') return undefined;
  const key = render(collation);
  const known = collators.get(key);
  if (known) return known;
  const collator = makeCollator(locale, collation);
  if (collators.size > 1_000) collators.clear();
  collators.set(key, collator);
  return collator;
}

function makeCollator(locale: string, collation: Document): Collator {
  const strength = toNumber(collation['strength']) ?? 3;
  const caseLevel = collation['caseLevel'] === true;
  const sensitivity = strength >= 3 ? 'variant' : strength === 2 ? 'accent' : caseLevel ? 'case' : 'base';
  const invalid = () => new ServerError(2, 'BadValue', `Field 'locale' is invalid in: ${render(collation)}`);
  const tag = locale.split('@')[0]!.replaceAll('_', '-');
  let intl: Intl.Collator;
  try {
    if (Intl.Collator.supportedLocalesOf(tag).length === 0) throw invalid();
    intl = new Intl.Collator(tag, {
      sensitivity,
      numeric: collation['numericOrdering'] === true,
      ignorePunctuation: collation['alternate'] === 'shifted',
      ...(collation['caseFirst'] === 'upper' || collation['caseFirst'] === 'lower'
        ? { caseFirst: collation['caseFirst'] }
        : {}),
    });
  } catch {
    throw invalid();
  }
  const stripMarks = (text: string) => text.normalize('NFD').replace(/\p{M}/gu, '');
  const fold = (text: string): string => {
    if (sensitivity === 'variant') return text.normalize('NFC');
    if (sensitivity === 'accent') return text.normalize('NFC').toLowerCase();
    return sensitivity === 'case' ? stripMarks(text) : stripMarks(text).toLowerCase();
  };
  return { compare: intl.compare, fold };
}
