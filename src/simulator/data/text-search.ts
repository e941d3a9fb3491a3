/**
 * `$text`: words, phrases and exclusions over a text index. English endings are cut off roughly, so that a plural finds its
 * singular; other languages are compared word by word. Scores order documents as a server would, their values are close
 * to its own but not the same.
 */
import type { Document } from 'bson';
import { ServerError } from '../contracts.ts';
import { isDocument, isTruthy, toNumber } from './bson.ts';
import { pathOf, visitPath } from './path.ts';

/** What a text index searches: fields with their weights (`$**` means every string) and the language. */
export interface TextIndex {
  readonly weights: Readonly<Record<string, number>>;
  readonly language: string;
}

/** The text index among the specifications, if there is one. */
export function textIndexOf(specs: Iterable<Document>): TextIndex | undefined {
  for (const spec of specs) {
    if (!isDocument(spec['weights'])) continue;
    const weights = Object.entries(spec['weights']).map(([name, weight]) => [name, toNumber(weight) ?? 1]);
    return { weights: Object.fromEntries(weights), language: String(spec['default_language'] ?? 'english') };
  }
  return undefined;
}

const scores = new WeakMap<Document, number>();

/** How well a document matched the last `$text` that found it; undefined when none did. */
export function textScore(document: unknown): number | undefined {
  return isDocument(document) ? scores.get(document) : undefined;
}

interface Search {
  readonly words: readonly string[];
  readonly phrases: readonly string[];
  readonly excluded: readonly string[];
}

/** Compiles the operand of `$text`. Errors: 27 without an index, 2 and 9 for a malformed operand, 17124 for an unknown language. */
export function compileText(operand: unknown, index: TextIndex | undefined): (document: Document) => boolean {
  if (!isDocument(operand)) throw new ServerError(2, 'BadValue', '$text expects an object');
  const text: unknown = operand['$search'];
  if (typeof text !== 'string')
    throw new ServerError(14, 'TypeMismatch', '"$search" had the wrong type. Expected string');
  const known = ['$search', '$language', '$caseSensitive', '$diacriticSensitive'];
  if (Object.keys(operand).some((name) => !known.includes(name))) {
    throw new ServerError(2, 'BadValue', 'extra fields in $text');
  }
  if (!index) throw new ServerError(27, 'IndexNotFound', 'text index required for $text query');
  const fold = folding(isTruthy(operand['$caseSensitive']), isTruthy(operand['$diacriticSensitive']));
  const language = typeof operand['$language'] === 'string' ? operand['$language'] : index.language;
  const stem = language === 'english' || language === 'en' ? englishStem : (word: string) => word;
  const search = parse(text, fold, stem);
  return (document) => {
    const score = scoreOf(document, index, search, fold, stem);
    if (score > 0) scores.set(document, score);
    return score > 0;
  };
}

type Fold = (text: string) => string;

function folding(caseSensitive: boolean, diacriticSensitive: boolean): Fold {
  return (text) => {
    const cased = caseSensitive ? text : text.toLowerCase();
    return diacriticSensitive ? cased : cased.normalize('NFD').replace(/\p{Mn}/gu, '');
  };
}

function parse(text: string, fold: Fold, stem: Fold): Search {
  const phrases = Array.from(text.matchAll(/"([^"]+)"/g), ([, phrase]) => fold(phrase!));
  const words: string[] = [];
  const excluded: string[] = [];
  for (const part of text.replaceAll('"', ' ').split(/\s+/)) {
    const into = part.startsWith('-') ? excluded : words;
    into.push(...termsOf(part, fold, stem));
  }
  return { words, phrases, excluded };
}

function termsOf(text: string, fold: Fold, stem: Fold): string[] {
  const words = text.match(/[\p{L}\p{N}_\p{Mn}]+/gu) ?? [];
  return words.filter((word) => !STOP_WORDS.has(word.toLowerCase())).map((word) => stem(fold(word)));
}

function scoreOf(document: Document, index: TextIndex, search: Search, fold: Fold, stem: Fold): number {
  const fields = fieldsOf(document, index).map(({ text, weight }) => ({
    folded: fold(text),
    terms: termsOf(text, fold, stem),
    weight,
  }));
  if (search.excluded.some((word) => fields.some(({ terms }) => terms.includes(word)))) return 0;
  if (!search.phrases.every((phrase) => fields.some(({ folded }) => folded.includes(phrase)))) return 0;
  return fields.reduce((sum, { terms, weight }) => sum + weight * frequency(terms, search.words), 0);
}

/** Each further occurrence of a word counts half of the one before; the share it has in the field counts too. */
function frequency(terms: readonly string[], wanted: readonly string[]): number {
  let sum = 0;
  for (const word of new Set(wanted)) {
    const times = terms.filter((term) => term === word).length;
    const whole = terms.length === 1 ? 1.1 : 1;
    if (times > 0) sum += whole * (2 - 2 ** (1 - times)) * (0.5 + (0.5 * times) / terms.length);
  }
  return sum;
}

function fieldsOf(document: Document, index: TextIndex): { text: string; weight: number }[] {
  return Object.entries(index.weights).flatMap(([name, weight]) => {
    const texts: string[] = [];
    if (name === '$**') collect(document, texts);
    else {
      visitPath(document, pathOf(name), (value) => {
        if (!isDocument(value)) collect(value, texts);
        return false;
      });
    }
    return texts.map((text) => ({ text, weight }));
  });
}

function collect(value: unknown, texts: string[]): void {
  if (typeof value === 'string') texts.push(value);
  else if (Array.isArray(value)) for (const each of value) collect(each, texts);
  else if (isDocument(value)) for (const each of Object.values(value)) collect(each, texts);
}

/** Cuts the most usual endings off. */
function englishStem(word: string): string {
  if (word.length <= 3) return word;
  const singular = word
    .replace(/(ss)es$/, '$1')
    .replace(/ies$/, 'y')
    .replace(/([^s])s$/, '$1');
  const stem = singular.replace(/(?:ing|edly|ed|ly)$/, '');
  if (stem.length < 3) return singular;
  return (stem === singular ? stem : stem.replace(/([bdfgmnprt])\1$/, '$1')).replace(/e$/, '');
}

const STOP_WORDS: ReadonlySet<string> = new Set(
  'a an and are as at be been but by for from had has have he her his i if in into is it its me my no nor not of on or our she so such that the their them then there these they this to too was we were what when which who will with you your'.split(
    ' ',
  ),
);
