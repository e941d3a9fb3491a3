/** A duration or a point on the clock in milliseconds. Points are milliseconds since the Unix epoch. */
export type Millis = number;
/** A size in bytes. */
export type Bytes = number;

export const SECOND: Millis = 1_000;
export const MINUTE: Millis = 60 * SECOND;
export const HOUR: Millis = 60 * MINUTE;
export const DAY: Millis = 24 * HOUR;

export const KIB: Bytes = 1024;
export const MIB: Bytes = 1024 * KIB;
export const GIB: Bytes = 1024 * MIB;

const STEPS: readonly [Millis, string][] = [
  [DAY, 'd'],
  [HOUR, 'h'],
  [MINUTE, 'min'],
  [SECOND, 's'],
];

/** A duration for people: `850 ms`, `4.1 s`, `6 min`, `3 d`. One unit, at most one decimal below ten seconds. */
export function formatDuration(duration: Millis): string {
  if (duration < SECOND) return `${Math.round(duration)} ms`;
  if (duration < 10 * SECOND) return `${Math.round(duration / 100) / 10} s`;
  for (const [unit, name] of STEPS) if (duration >= unit) return `${Math.floor(duration / unit)} ${name}`;
  return `${Math.round(duration)} ms`;
}

/** As it was asked for, a time limit for one: to the second, in its two largest units: `90 ms`, `1 min 30 s`, `2 h`. */
export function formatLimit(limit: Millis): string {
  if (limit < 10 * SECOND) return formatDuration(limit);
  const whole = Math.round(limit / SECOND) * SECOND;
  const at = STEPS.findIndex(([unit]) => whole >= unit);
  const [large, small] = STEPS.slice(at, at + 2);
  const left = large === undefined ? 0 : whole % large[0];
  const rest = small === undefined || left < small[0] ? '' : ` ${formatDuration(left)}`;
  return `${formatDuration(whole)}${rest}`;
}

/** A size for people: `512 B`, `38 GiB`, `1.5 GiB`. */
export function formatBytes(size: Bytes): string {
  const units: readonly [Bytes, string][] = [
    [1024 * GIB, 'TiB'],
    [GIB, 'GiB'],
    [MIB, 'MiB'],
    [KIB, 'KiB'],
  ];
  for (const [unit, name] of units) {
    if (size >= unit) return `${Math.round((size / unit) * 10) / 10} ${name}`;
  }
  return `${size} B`;
}

/** A moment for people, the same in every sentence: `2026-11-30T10:05:00Z`. */
export const formatMoment = (at: Millis): string => `${new Date(at).toISOString().slice(0, 19)}Z`;

/** How many there are, for people: `1 member`, `3 members`. */
export const formatCount = (count: number, noun: string): string =>
  `${count} ${noun}${count === 1 ? '' : 's'}`;
