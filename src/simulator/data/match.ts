/**
 * The filter language: compiles a filter document into a function. Own code because brackets, numeric types, null against
 * missing and paths through arrays have to be the server's.
 */
import type { Document } from 'bson';
import { ServerError } from '../contracts.ts';
import { isDocument, isTruthy, typeOf } from './bson.ts';
import { type Collator, collatorOf } from './compare.ts';
import { compileExpression, evaluate, scopeOf, type Variables } from './expression.ts';
import { compileWhere } from './javascript.ts';
import { compileJsonSchema } from './json-schema.ts';
import { compileFieldOperator, equalityTest, type LeafMatcher, regexTest } from './match-operators.ts';
import { type MatchDetails, pathOf, visitPath } from './path.ts';
import { compileText, type TextIndex } from './text-search.ts';

/** Tells whether a document matches; fills in the array position for the positional operator. */
export type Matcher = (document: Document, details?: MatchDetails) => boolean;

/** What a filter depends on besides the document. */
export interface MatchContext {
  readonly collator?: Collator | undefined;
  /** Values of `$$name` inside `$expr`. */
  readonly variables?: Variables | undefined;
  /** What `$text` searches. */
  readonly text?: TextIndex | undefined;
}

/** {@link MatchContext} from command options. */
export function matchContext(options: {
  collation?: Document | undefined;
  let?: Document | undefined;
}): MatchContext {
  return {
    collator: collatorOf(options.collation),
    variables: options.let
      ? Object.fromEntries(
          Object.entries(options.let).map(([name, value]) => [name, evaluate(value, {}, {})]),
        )
      : undefined,
  };
}

/** Compiles a filter. Errors: 2 BadValue for unknown or malformed operators, 9, 14 as the server gives them. */
export function compileFilter(filter: Document, context: MatchContext = {}): Matcher {
  const parts: Matcher[] = [];
  for (const [name, value] of Object.entries(filter)) {
    const part = name.startsWith('$')
      ? compileTopLevel(name, value, context)
      : compileField(name, value, context);
    if (part) parts.push(part);
  }
  if (parts.length === 0) return () => true;
  if (parts.length === 1) return parts[0]!;
  return (document, details) => parts.every((part) => part(document, details));
}

function compileTopLevel(name: string, value: unknown, context: MatchContext): Matcher | undefined {
  switch (name) {
    case '$and': {
      const parts = compileList(name, value, context);
      return (document, details) => parts.every((part) => part(document, details));
    }
    case '$or': {
      const parts = compileList(name, value, context);
      return (document, details) => parts.some((part) => part(document, details));
    }
    case '$nor': {
      const parts = compileList(name, value, context);
      return (document) => !parts.some((part) => part(document));
    }
    case '$expr':
      return compileExpr(value, context);
    case '$jsonSchema':
      return compileJsonSchema(value);
    case '$text':
      return compileText(value, context.text);
    case '$where':
      return compileWhere(value);
    case '$comment':
      return undefined;
    case '$alwaysTrue':
      return () => true;
    case '$alwaysFalse':
      return () => false;
    case '$sampleRate':
      return () => true;
    default:
      throw refusedTopLevel(name);
  }
}

function compileExpr(expression: unknown, { variables = {}, collator }: MatchContext): Matcher {
  const evaluateFor = compileExpression(expression);
  return (document) => isTruthy(evaluateFor(scopeOf(document, variables, collator)));
}

function refusedTopLevel(name: string): ServerError {
  return new ServerError(
    2,
    'BadValue',
    `unknown top level operator: ${name}. If you have a field name that starts with a '$' symbol, consider using $getField or $setField.`,
  );
}

function compileList(name: string, value: unknown, context: MatchContext): Matcher[] {
  if (!Array.isArray(value)) throw new ServerError(2, 'BadValue', `${name} must be an array`);
  if (value.length === 0) throw new ServerError(2, 'BadValue', '$and/$or/$nor must be a nonempty array');
  return value.map((entry) => {
    if (!isDocument(entry))
      throw new ServerError(2, 'BadValue', '$or/$and/$nor entries need to be full objects');
    return compileFilter(entry, context);
  });
}

/** True for `{$gt: …}`: a document whose first field is an operator (DBRef fields aren't). */
export function isOperatorDocument(value: unknown): value is Document {
  if (!isDocument(value)) return false;
  const first = Object.keys(value)[0];
  return first?.startsWith('$') === true && first !== '$ref' && first !== '$id' && first !== '$db';
}

function compileField(name: string, value: unknown, context: MatchContext): Matcher {
  const path = pathOf(name);
  return onPath(path, compilePredicate(value, context));
}

/** The conditions at a path, each evaluated over every value the path can mean. */
function onPath(path: readonly string[], leaves: readonly LeafMatcher[]): Matcher {
  const tests = leaves.map((leaf) => leafOnPath(path, leaf));
  if (tests.length === 1) return tests[0]!;
  return (document, details) => tests.every((test) => test(document, details));
}

function leafOnPath(path: readonly string[], leaf: LeafMatcher): Matcher {
  if (leaf.group) {
    const inner = onPath(path, leaf.group);
    return leaf.negated ? (document) => !inner(document) : inner;
  }
  if (leaf.negated) return (document) => !visitPath(document, path, leaf.visit);
  return (document, details) => visitPath(document, path, leaf.visit, details);
}

/**
 * Compiles what stands at a field: a value (equality), a regular expression, or an operator document. Each part gives a
 * condition on the value at the end of the path, arrays whole.
 */
function compilePredicate(value: unknown, context: MatchContext): readonly LeafMatcher[] {
  if (typeOf(value) === 11) return [regexTest(value, undefined)];
  if (!isOperatorDocument(value)) return [equalityTest(value, context.collator)];
  const leaves: LeafMatcher[] = [];
  for (const [operator, operand] of Object.entries(value)) {
    if (!operator.startsWith('$')) throw new ServerError(2, 'BadValue', `unknown operator: ${operator}`);
    if (operator === '$options') {
      if (!('$regex' in value)) throw new ServerError(2, 'BadValue', '$options needs a $regex');
      continue;
    }
    const leaf = compileOperator(operator, operand, value, context);
    if (leaf) leaves.push(leaf);
  }
  return leaves;
}

function compileOperator(
  operator: string,
  operand: unknown,
  whole: Document,
  context: MatchContext,
): LeafMatcher | undefined {
  switch (operator) {
    case '$not':
      return compileNot(operand, context);
    case '$elemMatch':
      return compileElemMatch(operand, context);
    case '$all':
      return compileAll(operand, context);
    default:
      return compileFieldOperator(operator, operand, whole, context.collator);
  }
}

const never = (): boolean => false;

function compileNot(operand: unknown, context: MatchContext): LeafMatcher {
  if (typeOf(operand) === 11) return { negated: true, visit: regexTest(operand, undefined).visit };
  if (!isDocument(operand)) throw new ServerError(2, 'BadValue', '$not needs a regex or a document');
  const first = Object.keys(operand)[0];
  if (first === undefined) throw new ServerError(2, 'BadValue', '$not cannot be empty');
  if (!isOperatorDocument(operand)) throw new ServerError(2, 'BadValue', `unknown operator: ${first}`);
  return { negated: true, visit: never, group: compilePredicate(operand, context) };
}

const OBJECT_OPERATORS = new Set(['$and', '$or', '$nor', '$where', '$expr', '$jsonSchema']);

function compileElemMatch(operand: unknown, context: MatchContext): LeafMatcher {
  if (!isDocument(operand)) throw new ServerError(2, 'BadValue', '$elemMatch needs an Object');
  const test = compileElement(operand, context);
  return {
    visit: (value, details) => {
      if (!Array.isArray(value)) return false;
      const index = value.findIndex(test);
      if (index < 0) return false;
      if (details) details.index = index;
      return true;
    },
  };
}

/**
 * Compiles a condition on one array element, as in `$elemMatch` and `$pull`: operators test the element itself, anything
 * else is a filter on an embedded document (or array, by position).
 */
export function compileElement(operand: Document, context: MatchContext): (element: unknown) => boolean {
  const first = Object.keys(operand)[0];
  if (isOperatorDocument(operand) && first !== undefined && !OBJECT_OPERATORS.has(first)) {
    const leaves = compilePredicate(operand, context);
    return (element) => leaves.every((leaf) => leafOnElement(leaf, element));
  }
  const matcher = compileFilter(operand, context);
  return (element) => {
    if (Array.isArray(element)) return matcher(Object.fromEntries(element.entries()));
    return isDocument(element) && matcher(element);
  };
}

function leafOnElement(leaf: LeafMatcher, element: unknown): boolean {
  const found = leaf.group ? leaf.group.every((inner) => leafOnElement(inner, element)) : leaf.visit(element);
  return leaf.negated ? !found : found;
}

function compileAll(operand: unknown, context: MatchContext): LeafMatcher {
  if (!Array.isArray(operand)) throw new ServerError(2, 'BadValue', '$all needs an array');
  if (operand.length === 0) return { visit: never };
  const leaves = operand.map((element): LeafMatcher => {
    if (!isOperatorDocument(element)) return compilePredicate(element, context)[0]!;
    if (Object.keys(element)[0] !== '$elemMatch') {
      throw new ServerError(2, 'BadValue', 'no $ expressions in $all');
    }
    return compileElemMatch(element['$elemMatch'], context);
  });
  return { visit: never, group: leaves };
}
