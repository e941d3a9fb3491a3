/** Dates in time zones: offsets by name, wall-clock fields and back, ISO weeks. */
import { located } from './expr-types.ts';

const formats = new Map<string, Intl.DateTimeFormat>();

function formatOf(zone: string): Intl.DateTimeFormat {
  const known = formats.get(zone);
  if (known) return known;
  try {
    const format = new Intl.DateTimeFormat('en-US', { timeZone: zone, timeZoneName: 'longOffset' });
    formats.set(zone, format);
    return format;
  } catch {
    throw located(40485, `unrecognized time zone identifier: "${zone}"`);
  }
}

const FIXED = /^([+-])(\d{2}):?(\d{2})?$/;

function fixedOffset(zone: string): number | undefined {
  if (zone === 'UTC' || zone === 'GMT' || zone === 'Z') return 0;
  const match = FIXED.exec(zone);
  if (!match) return undefined;
  const minutes = Number(match[2]) * 60 + Number(match[3] ?? 0);
  return match[1] === '-' ? -minutes : minutes;
}

/** Minutes east of UTC in a zone (`UTC`, `+05:30`, `Europe/Berlin`) at a time. Error: 40485. */
export function offsetMinutes(time: number, zone: string): number {
  const fixed = fixedOffset(zone);
  if (fixed !== undefined) return fixed;
  const name = formatOf(zone)
    .formatToParts(time)
    .find(({ type }) => type === 'timeZoneName')?.value;
  const match = /([+-])(\d{2}):(\d{2})/.exec(name ?? '');
  if (!match) return 0;
  const minutes = Number(match[2]) * 60 + Number(match[3]);
  return match[1] === '-' ? -minutes : minutes;
}

/** The wall clock of a zone as a date whose UTC fields are the local ones. */
export function toLocal(time: number, zone: string): Date {
  return new Date(time + offsetMinutes(time, zone) * 60_000);
}

/** The time at which a zone's wall clock shows these UTC fields. */
export function fromLocal(local: number, zone: string): number {
  const guess = local - offsetMinutes(local, zone) * 60_000;
  // Around a change of the clocks the first guess may have used the other offset.
  return local - offsetMinutes(guess, zone) * 60_000;
}

const DAY = 86_400_000;

/** Day of the year, from 1. */
export function dayOfYear(local: Date): number {
  return Math.floor((local.getTime() - Date.UTC(local.getUTCFullYear(), 0, 1)) / DAY) + 1;
}

/** Weeks beginning on Sundays; 0 before the first one. */
export function weekOfYear(local: Date): number {
  return Math.floor((dayOfYear(local) + 6 - local.getUTCDay()) / 7);
}

/** Monday 1 to Sunday 7. */
export const isoDay = (local: Date): number => local.getUTCDay() || 7;

/** ISO 8601 week and the year it belongs to. */
export function isoWeek(local: Date): { readonly week: number; readonly year: number } {
  const thursday = new Date(local.getTime() + (4 - isoDay(local)) * DAY);
  return { week: Math.floor((dayOfYear(thursday) - 1) / 7) + 1, year: thursday.getUTCFullYear() };
}

/** UTC milliseconds of an ISO week date at midnight. */
export function fromIsoWeek(year: number, week: number, day: number): number {
  const fourth = new Date(Date.UTC(year, 0, 4));
  return fourth.getTime() + ((week - 1) * 7 + (day - isoDay(fourth))) * DAY;
}
