/** Projections of find and `$project`: inclusion, exclusion, expressions, `$slice`, `$elemMatch`, positional. */
import type { Document } from 'bson';
import { ServerError } from '../contracts.ts';
import { isDocument, isNumeric, isTruthy, toInteger } from './bson.ts';
import type { Collator } from './compare.ts';
import { compileExpression, type Evaluator, scopeOf, type Variables } from './expression.ts';
import { compileElement, type MatchContext } from './match.ts';
import { fieldOf, type MatchDetails, pathOf } from './path.ts';
import { withField, withoutField } from './update-paths.ts';

/** Makes the projected document. `details` carries the array position of the filter's match, for `a.$`. */
type Projector = (document: Document, details?: MatchDetails) => Document;

interface ProjectionOptions extends MatchContext {
  /** The find command allows `$slice`, `$elemMatch` and `a.$`, which mean other things (or nothing) in `$project`. */
  readonly find: boolean;
}

type Leaf =
  | { readonly kind: 'include' }
  | { readonly kind: 'exclude' }
  | { readonly kind: 'compute'; readonly evaluate: Evaluator }
  | { readonly kind: 'slice'; readonly skip: number; readonly limit: number }
  | { readonly kind: 'elemMatch'; readonly test: (element: unknown) => boolean }
  | { readonly kind: 'position' };
type Tree = Map<string, Leaf | Tree>;

const isTree = (node: Leaf | Tree): node is Tree => node instanceof Map;

/** Whether a projection uses the positional operator. */
export const isPositionalProjection = (projection: Document): boolean =>
  Object.keys(projection).some((name) => name.endsWith('.$'));

/** Compiles a projection. Errors: 31254/31253 for mixing inclusion and exclusion, 31249/31250 for path collisions. */
export function compileProjection(projection: Document, options: ProjectionOptions): Projector {
  const tree: Tree = new Map();
  for (const [name, value] of Object.entries(projection)) addField(tree, name, value, options);
  const mode = modeOf(projection, tree, options);
  const idChoice = tree.get('_id');
  const { variables = {}, collator } = options;
  if (mode === 'include') {
    const withId = !(idChoice && !isTree(idChoice) && idChoice.kind === 'exclude');
    if (!withId) tree.delete('_id');
    else if (!idChoice) tree.set('_id', { kind: 'include' });
    return (document, details) =>
      includeTree(document, tree, { root: document, variables, collator, details });
  }
  return (document, details) => excludeTree(document, tree, { root: document, variables, collator, details });
}

interface Scope {
  readonly root: Document;
  readonly variables: Variables;
  readonly collator: Collator | undefined;
  readonly details: MatchDetails | undefined;
}

function addField(tree: Tree, name: string, value: unknown, options: ProjectionOptions): void {
  if (name === '')
    throw new ServerError(40352, 'Location40352', 'FieldPath cannot be constructed with empty string');
  const path = pathOf(name);
  if (options.find && path.at(-1) === '$') {
    insertLeaf(tree, path.slice(0, -1), { kind: 'position' }, name);
    return;
  }
  if (path.includes('')) {
    throw new ServerError(15998, 'Location15998', 'FieldPath field names may not be empty strings.');
  }
  const invalid = path.find(
    (part) => part.startsWith('$') && part !== '$id' && part !== '$ref' && part !== '$db',
  );
  if (invalid !== undefined) {
    throw new ServerError(
      16410,
      'Location16410',
      "FieldPath field names may not start with '$'. Consider using $getField or $setField.",
    );
  }
  if (isDocument(value) && isSubProjection(value)) {
    for (const [inner, innerValue] of Object.entries(value))
      addField(tree, `${name}.${inner}`, innerValue, options);
    return;
  }
  insertLeaf(tree, path, leafOf(value, options), name);
}

function isSubProjection(value: Document): boolean {
  const names = Object.keys(value);
  return names.length > 0 && !names[0]!.startsWith('$');
}

function leafOf(value: unknown, options: ProjectionOptions): Leaf {
  if (typeof value === 'boolean' || isNumeric(value))
    return { kind: isTruthy(value) ? 'include' : 'exclude' };
  if (isDocument(value)) {
    if (Object.keys(value).length === 0) {
      if (options.find) return { kind: 'compute', evaluate: () => ({}) };
      throw new ServerError(
        51270,
        'Location51270',
        'An empty sub-projection is not a valid value. Found empty object at path',
      );
    }
    if (options.find && '$slice' in value) {
      const slice = findSlice(value['$slice']);
      if (slice) return slice;
    }
    if (options.find && '$elemMatch' in value) {
      if (!isDocument(value['$elemMatch'])) {
        throw new ServerError(31274, 'Location31274', 'elemMatch: Invalid argument, object required');
      }
      return { kind: 'elemMatch', test: compileElement(value['$elemMatch'], options) };
    }
  }
  return { kind: 'compute', evaluate: compileExpression(value) };
}

/** `$slice: n` or `[skip, limit]` of find; an expression's `$slice` has an array expression first. */
function findSlice(operand: unknown): Leaf | undefined {
  const count = toInteger(operand);
  if (count !== undefined) {
    return { kind: 'slice', skip: Math.min(count, 0), limit: count < 0 ? -count : count };
  }
  if (!Array.isArray(operand) || operand.length !== 2) {
    if (Array.isArray(operand)) return undefined;
    throw new ServerError(
      28667,
      'Location28667',
      'Invalid $slice syntax. The given syntax did not match the find() syntax',
    );
  }
  const [skip, limit] = operand.map((part) => toInteger(part));
  if (skip === undefined || limit === undefined) return undefined;
  if (limit <= 0) {
    throw new ServerError(28724, 'Location28724', `Third argument to $slice must be positive: ${limit}`);
  }
  return { kind: 'slice', skip, limit };
}

function insertLeaf(tree: Tree, path: readonly string[], leaf: Leaf, name: string): void {
  let node = tree;
  path.forEach((part, index) => {
    const child = node.get(part);
    if (index === path.length - 1) {
      if (child && isTree(child)) throw collision(31250, name, path.slice(index + 1).join('.'));
      node.set(part, leaf);
      return;
    }
    if (child && !isTree(child)) throw collision(31249, name, path.slice(index + 1).join('.'));
    const next: Tree = child ?? new Map();
    node.set(part, next);
    node = next;
  });
}

function collision(code: number, name: string, rest: string): ServerError {
  const portion = rest === '' ? '' : ` remaining portion ${rest}`;
  return new ServerError(code, `Location${code}`, `Path collision at ${name}${portion}`);
}

/** Inclusion if anything (but `_id`) is included or computed, exclusion if anything is excluded. */
function modeOf(projection: Document, tree: Tree, options: ProjectionOptions): 'include' | 'exclude' {
  let mode: 'include' | 'exclude' | undefined;
  visitLeaves(tree, '', (leaf, name) => {
    if (name === '_id' || leaf.kind === 'slice' || leaf.kind === 'elemMatch') return;
    if (leaf.kind === 'position') {
      if (mode === 'exclude') {
        throw new ServerError(31395, 'Location31395', 'positional projection cannot be used with exclusion');
      }
      mode = 'include';
      return;
    }
    if (leaf.kind === 'exclude') {
      if (mode === 'include') throw mixing(options, 'exclusion', name, 'inclusion', 31254);
      mode = 'exclude';
    } else {
      if (mode === 'exclude') throw mixing(options, 'inclusion', name, 'exclusion', 31253);
      mode = 'include';
    }
  });
  if (mode) return mode;
  const id = tree.get('_id');
  const kinds = [...tree.values()].map((node) => (isTree(node) ? 'tree' : node.kind));
  if (id && !isTree(id) && id.kind !== 'exclude') return 'include';
  if (options.find && kinds.includes('elemMatch'))
    return kinds.includes('slice') && kinds.length === 1 ? 'exclude' : 'include';
  if (kinds.every((kind) => kind === 'slice' || kind === 'exclude')) return 'exclude';
  return Object.keys(projection).length === 0 ? 'exclude' : 'include';
}

function mixing(
  options: ProjectionOptions,
  what: string,
  name: string,
  where: string,
  code: number,
): ServerError {
  const stage = options.find ? '' : 'Invalid $project :: caused by :: ';
  return new ServerError(
    code,
    `Location${code}`,
    `${stage}Cannot do ${what} on field ${name} in ${where} projection`,
  );
}

function visitLeaves(tree: Tree, prefix: string, visit: (leaf: Leaf, name: string) => void): void {
  for (const [part, node] of tree) {
    const name = prefix === '' ? part : `${prefix}.${part}`;
    if (isTree(node)) visitLeaves(node, name, visit);
    else visit(node, name);
  }
}

// ── applying ───────────────────────────────────────────────────────────────────────────────────────────────────────

/** Included fields in the document's order, then computed ones in the projection's. */
function includeTree(document: Document, tree: Tree, scope: Scope): Document {
  let result: Document = {};
  for (const [name, value] of Object.entries(document)) {
    const node = tree.get(name);
    if (!node || (!isTree(node) && node.kind === 'compute')) continue;
    const kept = isTree(node) ? includeInside(value, node, scope) : applyLeaf(node, value, scope);
    if (kept !== undefined) result = assign(result, name, kept);
  }
  return computeMissing(result, document, tree, scope);
}

function computeMissing(start: Document, document: Document, tree: Tree, scope: Scope): Document {
  let result = start;
  for (const [name, node] of tree) {
    if (isTree(node)) {
      if (!Object.hasOwn(document, name) && hasComputed(node)) {
        const made = includeTree({}, node, scope);
        result = assign(result, name, made);
      }
    } else if (node.kind === 'compute') {
      const value = node.evaluate(scopeOf(scope.root, scope.variables, scope.collator));
      if (value !== undefined) result = assign(result, name, value);
    }
  }
  return result;
}

function hasComputed(tree: Tree): boolean {
  return [...tree.values()].some((node) => (isTree(node) ? hasComputed(node) : node.kind === 'compute'));
}

/** Own objects being built may be changed in place, but names like `__proto__` need care. */
function assign(target: Document, name: string, value: unknown): Document {
  if (name === '__proto__') return withField(target, name, value);
  target[name] = value;
  return target;
}

function includeInside(value: unknown, tree: Tree, scope: Scope): unknown {
  if (Array.isArray(value)) {
    return value.flatMap((element) => {
      const kept = includeInside(element, tree, scope);
      return kept === undefined ? [] : [kept];
    });
  }
  if (isDocument(value)) return includeTree(value, tree, scope);
  return hasComputed(tree) ? includeTree({}, tree, scope) : undefined;
}

function excludeTree(document: Document, tree: Tree, scope: Scope): Document {
  let result = document;
  for (const [name, node] of tree) {
    if (!Object.hasOwn(document, name)) continue;
    const value = fieldOf(document, name);
    if (isTree(node)) {
      const next = excludeInside(value, node, scope);
      if (next !== value) result = withField(result, name, next);
    } else if (node.kind === 'exclude') {
      result = withoutField(result, name);
    } else {
      const next = applyLeaf(node, value, scope);
      result = next === undefined ? withoutField(result, name) : withField(result, name, next);
    }
  }
  return result;
}

function excludeInside(value: unknown, tree: Tree, scope: Scope): unknown {
  if (Array.isArray(value)) return value.map((element) => excludeInside(element, tree, scope));
  return isDocument(value) ? excludeTree(value, tree, scope) : value;
}

function applyLeaf(leaf: Leaf, value: unknown, scope: Scope): unknown {
  switch (leaf.kind) {
    case 'slice':
      return Array.isArray(value) ? slice(value, leaf.skip, leaf.limit) : value;
    case 'elemMatch': {
      const found = Array.isArray(value) ? value.find(leaf.test) : undefined;
      return found === undefined ? undefined : [found];
    }
    case 'position': {
      if (!Array.isArray(value)) return value;
      const index = scope.details?.index;
      if (index === undefined || index >= value.length) {
        throw new ServerError(
          51246,
          'Location51246',
          "Executor error during find command :: caused by :: positional operator '.$' couldn't find a matching element in the array",
        );
      }
      return [value[index]];
    }
    case 'exclude':
      return undefined;
    default:
      return value;
  }
}

function slice(array: readonly unknown[], skip: number, limit: number): unknown[] {
  const from = skip < 0 ? Math.max(0, array.length + skip) : skip;
  return array.slice(from, from + limit);
}
