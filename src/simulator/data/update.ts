/**
 * Update specifications: operators, replacements and pipelines, compiled once and applied to immutable documents, with the
 * server's checks and messages.
 */
import type { Document } from 'bson';
import { ServerError } from '../contracts.ts';
import { isDocument, render, typeName } from './bson.ts';
import { type Collator, compareStrings, identicalValues } from './compare.ts';
import { compileFilter, type MatchContext } from './match.ts';
import { arrayIndex, type MatchDetails, pathOf, valueAt } from './path.ts';
import { compileOperator, type OperatorChange, UPDATE_OPERATORS } from './update-operators.ts';
import { changeAt, MISSING, withField } from './update-paths.ts';

/** What applying an update to one document needs to know. */
interface UpdateTarget {
  readonly now: Date;
  /** True while making the document of an upsert: `$setOnInsert` counts. */
  readonly inserting: boolean;
  /** Where the filter matched in an array, for `$`. */
  readonly details?: MatchDetails | undefined;
}

/** A compiled update. `apply` gives the same reference back when it changes nothing. */
export interface CompiledUpdate {
  readonly kind: 'operators' | 'replacement' | 'pipeline';
  /** Whether paths use the positional `$`, so the filter has to tell its position. */
  readonly positional: boolean;
  apply(document: Document, target: UpdateTarget): Document;
}

interface UpdateOptions extends MatchContext {
  readonly arrayFilters?: readonly Document[] | undefined;
  readonly collator?: Collator | undefined;
  /** Runs an update pipeline on one document; given by the aggregation part. */
  readonly runPipeline: (
    pipeline: readonly Document[],
    document: Document,
    context: MatchContext,
  ) => Document;
}

const failedToParse = (message: string): ServerError => new ServerError(9, 'FailedToParse', message);
const bad = (message: string): ServerError => new ServerError(2, 'BadValue', message);

/** True for an operator document or a pipeline, false for a replacement. */
function isOperatorUpdate(update: Document | readonly Document[]): boolean {
  return Array.isArray(update) || Object.keys(update)[0]?.startsWith('$') === true;
}

/** Compiles an update. Errors: 9, 2, 14, 40, 52, 56, 66 as the server gives them. */
export function compileUpdate(
  update: Document | readonly Document[],
  options: UpdateOptions,
): CompiledUpdate {
  if (Array.isArray(update)) return compilePipelineUpdate(update as readonly Document[], options);
  const document = update as Document;
  return isOperatorUpdate(document)
    ? compileOperators(document, options)
    : compileReplacement(document, options);
}

// ── pipelines and replacements ─────────────────────────────────────────────────────────────────────────────────────

const UPDATE_STAGES = new Set(['$addFields', '$set', '$project', '$unset', '$replaceRoot', '$replaceWith']);

function compilePipelineUpdate(pipeline: readonly Document[], options: UpdateOptions): CompiledUpdate {
  if (options.arrayFilters && options.arrayFilters.length > 0) {
    throw failedToParse('arrayFilters may not be specified for pipeline-syle updates');
  }
  for (const stage of pipeline) {
    const name = Object.keys(stage)[0] ?? '';
    if (!UPDATE_STAGES.has(name)) {
      throw new ServerError(72, 'InvalidOptions', `${name} is not allowed to be used within an update`);
    }
  }
  return {
    kind: 'pipeline',
    positional: false,
    apply: (document, { inserting }) =>
      keepId(document, options.runPipeline(pipeline, document, options), inserting),
  };
}

function compileReplacement(replacement: Document, options: UpdateOptions): CompiledUpdate {
  if (options.arrayFilters && options.arrayFilters.length > 0) {
    throw failedToParse('Cannot specify arrayFilters and a non-pipeline update');
  }
  const dollar = Object.keys(replacement).find((name) => name.startsWith('$'));
  if (dollar !== undefined) {
    throw new ServerError(
      52,
      'DollarPrefixedFieldName',
      `The dollar ($) prefixed field '${dollar}' in '${dollar}' is not allowed in the context of an update's replacement document. Consider using an aggregation pipeline with $replaceWith.`,
    );
  }
  return {
    kind: 'replacement',
    positional: false,
    apply: (document, { inserting }) => keepId(document, replacement, inserting),
  };
}

/** The new document with the old `_id`, first; refuses another `_id`. */
function keepId(before: Document, after: Document, inserting: boolean): Document {
  if (!Object.hasOwn(before, '_id')) return after;
  const id: unknown = before['_id'];
  if (Object.hasOwn(after, '_id') && !identicalIds(id, after['_id'])) {
    throw new ServerError(
      66,
      'ImmutableField',
      inserting
        ? `The _id field cannot be changed from {_id: ${render(id)}} to {_id: ${render(after['_id'])}}.`
        : `After applying the update, the (immutable) field '_id' was found to have been altered to _id: ${render(after['_id'])}`,
    );
  }
  const { _id: _dropped, ...rest } = after;
  const result = { _id: id, ...rest };
  return identicalValues(before, result) ? before : result;
}

// The server compares the old and new _id by value in field order; 1 and 1.0 count as the same.
const identicalIds = (left: unknown, right: unknown): boolean =>
  identicalValues(left, right) || render(left) === render(right) || Number(left) === Number(right);

// ── operators ──────────────────────────────────────────────────────────────────────────────────────────────────────

interface Step {
  readonly operator: string;
  readonly path: readonly string[];
  readonly change: OperatorChange;
  /** `$rename`: where the value goes. */
  readonly to?: readonly string[];
}

type ElementFilters = ReadonlyMap<string, (element: unknown) => boolean>;

function compileOperators(update: Document, options: UpdateOptions): CompiledUpdate {
  const filters = compileArrayFilters(options);
  const steps = Object.entries(update).flatMap(([operator, fields]) =>
    compileModifier(operator, fields, options),
  );
  checkConflicts(steps);
  checkFiltersUsed(filters, steps, update);
  const ordered = steps.toSorted((left, right) => comparePaths(left.path, right.path));
  return {
    kind: 'operators',
    positional: steps.some((step) => step.path.includes('$')),
    apply: (document, target) => applySteps(ordered, document, target, filters),
  };
}

function compileModifier(operator: string, fields: unknown, options: UpdateOptions): Step[] {
  if (!UPDATE_OPERATORS.has(operator)) {
    throw failedToParse(
      `Unknown modifier: ${operator}. Expected a valid update modifier or pipeline-style update specified as an array`,
    );
  }
  if (!isDocument(fields)) {
    throw failedToParse(
      `Modifiers operate on fields but we found type ${typeName(fields)} instead. For example: {$mod: {<field>: ...}} not {${operator}: ${render(fields)}}`,
    );
  }
  return Object.entries(fields).map(([name, operand]) => {
    const path = checkPath(name);
    if (operator === '$rename') return compileRename(name, path, operand);
    const change = compileOperator(operator, operand, { path: name, collator: options.collator });
    return { operator, path, change };
  });
}

function checkPath(name: string): readonly string[] {
  const path = pathOf(name);
  if (name === '') throw new ServerError(56, 'EmptyFieldName', 'An empty update path is not valid.');
  if (path.includes('')) {
    throw new ServerError(
      56,
      'EmptyFieldName',
      `The update path '${name}' contains an empty field name, which is not allowed.`,
    );
  }
  if (path[0] === '$') {
    throw bad(`Cannot have positional (i.e. '$') element in the first position in path '${name}'`);
  }
  if (path.filter((part) => part === '$').length > 1) {
    throw bad(`Too many positional (i.e. '$') elements found in path '${name}'`);
  }
  return path;
}

function compileRename(name: string, path: readonly string[], operand: unknown): Step {
  if (typeof operand !== 'string') {
    throw bad(`The 'to' field for $rename must be a string: ${name}: ${render(operand)}`);
  }
  const to = checkPath(operand);
  if (path.some(isPositional)) throw bad(`The source field for $rename may not be dynamic: ${name}`);
  if (to.some(isPositional)) throw bad(`The destination field for $rename may not be dynamic: ${operand}`);
  if (operand === name) {
    throw bad(`The source and target field for $rename must differ: ${name}: "${operand}"`);
  }
  if (isPrefix(path, to) || isPrefix(to, path)) {
    throw bad(`The source and target field for $rename must not be on the same path: ${name}: "${operand}"`);
  }
  return { operator: '$rename', path, change: () => MISSING, to };
}

const isPositional = (part: string): boolean => part === '$' || part.startsWith('$[');
const isPrefix = (left: readonly string[], right: readonly string[]): boolean =>
  left.length <= right.length && left.every((part, index) => part === right[index]);

function checkConflicts(steps: readonly Step[]): void {
  const seen: (readonly string[])[] = [];
  for (const step of steps) {
    for (const path of step.to ? [step.path, step.to] : [step.path]) {
      const clash = seen.find((other) => isPrefix(other, path) || isPrefix(path, other));
      if (clash) {
        const at = clash.length < path.length ? clash : path;
        throw new ServerError(
          40,
          'ConflictingUpdateOperators',
          `Updating the path '${path.join('.')}' would create a conflict at '${at.join('.')}'`,
        );
      }
      seen.push(path);
    }
  }
}

/** The server applies changes in the order of their paths, numbers numerically; new fields appear in that order. */
function comparePaths(left: readonly string[], right: readonly string[]): number {
  for (let index = 0; index < Math.min(left.length, right.length); index++) {
    const [a, b] = [left[index]!, right[index]!];
    const [x, y] = [arrayIndex(a), arrayIndex(b)];
    const order = x !== undefined && y !== undefined ? x - y : compareStrings(a, b);
    if (order !== 0) return order;
  }
  return left.length - right.length;
}

function applySteps(
  steps: readonly Step[],
  document: Document,
  target: UpdateTarget,
  filters: ElementFilters,
): Document {
  const context = { now: target.now, id: document['_id'] };
  let result = document;
  for (const step of steps) {
    if (step.operator === '$setOnInsert' && !target.inserting) continue;
    if (step.to) {
      result = rename(result, step.path, step.to);
      continue;
    }
    for (const path of expand(result, step.path, target.details, filters)) {
      result = changeAt(result, path, (value) => step.change(value, context)) as Document;
    }
  }
  if (!target.inserting || Object.hasOwn(document, '_id')) checkId(document, result, steps);
  return result;
}

function rename(document: Document, from: readonly string[], to: readonly string[]): Document {
  const value = renameSource(document, from);
  if (value === undefined) return document;
  const without = changeAt(document, from, () => MISSING) as Document;
  const target = to.length === 1 && Object.hasOwn(without, to[0]!) ? to : undefined;
  if (target) return withField(without, target[0]!, value);
  return changeAt(without, to, () => value) as Document;
}

function renameSource(document: Document, from: readonly string[]): unknown {
  for (let length = 1; length < from.length; length++) {
    if (Array.isArray(valueAt(document, from.slice(0, length)))) {
      throw bad(
        `The source field cannot be an array element, '${from.join('.')}' in doc with _id: ${render(document['_id'])} has an array field called '${from[length - 1]}'`,
      );
    }
  }
  return valueAt(document, from);
}

function checkId(before: Document, after: Document, steps: readonly Step[]): void {
  if (identicalValues(before['_id'], after['_id'])) return;
  const step = steps.find(({ path, to }) => path[0] === '_id' || to?.[0] === '_id');
  throw new ServerError(
    66,
    'ImmutableField',
    `Performing an update on the path '${(step?.to?.[0] === '_id' ? step.to : (step?.path ?? ['_id'])).join('.')}' would modify the immutable field '_id'`,
  );
}

// ── positions in arrays ────────────────────────────────────────────────────────────────────────────────────────────

/** The concrete paths a path with `$`, `$[]` and `$[id]` means in a document. */
function expand(
  document: Document,
  path: readonly string[],
  details: MatchDetails | undefined,
  filters: ElementFilters,
): readonly (readonly string[])[] {
  const at = path.findIndex(isPositional);
  if (at < 0) return [path];
  const part = path[at]!;
  const before = path.slice(0, at);
  const after = path.slice(at + 1);
  if (part === '$') {
    if (details?.index === undefined) {
      throw bad('The positional operator did not find the match needed from the query.');
    }
    return expand(document, [...before, String(details.index), ...after], details, filters);
  }
  const array = valueAt(document, before);
  const place = before.join('.');
  if (array === undefined) {
    throw bad(`The path '${place}' must exist in the document in order to apply array updates.`);
  }
  if (!Array.isArray(array)) {
    throw bad(`Cannot apply array updates to non-array element ${before.at(-1)}: ${render(array)}`);
  }
  const name = part.slice(2, -1);
  const test = name === '' ? () => true : filters.get(name)!;
  return array.flatMap((element, index) =>
    test(element) ? expand(document, [...before, String(index), ...after], details, filters) : [],
  );
}

function compileArrayFilters(options: UpdateOptions): ElementFilters {
  const filters = new Map<string, (element: unknown) => boolean>();
  for (const filter of options.arrayFilters ?? []) {
    const name = filterName(filter);
    if (name === undefined) {
      throw failedToParse('Cannot use an expression without a top-level field name in arrayFilters');
    }
    if (!/^[a-z][a-zA-Z0-9]*$/.test(name)) {
      throw bad(
        `Error parsing array filter :: caused by :: The top-level field name must be an alphanumeric string beginning with a lowercase letter, found '${name}'`,
      );
    }
    if (filters.has(name)) {
      throw failedToParse(`Found multiple array filters with the same top-level field name ${name}`);
    }
    const matches = compileFilter(filter, options);
    filters.set(name, (element) => matches({ [name]: element }));
  }
  return filters;
}

/** The one identifier an array filter is about. */
function filterName(filter: Document): string | undefined {
  const names = new Set<string>();
  for (const [key, value] of Object.entries(filter)) {
    if (!key.startsWith('$')) names.add(key.split('.')[0]!);
    else if (Array.isArray(value)) {
      for (const part of value) if (isDocument(part)) names.add(filterName(part) ?? '');
    }
  }
  names.delete('');
  if (names.size > 1) {
    const [first, second] = names;
    throw failedToParse(
      `Error parsing array filter :: caused by :: Expected a single top-level field name, found '${first}' and '${second}'`,
    );
  }
  return [...names][0];
}

function checkFiltersUsed(filters: ElementFilters, steps: readonly Step[], update: Document): void {
  const used = new Set<string>();
  for (const step of steps) {
    for (const part of step.path) {
      if (!part.startsWith('$[')) continue;
      const name = part.slice(2, -1);
      if (name !== '' && !filters.has(name)) {
        throw bad(`No array filter found for identifier '${name}' in path '${step.path.join('.')}'`);
      }
      used.add(name);
    }
  }
  for (const name of filters.keys()) {
    if (!used.has(name)) {
      throw failedToParse(
        `The array filter for identifier '${name}' was not used in the update ${render(update)}`,
      );
    }
  }
}
