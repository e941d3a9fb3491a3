import { setTimeout as after } from 'node:timers/promises';

/** What the command line has of the outside: one record, so that tests run whole verbs in their own process. */
export interface Io {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly out: (text: string) => void;
  readonly err: (text: string) => void;
  readonly outIsTty: boolean;
  readonly errIsTty: boolean;
  readonly columns: number;
  readonly rows: number;
  readonly stdin: () => Promise<string>;
  /** Asks a person; null: there is nobody to ask. */
  readonly ask: ((question: string) => Promise<boolean>) | null;
  /** Aborted by Ctrl-C, once somebody looks at it; until then Ctrl-C ends the process. */
  readonly interrupted: () => AbortSignal;
  /** Aborted by a second Ctrl-C, once somebody looks at it; until then that ends the process. */
  readonly insisted: () => AbortSignal;
  /** The first end was not Ctrl-C, which a terminal tells to commands too: somebody ended this process alone. */
  readonly terminated?: () => boolean;
  /** Waits so long, or until the signal; never fails. */
  readonly sleep: (millis: number, signal: AbortSignal) => Promise<void>;
  readonly now: () => number;
  readonly fetch: typeof fetch;
}

/** The real outside. A reader that goes away (`belay … | head`) ends the program quietly. */
export function realIo(): Io {
  const { stdout, stderr, stdin } = process;
  for (const stream of [stdout, stderr])
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EPIPE') process.exit(0);
      throw error;
    });
  return {
    env: process.env,
    out: (text) => void stdout.write(text),
    err: (text) => void stderr.write(text),
    outIsTty: stdout.isTTY === true,
    errIsTty: stderr.isTTY === true && process.env['TERM'] !== 'dumb',
    columns: stderr.columns ?? 100,
    rows: stderr.rows ?? 24,
    stdin: readAll,
    ask: stdin.isTTY === true ? askOnTerminal : null,
    interrupted,
    insisted,
    terminated: () => byOthers,
    sleep,
    now: () => Date.now(),
    fetch: (...args) => fetch(...args),
  };
}

async function readAll(): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of process.stdin) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString('utf8');
}

async function askOnTerminal(question: string): Promise<boolean> {
  const { createInterface } = await import('node:readline/promises');
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return /^y(es)?$/i.test((await lines.question(`${question} [y/N] `)).trim());
  } catch {
    // Ctrl-C or the end of input is no yes.
    return false;
  } finally {
    lines.close();
  }
}

/** Waits so long, or until the signal. */
export const sleep = (millis: number, signal: AbortSignal): Promise<void> =>
  after(millis, undefined, { signal }).catch(() => {});

let stop: AbortController | null = null;
let insist: AbortController | null = null;
let byOthers = false;

/** One press of Ctrl-C can come twice: from the terminal, and passed on by what started us. */
const ONE_PRESS = 500;

function interrupted(): AbortSignal {
  if (stop === null) {
    const controller = new AbortController();
    stop = controller;
    let at = 0;
    const onSignal = (signal: NodeJS.Signals): void => {
      if (controller.signal.aborted && Date.now() - at < ONE_PRESS) return;
      if (!controller.signal.aborted) {
        byOthers = signal !== 'SIGINT';
        controller.abort();
      } else if (insist !== null && !insist.signal.aborted) insist.abort();
      else {
        process.removeAllListeners(signal);
        process.kill(process.pid, signal);
      }
      at = Date.now();
    };
    // Whoever asks us to end, or goes away with the terminal, leaves no lock behind either.
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, onSignal);
  }
  return stop.signal;
}

function insisted(): AbortSignal {
  interrupted();
  insist ??= new AbortController();
  return insist.signal;
}
