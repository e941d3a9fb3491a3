/** Aggregation expressions. */
import type { Document } from 'bson';
import { isDocument } from './bson.ts';
import { fieldOf, pathOf } from './path.ts';

/** Values of `$$name`, without the dollars. */
export type Variables = Readonly<Record<string, unknown>>;

/** The value of an expression for a document; undefined for missing. */
export function evaluate(expression: unknown, document: Document, _variables: Variables): unknown {
  if (typeof expression === 'string' && expression.startsWith('$')) {
    let value: unknown = document;
    for (const part of pathOf(expression.slice(1)))
      value = isDocument(value) ? fieldOf(value, part) : undefined;
    return value;
  }
  return expression;
}
