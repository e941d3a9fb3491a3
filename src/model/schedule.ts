import { err, ok, type Result } from '../base/result.ts';

/** The moments a cron line names, as sorted numbers per field. Days of week: 0 is Sunday. */
export interface CronSchedule {
  readonly minutes: readonly number[];
  readonly hours: readonly number[];
  readonly daysOfMonth: readonly number[];
  readonly months: readonly number[];
  readonly daysOfWeek: readonly number[];
  /** As in crond: when both day fields are restricted, either may match. */
  readonly eitherDay: boolean;
}

interface Field {
  readonly name: string;
  readonly from: number;
  readonly to: number;
  readonly words?: readonly string[];
}

const MONTHS = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];
/** Three-letter names of the days, in the order of cron (Sunday is 0). */
export const WEEKDAYS = ['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat'] as const;

const FIELDS: readonly Field[] = [
  { name: 'minute', from: 0, to: 59 },
  { name: 'hour', from: 0, to: 23 },
  { name: 'day of month', from: 1, to: 31 },
  { name: 'month', from: 1, to: 12, words: MONTHS },
  { name: 'day of week', from: 0, to: 7, words: WEEKDAYS.map((day) => day.toLowerCase()) },
];

const MACROS: Readonly<Record<string, string>> = {
  '@hourly': '0 * * * *',
  '@daily': '0 0 * * *',
  '@midnight': '0 0 * * *',
  '@weekly': '0 0 * * 0',
  '@monthly': '0 0 1 * *',
  '@yearly': '0 0 1 1 *',
  '@annually': '0 0 1 1 *',
};

/** Reads a five-field cron line (minute hour day-of-month month day-of-week; lists, ranges, steps, names, @daily). */
export function parseCron(text: string): Result<CronSchedule, string> {
  const line = MACROS[text.trim().toLowerCase()] ?? text.trim();
  const parts = line.split(/\s+/);
  if (parts.length !== 5) {
    return err(
      `must have five fields: minute, hour, day of month, month, day of week, such as "0 2 * * 6" (has ${parts.length})`,
    );
  }
  const sets: number[][] = [];
  for (const [index, field] of FIELDS.entries()) {
    const values = parseField(parts[index] ?? '', field);
    if (values === undefined) {
      return err(`has a bad ${field.name} "${parts[index]}", it must be within ${field.from} to ${field.to}`);
    }
    sets.push(values);
  }
  const [minutes = [], hours = [], daysOfMonth = [], months = [], week = []] = sets;
  const daysOfWeek = [...new Set(week.map((day) => day % 7))].sort((a, b) => a - b);
  const eitherDay = !parts[2]?.startsWith('*') && !parts[4]?.startsWith('*');
  return ok({ minutes, hours, daysOfMonth, months, daysOfWeek, eitherDay });
}

/** Days of each month, in leap years. */
const MONTH_DAYS = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/** Whether no month it names has a day it names, as with `0 3 30 2 *`: then it never comes. */
export function neverComes({ daysOfMonth, months, eitherDay }: CronSchedule): boolean {
  const first = Math.min(...daysOfMonth);
  return !eitherDay && months.every((month) => first > (MONTH_DAYS[month - 1] ?? 31));
}

function parseField(text: string, field: Field): number[] | undefined {
  const values = new Set<number>();
  for (const item of text.split(',')) {
    const match = /^(\*|[a-z0-9]+)(?:-([a-z0-9]+))?(?:\/(\d+))?$/i.exec(item);
    if (match === null) return undefined;
    const range = parseRange(match[1] ?? '', match[2], match[3] !== undefined, field);
    const step = match[3] === undefined ? 1 : Number(match[3]);
    if (range === undefined || step < 1) return undefined;
    for (let value = range[0]; value <= range[1]; value += step) values.add(value);
  }
  return values.size === 0 ? undefined : [...values].sort((a, b) => a - b);
}

function parseRange(
  first: string,
  last: string | undefined,
  stepped: boolean,
  field: Field,
): [number, number] | undefined {
  if (first === '*') return last === undefined ? [field.from, field.to] : undefined;
  const from = parseValue(first, field);
  const to = last === undefined ? (stepped ? field.to : from) : parseValue(last, field);
  return from === undefined || to === undefined || to < from ? undefined : [from, to];
}

function parseValue(text: string, field: Field): number | undefined {
  const word = field.words?.indexOf(text.toLowerCase()) ?? -1;
  if (word >= 0) return word + field.from;
  if (!/^\d+$/.test(text)) return undefined;
  const value = Number(text);
  return value >= field.from && value <= field.to ? value : undefined;
}

/** Whether the name is a time zone of the IANA database, `Europe/Prague` or `UTC` for example. */
export function isTimeZone(name: string): boolean {
  // Offsets such as +02:00 are accepted by the language but do not follow summer time: refuse them.
  if (!/^[A-Za-z]/.test(name)) return false;
  try {
    new Intl.DateTimeFormat('en', { timeZone: name });
    return true;
  } catch {
    return false;
  }
}

/** Whether the text is a time of day from 00:00 to 23:59. */
export function isTimeOfDay(text: string): boolean {
  return /^([01]\d|2[0-3]):[0-5]\d$/.test(text);
}
