import type { Io } from './io.ts';

/** Where a verb writes: results on `out`, progress and warnings on `err`, a line or block at a time, control characters escaped. */
export interface Terminal {
  readonly out: (text: string) => void;
  readonly err: (text: string) => void;
  /** As they are, for text whose control characters are our own (colours, drawing over): what others gave is escaped before. */
  readonly outRaw: (text: string) => void;
  readonly errRaw: (text: string) => void;
  /** stdout is a terminal. */
  readonly outIsTty: boolean;
  /** stderr is a terminal: progress may be drawn over. */
  readonly errIsTty: boolean;
  readonly columns: number;
  readonly rows: number;
  readonly color: boolean;
}

/** The terminal of a verb. `--no-color` and NO_COLOR are honoured. */
export function terminalOf(io: Io, noColor: boolean): Terminal {
  const { outIsTty, errIsTty, columns, rows, env } = io;
  const unwanted = noColor || (env['NO_COLOR'] ?? '') !== '' || env['TERM'] === 'dumb';
  return {
    out: (text) => io.out(`${inBlock(text)}\n`),
    err: (text) => io.err(`${inBlock(text)}\n`),
    outRaw: (text) => io.out(`${text}\n`),
    errRaw: (text) => io.err(`${text}\n`),
    outIsTty,
    errIsTty,
    columns,
    rows,
    color: outIsTty && !unwanted,
  };
}

const SHORT: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

/** Those above 127 as JSON and YAML in quotes have them too, where they stand as they are otherwise: such text stays exact. */
function escaped(control: string): string {
  const code = control.charCodeAt(0);
  const hex = (width: number): string => code.toString(16).padStart(width, '0');
  return SHORT[control] ?? (code < 0x7f ? `\\x${hex(2)}` : `\\u${hex(4)}`);
}

/** Text that others gave as a part of one line: what would break the line, colour it or move the cursor is shown and not done. */
export const inLine = (text: string): string => text.replace(/\p{Cc}/gu, escaped);
/** The same for a block of lines. */
export const inBlock = (text: string): string => text.replace(/[^\P{Cc}\n\t]/gu, escaped);

/** Widths of columns, kept over several tables that are to line up (a watch). */
export type Widths = number[];

/**
 * Rows under headings, two blanks between columns and nothing else, so that it reads and greps alike. Without headings
 * only rows. `paint` colours a cell after it was padded. Cells stay on their line, whatever is in them.
 */
export function table(
  headings: readonly string[] | null,
  rows: readonly (readonly string[])[],
  options: { readonly widths?: Widths; readonly paint?: (cell: string) => string } = {},
): string {
  const { widths = [], paint = (cell: string) => cell } = options;
  const all = (headings === null ? rows : [headings, ...rows]).map((row) => row.map(inLine));
  for (const row of all)
    row.forEach((cell, at) => {
      widths[at] = Math.max(widths[at] ?? 0, cell.length);
    });
  const line = (row: readonly string[], paintCell: (cell: string) => string): string =>
    row
      .map((cell, at) => (at === row.length - 1 ? paintCell(cell) : paintCell(cell.padEnd(widths[at] ?? 0))))
      .join('  ')
      .trimEnd();
  return all.map((row, index) => line(row, headings !== null && index === 0 ? (c) => c : paint)).join('\n');
}

const RED = /^(Degraded|Failed|Unknown)$/;
const GREEN = /^(Ready|True|Succeeded)$/;
const YELLOW = /^(Pending|Reconciling|Deleting|Waiting|Running|Cancelled)$/;

/** Colours words that say how something stands; the identity without colours. */
export async function painter(terminal: Terminal): Promise<(cell: string) => string> {
  if (!terminal.color) return (cell) => cell;
  const { default: picocolors } = await import('picocolors');
  const colors = picocolors.createColors(true);
  return (cell) => {
    const word = cell.trimEnd();
    if (RED.test(word)) return colors.red(cell);
    if (GREEN.test(word)) return colors.green(cell);
    return YELLOW.test(word) ? colors.yellow(cell) : cell;
  };
}

/** Values as JSON or YAML. */
export async function asText(value: unknown, format: 'json' | 'yaml'): Promise<string> {
  if (format === 'json') return JSON.stringify(value, null, 2);
  const { stringify } = await import('yaml');
  return stringify(value, { lineWidth: 0 }).trimEnd();
}

/** How long ago, in one unit: `12 s`, `4 h`, `80 d`. */
export function age(iso: string | undefined, now: number): string {
  const at = iso === undefined ? Number.NaN : Date.parse(iso);
  if (Number.isNaN(at)) return '–';
  const seconds = Math.max(0, Math.floor((now - at) / 1000));
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}
