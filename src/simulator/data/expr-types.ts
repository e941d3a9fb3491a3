/** What the parts of the expression language share: scopes, compiled forms, helpers for operators and their errors. */
import type { Document } from 'bson';
import { ServerError } from '../contracts.ts';
import { isDocument } from './bson.ts';
import type { Collator } from './compare.ts';

/** Values of `$$name`, without the dollars. */
export type Variables = Readonly<Record<string, unknown>>;

/** What an expression is evaluated against. Missing is `undefined` everywhere. */
export interface Scope {
  readonly root: unknown;
  readonly current: unknown;
  readonly variables: Variables;
  readonly collator: Collator | undefined;
}

export type Evaluator = (scope: Scope) => unknown;
export type Compile = (expression: unknown) => Evaluator;
/** Makes the evaluator of one operator from its operand as written. */
export type OperatorCompiler = (operand: unknown, compile: Compile, name: string) => Evaluator;
export type OperatorTable = Readonly<Record<string, OperatorCompiler>>;

/** An error whose code has no name of its own. */
export const located = (code: number, message: string): ServerError =>
  new ServerError(code, `Location${code}`, message);

/** True for null and missing, which most operators pass on as null. */
export const isNullish = (value: unknown): value is null | undefined => value === null || value === undefined;

/** An operator with a fixed range of arguments, all evaluated first. One argument may stand without its array. */
export function strict(
  min: number,
  max: number,
  apply: (values: readonly unknown[], scope: Scope, name: string) => unknown,
): OperatorCompiler {
  return (operand, compile, name) => {
    const operands = Array.isArray(operand) ? operand : [operand];
    if (operands.length < min || operands.length > max) throw arity(name, min, max, operands.length);
    const evaluators = operands.map(compile);
    return (scope) =>
      apply(
        evaluators.map((evaluate) => evaluate(scope)),
        scope,
        name,
      );
  };
}

/** An operator with any number of arguments. */
export const variadic = (
  apply: (values: readonly unknown[], scope: Scope, name: string) => unknown,
): OperatorCompiler => strict(0, Number.POSITIVE_INFINITY, apply);

function arity(name: string, min: number, max: number, given: number): ServerError {
  if (min === max) {
    return new ServerError(
      16020,
      'Location16020',
      `Expression ${name} takes exactly ${min} arguments. ${given} were passed in.`,
    );
  }
  return new ServerError(
    28667,
    'Location28667',
    `Expression ${name} takes at least ${min} arguments, and at most ${max}, but ${given} were passed in.`,
  );
}

/** An operator with named arguments; `required` ones must be there, others may. Absent ones are not evaluated. */
export function named(
  required: readonly string[],
  optional: readonly string[],
  apply: (values: Document, scope: Scope, name: string) => unknown,
): OperatorCompiler {
  return (operand, compile, name) => {
    const evaluators = compileNamed(operand, compile, name, required, optional);
    return (scope) => {
      const values: Document = {};
      for (const [key, evaluate] of Object.entries(evaluators)) values[key] = evaluate(scope);
      return apply(values, scope, name);
    };
  };
}

/** Compiles an object of named arguments. Errors: 40520-like for unknown and missing names. */
export function compileNamed(
  operand: unknown,
  compile: Compile,
  name: string,
  required: readonly string[],
  optional: readonly string[],
): Readonly<Record<string, Evaluator>> {
  const fields = namedOperands(operand, name, required, optional);
  return Object.fromEntries(Object.entries(fields).map(([key, value]) => [key, compile(value)]));
}

/** The object of named arguments as written, checked. */
export function namedOperands(
  operand: unknown,
  name: string,
  required: readonly string[],
  optional: readonly string[],
): Document {
  if (!isDocument(operand)) {
    throw new ServerError(9, 'FailedToParse', `${name} only supports an object as its argument`);
  }
  for (const key of Object.keys(operand)) {
    if (!required.includes(key) && !optional.includes(key)) {
      throw new ServerError(9, 'FailedToParse', `Unrecognized argument to ${name}: ${key}`);
    }
  }
  for (const key of required) {
    if (!Object.hasOwn(operand, key)) {
      throw new ServerError(9, 'FailedToParse', `Missing '${key}' parameter to ${name}`);
    }
  }
  return operand;
}
