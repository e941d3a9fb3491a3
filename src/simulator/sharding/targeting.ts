/** Which shards a query concerns, by what it says about the shard key. Pure. */
import { type Document, MaxKey, MinKey } from 'bson';
import { isDocument, isOperatorDocument } from '../data/index.ts';
import { ownerOf, ownersBetween, ownersOf, type RoutingTable } from './chunks.ts';
import { hashOf, type KeyPattern, type KeyValues } from './shard-key.ts';

/** What is known of one field: one value, some values, a closed range; null: nothing. */
type Bounds =
  | { readonly kind: 'values'; readonly values: readonly unknown[] }
  | { readonly kind: 'range'; readonly from: unknown; readonly to: unknown };

/** Limits how many combinations of `$in` values are looked up one by one. */
const MAX_POINTS = 10_000;

/** Shards that may hold matches of a filter. */
export function targetsOf(table: RoutingTable, filter: Document, simpleCollation = true): readonly string[] {
  if (!simpleCollation) return ownersOf(table.chunks);
  const branches: unknown = filter['$or'];
  if (Array.isArray(branches) && branches.length > 0) {
    const { $or: _, ...rest } = filter;
    const all = branches.flatMap((branch) =>
      isDocument(branch) ? targetsOf(table, { $and: [rest, branch] }) : ownersOf(table.chunks),
    );
    return [...new Set(all)];
  }
  const bounds = table.pattern.map(({ path }) => boundsOf(filter, path));
  return byPoints(table, bounds) ?? byRange(table, bounds) ?? ownersOf(table.chunks);
}

/** The whole key a filter fixes by equality; null when a field is open. */
export function exactKey(pattern: KeyPattern, filter: Document): KeyValues | null {
  const values: unknown[] = [];
  for (const { path, hashed } of pattern) {
    const bounds = boundsOf(filter, path);
    if (bounds?.kind !== 'values' || bounds.values.length !== 1) return null;
    values.push(hashed ? hashOf(bounds.values[0]) : bounds.values[0]);
  }
  return values;
}

function byPoints(table: RoutingTable, bounds: readonly (Bounds | null)[]): readonly string[] | null {
  let points: KeyValues[] = [[]];
  for (const [index, bound] of bounds.entries()) {
    if (bound?.kind !== 'values') return null;
    const values = table.pattern[index]!.hashed ? bound.values.map(hashOf) : bound.values;
    points = points.flatMap((point) => values.map((value) => [...point, value]));
    if (points.length > MAX_POINTS) return null;
  }
  return [...new Set(points.map((point) => ownerOf(table, point)))];
}

/** By a prefix of equalities and one range after it. */
function byRange(table: RoutingTable, bounds: readonly (Bounds | null)[]): readonly string[] | null {
  const from: unknown[] = [];
  const to: unknown[] = [];
  for (const [index, bound] of bounds.entries()) {
    const { hashed } = table.pattern[index]!;
    if (bound === null) break;
    if (bound.kind === 'values' && bound.values.length === 1) {
      const value = hashed ? hashOf(bound.values[0]) : bound.values[0];
      from.push(value);
      to.push(value);
      continue;
    }
    if (bound.kind === 'range' && !hashed) {
      from.push(bound.from);
      to.push(bound.to);
    }
    break;
  }
  if (from.length === 0) return null;
  const rest = table.pattern.slice(from.length);
  return ownersBetween(
    table,
    [...from, ...rest.map(() => new MinKey())],
    [...to, ...rest.map(() => new MaxKey())],
  );
}

/** What a filter says about a path, at its top level and inside `$and`. */
function boundsOf(filter: Document, path: string): Bounds | null {
  const found: Bounds[] = [];
  for (const [name, condition] of Object.entries(filter)) {
    if (name === '$and' && Array.isArray(condition)) {
      for (const part of condition) {
        const inner = isDocument(part) ? boundsOf(part, path) : null;
        if (inner !== null) found.push(inner);
      }
    } else if (name === path) {
      const bounds = conditionBounds(condition);
      if (bounds !== null) found.push(bounds);
    } else if (path.startsWith(`${name}.`) && isDocument(condition) && !isOperatorDocument(condition)) {
      const inner = boundsOf(condition, path.slice(name.length + 1));
      if (inner?.kind === 'values') found.push(inner);
    }
  }
  return found.find(({ kind }) => kind === 'values') ?? found[0] ?? null;
}

function conditionBounds(condition: unknown): Bounds | null {
  if (isRegex(condition)) return null;
  if (!isDocument(condition) || !isOperatorDocument(condition)) return pointsOf([condition]);
  if ('$eq' in condition) return pointsOf([condition['$eq']]);
  if (Array.isArray(condition['$in'])) return pointsOf(condition['$in']);
  const low = condition['$gte'] ?? condition['$gt'];
  const high = condition['$lte'] ?? condition['$lt'];
  if (low === undefined && high === undefined) return null;
  return { kind: 'range', from: low ?? new MinKey(), to: high ?? new MaxKey() };
}

/** Values a key can have. An array never is one, a regular expression stands for many. */
function pointsOf(values: readonly unknown[]): Bounds | null {
  if (values.some((value) => Array.isArray(value) || isRegex(value))) return null;
  return { kind: 'values', values };
}

const isRegex = (value: unknown): boolean =>
  value instanceof RegExp || (value as { _bsontype?: string } | null)?._bsontype === 'BSONRegExp';
