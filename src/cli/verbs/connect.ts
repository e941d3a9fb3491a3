import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { BelayError } from '../../base/error.ts';
import { objectPath } from '../client.ts';
import { type Context, structured } from '../context.ts';
import { EXIT, Exit } from '../exit.ts';
import { asText } from '../output.ts';

interface Connection {
  readonly connectionString: string;
  readonly tls: boolean;
  readonly caPem: string;
  readonly username?: string;
  readonly password?: string;
}

export interface ConnectOptions {
  readonly print: boolean;
  readonly user: string | undefined;
  /** What stands behind `--`: for mongosh. */
  readonly shellArguments: readonly string[];
}

/** `belay connect`: prints the string (`--print`) or starts mongosh, whose password never appears in its arguments (S8). */
export async function connect(context: Context, word: string, options: ConnectOptions): Promise<void> {
  // `mongodb/orders`, as other verbs print it, is the same.
  const name = word.replace(/^(mongodb|mdb)\//i, '');
  const base = `${objectPath('mongodb', context.namespace, name)}/connection`;
  const connection =
    options.user === undefined
      ? await context.client.get<Connection>(base)
      : await context.client.request<Connection>('POST', base, { body: { user: options.user } });
  const uri = withCa(connection, connection.tls ? keepCa(connection.caPem, context.io.env) : null);
  const format = structured(context);
  if (format !== null) context.terminal.out(await asText({ ...connection, connectionString: uri }, format));
  else if (options.print) context.terminal.out(uri);
  else throw new Exit(await startShell(name, uri, options.shellArguments, context.io.env));
}

/** Adds `tlsCAFile`, so that the string works as it is. */
export function withCa(
  connection: Pick<Connection, 'connectionString' | 'tls'>,
  caFile: string | null,
): string {
  if (!connection.tls || caFile === null) return connection.connectionString;
  return `${connection.connectionString}${connection.connectionString.includes('?') ? '&' : '?'}tlsCAFile=${encodeURIComponent(caFile)}`;
}

type Env = Readonly<Record<string, string | undefined>>;

/** Keeps the CA's certificate where clients can read it; its name follows its content. */
export function keepCa(caPem: string, env: Env = process.env): string {
  const folder = path.join(
    env['XDG_CACHE_HOME'] || path.join(env['HOME'] || os.homedir(), '.cache'),
    'belay',
  );
  const file = path.join(folder, `ca-${createHash('sha256').update(caPem).digest('hex').slice(0, 12)}.pem`);
  if (!existsSync(file)) {
    mkdirSync(folder, { recursive: true });
    const temporary = `${file}.${process.pid}`;
    writeFileSync(temporary, caPem, { mode: 0o644 });
    renameSync(temporary, file);
  }
  return file;
}

/** Runs mongosh until it ends and gives its exit code. */
async function startShell(name: string, uri: string, given: readonly string[], env: Env): Promise<number> {
  // mongosh takes a script: the string with its password stays in a 0600 file in a 0700 folder and out of argv.
  const folder = mkdtempSync(path.join(os.tmpdir(), 'belay-'));
  const script = path.join(folder, 'connect.js');
  writeFileSync(script, `db = connect(${JSON.stringify(uri)});\n`, { mode: 0o600 });
  // Ctrl-C is for the shell, which has the terminal; ending here would leave the file with the password behind.
  const ignore = (): void => {};
  for (const signal of ['SIGINT', 'SIGQUIT'] as const) process.on(signal, ignore);
  try {
    return await new Promise<number>((resolve, reject) => {
      const { BELAY_TOKEN: _, ...environment } = env;
      const shell = spawn('mongosh', ['--nodb', '--quiet', ...shellArguments(script, given)], {
        stdio: 'inherit',
        env: environment,
      });
      const forward = (): void => void shell.kill('SIGTERM');
      process.once('SIGTERM', forward);
      shell.once('error', (cause: NodeJS.ErrnoException) => reject(noShell(name, cause)));
      shell.once('exit', (code) => {
        process.off('SIGTERM', forward);
        resolve(code ?? EXIT.failed);
      });
    });
  } finally {
    for (const signal of ['SIGINT', 'SIGQUIT'] as const) process.off(signal, ignore);
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * How mongosh is told to connect first. It runs `--eval` before files, so next to somebody's own one the script is loaded by
 * an `--eval` too. It stays open unless it is given something to do.
 */
export function shellArguments(script: string, given: readonly string[]): readonly string[] {
  if (given.length === 0) return ['--shell', script];
  const busy = given.some((word) => /^(--eval|--file|-f)\b/.test(word) || !word.startsWith('-'));
  return ['--eval', `load(${JSON.stringify(script)})`, ...(busy ? [] : ['--shell']), ...given];
}

const noShell = (name: string, cause: NodeJS.ErrnoException): BelayError =>
  cause.code === 'ENOENT'
    ? new BelayError('NoShell', 'mongosh is not installed here', {
        retry: 'never',
        fix: `install it, or print the string for another client: belay connect ${name} --print`,
      })
    : new BelayError('NoShell', `mongosh cannot be started: ${cause.message}`, { retry: 'never', cause });
