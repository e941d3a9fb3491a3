/**
 * Aggregation expressions. Compiled once, evaluated per document; numbers keep their BSON types, missing is undefined.
 * Own code: the usual library for this takes plain JavaScript values only and orders them differently.
 */
import type { Document } from 'bson';
import { ServerError } from '../contracts.ts';
import { isDocument } from './bson.ts';
import type { Collator } from './compare.ts';
import { ACCUMULATOR_EXPRESSIONS } from './expr-accumulate.ts';
import { ARITHMETIC } from './expr-arithmetic.ts';
import { ARRAYS } from './expr-arrays.ts';
import { CONVERSIONS } from './expr-convert.ts';
import { DATES } from './expr-dates.ts';
import { LOGIC } from './expr-logic.ts';
import { OBJECTS } from './expr-objects.ts';
import { SETS } from './expr-sets.ts';
import { STRINGS } from './expr-strings.ts';
import {
  type Evaluator,
  located,
  namedOperands,
  type OperatorTable,
  type Scope,
  type Variables,
} from './expr-types.ts';
import { compileFunction } from './javascript.ts';
import { fieldOf } from './path.ts';
import { textScore } from './text-search.ts';

export type { Evaluator, Scope, Variables } from './expr-types.ts';

const OPERATORS: OperatorTable = {
  ...ARITHMETIC,
  ...ARRAYS,
  ...CONVERSIONS,
  ...DATES,
  ...LOGIC,
  ...OBJECTS,
  ...SETS,
  ...STRINGS,
  ...ACCUMULATOR_EXPRESSIONS,
  $literal: (operand) => () => operand,
  $const: (operand) => () => operand,
  $expr: (operand) => compileExpression(operand),
  $let: compileLet,
  $rand: () => () => Math.random(),
  $function: compileFunctionCall,
  $meta: (operand) => (scope) => (operand === 'textScore' ? textScore(scope.root) : undefined),
};

function compileFunctionCall(operand: unknown): Evaluator {
  const { body, args } = namedOperands(operand, '$function', ['body', 'args', 'lang'], []);
  const values = compileExpression(args);
  const call = compileFunction(body);
  return (scope) => {
    const given = values(scope);
    if (!Array.isArray(given)) throw located(31266, 'The args field must be of type array');
    return call(given);
  };
}

/** Marks of `$redact`. */
export const REDACT = { DESCEND: '$$DESCEND', PRUNE: '$$PRUNE', KEEP: '$$KEEP' } as const;

/** A scope over one document. */
export function scopeOf(document: unknown, variables: Variables = {}, collator?: Collator): Scope {
  return { root: document, current: document, variables, collator };
}

/** Compiles an expression. Errors: 168 InvalidPipelineOperator for unknown operators, others by operator. */
export function compileExpression(expression: unknown): Evaluator {
  if (typeof expression === 'string') {
    return expression.startsWith('$') ? compilePath(expression) : () => expression;
  }
  if (Array.isArray(expression)) {
    const parts = expression.map(compileExpression);
    return (scope) => parts.map((part) => part(scope) ?? null);
  }
  if (!isDocument(expression)) return () => expression;
  return compileObject(expression);
}

/** Compiles and evaluates at once. */
export function evaluate(expression: unknown, document: unknown, variables: Variables = {}): unknown {
  return compileExpression(expression)(scopeOf(document, variables));
}

function compileObject(expression: Document): Evaluator {
  const names = Object.keys(expression);
  const first = names[0];
  if (first?.startsWith('$')) {
    if (names.length > 1) {
      throw located(
        15983,
        `an expression specification must contain exactly one field, the name of the expression. Found ${names.length} fields in ${JSON.stringify(names)}`,
      );
    }
    return compileOperator(first, expression[first]);
  }
  const fields = Object.entries(expression).map(([name, value]) => [name, compileExpression(value)] as const);
  return (scope) => {
    const result: Document = {};
    for (const [name, field] of fields) {
      const value = field(scope);
      if (value !== undefined) result[name] = value;
    }
    return result;
  };
}

function compileOperator(name: string, operand: unknown): Evaluator {
  const operator = Object.hasOwn(OPERATORS, name) ? OPERATORS[name] : undefined;
  if (!operator) throw new ServerError(168, 'InvalidPipelineOperator', `Unrecognized expression '${name}'`);
  return operator(operand, compileExpression, name);
}

// ── paths and variables ────────────────────────────────────────────────────────────────────────────────────────────

function compilePath(text: string): Evaluator {
  if (text.startsWith('$$')) return compileVariable(text.slice(2));
  const path = splitPath(text.slice(1));
  return (scope) => walk(scope.current, path, 0);
}

function splitPath(text: string): readonly string[] {
  if (text === '') throw located(16872, "'$' by itself is not a valid FieldPath");
  const path = text.split('.');
  if (path.includes('')) throw located(15998, 'FieldPath field names may not be empty strings.');
  if (path.some((part) => part.startsWith('$'))) {
    throw located(
      16410,
      `FieldPath field names may not start with '$'. Consider using $getField or $setField.`,
    );
  }
  return path;
}

function compileVariable(text: string): Evaluator {
  const [name, ...path] = text.split('.') as [string, ...string[]];
  const read = variableReader(name);
  if (path.length === 0) return read;
  return (scope) => walk(read(scope), path, 0);
}

function variableReader(name: string): Evaluator {
  switch (name) {
    case 'ROOT':
      return (scope) => scope.root;
    case 'CURRENT':
      return (scope) => scope.current;
    case 'REMOVE':
      return () => undefined;
    case 'NOW':
      return (scope) => scope.variables['NOW'] ?? new Date();
    case 'USER_ROLES':
      return (scope) => scope.variables['USER_ROLES'] ?? [];
    case 'DESCEND':
    case 'PRUNE':
    case 'KEEP':
      return () => REDACT[name];
    default:
      return (scope) => {
        if (Object.hasOwn(scope.variables, name)) return scope.variables[name];
        throw located(17276, `Use of undefined variable: ${name}`);
      };
  }
}

/** Paths in expressions look into every element of an array and know no positions. */
function walk(value: unknown, path: readonly string[], at: number): unknown {
  if (at === path.length) return value;
  if (Array.isArray(value)) {
    return value.flatMap((element) => {
      const found = isDocument(element) || Array.isArray(element) ? walk(element, path, at) : undefined;
      return found === undefined ? [] : [found];
    });
  }
  if (!isDocument(value)) return undefined;
  return walk(fieldOf(value, path[at]!), path, at + 1);
}

/** Variable names begin with a small letter. */
function checkVariableName(name: string): void {
  if (!/^[a-z\u0080-\uffff][\w\u0080-\uffff]*$/.test(name) && name !== 'CURRENT') {
    throw new ServerError(
      9,
      'FailedToParse',
      `'${name}' starts with an invalid character for a user variable name`,
    );
  }
}

function compileLet(operand: unknown): Evaluator {
  if (!isDocument(operand)) throw located(16874, '$let only supports an object as its argument');
  const unknown = Object.keys(operand).find((key) => key !== 'vars' && key !== 'in');
  if (unknown !== undefined) throw located(16875, `Unrecognized parameter to $let: ${unknown}`);
  if (!('vars' in operand)) throw located(16876, "Missing 'vars' parameter to $let");
  if (!('in' in operand)) throw located(16877, "Missing 'in' parameter to $let");
  const variables = Object.entries(operand['vars'] as Document).map(([name, value]) => {
    checkVariableName(name);
    return [name, compileExpression(value)] as const;
  });
  const inner = compileExpression(operand['in']);
  return (scope) => {
    const values = Object.fromEntries(variables.map(([name, value]) => [name, value(scope)]));
    const current = Object.hasOwn(values, 'CURRENT') ? values['CURRENT'] : scope.current;
    return inner({ ...scope, current, variables: { ...scope.variables, ...values } });
  };
}
