/** Reading: queries over one catalog, be it the store's or a transaction's view. */
import { type Document, Long } from 'bson';
import { type FindSpec, ServerError } from '../contracts.ts';
import { isDocument, toNumber, typeOf } from './bson.ts';
import type { Catalog } from './catalog.ts';
import type { Collection, StoredRecord } from './collection.ts';
import { type Collator, compareValues, valueKey } from './compare.ts';
import type { Index } from './index-keys.ts';
import { compileFilter, isOperatorDocument, type MatchContext, type Matcher, matchContext } from './match.ts';
import { keyValues, type MatchDetails, pathOf, visitPath } from './path.ts';
import { compileProjection, isPositionalProjection } from './project.ts';
import { compileSort } from './sort.ts';
import { textIndexOf } from './text-search.ts';

/** A record that matched, with the array position of the match. */
export interface Match {
  readonly stored: StoredRecord;
  readonly details: MatchDetails;
}

/** What selects and orders records. */
export interface Selection {
  readonly filter: Document;
  readonly sort?: Document | undefined;
  readonly collation?: Document | undefined;
  readonly hint?: Document | string | undefined;
  readonly let?: Document | undefined;
}

/** The collation in force: the command's, else the collection's. */
export function contextFor(
  collection: Collection | undefined,
  selection: Omit<Selection, 'filter'>,
): MatchContext {
  const collation = selection.collation ?? (collection?.options['collation'] as Document | undefined);
  const text = collection && textIndexOf(collection.indexes.map(({ spec }) => spec));
  return { ...matchContext({ collation, let: selection.let }), ...(text && { text }) };
}

/** Records that match, sorted if asked for, at most `limit`. A context given takes the place of the selection's collation and variables. */
export function select(
  collection: Collection,
  selection: Selection,
  limit = Number.POSITIVE_INFINITY,
  context = contextFor(collection, selection),
): Match[] {
  const matches = compileFilter(selection.filter, context);
  const hinted = hintedIndex(collection, selection.hint);
  const natural = naturalDirection(selection);
  const sort =
    selection.sort && Object.keys(selection.sort).length > 0 && selection.sort['$natural'] === undefined;
  const early = sort ? Number.POSITIVE_INFINITY : limit;
  const found = scan(candidates(collection, selection, hinted, natural, context), matches, early);
  if (!sort) return found;
  const compare = compileSort(selection.sort!, context.collator);
  return found
    .toSorted((left, right) => compare(left.stored.document, right.stored.document))
    .slice(0, limit);
}

function scan(records: Iterable<StoredRecord>, matches: Matcher, limit: number): Match[] {
  const found: Match[] = [];
  for (const stored of records) {
    const details: MatchDetails = {};
    if (!matches(stored.document, details)) continue;
    found.push({ stored, details });
    if (found.length >= limit) break;
  }
  return found;
}

function naturalDirection(selection: Selection): number {
  const hint = isDocument(selection.hint) ? toNumber(selection.hint['$natural']) : undefined;
  return toNumber(selection.sort?.['$natural']) ?? hint ?? 1;
}

/** The records that can match: by `_id` when the filter names it, in index order for a hint, else all. */
function candidates(
  collection: Collection,
  selection: Selection,
  hinted: Index | undefined,
  natural: number,
  context: MatchContext,
): Iterable<StoredRecord> {
  if (hinted) return inIndexOrder(collection, hinted, context.collator);
  if (natural < 0) return [...collection.scan()].toReversed();
  return byId(collection, selection, context) ?? collection.scan();
}

/** Point reads: `_id` equal to a value or in a list. Undefined when the filter doesn't say so (or another collation rules). */
function byId(
  collection: Collection,
  selection: Selection,
  context: MatchContext,
): StoredRecord[] | undefined {
  const ids = collection.unindexed ? undefined : idsOf(selection.filter);
  if (!ids || (context.collator !== collection.collator && ids.some((id) => !isCollationFree(id))))
    return undefined;
  const found = new Map<number, StoredRecord>();
  for (const id of ids) {
    const stored = collection.findById(id);
    if (stored) found.set(stored.id, stored);
  }
  const records = [...found.values()];
  if (records.length < 2) return records;
  return records.toSorted((left, right) => compareValues(left.document['_id'], right.document['_id']));
}

const isCollationFree = (id: unknown): boolean => ![2, 3, 4, 14].includes(typeOf(id));

function idsOf(filter: Document): unknown[] | undefined {
  if (!Object.hasOwn(filter, '_id')) return undefined;
  const condition: unknown = filter['_id'];
  if (typeOf(condition) === 11 || condition === null) return undefined;
  if (!isOperatorDocument(condition)) return [condition];
  if (condition['$eq'] !== undefined && condition['$eq'] !== null) return [condition['$eq']];
  const list: unknown = condition['$in'];
  if (!Array.isArray(list) || list.some((id) => typeOf(id) === 11 || isOperatorDocument(id)))
    return undefined;
  return list;
}

/** The index a hint names. Error: 2 BadValue when there is none. */
function hintedIndex(
  collection: Collection | undefined,
  hint: Document | string | undefined,
): Index | undefined {
  if (hint === undefined || (isDocument(hint) && (Object.keys(hint).length === 0 || '$natural' in hint))) {
    return undefined;
  }
  if (hint === '' || !collection) return undefined;
  const found = collection.indexes.find(({ spec }) =>
    typeof hint === 'string' ? spec['name'] === hint : valueKey(spec['key']) === valueKey(hint),
  );
  if (found) return found;
  throw new ServerError(
    2,
    'BadValue',
    `error processing query: ns=${collection.ns}: planner returned error :: caused by :: hint provided does not correspond to an existing index`,
  );
}

function inIndexOrder(collection: Collection, index: Index, collator: Collator | undefined): StoredRecord[] {
  const records = [...collection.scan()].filter(({ document }) => index.keysOf(document).size > 0);
  const key = index.spec['key'] as Document;
  const sortable = Object.fromEntries(
    Object.entries(key).filter(([, direction]) => toNumber(direction) !== undefined),
  );
  const compare = compileSort(
    Object.fromEntries(
      Object.entries(sortable).map(([name, value]) => [name, toNumber(value)! < 0 ? -1 : 1]),
    ),
    index.collator ?? collator,
  );
  return records.toSorted((left, right) => compare(left.document, right.document));
}

/** Documents of a find, projected. */
export function find(collection: Collection | undefined, spec: FindSpec): Document[] {
  const filter = spec.filter ?? {};
  const context = contextFor(collection, spec);
  const projection = spec.projection && Object.keys(spec.projection).length > 0 ? spec.projection : undefined;
  const project = projection && compileProjection(projection, { ...context, find: true });
  if (!collection) {
    compileFilter(filter, context);
    if (spec.sort) compileSort(spec.sort);
    return [];
  }
  const skip = spec.skip ?? 0;
  const limit = spec.limit ? Math.abs(spec.limit) : Number.POSITIVE_INFINITY;
  const bounded = spec.min !== undefined || spec.max !== undefined;
  const all = select(collection, { ...spec, filter }, bounded ? Number.POSITIVE_INFINITY : skip + limit);
  const found = bounded ? withinBounds(collection, all, spec, context.collator) : all;
  const page = found.slice(skip, skip + limit);
  if (spec.returnKey) return page.map(({ stored }) => indexKeyOf(collection, spec, stored.document));
  const positional = projection !== undefined && isPositionalProjection(projection);
  return page.map(({ stored, details }) => {
    const document = project ? project(stored.document, positional ? details : undefined) : stored.document;
    return spec.showRecordId ? { ...document, $recordId: Long.fromNumber(stored.id) } : document;
  });
}

function withinBounds(
  collection: Collection,
  matches: readonly Match[],
  spec: FindSpec,
  collator: Collator | undefined,
): Match[] {
  const index = hintedIndex(collection, spec.hint);
  if (!index) throw new ServerError(51173, 'Location51173', 'min()/max() are not allowed without a hint');
  const key = index.spec['key'] as Document;
  const order = (document: Document, bound: Document): number => {
    for (const { name, path } of index.fields) {
      const value = keyValues(document, path)[0] ?? null;
      const compared = compareValues(value, bound[name], collator);
      if (compared !== 0) return (toNumber(key[name]) ?? 1) < 0 ? -compared : compared;
    }
    return 0;
  };
  for (const bound of [spec.min, spec.max]) {
    if (bound && index.fields.map(({ name }) => name).join() !== Object.keys(bound).join()) {
      throw new ServerError(51174, 'Location51174', 'The index chosen is not compatible with min/max');
    }
  }
  return matches.filter(
    ({ stored }) =>
      (!spec.min || order(stored.document, spec.min) >= 0) &&
      (!spec.max || order(stored.document, spec.max) < 0),
  );
}

function indexKeyOf(collection: Collection, spec: FindSpec, document: Document): Document {
  const named = hintedIndex(collection, spec.hint);
  const filter = spec.filter ?? {};
  const used =
    named ??
    collection.indexes.find((index) => Object.hasOwn(filter, index.fields[0]?.name ?? '')) ??
    (spec.sort
      ? collection.indexes.find((index) => Object.hasOwn(spec.sort!, index.fields[0]?.name ?? ''))
      : undefined);
  if (!used) return {};
  return Object.fromEntries(
    used.fields.map(({ name, path }): [string, unknown] => [name, keyValues(document, path)[0] ?? null]),
  );
}

/** The distinct values of a path over the documents given; arrays are taken apart. */
export function distinctValues(documents: Iterable<Document>, key: string, collator?: Collator): unknown[] {
  const path = pathOf(key);
  const values = new Map<string, unknown>();
  const note = (value: unknown): void => {
    const text = valueKey(value, collator);
    if (!values.has(text)) values.set(text, value);
  };
  for (const document of documents) {
    visitPath(document, path, (value) => {
      if (Array.isArray(value)) value.forEach(note);
      else if (value !== undefined) note(value);
      return false;
    });
  }
  return [...values.values()].toSorted((left, right) => compareValues(left, right, collator));
}

/** Refuses a view where only a collection will do. */
export function collectionForWrite(catalog: Catalog, ns: string): Collection | undefined {
  const collection = catalog.get(ns);
  if (collection?.type === 'view') {
    throw new ServerError(166, 'CommandNotSupportedOnView', `Namespace ${ns} is a view, not a collection`);
  }
  return collection;
}
