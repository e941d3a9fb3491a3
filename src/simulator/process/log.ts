/** The server log: one JSON object per line in the server's column layout, to standard output or a file, with a ring for getLog. */
import { closeSync, existsSync, openSync, renameSync, writeSync } from 'node:fs';
import { type Document, EJSON } from 'bson';
import type { Logger } from '../contracts.ts';
import { atLeast } from '../wire/versions.ts';

/** Lines getLog gives back. */
export const RING_LINES = 1024;

export interface LogSettings {
  readonly version: string;
  /** Null: standard output. */
  readonly path: string | null;
  readonly append: boolean;
  readonly rotation: 'rename' | 'reopen';
  readonly utc: boolean;
  /** Debug lines up to this level are written; 0 writes none. */
  readonly verbosity: number;
  readonly quiet: boolean;
}

/** The log of a process, with a life: `open`, `rotate`, `close`. */
export class ServerLog implements Logger {
  readonly #settings: LogSettings;
  readonly #ring: string[] = [];
  readonly #warnings: string[] = [];
  #fd = 1;
  #total = 0;
  #verbosity: number;

  constructor(settings: LogSettings) {
    this.#settings = settings;
    this.#verbosity = settings.verbosity;
  }

  set verbosity(level: number) {
    this.#verbosity = level;
  }

  /** Opens the log file; an existing one is renamed first unless lines are to be appended. Throws the system's error. */
  open(): void {
    const { path, append } = this.#settings;
    if (path === null) return;
    const existed = existsSync(path);
    const renamed = existed && !append ? renameAway(path) : null;
    this.#fd = openSync(path, 'a', 0o600);
    if (renamed !== null) {
      this.log('I', 'CONTROL', 20697, 'main', 'Renamed existing log file', {
        oldLogPath: path,
        newLogPath: renamed,
      });
    } else if (existed) {
      this.log('I', 'CONTROL', 20698, 'main', '***** SERVER RESTARTED *****');
    }
  }

  log(
    severity: 'F' | 'E' | 'W' | 'I' | 'D1',
    component: string,
    id: number,
    ctx: string,
    msg: string,
    attr?: Document,
    tags?: readonly string[],
  ): void {
    if (severity === 'D1' && this.#verbosity < 1) return;
    const line = this.#format(severity, component, id, ctx, msg, attr, tags);
    this.#total += 1;
    this.#ring.push(line);
    if (this.#ring.length > RING_LINES) this.#ring.shift();
    if (tags?.includes('startupWarnings')) this.#warnings.push(line);
    this.#write(`${line}\n`);
  }

  /** A warning that getLog startupWarnings shows. */
  startupWarning(component: string, id: number, msg: string, attr?: Document): void {
    this.log('W', component, id, 'initandlisten', msg, attr, ['startupWarnings']);
  }

  /** What getLog gives: the last lines, and how many were ever written. */
  lines(which: 'global' | 'startupWarnings'): { readonly total: number; readonly lines: readonly string[] } {
    if (which === 'global') return { total: this.#total, lines: [...this.#ring] };
    return { total: this.#warnings.length, lines: [...this.#warnings] };
  }

  /** Renames or reopens the log file; nothing without a file. */
  rotate(): void {
    const { path, rotation } = this.#settings;
    if (path === null) return;
    this.log('I', 'CONTROL', 23166, 'LogRotate', 'Log rotation initiated', {
      suffix: stamp(new Date()),
      logType: null,
    });
    if (rotation === 'rename') renameAway(path);
    closeSync(this.#fd);
    this.#fd = openSync(path, 'a', 0o600);
  }

  close(): void {
    if (this.#fd > 2) closeSync(this.#fd);
    this.#fd = 1;
  }

  #format(
    severity: string,
    component: string,
    id: number,
    ctx: string,
    msg: string,
    attr: Document | undefined,
    tags: readonly string[] | undefined,
  ): string {
    const { version, utc } = this.#settings;
    const svc = atLeast(version, '7.1') && !atLeast(version, '8.1') ? '"svc":"-", ' : '';
    return (
      `{"t":{"$date":"${timestamp(new Date(), utc)}"},"s":${`"${severity}",`.padEnd(6)}"c":${`"${component}",`.padEnd(12)}` +
      `"id":${`${id},`.padEnd(9)}${svc}"ctx":"${ctx}","msg":${JSON.stringify(msg)}` +
      `${attr === undefined ? '' : `,"attr":${EJSON.stringify(attr, { relaxed: true })}`}` +
      `${tags === undefined ? '' : `,"tags":${JSON.stringify(tags)}`}}`
    );
  }

  /** Lines are written at once, so that none is lost when the process is killed. A full pipe is waited for. */
  #write(text: string): void {
    const bytes = Buffer.from(text);
    let at = 0;
    while (at < bytes.length) {
      try {
        at += writeSync(this.#fd, bytes, at);
      } catch (failure) {
        if ((failure as NodeJS.ErrnoException).code !== 'EAGAIN') return;
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
      }
    }
  }
}

function renameAway(path: string): string {
  const base = `${path}.${stamp(new Date())}`;
  let target = base;
  for (let n = 1; existsSync(target); n++) target = `${base}.${n}`;
  renameSync(path, target);
  return target;
}

const stamp = (date: Date): string => date.toISOString().slice(0, 19).replaceAll(':', '-');

function timestamp(date: Date, utc: boolean): string {
  const offset = utc ? 0 : -date.getTimezoneOffset();
  const local = new Date(date.getTime() + offset * 60_000).toISOString().slice(0, -1);
  const hours = String(Math.floor(Math.abs(offset) / 60)).padStart(2, '0');
  const minutes = String(Math.abs(offset) % 60).padStart(2, '0');
  return `${local}${offset < 0 ? '-' : '+'}${hours}:${minutes}`;
}
