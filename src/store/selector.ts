import { invalidSelector } from './errors.ts';

type Requirement =
  | { readonly kind: 'in'; readonly label: string; readonly values: readonly string[] }
  | { readonly kind: 'notIn'; readonly label: string; readonly values: readonly string[] }
  | { readonly kind: 'exists'; readonly label: string }
  | { readonly kind: 'absent'; readonly label: string };

/** Says whether an object with these labels is meant. */
export type Matcher = (labels: Readonly<Record<string, string>>) => boolean;

const LABEL = '[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9])?';
const VALUE = '(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)?';
const EQUALITY = new RegExp(`^(${LABEL})\\s*(==|=|!=)\\s*(${VALUE})$`);
const SET = new RegExp(`^(${LABEL})\\s+(in|notin)\\s*\\(([^()]*)\\)$`);
const EXISTS = new RegExp(`^(!?)\\s*(${LABEL})$`);
const WHOLE_VALUE = new RegExp(`^${VALUE}$`);

/**
 * Kubernetes' label selectors, equality and sets; all parts must hold. As there, `a!=b` and `a notin (b)` also
 * match objects without the label. An empty text matches everything. `InvalidSelector` (never).
 */
export function parseSelector(text: string | undefined): Matcher {
  const requirements = splitParts(text ?? '').map((part) => parseRequirement(text ?? '', part));
  return (labels) => requirements.every((requirement) => holds(requirement, labels));
}

/** Splits at commas outside of parentheses. */
function splitParts(text: string): string[] {
  if (text.trim() === '') return [];
  return text.split(/,(?![^(]*\))/).map((part) => part.trim());
}

function parseRequirement(text: string, part: string): Requirement {
  const set = SET.exec(part);
  if (set !== null) {
    const values = (set[3] as string).split(',').map((value) => value.trim());
    const wrong = values.find((value) => !WHOLE_VALUE.test(value));
    if (wrong !== undefined) throw invalidSelector(text, `'${wrong}' is not a label value`);
    return { kind: set[2] === 'in' ? 'in' : 'notIn', label: set[1] as string, values };
  }
  const equality = EQUALITY.exec(part);
  if (equality !== null) {
    const kind = equality[2] === '!=' ? 'notIn' : 'in';
    return { kind, label: equality[1] as string, values: [equality[3] as string] };
  }
  const exists = EXISTS.exec(part);
  if (exists === null) throw invalidSelector(text, `'${part}' is not understood`);
  return { kind: exists[1] === '!' ? 'absent' : 'exists', label: exists[2] as string };
}

function holds(requirement: Requirement, labels: Readonly<Record<string, string>>): boolean {
  const value = Object.hasOwn(labels, requirement.label) ? labels[requirement.label] : undefined;
  switch (requirement.kind) {
    case 'in':
      return value !== undefined && requirement.values.includes(value);
    case 'notIn':
      return value === undefined || !requirement.values.includes(value);
    case 'exists':
      return value !== undefined;
    case 'absent':
      return value === undefined;
  }
}
