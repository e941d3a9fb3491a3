/** The document an upsert starts from: what the filter's equalities say, with `_id` first. */
import type { Document } from 'bson';
import { ServerError } from '../contracts.ts';
import { isDocument, typeOf } from './bson.ts';
import { isOperatorDocument } from './match.ts';
import { pathOf } from './path.ts';
import { changeAt } from './update-paths.ts';

/** Collects the equality conditions of a filter. Error: 54 NotSingleValueField when a path is named twice. */
export function documentFromFilter(filter: Document, onlyId = false): Document {
  const found = new Map<string, unknown>();
  collect(filter, found);
  let document: Document = {};
  const names = [...found.keys()].toSorted((a, b) => Number(b === '_id') - Number(a === '_id'));
  for (const name of names) {
    if (onlyId && name !== '_id') continue;
    document = changeAt(document, pathOf(name), () => found.get(name)) as Document;
  }
  return document;
}

function collect(filter: Document, found: Map<string, unknown>): void {
  for (const [name, value] of Object.entries(filter)) {
    if (name === '$and' || (name === '$or' && Array.isArray(value) && value.length === 1)) {
      for (const part of value as unknown[]) if (isDocument(part)) collect(part, found);
    } else if (!name.startsWith('$')) {
      collectField(name, value, found);
    }
  }
}

function collectField(name: string, value: unknown, found: Map<string, unknown>): void {
  if (typeOf(value) === 11) return;
  if (!isOperatorDocument(value)) {
    note(name, value, found);
    return;
  }
  if (Object.hasOwn(value, '$eq')) note(name, value['$eq'], found);
  for (const operator of ['$in', '$all']) {
    const list: unknown = value[operator];
    if (!Array.isArray(list) || list.length !== 1) continue;
    if (typeOf(list[0]) !== 11 && !isOperatorDocument(list[0])) note(name, list[0], found);
  }
}

function note(name: string, value: unknown, found: Map<string, unknown>): void {
  for (const other of found.keys()) {
    if (other === name || other.startsWith(`${name}.`) || name.startsWith(`${other}.`)) {
      throw new ServerError(
        54,
        'NotSingleValueField',
        `cannot infer query fields to set, path '${name}' is matched twice`,
      );
    }
  }
  found.set(name, value);
}
