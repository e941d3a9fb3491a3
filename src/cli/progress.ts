/** Following an object to its goal: who is where, what it waits for, until when. Progress goes to stderr. */
import { BelayError } from '../base/error.ts';
import { formatDuration, type Millis } from '../base/units.ts';
import { type ApiClient, type ApiList, type ApiObject, objectPath } from './client.ts';
import type { Terminal } from './output.ts';
import { lag, type StatusRow, statusOf } from './rows.ts';

const STAGES = ['imported', 'deployed', 'healthy', 'active'];

/** One line for a member: `orders-1  ✔ imported  ✔ deployed  ✔ running   SECONDARY  lag 0 s`. */
export function memberLine(member: NonNullable<StatusRow['members']>[number], width: number): string {
  const reached = STAGES.indexOf(member.stage ?? '');
  const mark = (at: number, text: string): string => `${reached >= at ? '✔' : '·'} ${text}`;
  const running = member.state !== undefined && member.state !== 'DOWN';
  const steps = [mark(0, 'imported'), mark(1, 'deployed'), `${running ? '✔' : '·'} running`].join('  ');
  const percent =
    member.progressPercent === undefined ? '' : `initial sync ${Math.round(member.progressPercent)} %`;
  const behind =
    member.state === 'PRIMARY'
      ? 'lag –'
      : member.state === 'SECONDARY' && member.lagMillis !== undefined
        ? `lag ${lag(member.lagMillis)}`
        : '';
  const state = (member.state ?? '').padEnd(9);
  const tail = percent || behind || member.message || '';
  return `  ${member.name.padEnd(width)}   ${steps}   ${state}  ${tail}`.trimEnd();
}

/** All lines of a status: members, the set, what is going on. */
export function progressLines(object: ApiObject): readonly string[] {
  const status = statusOf(object);
  const members = status.members ?? [];
  const width = Math.max(0, ...members.map((m) => m.name.length));
  const set = status.replicaSets?.[0];
  const users = set?.stage === 'ready' ? '✔ users 5/5' : set?.stage === 'users' ? '· users 1/5' : '· users';
  const initiated = set?.term === undefined ? '· initiated' : `✔ initiated (term ${set.term})`;
  const lines = members.map((m) => memberLine(m, width));
  if (set !== undefined) lines.push(`  ${'set'.padEnd(width)}   ${initiated}  ${users}`);
  return lines;
}

/** Draws a block of lines over the last one on a terminal; elsewhere prints only lines that changed. */
export function makePainter(terminal: Terminal): {
  paint: (lines: readonly string[]) => void;
  done: () => void;
} {
  let drawn: readonly string[] = [];
  const paint = (lines: readonly string[]): void => {
    if (terminal.errIsTty) {
      const up = drawn.length > 0 ? `\u001b[${drawn.length}A` : '';
      terminal.err(`${up}${lines.map((l) => `\u001b[2K${l.slice(0, terminal.columns - 1)}`).join('\n')}`);
    } else {
      for (const line of lines) if (!drawn.includes(line)) terminal.err(line);
    }
    drawn = lines;
  };
  return { paint, done: () => undefined };
}

export interface FollowOptions {
  readonly client: ApiClient;
  readonly terminal: Terminal;
  readonly plural: string;
  readonly namespace: string;
  readonly name: string;
  readonly timeoutMillis: Millis;
  readonly quiet: boolean;
  /** True: there. */
  readonly reached: (object: ApiObject | null) => boolean;
  /** In words, for the message when the wait runs out. */
  readonly goal: string;
}

/** Watches until the goal is reached. WaitTimedOut carries what was still being waited for. */
export async function follow(options: FollowOptions): Promise<ApiObject | null> {
  const { client, plural, namespace, name } = options;
  const painter = makePainter(options.terminal);
  const stop = new AbortController();
  const timer = setTimeout(() => stop.abort(), options.timeoutMillis);
  let last: ApiObject | null = null;
  try {
    const path = objectPath(plural, namespace);
    const query = { fieldSelector: `metadata.name=${name}` };
    // What is there now comes first: an object that is gone already makes no event any more.
    const now = await client.get<ApiList>(path, query);
    last = now.items[0] ?? null;
    if (!options.quiet && last !== null) painter.paint(progressLines(last));
    if (options.reached(last)) return last;
    const since = { ...query, resourceVersion: now.metadata.resourceVersion };
    for await (const event of client.watch(path, since, stop.signal)) {
      if (event.object.metadata.name !== name) continue;
      last = event.type === 'DELETED' ? null : event.object;
      if (!options.quiet && last !== null) painter.paint(progressLines(last));
      if (options.reached(last)) return last;
    }
  } finally {
    clearTimeout(timer);
    stop.abort();
    painter.done();
  }
  const status = last === null ? null : statusOf(last);
  const state =
    status === null
      ? 'it is gone'
      : `phase ${status.phase ?? 'Pending'}: ${status.message ?? status.now ?? 'no word yet'}`;
  throw new BelayError(
    'WaitTimedOut',
    `${options.goal} was not reached within ${formatDuration(options.timeoutMillis)}; ${state}`,
    {
      retry: 'later',
      fix: `look closer: belay describe ${plural} ${name}`,
    },
  );
}
