/** Operators on dates. */
import { Int32, Long, type ObjectId, type Timestamp } from 'bson';
import { ServerError } from '../contracts.ts';
import { isDocument, isTruthy, toInteger, typeName, typeOf } from './bson.ts';
import { parseDate } from './expr-convert.ts';
import {
  compileNamed,
  isNullish,
  located,
  named,
  type OperatorCompiler,
  type OperatorTable,
} from './expr-types.ts';
import {
  dayOfYear,
  fromIsoWeek,
  fromLocal,
  isoDay,
  isoWeek,
  offsetMinutes,
  toLocal,
  weekOfYear,
} from './time-zones.ts';

/** A date, timestamp or ObjectId as milliseconds; undefined for null and missing. */
function timeOf(value: unknown, name: string): number | undefined {
  if (isNullish(value)) return undefined;
  switch (typeOf(value)) {
    case 9:
      return (value as Date).getTime();
    case 17:
      return (value as Timestamp).t * 1000;
    case 7:
      return (value as ObjectId).getTimestamp().getTime();
    default:
      throw new ServerError(
        16006,
        'Location16006',
        `can't convert from BSON type ${typeName(value)} to Date (${name})`,
      );
  }
}

function zoneOf(value: unknown): string | undefined {
  if (value === undefined) return 'UTC';
  if (value === null) return undefined;
  if (typeof value !== 'string')
    throw located(40517, `timezone must evaluate to a string, found ${typeName(value)}`);
  return value;
}

/** An operator that gives one part of a date: `{$year: date}` or `{$year: {date, timezone}}`. */
function part(
  read: (local: Date) => number,
  as: (value: number) => unknown = (value) => new Int32(value),
): OperatorCompiler {
  return (operand, compile, name) => {
    const whole = isDocument(operand) && Object.hasOwn(operand, 'date');
    const single: unknown = Array.isArray(operand) && operand.length === 1 ? operand[0] : operand;
    const parts = whole
      ? compileNamed(operand, compile, name, ['date'], ['timezone'])
      : { date: compile(single) };
    return (scope) => {
      const time = timeOf(parts['date']!(scope), name);
      const zone = zoneOf('timezone' in parts ? (parts['timezone']!(scope) ?? null) : undefined);
      return time === undefined || zone === undefined ? null : as(read(toLocal(time, zone)));
    };
  };
}

// ── parts ──────────────────────────────────────────────────────────────────────────────────────────────────────────

const dateToParts = named(['date'], ['timezone', 'iso8601'], (values, _scope, name) => {
  const time = timeOf(values['date'], name);
  const zone = zoneOf(values['timezone']);
  if (time === undefined || zone === undefined) return null;
  const local = toLocal(time, zone);
  const clock = {
    hour: new Int32(local.getUTCHours()),
    minute: new Int32(local.getUTCMinutes()),
    second: new Int32(local.getUTCSeconds()),
    millisecond: new Int32(local.getUTCMilliseconds()),
  };
  if (isTruthy(values['iso8601'])) {
    const { week, year } = isoWeek(local);
    return {
      isoWeekYear: new Int32(year),
      isoWeek: new Int32(week),
      isoDayOfWeek: new Int32(isoDay(local)),
      ...clock,
    };
  }
  return {
    year: new Int32(local.getUTCFullYear()),
    month: new Int32(local.getUTCMonth() + 1),
    day: new Int32(local.getUTCDate()),
    ...clock,
  };
});

const DATE_PARTS = ['year', 'month', 'day', 'hour', 'minute', 'second', 'millisecond'];
const ISO_PARTS = ['isoWeekYear', 'isoWeek', 'isoDayOfWeek'];

const dateFromParts = named([], [...DATE_PARTS, ...ISO_PARTS, 'timezone'], (values) => {
  const zone = zoneOf(values['timezone']);
  if (zone === undefined || Object.values(values).some((value) => value === null)) return null;
  const read = (name: string, otherwise: number): number => {
    if (values[name] === undefined) return otherwise;
    const value = toInteger(values[name]);
    if (value === undefined) {
      throw located(40515, `'${name}' must evaluate to an integer, found ${typeName(values[name])}`);
    }
    return value;
  };
  const clock =
    ((read('hour', 0) * 60 + read('minute', 0)) * 60 + read('second', 0)) * 1000 + read('millisecond', 0);
  if (values['isoWeekYear'] !== undefined) {
    return new Date(
      fromLocal(
        fromIsoWeek(read('isoWeekYear', 1970), read('isoWeek', 1), read('isoDayOfWeek', 1)) + clock,
        zone,
      ),
    );
  }
  if (values['year'] === undefined) {
    throw located(40516, "$dateFromParts requires either 'year' or 'isoWeekYear' to be present");
  }
  const midnight = new Date(0);
  midnight.setUTCFullYear(read('year', 1970), read('month', 1) - 1, read('day', 1));
  return new Date(fromLocal(midnight.getTime() + clock, zone));
});

// ── strings ────────────────────────────────────────────────────────────────────────────────────────────────────────

const MONTHS = [
  'January',
  'February',
  'March',
  'April',
  'May',
  'June',
  'July',
  'August',
  'September',
  'October',
  'November',
  'December',
];
const pad = (value: number, width: number): string => String(value).padStart(width, '0');

function offsetText(minutes: number, separator: string): string {
  const size = Math.abs(minutes);
  return `${minutes < 0 ? '-' : '+'}${pad(Math.floor(size / 60), 2)}${separator}${pad(size % 60, 2)}`;
}

/** Directives of `$dateToString`. */
const DIRECTIVES: Readonly<Record<string, (local: Date, offset: number) => string>> = {
  Y: (local) => pad(local.getUTCFullYear(), 4),
  m: (local) => pad(local.getUTCMonth() + 1, 2),
  d: (local) => pad(local.getUTCDate(), 2),
  H: (local) => pad(local.getUTCHours(), 2),
  M: (local) => pad(local.getUTCMinutes(), 2),
  S: (local) => pad(local.getUTCSeconds(), 2),
  L: (local) => pad(local.getUTCMilliseconds(), 3),
  j: (local) => pad(dayOfYear(local), 3),
  u: (local) => String(isoDay(local)),
  w: (local) => String(local.getUTCDay() + 1),
  U: (local) => pad(weekOfYear(local), 2),
  G: (local) => pad(isoWeek(local).year, 4),
  V: (local) => pad(isoWeek(local).week, 2),
  b: (local) => MONTHS[local.getUTCMonth()]!.slice(0, 3),
  B: (local) => MONTHS[local.getUTCMonth()]!,
  z: (_local, offset) => offsetText(offset, ''),
  Z: (_local, offset) => String(offset),
  '%': () => '%',
};

const dateToString = named(['date'], ['format', 'timezone', 'onNull'], (values, _scope, name) => {
  const time = timeOf(values['date'], name);
  const zone = zoneOf(values['timezone']);
  if (time === undefined) return Object.hasOwn(values, 'onNull') ? values['onNull'] : null;
  if (zone === undefined || values['format'] === null) return null;
  const utc = values['timezone'] === undefined || zone === 'UTC' || zone === 'GMT';
  const format = (values['format'] as string | undefined) ?? `%Y-%m-%dT%H:%M:%S.%L${utc ? 'Z' : ''}`;
  if (typeof format !== 'string')
    throw located(18533, `$dateToString requires that 'format' be a string, found: ${typeName(format)}`);
  const [local, offset] = [toLocal(time, zone), offsetMinutes(time, zone)];
  return format.replace(/%(.?)/g, (_text, directive: string) => {
    const write = DIRECTIVES[directive];
    if (!write) throw located(18536, `Invalid format character '%${directive}' in format string`);
    return write(local, offset);
  });
});

/** What each directive of `$dateFromString` matches, and where it goes. */
const READERS: Readonly<Record<string, readonly [string, string]>> = {
  Y: ['year', '(\\d{4})'],
  m: ['month', '(\\d{1,2})'],
  d: ['day', '(\\d{1,2})'],
  H: ['hour', '(\\d{1,2})'],
  M: ['minute', '(\\d{1,2})'],
  S: ['second', '(\\d{1,2})'],
  L: ['millisecond', '(\\d{1,3})'],
  j: ['dayOfYear', '(\\d{1,3})'],
  b: ['monthName', '([A-Za-z]{3})'],
  B: ['monthName', '([A-Za-z]+)'],
  G: ['isoWeekYear', '(\\d{4})'],
  V: ['isoWeek', '(\\d{1,2})'],
  u: ['isoDayOfWeek', '([1-7])'],
  z: ['offset', '(Z|[+-]\\d{2}:?\\d{2})'],
  Z: ['minutes', '([+-]\\d{1,4})'],
};

function parseWithFormat(text: string, format: string, zone: string): Date {
  const names: string[] = [];
  const pattern = format.replace(/%(.)|[.*+?^${}()|[\]\\]/g, (literal, directive: string | undefined) => {
    if (directive === undefined) return `\\${literal}`;
    if (directive === '%') return '%';
    const reader = READERS[directive];
    if (!reader) throw located(18536, `Invalid format character '%${directive}' in format string`);
    names.push(reader[0]);
    return reader[1];
  });
  const match = new RegExp(`^${pattern}$`).exec(text);
  if (!match)
    throw new ServerError(241, 'ConversionFailure', `Error parsing date string '${text}'; format mismatch`);
  const fields = Object.fromEntries(names.map((name, index) => [name, match[index + 1]!]));
  return dateOfFields(fields, zone);
}

function dateOfFields(fields: Readonly<Record<string, string>>, zone: string): Date {
  const number = (name: string, otherwise: number): number =>
    fields[name] === undefined ? otherwise : Number(fields[name]);
  const monthName = fields['monthName']?.toLowerCase();
  const month = monthName
    ? MONTHS.findIndex((name) => name.toLowerCase().startsWith(monthName.slice(0, 3))) + 1
    : number('month', 1);
  let local =
    fields['isoWeekYear'] === undefined
      ? Date.UTC(number('year', 1970), month - 1, number('day', 1))
      : fromIsoWeek(number('isoWeekYear', 1970), number('isoWeek', 1), number('isoDayOfWeek', 1));
  if (fields['dayOfYear'] !== undefined) local = Date.UTC(number('year', 1970), 0, number('dayOfYear', 1));
  local +=
    ((number('hour', 0) * 60 + number('minute', 0)) * 60 + number('second', 0)) * 1000 +
    number('millisecond', 0);
  if (fields['minutes'] !== undefined) return new Date(local - number('minutes', 0) * 60_000);
  return new Date(fromLocal(local, fields['offset'] ?? zone));
}

const compileDateFromString: OperatorCompiler = (operand, compile, name) => {
  const parts = compileNamed(
    operand,
    compile,
    name,
    ['dateString'],
    ['format', 'timezone', 'onError', 'onNull'],
  );
  return (scope) => {
    const text = parts['dateString']!(scope);
    if (isNullish(text)) return parts['onNull'] ? parts['onNull'](scope) : null;
    const zone = zoneOf(parts['timezone'] ? (parts['timezone'](scope) ?? null) : undefined);
    if (zone === undefined) return null;
    try {
      if (typeof text !== 'string') {
        throw new ServerError(
          241,
          'ConversionFailure',
          `$dateFromString requires that 'dateString' be a string, found: ${typeName(text)} with value ${String(text)}`,
        );
      }
      const format = parts['format']?.(scope);
      if (typeof format === 'string') return parseWithFormat(text, format, zone);
      const parsed = parseDate(text);
      const hasZone = /(Z|[+-]\d{2}:?\d{2})$/.test(text) && text.length > 10;
      return hasZone ? parsed : new Date(fromLocal(parsed.getTime(), zone));
    } catch (error) {
      if (parts['onError'] && error instanceof ServerError && error.code === 241)
        return parts['onError'](scope);
      throw error;
    }
  };
};

// ── units ──────────────────────────────────────────────────────────────────────────────────────────────────────────

const FIXED_UNITS: Readonly<Record<string, number>> = {
  week: 604_800_000,
  day: 86_400_000,
  hour: 3_600_000,
  minute: 60_000,
  second: 1_000,
  millisecond: 1,
};
const MONTH_UNITS: Readonly<Record<string, number>> = { year: 12, quarter: 3, month: 1 };

function checkUnit(unit: unknown, name: string): string {
  if (typeof unit === 'string' && (unit in FIXED_UNITS || unit in MONTH_UNITS)) return unit;
  throw new ServerError(
    9,
    'FailedToParse',
    `${name} parameter 'unit' value cannot be recognized as a time unit: ${String(unit)}`,
  );
}

/** Adds whole units on the wall clock of the zone for days and more, on the time line below. */
function addUnits(time: number, unit: string, amount: number, zone: string): number {
  const months = MONTH_UNITS[unit];
  if (months === undefined) {
    if (unit !== 'day' && unit !== 'week') return time + amount * FIXED_UNITS[unit]!;
    return fromLocal(toLocal(time, zone).getTime() + amount * FIXED_UNITS[unit]!, zone);
  }
  const local = toLocal(time, zone);
  const day = local.getUTCDate();
  local.setUTCDate(1);
  local.setUTCMonth(local.getUTCMonth() + amount * months);
  const last = new Date(Date.UTC(local.getUTCFullYear(), local.getUTCMonth() + 1, 0)).getUTCDate();
  local.setUTCDate(Math.min(day, last));
  return fromLocal(local.getTime(), zone);
}

const dateArithmetic = (sign: 1 | -1): OperatorCompiler =>
  named(['startDate', 'unit', 'amount'], ['timezone'], (values, _scope, name) => {
    const time = timeOf(values['startDate'], name);
    const zone = zoneOf(values['timezone']);
    if (time === undefined || zone === undefined || isNullish(values['unit']) || isNullish(values['amount']))
      return null;
    const amount = toInteger(values['amount']);
    if (amount === undefined) throw located(5166405, `${name} expects integer amount of time units`);
    return new Date(addUnits(time, checkUnit(values['unit'], name), sign * amount, zone));
  });

const WEEKDAYS = ['sunday', 'monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday'];

function weekStart(value: unknown): number {
  if (isNullish(value)) return 0;
  const text = String(value).toLowerCase();
  const day = WEEKDAYS.findIndex((name) => name === text || name.slice(0, 3) === text);
  if (day < 0)
    throw new ServerError(
      9,
      'FailedToParse',
      `parameter 'startOfWeek' value cannot be recognized as a day of a week: ${String(value)}`,
    );
  return day;
}

/** The number of the unit a wall clock is in, counted from a fixed start. */
function unitNumber(local: Date, unit: string, startOfWeek: number): number {
  const months = MONTH_UNITS[unit];
  if (months !== undefined) return Math.floor((local.getUTCFullYear() * 12 + local.getUTCMonth()) / months);
  // 1970-01-01 was a Thursday (4): shift so that weeks begin on the wanted day.
  const shift = unit === 'week' ? ((4 - startOfWeek + 7) % 7) * FIXED_UNITS['day']! : 0;
  return Math.floor((local.getTime() + shift) / FIXED_UNITS[unit]!);
}

const dateDiff = named(
  ['startDate', 'endDate', 'unit'],
  ['timezone', 'startOfWeek'],
  (values, _scope, name) => {
    const [start, end] = [timeOf(values['startDate'], name), timeOf(values['endDate'], name)];
    const zone = zoneOf(values['timezone']);
    if (start === undefined || end === undefined || zone === undefined || isNullish(values['unit']))
      return null;
    const unit = checkUnit(values['unit'], name);
    const first = weekStart(values['startOfWeek']);
    const number = (time: number) => unitNumber(toLocal(time, zone), unit, first);
    return Long.fromNumber(number(end) - number(start));
  },
);

const dateTrunc = named(['date', 'unit'], ['binSize', 'timezone', 'startOfWeek'], (values, _scope, name) => {
  const time = timeOf(values['date'], name);
  const zone = zoneOf(values['timezone']);
  if (time === undefined || zone === undefined || isNullish(values['unit'])) return null;
  const unit = checkUnit(values['unit'], name);
  const size = values['binSize'] === undefined ? 1 : toInteger(values['binSize']);
  if (size === undefined || size < 1)
    throw located(5439018, `${name} requires 'binSize' to be greater than 0`);
  return new Date(
    fromLocal(truncate(toLocal(time, zone), unit, size, weekStart(values['startOfWeek'])), zone),
  );
});

/** Bins are counted from 2000-01-01 (weeks from the first start of week after it). */
function truncate(local: Date, unit: string, size: number, startOfWeek: number): number {
  const months = MONTH_UNITS[unit];
  if (months !== undefined) {
    const since = (local.getUTCFullYear() - 2000) * 12 + local.getUTCMonth();
    return Date.UTC(2000, Math.floor(since / (months * size)) * months * size, 1);
  }
  let reference = Date.UTC(2000, 0, 1);
  if (unit === 'week')
    reference += ((startOfWeek - new Date(reference).getUTCDay() + 7) % 7) * FIXED_UNITS['day']!;
  const bin = FIXED_UNITS[unit]! * size;
  return reference + Math.floor((local.getTime() - reference) / bin) * bin;
}

export const DATES: OperatorTable = {
  $year: part((local) => local.getUTCFullYear()),
  $month: part((local) => local.getUTCMonth() + 1),
  $dayOfMonth: part((local) => local.getUTCDate()),
  $dayOfWeek: part((local) => local.getUTCDay() + 1),
  $dayOfYear: part(dayOfYear),
  $hour: part((local) => local.getUTCHours()),
  $minute: part((local) => local.getUTCMinutes()),
  $second: part((local) => local.getUTCSeconds()),
  $millisecond: part((local) => local.getUTCMilliseconds()),
  $week: part(weekOfYear),
  $isoDayOfWeek: part(isoDay),
  $isoWeek: part((local) => isoWeek(local).week),
  $isoWeekYear: part(
    (local) => isoWeek(local).year,
    (value) => Long.fromNumber(value),
  ),
  $dateToParts: dateToParts,
  $dateFromParts: dateFromParts,
  $dateToString: dateToString,
  $dateFromString: compileDateFromString,
  $dateAdd: dateArithmetic(1),
  $dateSubtract: dateArithmetic(-1),
  $dateDiff: dateDiff,
  $dateTrunc: dateTrunc,
};
