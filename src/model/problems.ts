import type { z } from 'zod';
import type { Problem } from '../base/error.ts';
import { formatPath, isMap, valueAt } from './paths.ts';
import { nearest } from './suggest.ts';

/** Something accepted that should be looked at. Same form as a problem. */
export interface Warning extends Problem {
  /** It is about the step from what was stored before: said once, since it would not be true of the document afterwards. */
  readonly once?: true;
}

type Issue = z.core.$ZodIssue;

/** Knows the field names that are accepted at a path, and may explain an unknown one in a better way. */
export interface FieldNames {
  readonly namesAt: (path: readonly PropertyKey[]) => readonly string[];
  readonly explain?: (path: readonly PropertyKey[], name: string) => string | undefined;
}

const SECRET_LIKE = /^(password|passwd|pwd|passphrase|secret|token|apikey|privatekey|connectionstring|uri)$/i;

/** The schema's complaints as problems: one sentence each, saying what is accepted (B1.4). */
export function problemsFromIssues(
  issues: readonly Issue[],
  document: unknown,
  names: FieldNames,
): Problem[] {
  return issues.flatMap((issue) => {
    if (issue.code === 'unrecognized_keys') {
      return issue.keys.map((key) => ({
        path: formatPath([...issue.path, key]),
        message: unknownField(issue.path, key, names),
      }));
    }
    return [{ path: formatPath(issue.path), message: sentence(issue, valueAt(document, issue.path)) }];
  });
}

function unknownField(path: readonly PropertyKey[], key: string, names: FieldNames): string {
  const special = names.explain?.(path, key);
  if (special !== undefined) return special;
  if (SECRET_LIKE.test(key)) {
    return 'unknown field; secrets never stand in documents: keep it in a secret and refer to that by name';
  }
  const known = names.namesAt(path);
  const near = nearest(key, known);
  if (near !== undefined) return `unknown field, did you mean ${formatPath([...path, near])}?`;
  if (known.length === 0) return 'unknown field';
  return `unknown field; accepted here: ${shortList(known)}`;
}

function shortList(items: readonly string[]): string {
  return items.length <= 12
    ? items.join(', ')
    : `${items.slice(0, 12).join(', ')} … (${items.length} fields)`;
}

function sentence(issue: Issue, value: unknown): string {
  switch (issue.code) {
    case 'invalid_type':
      return typeSentence(issue, value);
    case 'invalid_value':
      return valueSentence(issue.values.map(String), value);
    case 'invalid_union': {
      const options = (issue as { options?: readonly unknown[] }).options;
      return options === undefined ? 'has no accepted form' : valueSentence(options.map(String), value);
    }
    case 'too_small':
      return ownMessage(issue) ?? `must be at least ${issue.minimum}`;
    case 'too_big':
      return ownMessage(issue) ?? `must be at most ${issue.maximum}`;
    default:
      return issue.message;
  }
}

// The library's own texts begin in one of these ways; anything else was written by a schema here.
function ownMessage(issue: Issue): string | undefined {
  return /^(Invalid|Too |Unrecognized|Expected)/.test(issue.message) ? undefined : issue.message;
}

function typeSentence(issue: Issue & { code: 'invalid_type' }, value: unknown): string {
  const wanted = WANTED[issue.expected] ?? String(issue.expected);
  if (value === undefined) return `is required: ${wanted}`;
  return ownMessage(issue) ?? `must be ${wanted}, not ${describe(value)}`;
}

const WANTED: Readonly<Record<string, string>> = {
  string: 'text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'a map of fields',
  record: 'a map',
};

/** The form of a value, never the value itself: it might be a secret in the wrong place (S8). */
export function describe(value: unknown): string {
  if (value === null) return 'empty';
  if (Array.isArray(value)) return 'a list';
  if (isMap(value)) return 'a map';
  if (typeof value === 'string') return value === '' ? 'empty text' : 'text';
  return typeof value === 'boolean' ? 'true or false' : `a ${typeof value}`;
}

function valueSentence(accepted: readonly string[], value: unknown): string {
  const list = accepted.length === 1 ? `must be ${accepted[0]}` : `must be one of ${accepted.join(', ')}`;
  if (value === undefined)
    return accepted.length === 1
      ? `is required: ${accepted[0]}`
      : `is required: one of ${accepted.join(', ')}`;
  const near = typeof value === 'string' ? nearest(value, accepted) : undefined;
  return near === undefined || accepted.length === 1 ? list : `${list}; did you mean ${near}?`;
}
