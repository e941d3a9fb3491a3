import {
  isScalar,
  isSeq,
  isMap as isYamlMap,
  LineCounter,
  type Node,
  type Pair,
  parseAllDocuments,
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
  if (deepestFlow(text) > MAX_DEPTH) return refused(file, START, `is nested deeper than ${MAX_DEPTH} levels`);
  const counter = new LineCounter();
  const at = (offset: number): Position => {
    const { line, col } = counter.linePos(offset);
    return { line: Math.max(1, line), column: Math.max(1, col) };
  };
  const parsed = parseAllDocuments(text, {
    lineCounter: counter,
    uniqueKeys: true,
    prettyErrors: false,
    strict: true,
    version: '1.2',
  });
  const list = Array.isArray(parsed) ? parsed : [];
  if (list.length > MAX_DOCUMENTS) return refused(file, START, `has more than ${MAX_DOCUMENTS} documents`);
  const documents: SourceDocument[] = [];
  const problems: SourceProblem[] = [];
  for (const document of list) {
    const errors = document.errors.map((error) => ({
      file,
      position: at(error.pos[0]),
      path: '',
      message: syntaxMessage(error.code, error.message),
    }));
    problems.push(...errors);
    if (errors.length > 0) continue;
    readDocument(document, file, at, documents, problems);
  }
  return { documents, problems };
}

const refused = (file: string, position: Position, message: string): ParsedFile => ({
  documents: [],
  problems: [{ file, position, path: '', message }],
});

type YamlDocument = ReturnType<typeof parseAllDocuments>[number];

function readDocument(
  document: YamlDocument,
  file: string,
  at: (offset: number) => Position,
  documents: SourceDocument[],
  problems: SourceProblem[],
): void {
  const root = document.contents as Node | null;
  if (root === null || (isScalar(root) && root.value === null)) return;
  const start = at(root.range?.[0] ?? 0);
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
    const locate = (path: string): Position => at(find(node, path) ?? root.range?.[0] ?? 0);
    documents.push({ file, index: documents.length, value: item, locate });
  };
  if (value['kind'] === 'List' && Array.isArray(value['items'])) {
    const items = isYamlMap(root) ? root.get('items', true) : undefined;
    for (const [index, item] of value['items'].entries()) add(item, isSeq(items) ? items.items[index] : root);
  } else {
    add(value, root);
  }
}

// Paths are texts and keys may hold dots (`net.tls.mode`), so every key that begins the rest of the path is tried.
function find(node: unknown, path: string): number | undefined {
  if (path === '') return offsetOf(node);
  if (isSeq(node)) {
    const match = /^\[(\d+)\]\.?/.exec(path);
    const item = match === null ? undefined : node.items[Number(match[1])];
    if (match === null || item === undefined) return undefined;
    return find(item, path.slice(match[0].length)) ?? offsetOf(item);
  }
  if (!isYamlMap(node)) return undefined;
  for (const pair of node.items as Pair<unknown, unknown>[]) {
    const key = isScalar(pair.key) ? String(pair.key.value) : undefined;
    if (key === undefined || !path.startsWith(key)) continue;
    const rest = path.slice(key.length);
    if (rest === '')
      return isScalar(pair.value) && pair.value.value !== null ? offsetOf(pair.value) : offsetOf(pair.key);
    if (rest.startsWith('.') || rest.startsWith('[')) {
      return find(pair.value, rest.replace(/^\./, '')) ?? offsetOf(pair.key);
    }
  }
  return undefined;
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

// Counted before parsing, since the parser is recursive and would run out of stack on a wall of brackets.
function deepestFlow(text: string): number {
  let depth = 0;
  let deepest = 0;
  for (const character of text) {
    if (character === '[' || character === '{') deepest = Math.max(deepest, ++depth);
    else if (character === ']' || character === '}') depth = Math.max(0, depth - 1);
  }
  return deepest;
}
