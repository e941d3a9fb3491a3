/**
 * JavaScript that clients send: `$where` and `$function`. It runs in a realm of its own that has nothing of this process
 * in it, takes its values in as text and gives one back as text. `sleep` does not hold the process up: what a command's
 * code slept is added up, and whoever runs the command waits that long before it answers ({@link takeSlept}).
 */
import { createContext, Script } from 'node:vm';
import { Code, type Document, EJSON } from 'bson';
import { type Millis, SECOND } from '../../base/units.ts';
import { ServerError } from '../contracts.ts';

/** One evaluation of client code ends after this time. */
const LIMIT: Millis = 5 * SECOND;
/** More than this nobody sleeps in one command. */
const LONGEST_SLEEP: Millis = 60 * SECOND;

/** What code finds in its realm besides the language: the shell's value types, as far as they can be told apart. */
const REALM = `
  'use strict';
  let slept = 0;
  globalThis.sleep = (millis) => { slept += Number(millis) || 0; return null; };
  globalThis.ObjectId = class ObjectId {
    constructor(text) { this.str = text; }
    toString() { return this.str; }
    valueOf() { return this.str; }
    equals(other) { return String(other) === this.str; }
  };
  globalThis.isNumber = (value) => typeof value === 'number';
  globalThis.isString = (value) => typeof value === 'string';
  globalThis.isObject = (value) => typeof value === 'object' && value !== null;
  globalThis.tojson = globalThis.tojsononeline = (value) => JSON.stringify(value);
  globalThis.__read = (text) => JSON.parse(text, (_name, value) => {
    if (value === null || typeof value !== 'object') return value;
    if (typeof value.$oid === 'string') return new ObjectId(value.$oid);
    if (typeof value.$date === 'string') return new Date(value.$date);
    if (typeof value.$numberLong === 'string') return Number(value.$numberLong);
    if (typeof value.$numberDouble === 'string') return Number(value.$numberDouble);
    return value;
  });
  globalThis.__write = (value) => {
    const ejson = (inner) => {
      if (inner instanceof ObjectId) return { $oid: inner.str };
      if (inner instanceof Date) return { $date: inner.toISOString() };
      if (Array.isArray(inner)) return inner.map(ejson);
      if (inner === null || typeof inner !== 'object') return inner === undefined ? null : inner;
      return Object.fromEntries(Object.entries(inner).map(([name, each]) => [name, ejson(each)]));
    };
    const text = JSON.stringify({ value: ejson(value), slept });
    slept = 0;
    return text;
  };
`;

let slept: Millis = 0;
let enabled = true;

/** Turns client code on or off for this process (`security.javascriptEnabled`). */
export function allowScripting(allowed: boolean): void {
  enabled = allowed;
}

/** How long the code evaluated since the last call wanted to sleep. */
export function takeSlept(): Millis {
  const total = Math.min(slept, LONGEST_SLEEP);
  slept = 0;
  return total;
}

/** Code ready to be called with documents. */
type Callable = (self: unknown, args: readonly unknown[]) => unknown;

/** Compiles the code of a `$where`, given as text or code without scope. Error: 2 when it is neither; 139 when it does not parse. */
export function compileWhere(value: unknown): (document: Document) => boolean {
  const plain = value instanceof Code && value.scope === null ? value.code : value;
  if (typeof plain !== 'string') throw new ServerError(2, 'BadValue', '$where got bad type');
  const call = compile(plain);
  return (document) => Boolean(call(document, []));
}

/** Compiles the body of a `$function`. */
export function compileFunction(body: unknown): (args: readonly unknown[]) => unknown {
  const source = typeof body === 'string' ? body : body instanceof Code ? String(body.code) : undefined;
  if (source === undefined) {
    throw new ServerError(31432, 'Location31432', 'The body function must be a string or code');
  }
  const call = compile(source);
  return (args) => call(null, args);
}

function compile(source: string): Callable {
  if (!enabled) throw new ServerError(2, 'BadValue', 'no globalScriptEngine: JavaScript is disabled');
  const context = createContext(Object.create(null), { codeGeneration: { strings: false, wasm: false } });
  new Script(REALM).runInContext(context);
  run(`globalThis.__code = ${functionText(source)};`);
  return (self, args) => {
    const text = run(`__write(__code.apply(__read(${quoted(self)}), __read(${quoted(args)})))`);
    const result = JSON.parse(String(text)) as { value: unknown; slept: number };
    slept += result.slept;
    return EJSON.deserialize({ value: result.value } as Document)['value'];
  };

  function run(code: string): unknown {
    try {
      return new Script(code).runInContext(context, { timeout: LIMIT });
    } catch (failure) {
      throw new ServerError(139, 'JSInterpreterFailure', failureText(failure));
    }
  }
}

/** Text that is an expression which gives the function. Plain expressions and statements get one around them. */
function functionText(source: string): string {
  const trimmed = source.trim().replace(/;+$/, '');
  if (/^\(?\s*(async\s+)?function\b|^\(?[\w$,\s]*\)?\s*=>/.test(trimmed)) return `(${trimmed})`;
  for (const body of [`return (${trimmed});`, source]) {
    const text = `(function () { ${body} })`;
    if (parses(text)) return text;
  }
  return `(${trimmed})`;
}

function parses(text: string): boolean {
  try {
    return new Script(text) !== null;
  } catch {
    return false;
  }
}

const quoted = (value: unknown): string =>
  JSON.stringify(EJSON.stringify(value as Document, { relaxed: true }));

/** The message alone: never the object, which belongs to the other realm. */
function failureText(failure: unknown): string {
  try {
    const { name, message } = failure as { name?: unknown; message?: unknown };
    return typeof name === 'string' && typeof message === 'string' ? `${name}: ${message}` : String(failure);
  } catch {
    return 'JavaScript failed';
  }
}
