/** Following an object to its goal: who is where, what it waits for, until when. Progress goes to stderr. */
import { BelayError } from '../base/error.ts';
import { formatLimit, type Millis } from '../base/units.ts';
import { type ApiObject, objectPath } from './client.ts';
import type { ApiKind, Context } from './context.ts';
import { EXIT, Exit } from './exit.ts';
import { inLine, type Terminal } from './output.ts';
import { lag, type MemberRow, type SetRow, statusOf } from './rows.ts';

/** How far a member of each stage has come: 0 imported, 1 deployed. Stages after that run. */
const REACHED: Readonly<Record<string, number>> = { planned: -1, suspended: -1, imported: 0, removing: -1 };

/** One line for a member: `orders-1  ✔ imported  ✔ deployed  ✔ running   SECONDARY  lag 0 s`. */
export function memberLine(member: MemberRow, width: number): string {
  const reached = REACHED[member.stage ?? 'planned'] ?? 1;
  const mark = (done: boolean, text: string): string => `${done ? '✔' : '·'} ${text}`;
  const running = member.state !== undefined && member.state !== 'DOWN';
  const steps = [mark(reached >= 0, 'imported'), mark(reached >= 1, 'deployed'), mark(running, 'running')];
  const state = (member.state ?? '').padEnd(9);
  return `  ${member.name.padEnd(width)}   ${steps.join('  ')}   ${state}  ${tailOf(member)}`.trimEnd();
}

function tailOf(member: MemberRow): string {
  if (member.progressPercent !== undefined) return `initial sync ${Math.round(member.progressPercent)} %`;
  if (member.state === 'PRIMARY') return 'lag –';
  if (member.state === 'SECONDARY' && member.lagMillis !== undefined) return `lag ${lag(member.lagMillis)}`;
  return withoutName(member.message ?? '', member.name);
}

/** The line begins with the name already. */
const withoutName = (text: string, name: string): string =>
  text.startsWith(`${name} `) ? text.slice(name.length + 1) : text;

/** All lines of an object's progress: members, the set, and what is done or waited for now. */
export function progressLines(object: ApiObject): readonly string[] {
  if (object.kind === 'Operation') return operationLines(object);
  const status = statusOf(object);
  const members = status.members ?? [];
  const sets = status.replicaSets ?? [];
  if (sets.length === 0 && members.length === 0) return [phaseLine(object)];
  const width = Math.max(3, ...members.map((m) => m.name.length));
  const lines = members.map((m) => memberLine(m, width));
  for (const set of sets) lines.push(setLine(set, sets.length === 1 ? 'set' : set.name, width));
  const now = status.now ?? (status.phase === 'Ready' ? undefined : status.message);
  if (now !== undefined && now !== '') lines.push(`  ${'now'.padEnd(width)}   ${now}`);
  return lines;
}

function setLine(set: SetRow, name: string, width: number): string {
  const initiated = set.term === undefined ? '· initiated' : `✔ initiated (term ${set.term})`;
  const users = set.stage === 'ready' ? '✔ users 5/5' : '· users';
  const shard = set.role !== 'shard' ? '' : set.registered === true ? '  ✔ a shard' : '  · a shard';
  return `  ${name.padEnd(width)}   ${initiated}  ${users}${shard}`;
}

/** Members it is done with, the one it works on, what it waits for and until when. */
function operationLines(object: ApiObject): readonly string[] {
  const { state = 'Waiting', message = '', completedMembers = [], ...status } = statusOf(object);
  const { currentMember, progressPercent, attempts, nextTryAt, cancelRequested } = status;
  const width = Math.max(5, ...[...completedMembers, currentMember ?? ''].map((m) => m.length));
  const percent = progressPercent === undefined ? '' : `  ${Math.round(progressPercent)} %`;
  const stopping = cancelRequested === true && state === 'Running' ? '  (is to be cancelled)' : '';
  const lines = completedMembers.map((m) => `  ${m.padEnd(width)}   ✔ done`);
  if (state === 'Running' && currentMember !== undefined)
    lines.push(`  ${currentMember.padEnd(width)}   · ${withoutName(message, currentMember)}`);
  // How it ended is the verb's own last line.
  const text =
    state === 'Waiting' || (state === 'Running' && currentMember === undefined) ? `   ${message}` : '';
  lines.push(`  ${'state'.padEnd(width)}   ${state}${percent}${stopping}${text}`.trimEnd());
  if (nextTryAt !== undefined && state === 'Running')
    lines.push(
      `  ${'again'.padEnd(width)}   at ${nextTryAt.slice(11, 19)} UTC, after ${attempts ?? 1} failed`,
    );
  return lines;
}

function phaseLine(object: ApiObject): string {
  const { phase = 'Pending', message } = statusOf(object);
  return `  ${object.metadata.name}   ${phase}${message ? `   ${message}` : ''}`;
}

/** Without what changes by itself all the time, so that a log of progress does not repeat itself. */
const withoutLag = (line: string): string => line.replace(/ {2}lag \S+( \S+)?$/, '');

/** How far a line's rest is moved in, and the least that is left for it on a narrow terminal. */
const [INDENT, LEAST] = [6, 20] as const;

/** A line in pieces that fit, broken between words where it can be: its end often says what to do. */
function wrapped(line: string, width: number): readonly string[] {
  if (line.length <= width || width < INDENT + LEAST) return [line.slice(0, width)];
  const space = line.lastIndexOf(' ', width);
  const end = space > INDENT ? space : width;
  const rest = line.slice(end).trimStart();
  return [line.slice(0, end).trimEnd(), ...wrapped(`${' '.repeat(INDENT)}${rest}`, width)];
}

/** Draws a block of lines over the last one on a terminal; elsewhere prints only lines that say something new. */
export function makePainter(terminal: Terminal): (lines: readonly string[]) => void {
  let drawn = 0;
  let before: readonly string[] = [];
  return (given) => {
    const lines = given.map(inLine);
    if (!terminal.errIsTty) {
      const known = before.map(withoutLag);
      for (const line of lines) if (!known.includes(withoutLag(line))) terminal.err(line);
      before = lines;
      return;
    }
    // More lines than the screen has could not be drawn over again.
    const shown = lines
      .flatMap((line) => wrapped(line, terminal.columns - 1))
      .slice(0, Math.max(1, terminal.rows - 2));
    if (shown.length === 0) return;
    const up = drawn > 0 ? `\u001b[${drawn}A\u001b[J` : '';
    terminal.errRaw(`${up}${shown.join('\n')}`);
    drawn = shown.length;
  };
}

export interface FollowOptions {
  readonly kind: ApiKind;
  readonly namespace: string;
  readonly name: string;
  readonly timeoutMillis: Millis;
  /** Whether it is there; null: the object does not exist. */
  readonly reached: (object: ApiObject | null) => boolean;
  /** In words, for the message when the wait runs out. */
  readonly goal: string;
}

/**
 * Watches until the goal is reached. `WaitTimedOut` says what was still being waited for; `NotFound` when there is no
 * such object and its absence is not the goal. Ctrl-C ends the verb with 130.
 */
export async function follow(context: Context, options: FollowOptions): Promise<ApiObject | null> {
  const { kind, namespace, name } = options;
  const paint = makePainter(context.terminal);
  const timeout = AbortSignal.timeout(options.timeoutMillis);
  const interrupted = context.io.interrupted();
  const path = objectPath(kind.plural, kind.namespaced ? namespace : null);
  const query = { fieldSelector: `metadata.name=${name}` };
  let last: ApiObject | null = null;
  const done = (): boolean => {
    if (last !== null && !context.quiet) paint(progressLines(last));
    return options.reached(last);
  };
  for await (const event of context.client.watch(path, query, AbortSignal.any([timeout, interrupted]))) {
    if (event.type === 'LISTED') {
      if (last !== null) continue;
      if (done()) return null;
      throw new BelayError(
        'NotFound',
        `${kind.plural} ${kind.namespaced ? `${namespace}/` : ''}${name} does not exist`,
        {
          retry: 'never',
          fix: `see what there is: belay get ${kind.plural}`,
        },
      );
    }
    last = event.type === 'DELETED' ? null : event.object;
    if (done()) return last;
    // It is gone, and that was not what was waited for: nothing will come any more.
    if (last === null) throw gone(options);
  }
  if (interrupted.aborted) throw new Exit(EXIT.interrupted);
  throw timedOut(options, last);
}

const gone = ({ kind, name, goal }: FollowOptions): BelayError =>
  new BelayError('Deleted', `${kind.plural}/${name} was deleted while waiting for ${goal}`, {
    retry: 'never',
  });

function timedOut({ kind, name, goal, timeoutMillis }: FollowOptions, last: ApiObject | null): BelayError {
  const { phase, message, now, state: stands } = last === null ? {} : statusOf(last);
  const state =
    last === null
      ? 'nothing was seen of it'
      : `${stands === undefined ? `phase ${phase ?? 'Pending'}` : stands}: ${inLine(message ?? now ?? 'no word yet')}`;
  return new BelayError(
    'WaitTimedOut',
    `${goal} was not reached within ${formatLimit(timeoutMillis)}; ${state}`,
    {
      retry: 'later',
      fix: `look closer: belay describe ${kind.plural} ${name}`,
    },
  );
}
