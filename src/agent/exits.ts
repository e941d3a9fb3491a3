/** Why a database process ended, in one sentence for people. Pure. */
import { MESSAGE_LENGTH } from './limits.ts';

export interface Exit {
  readonly code: number | null;
  readonly signal: string | null;
}
/** Of a server that cannot open its port. */
export const EXIT_PORT = 48;

export interface ExitVerdict {
  readonly message: string;
  /** The configuration is at fault: this snapshot will never run (A9.2). */
  readonly rejectsConfig: boolean;
  /** Starting it again by ourselves may help. */
  readonly retry: boolean;
}

/**
 * Judges an exit by its code (mongod's `exit_code.h`) and the last words of log and output. `started`: this snapshot had
 * already answered once, so its configuration is not at fault. `portHolder`: who has its port, in a sentence.
 */
export function judgeExit(
  exit: Exit,
  tail: { readonly log: string; readonly output: string },
  started: boolean,
  portHolder: string | null = null,
): ExitVerdict {
  const last = lastWords(tail);
  const say = (text: string): string => (last === '' ? text : `${text}: ${last}`).slice(0, MESSAGE_LENGTH);
  switch (exit.code) {
    case 2:
      return { message: say('the options were refused'), rejectsConfig: true, retry: false };
    case EXIT_PORT:
      return {
        message: portHolder ?? say('its port could not be opened'),
        rejectsConfig: false,
        retry: true,
      };
    case 62:
      return {
        message: say('the data was written by a version this one cannot read'),
        rejectsConfig: false,
        retry: false,
      };
    case 100:
      return { message: say('its data directory could not be used'), rejectsConfig: false, retry: true };
    case 1:
      return { message: say('it could not start'), rejectsConfig: !started, retry: true };
    case 14:
      return { message: say('it met an unrecoverable error'), rejectsConfig: false, retry: true };
    case 0:
      return { message: 'it was shut down by somebody else', rejectsConfig: false, retry: true };
    case null:
      return {
        message:
          exit.signal === null ? say('it ended while nobody watched') : say(`it was ended by ${exit.signal}`),
        rejectsConfig: false,
        retry: true,
      };
    default:
      return { message: say(`it ended with code ${exit.code}`), rejectsConfig: false, retry: true };
  }
}

/** The last error of the structured log, else the first line of the plain output (option errors come before any log). */
function lastWords(tail: { readonly log: string; readonly output: string }): string {
  const plain = tail.output.split('\n').find((line) => line.trim() !== '' && !line.startsWith('{'));
  const errors = [...logLines(tail.log), ...logLines(tail.output)].filter(
    (line) => line.s === 'E' || line.s === 'F',
  );
  const line = errors.at(-1);
  if (line) return sentence(line);
  return plain?.trim() ?? '';
}

interface LogLine {
  readonly s: string;
  readonly msg: string;
  readonly attr?: Record<string, unknown>;
}

function logLines(text: string): readonly LogLine[] {
  return sinceLastStart(text.split('\n')).flatMap((line) => {
    try {
      const parsed = JSON.parse(line) as Partial<LogLine>;
      return typeof parsed.s === 'string' && typeof parsed.msg === 'string' ? [parsed as LogLine] : [];
    } catch {
      return [];
    }
  });
}

/** An old run's errors explain nothing about this one: log id 20698 marks every start in an appended log, 4615611 too. */
function sinceLastStart(lines: readonly string[]): readonly string[] {
  const start = lines.findLastIndex((line) => /"id":(20698|4615611),/.test(line));
  return start < 0 ? lines : lines.slice(start);
}

function sentence(line: LogLine): string {
  const error = line.attr?.['error'];
  const detail =
    typeof error === 'string'
      ? error
      : typeof error === 'object' && error !== null
        ? String((error as { errmsg?: unknown }).errmsg ?? '')
        : '';
  return detail === '' ? line.msg : `${line.msg}: ${detail}`;
}
