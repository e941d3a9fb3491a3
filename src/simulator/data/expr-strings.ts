/** Operators on strings. */
import { Int32 } from 'bson';
import { toInteger, typeName, typeOf } from './bson.ts';
import { compareStrings } from './compare.ts';
import { coerceToString } from './expr-convert.ts';
import {
  isNullish,
  located,
  named,
  type OperatorCompiler,
  type OperatorTable,
  strict,
  variadic,
} from './expr-types.ts';
import { toRegExp } from './match-operators.ts';

const codePoints = (text: string): string[] => [...text];

function concat(values: readonly unknown[]): unknown {
  if (values.some(isNullish)) return null;
  return values
    .map((value) => {
      if (typeof value !== 'string')
        throw located(16702, `$concat only supports strings, not ${typeName(value)}`);
      return value;
    })
    .join('');
}

function split([text, separator]: readonly unknown[]): unknown {
  if (isNullish(text) || isNullish(separator)) return null;
  if (typeof text !== 'string') {
    throw located(
      40085,
      `$split requires an expression that evaluates to a string as a first argument, found: ${typeName(text)}`,
    );
  }
  if (typeof separator !== 'string') {
    throw located(
      40086,
      `$split requires an expression that evaluates to a string as a second argument, found: ${typeName(separator)}`,
    );
  }
  if (separator === '') throw located(40087, '$split requires a non-empty separator');
  return text.split(separator);
}

/** Positions by code point or by byte. */
const indexOf = (units: (text: string) => readonly (string | number)[]): OperatorCompiler =>
  strict(2, 4, ([text, part, start, end], _scope, name) => {
    if (isNullish(text)) return null;
    if (typeof text !== 'string') {
      throw located(40091, `${name} requires a string as the first argument, found: ${typeName(text)}`);
    }
    if (typeof part !== 'string') {
      throw located(40092, `${name} requires a string as the second argument, found: ${typeName(part)}`);
    }
    const [haystack, needle] = [units(text), units(part)];
    const from = start === undefined ? 0 : (toInteger(start) ?? 0);
    const to = end === undefined ? haystack.length : Math.min(haystack.length, toInteger(end) ?? 0);
    for (let at = from; at + needle.length <= to; at++) {
      if (needle.every((unit, offset) => haystack[at + offset] === unit)) return new Int32(at);
    }
    return new Int32(-1);
  });

const bytesOf = (text: string): number[] => [...Buffer.from(text)];

function substringBytes([value, start, length]: readonly unknown[], _scope: unknown, name: string): string {
  const bytes = Buffer.from(coerceToString(value));
  const [from, count] = [toInteger(start), toInteger(length)];
  if (from === undefined) throw located(16034, `${name}:  starting index must be a numeric type`);
  if (count === undefined) throw located(16035, `${name}:  length must be a numeric type`);
  if (from < 0) throw located(50752, `${name}:  starting index must be non-negative (got: ${from})`);
  return bytes.subarray(from, count < 0 ? undefined : from + count).toString();
}

function substringCodePoints([value, start, length]: readonly unknown[]): string {
  const [from, count] = [toInteger(start), toInteger(length)];
  if (from === undefined || from < 0)
    throw located(34451, '$substrCP: the starting index must be a nonnegative integer');
  if (count === undefined || count < 0)
    throw located(34453, '$substrCP: length must be a nonnegative integer');
  return codePoints(coerceToString(value))
    .slice(from, from + count)
    .join('');
}

const WHITESPACE = '\\s\\0\\u00A0\\u1680\\u2000-\\u200A';

const trimmer = (left: boolean, right: boolean): OperatorCompiler =>
  named(['input'], ['chars'], (values, _scope, name) => {
    const { input, chars } = values;
    if (isNullish(input) || chars === null) return null;
    if (typeof input !== 'string')
      throw located(50699, `${name} requires its input to be a string, got ${typeName(input)}`);
    const set = typeof chars === 'string' ? chars.replace(/[\]\\^-]/g, '\\$&') : WHITESPACE;
    if (set === '') return input;
    let result = input;
    if (left) result = result.replace(new RegExp(`^[${set}]+`, 'u'), '');
    if (right) result = result.replace(new RegExp(`[${set}]+$`, 'u'), '');
    return result;
  });

const replacer = (all: boolean): OperatorCompiler =>
  named(['input', 'find', 'replacement'], [], (values, _scope, name) => {
    const { input, find, replacement } = values;
    if (isNullish(input) || isNullish(find) || isNullish(replacement)) return null;
    if (typeof input !== 'string')
      throw located(51746, `${name} requires that 'input' be a string, found: ${typeName(input)}`);
    if (typeof find !== 'string')
      throw located(51745, `${name} requires that 'find' be a string, found: ${typeName(find)}`);
    if (typeof replacement !== 'string') {
      throw located(
        51744,
        `${name} requires that 'replacement' be a string, found: ${typeName(replacement)}`,
      );
    }
    return all ? input.replaceAll(find, () => replacement) : input.replace(find, () => replacement);
  });

interface RegexCall {
  readonly input: string;
  readonly regex: RegExp;
}

function regexCall(
  values: { input?: unknown; regex?: unknown; options?: unknown },
  name: string,
): RegexCall | undefined {
  const { input, regex, options } = values;
  if (isNullish(input) || isNullish(regex)) return undefined;
  if (typeof input !== 'string') throw located(51104, `${name} needs 'input' to be of type string`);
  if (typeof regex !== 'string' && typeOf(regex) !== 11) {
    throw located(51105, `${name} needs 'regex' to be of type string or regex`);
  }
  const base = toRegExp(regex, options ?? undefined);
  return { input, regex: new RegExp(base.source, `${base.flags}g`) };
}

function describeMatch(match: RegExpMatchArray) {
  const before = (match.input ?? '').slice(0, match.index);
  return {
    match: match[0],
    idx: new Int32(codePoints(before).length),
    captures: match.slice(1).map((capture) => capture ?? null),
  };
}

const regexOperator = (apply: (call: RegexCall | undefined) => unknown): OperatorCompiler =>
  named(['input', 'regex'], ['options'], (values, _scope, name) => apply(regexCall(values, name)));

const changeCase = (change: (text: string) => string): OperatorCompiler =>
  strict(1, 1, ([value]) => change(coerceToString(value)));
// The server changes the case of ASCII letters only.
const upper = (text: string): string => text.replace(/[a-z]/g, (letter) => letter.toUpperCase());
const lower = (text: string): string => text.replace(/[A-Z]/g, (letter) => letter.toLowerCase());

const lengthOf = (measure: (text: string) => number, code: number): OperatorCompiler =>
  strict(1, 1, ([value], _scope, name) => {
    if (typeof value !== 'string')
      throw located(code, `${name} requires a string argument, found: ${typeName(value)}`);
    return new Int32(measure(value));
  });

export const STRINGS: OperatorTable = {
  $concat: variadic(concat),
  $split: strict(2, 2, split),
  $indexOfCP: indexOf(codePoints),
  $indexOfBytes: indexOf(bytesOf),
  $substr: strict(3, 3, substringBytes),
  $substrBytes: strict(3, 3, substringBytes),
  $substrCP: strict(3, 3, substringCodePoints),
  $toLower: changeCase(lower),
  $toUpper: changeCase(upper),
  $trim: trimmer(true, true),
  $ltrim: trimmer(true, false),
  $rtrim: trimmer(false, true),
  $replaceOne: replacer(false),
  $replaceAll: replacer(true),
  $regexMatch: regexOperator((call) => call?.regex.test(call.input) ?? false),
  $regexFind: regexOperator((call) => {
    const [first] = call ? call.input.matchAll(call.regex) : [];
    return first ? describeMatch(first) : null;
  }),
  $regexFindAll: regexOperator((call) =>
    call ? Array.from(call.input.matchAll(call.regex), describeMatch) : [],
  ),
  $strLenCP: lengthOf((text) => codePoints(text).length, 34471),
  $strLenBytes: lengthOf((text) => Buffer.byteLength(text), 34473),
  $strcasecmp: strict(
    2,
    2,
    ([left, right]) =>
      new Int32(Math.sign(compareStrings(upper(coerceToString(left)), upper(coerceToString(right))))),
  ),
};
