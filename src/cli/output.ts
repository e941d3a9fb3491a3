import Table from 'cli-table3';
import pc from 'picocolors';
import { stringify } from 'yaml';

/** Where a verb writes: results on `out`, progress and warnings on `err`. Tests give their own. */
export interface Terminal {
  readonly out: (text: string) => void;
  readonly err: (text: string) => void;
  /** stdout is a terminal: tables may be aligned and coloured. */
  readonly outIsTty: boolean;
  readonly errIsTty: boolean;
  readonly columns: number;
  readonly color: boolean;
}

/** The real terminal. `--no-color` and NO_COLOR are honoured. */
export function realTerminal(noColor: boolean): Terminal {
  return {
    out: (text) => void process.stdout.write(`${text}\n`),
    err: (text) => void process.stderr.write(`${text}\n`),
    outIsTty: process.stdout.isTTY === true,
    errIsTty: process.stderr.isTTY === true,
    columns: process.stdout.columns ?? 100,
    color: !noColor && process.env['NO_COLOR'] === undefined && process.stdout.isTTY === true,
  };
}

/** Colours for a terminal, or none. */
export const colors = (terminal: Terminal): ReturnType<typeof pc.createColors> =>
  pc.createColors(terminal.color);

/** Rows under headings: two blanks between columns, nothing else, so that it reads and greps alike. */
export function table(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  const grid = new Table({
    head: [...headings],
    style: { head: [], border: [], 'padding-left': 0, 'padding-right': 2 },
    chars: {
      top: '',
      'top-mid': '',
      'top-left': '',
      'top-right': '',
      bottom: '',
      'bottom-mid': '',
      'bottom-left': '',
      'bottom-right': '',
      left: '',
      'left-mid': '',
      mid: '',
      'mid-mid': '',
      right: '',
      'right-mid': '',
      middle: '',
    },
  });
  grid.push(...rows.map((row) => [...row]));
  return grid
    .toString()
    .split('\n')
    .map((line) => line.trimEnd())
    .join('\n');
}

/** Values as JSON or YAML. */
export const asText = (value: unknown, format: 'json' | 'yaml'): string =>
  format === 'json' ? JSON.stringify(value, null, 2) : stringify(value, { lineWidth: 0 }).trimEnd();

/** How long ago, in one unit: `12 s`, `4 h`, `80 d`. */
export function age(iso: string | undefined, now: number): string {
  if (iso === undefined) return '–';
  const seconds = Math.max(0, Math.floor((now - Date.parse(iso)) / 1000));
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}
