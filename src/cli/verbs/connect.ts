import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { BelayError } from '../../base/error.ts';
import { objectPath } from '../client.ts';
import type { Context } from '../context.ts';
import { Exit } from '../exit.ts';

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
}

/** `belay connect`: prints the string (`--print`) or starts mongosh, whose password never appears in its arguments (S8). */
export async function connect(context: Context, name: string, options: ConnectOptions): Promise<void> {
  const base = `${objectPath('mongodb', context.namespace, name)}/connection`;
  const connection =
    options.user === undefined
      ? await context.client.get<Connection>(base)
      : await context.client.request<Connection>('POST', base, { body: { user: options.user } });
  const uri = withCa(connection, connection.tls ? keepCa(connection.caPem) : null);
  if (options.print) {
    context.terminal.out(uri);
    return;
  }
  startShell(context, uri);
}

/** Adds `tlsCAFile`, so that the string works as it is. */
export function withCa(
  connection: Pick<Connection, 'connectionString' | 'tls'>,
  caFile: string | null,
): string {
  if (!connection.tls || caFile === null) return connection.connectionString;
  return `${connection.connectionString}${connection.connectionString.includes('?') ? '&' : '?'}tlsCAFile=${encodeURIComponent(caFile)}`;
}

/** Keeps the CA's certificate where clients can read it; its name follows its content. */
export function keepCa(caPem: string): string {
  const folder = path.join(process.env['XDG_CACHE_HOME'] ?? path.join(os.homedir(), '.cache'), 'belay');
  const file = path.join(folder, `ca-${createHash('sha256').update(caPem).digest('hex').slice(0, 12)}.pem`);
  if (!existsSync(file)) {
    mkdirSync(folder, { recursive: true });
    writeFileSync(file, caPem, { mode: 0o644 });
  }
  return file;
}

function startShell(context: Context, uri: string): void {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'belay-'));
  try {
    // mongosh takes a script with --shell: the string with its password stays in a 0600 file and out of argv.
    const script = path.join(folder, 'connect.js');
    writeFileSync(script, `db = connect(${JSON.stringify(uri)});\n`, { mode: 0o600 });
    chmodSync(folder, 0o700);
    const run = spawnSync('mongosh', ['--nodb', '--quiet', '--shell', script], { stdio: 'inherit' });
    if (run.error) {
      throw new BelayError('NoShell', 'mongosh is not installed here', {
        retry: 'never',
        fix: `install it, or print the string: belay connect --print`,
      });
    }
    throw new Exit(run.status ?? 1);
  } finally {
    rmSync(folder, { recursive: true, force: true });
    void context;
  }
}
