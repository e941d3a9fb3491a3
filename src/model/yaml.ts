import {
  isScalar,
  isSeq,
  isMap as isYamlMap,
  LineCounter,
  type Node,
  type Pair,
  parseAllDocuments,
  visit,
} from 'yaml';
import type { Problem } from '../base/error.ts';
import { isMap } from './paths.ts';

/** A place in a file; both count from 1. */
export interface Position {
  readonly line: number;
  readonly column: number;
}

/** One document of a file, with the way back from a field path to the place where it stands. */
export interface SourceDocument {
  readonly file: string;
  /** Place of the document in the file, from 0. */
  readonly index: number;
  readonly value: unknown;
  /** Where a field stands: the value if it is a single one, else its name; for a missing field, what it is missing from. */
  readonly locate: (path: string) => Position;
}

/** A problem with its place. */
export interface SourceProblem extends Problem {
  readonly file: string;
  readonly position: Position;
}

/** What a file holds. Documents that could not be read are missing from `documents` and have a problem. */
export interface ParsedFile {
  readonly documents: readonly SourceDocument[];
  readonly problems: readonly SourceProblem[];
}

/** Longest text accepted as one file, in UTF-16 units: far more than a person writes, little enough to parse at once. */
export const MAX_SOURCE_LENGTH = 4 * 1024 * 1024;
/** Most documents in one file. */
export const MAX_DOCUMENTS = 1_000;
/** Most nodes that aliases may add: documents that blow up when expanded are refused. */
export const MAX_ALIASES = 100;
/** Deepest nesting accepted; documents of people have less than twenty levels. */
export const MAX_DEPTH = 100;

const START: Position = { line: 1, column: 1 };

/**
 * Reads YAML or JSON text with any number of documents. Empty documents are left out. Broken syntax, repeated keys,
 * alias bombs and documents that are not maps are problems with line and column; nothing is ever thrown. Items of a
 * `kind: List` become documents of their own.
 */
export function parseDocuments(text: string, file: string): ParsedFile {
  if (text.length > MAX_SOURCE_LENGTH)
    return refused(file, START, `is larger than ${MAX_SOURCE_LENGTH} characters`);
  if (isTooDeep(text)) return refused(file, START, TOO_DEEP);
  const counter = new LineCounter();
  const place = (offset: number): Position => {
    const { line, col } = counter.linePos(offset);
    return { line: Math.max(1, line), column: Math.max(1, col) };
  };
  const parsed = parseAll(text, counter);
  if (parsed === undefined) return refused(file, START, TOO_DEEP);
  if (parsed.length > MAX_DOCUMENTS) return refused(file, START, `has more than ${MAX_DOCUMENTS} documents`);
  const documents: SourceDocument[] = [];
  const problems: SourceProblem[] = [];
  for (const document of parsed) {
    const errors = document.errors.map((error) => ({
      file,
      position: place(error.pos[0]),
      path: '',
      message: syntaxMessage(error.code, error.message),
    }));
    problems.push(...errors);
    if (errors.length > 0) continue;
    readDocument(document, file, place, documents, problems);
  }
  return { documents, problems };
}

const refused = (file: string, position: Position, message: string): ParsedFile => ({
  documents: [],
  problems: [{ file, position, path: '', message }],
});

function parseAll(text: string, lineCounter: LineCounter): YamlDocument[] | undefined {
  try {
    const parsed = parseAllDocuments(text, {
      lineCounter,
      uniqueKeys: true,
      prettyErrors: false,
      strict: true,
      version: '1.2',
      logLevel: 'error',
    });
    return Array.isArray(parsed) ? parsed : [];
  } catch {
    // Out of stack: some nesting that the quick look did not see.
    return undefined;
  }
}

type YamlDocument = ReturnType<typeof parseAllDocuments>[number];

function readDocument(
  document: YamlDocument,
  file: string,
  place: (offset: number) => Position,
  documents: SourceDocument[],
  problems: SourceProblem[],
): void {
  const root = document.contents as Node | null;
  if (root === null || (isScalar(root) && root.value === null)) return;
  const start = place(root.range?.[0] ?? 0);
  const poisoned = poisonedKeys(document).map((offset) => {
    const message = `the key ${POISON} is not allowed: it is no data to JavaScript`;
    return { file, position: place(offset), path: '', message };
  });
  problems.push(...poisoned);
  if (poisoned.length > 0) return;
  let value: unknown;
  try {
    value = document.toJS({ maxAliasCount: MAX_ALIASES });
  } catch {
    const message = 'expands to too many nodes through its aliases, or refers to an unknown anchor';
    problems.push({ file, position: start, path: '', message });
    return;
  }
  if (!isMap(value)) {
    const message = 'must be a map with apiVersion, kind, metadata and spec';
    problems.push({ file, position: start, path: '', message });
    return;
  }
  const add = (item: unknown, node: unknown): void => {
    const locate = (path: string): Position => place(find(node, path)?.offset ?? root.range?.[0] ?? 0);
    documents.push({ file, index: documents.length, value: item, locate });
  };
  if (value['kind'] === 'List' && Array.isArray(value['items'])) {
    const items = isYamlMap(root) ? root.get('items', true) : undefined;
    for (const [index, item] of value['items'].entries()) add(item, isSeq(items) ? items.items[index] : root);
  } else {
    add(value, root);
  }
}

/** Would change what an object is instead of being part of it; the API refuses bodies with it, without saying where. */
const POISON = '__proto__';

/** Where that key stands. */
function poisonedKeys(document: YamlDocument): readonly number[] {
  const offsets: number[] = [];
  visit(document, {
    Pair: (_, pair) => {
      if (isScalar(pair.key) && pair.key.value === POISON) offsets.push(offsetOf(pair.key) ?? 0);
    },
  });
  return offsets;
}

/** How far a path could be followed, and where that is. */
interface Found {
  readonly offset: number;
  readonly matched: number;
}

// Paths are texts and keys may hold dots (`net.tls.mode`), so every key that begins the rest of the path is tried and
// the one that leads farthest wins.
function find(node: unknown, path: string): Found | undefined {
  if (path === '') return at(offsetOf(node), 0);
  if (isSeq(node)) {
    const match = /^\[(\d+)\]\.?/.exec(path);
    const item = match === null ? undefined : node.items[Number(match[1])];
    if (match === null || item === undefined) return undefined;
    const rest = path.slice(match[0].length);
    return farther(find(item, rest), at(offsetOf(item), 0), match[0].length);
  }
  if (!isYamlMap(node)) return undefined;
  const tried = (node.items as Pair<unknown, unknown>[]).flatMap((pair) => findInPair(pair, path) ?? []);
  return tried.reduce<Found | undefined>(
    (best, next) => (best !== undefined && best.matched >= next.matched ? best : next),
    undefined,
  );
}

function findInPair(pair: Pair<unknown, unknown>, path: string): Found | undefined {
  const key = isScalar(pair.key) ? String(pair.key.value) : undefined;
  if (key === undefined || !path.startsWith(key)) return undefined;
  const rest = path.slice(key.length);
  if (rest === '') {
    const single = isScalar(pair.value) && pair.value.value !== null;
    return at(offsetOf(single ? pair.value : pair.key), key.length);
  }
  if (!rest.startsWith('.') && !rest.startsWith('[')) return undefined;
  const below = rest.replace(/^\./, '');
  return farther(find(pair.value, below), at(offsetOf(pair.key), 0), path.length - below.length);
}

const at = (offset: number | undefined, matched: number): Found | undefined =>
  offset === undefined ? undefined : { offset, matched };

function farther(deeper: Found | undefined, here: Found | undefined, by: number): Found | undefined {
  const found = deeper ?? here;
  return found === undefined ? undefined : { offset: found.offset, matched: found.matched + by };
}

function offsetOf(node: unknown): number | undefined {
  return (node as Node | null | undefined)?.range?.[0];
}

const SYNTAX: Readonly<Record<string, string>> = {
  DUPLICATE_KEY: 'this key is given twice',
  TAB_AS_INDENT: 'tabs are not allowed as indentation, use blanks',
  BAD_INDENT: 'the indentation does not fit the lines above',
  MISSING_CHAR: 'something is missing here, such as a colon, comma or closing bracket',
  MULTILINE_IMPLICIT_KEY: 'a key must stand on one line; a colon or the indentation above may be wrong',
  BLOCK_AS_IMPLICIT_KEY:
    'a map cannot begin on this line; a blank after a colon or the indentation may be wrong',
  UNEXPECTED_TOKEN: 'this does not belong here',
};

// The library's messages repeat source text, which may hold secrets: only our own words leave this file.
function syntaxMessage(code: string, original: string): string {
  const known = SYNTAX[code];
  if (known !== undefined) return `is not valid YAML: ${known}`;
  return `is not valid YAML: ${code.toLowerCase().replaceAll('_', ' ')}${original === '' ? '' : ' here'}`;
}

const TOO_DEEP = `is nested deeper than ${MAX_DEPTH} levels`;

// A quick look before parsing, since the parser is recursive and slow on a wall of brackets or dashes.
function isTooDeep(text: string): boolean {
  let depth = 0;
  for (const character of text) {
    if (character === '[' || character === '{') depth++;
    else if (character === ']' || character === '}') depth = Math.max(0, depth - 1);
    if (depth > MAX_DEPTH) return true;
  }
  return /(?:[-?] +){100}/.test(text) || /^ {400}/m.test(text);
}
