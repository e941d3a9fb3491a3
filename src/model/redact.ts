import { isMap } from './paths.ts';

/** What stands in the place of a value that may be a secret. */
export const REDACTED = '***';

const SECRET_KEY = /(passw|pwd$|passphrase|token$|apikey|api_key|privatekey|secretkey|secret$|accesskey)/i;
const URI_PASSWORD = /([a-z][a-z0-9+.-]*:\/\/[^:@/\s]+:)[^@/\s]+@/gi;

/**
 * A copy of any value in which texts under secret-sounding names and passwords inside addresses are hidden (S8).
 * Objects never hold secrets, only references to them (`passwordSecretRef: {name}` stays); this is the second line of
 * defence for documents that were written otherwise.
 */
export function redact(value: unknown): unknown {
  if (typeof value === 'string') return redactText(value);
  if (Array.isArray(value)) return value.map(redact);
  if (!isMap(value)) return value;
  const entries = Object.entries(value).map(([key, item]) => {
    const hidden = SECRET_KEY.test(key) && (typeof item === 'string' || typeof item === 'number');
    return [key, hidden ? REDACTED : redact(item)] as const;
  });
  return Object.fromEntries(entries);
}

/** Hides passwords inside addresses, `mongodb://app:***@db1/`. */
export function redactText(text: string): string {
  return text.replace(URI_PASSWORD, `$1${REDACTED}@`);
}
