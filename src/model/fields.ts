import { z } from 'zod';
import type { Result } from '../base/result.ts';
import { isCidr, isDnsLabel, isDnsName, MAX_LABEL_LENGTH, MAX_NAME_LENGTH } from './network.ts';
import { parseBytes, parseCpuMillis, parseDuration } from './quantity.ts';
import { isTimeZone, parseCron } from './schedule.ts';

/** All fields of a type, and everything below them, made read-only: objects are values, changed by copying. */
export type DeepReadonly<T> = T extends readonly (infer Item)[]
  ? readonly DeepReadonly<Item>[]
  : T extends object
    ? { readonly [Key in keyof T]: DeepReadonly<T[Key]> }
    : T;

/** Text that must be written in quotes, since YAML would read it as a number otherwise (VAL-07). */
export function quotedText(example: string): z.ZodString {
  return z.string({
    error: (issue) =>
      issue.input === undefined ? undefined : `must be a quoted string such as "${example}"`,
  });
}

/** Text that passes a check; the check returns what is wrong with it, or nothing. */
export function checkedText(example: string, problem: (text: string) => string | undefined): z.ZodString {
  return quotedText(example).superRefine((text, context) => {
    const message = problem(text);
    if (message !== undefined) context.addIssue({ code: 'custom', message });
  });
}

const parsed =
  <T>(parse: (text: string) => Result<T, string>) =>
  (text: string): string | undefined => {
    const result = parse(text);
    return result.ok ? undefined : result.error;
  };

/** A size in bytes, `10Gi`. */
export const bytesText = (): z.ZodString => checkedText('10Gi', parsed(parseBytes));
/** Processors, `500m` or `2`. */
export const cpuText = (): z.ZodString => checkedText('500m', parsed(parseCpuMillis));
/** A duration, `1h30m`. */
export const durationText = (): z.ZodString => checkedText('2h', parsed(parseDuration));
/** A duration within bounds; `text` says which. */
export const durationWithin = (bounds: {
  readonly least: number;
  readonly most: number;
  readonly text: string;
}): z.ZodString =>
  checkedText('2h', (text) => {
    const result = parseDuration(text);
    if (!result.ok) return result.error;
    return result.value < bounds.least || result.value > bounds.most ? bounds.text : undefined;
  });
/** A cron line of five fields. */
export const cronText = (): z.ZodString => checkedText('0 2 * * 6', parsed(parseCron));

/** A time zone of the IANA database. */
export const timeZoneText = (): z.ZodString =>
  checkedText('Europe/Prague', (text) =>
    isTimeZone(text)
      ? undefined
      : 'must be a time zone of the IANA database such as "Europe/Prague" or "UTC"',
  );

/** An address range. */
export const cidrText = (): z.ZodString =>
  checkedText('10.0.0.0/8', (text) =>
    isCidr(text)
      ? undefined
      : 'must be an address range such as "10.0.0.0/8", "203.0.113.7/32" or "2001:db8::/32"',
  );

/** A DNS label (RFC 1123). */
export const labelText = (example: string): z.ZodString =>
  checkedText(example, (text) =>
    isDnsLabel(text)
      ? undefined
      : 'must be at most 63 lower-case letters, digits or dashes, starting and ending with a letter or digit',
  );

/** A DNS name (RFC 1123), as object names are. */
export const nameText = (example: string): z.ZodString => checkedText(example, nameProblem);

function nameProblem(text: string): string | undefined {
  if (isDnsName(text)) return undefined;
  const longest = Math.max(...text.split('.').map((label) => label.length));
  const isOfItsCharacters = /^[-a-z0-9.]+$/.test(text);
  if (isOfItsCharacters && longest > MAX_LABEL_LENGTH)
    return `has ${longest} characters without a dot, at most ${MAX_LABEL_LENGTH} are accepted`;
  if (isOfItsCharacters && text.length > MAX_NAME_LENGTH)
    return `has ${text.length} characters, at most ${MAX_NAME_LENGTH} are accepted`;
  return `must be a DNS name: lower-case letters, digits, dashes and dots, starting and ending with a letter or digit, also at dots; at most ${MAX_NAME_LENGTH} characters, ${MAX_LABEL_LENGTH} between dots`;
}

/** A moment in RFC 3339 form, `2026-11-29T10:00:00Z`. Ranges of the parts are checked, the calendar is not. */
export const timestampText = (): z.ZodString =>
  checkedText('2026-11-29T10:00:00Z', (text) =>
    /^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$/.test(
      text,
    )
      ? undefined
      : 'must be a moment in the form "2026-11-29T10:00:00Z"',
  );

/** A whole number within bounds; the message names them, or what else `error` says of the allowed ones. */
export function wholeNumber(
  least: number,
  most: number,
  error = most === least + 1
    ? `must be ${least} or ${most}`
    : `must be a whole number from ${least} to ${most}`,
): z.ZodInt {
  return z
    .int({ error: (issue) => (issue.input === undefined ? undefined : error) })
    .min(least, { error })
    .max(most, { error });
}

/** Text that must not be empty. */
export const someText = (): z.ZodString => z.string().min(1, { error: 'must not be empty' });

/** Text for people that stays on its line: no line breaks, nothing a terminal would act on. */
export const lineText = (): z.ZodString =>
  z.string().refine((text) => !/\p{Cc}/u.test(text), {
    error: 'must be one line without control characters',
  });

/** Reference to a named object of the same or another namespace. */
export const objectReference = (what: string) =>
  z.strictObject({
    name: nameText('orders').describe(`Name of the ${what}.`),
    namespace: labelText('default').optional().describe('Its namespace; by default that of this object.'),
  });

/** Reference to one value of a secret. The value itself never stands in a document (S8). */
export const secretKeyReference = (defaultKey: string) =>
  z.strictObject({
    name: nameText('orders-password').describe('Name of the secret.'),
    key: someText().default(defaultKey).describe('Entry of the secret that holds the value.'),
  });
