/** A private PostgreSQL server for tests, when the machine has one. */
import { execFile, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';

import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { freePort } from '../../engine/testing/freePort.ts';

/** It lies where administrators' programs lie, which is not on everybody's PATH. */
const RUNUSER = ['/usr/sbin/runuser', '/sbin/runuser'].find((file) => existsSync(file)) ?? 'runuser';

const run = promisify(execFile);
/** Where Debian and Ubuntu keep the servers, one folder per major version. */
const ROOT = '/usr/lib/postgresql';

export interface TestPostgres {
  /** `postgres://…` with a superuser. */
  readonly url: string;
  stop(): Promise<void>;
}

/** Why there can be no server here, or undefined; never undefined-proof: BELAY_REQUIRE_POSTGRES=1 makes it a failure. */
export function postgresMissing(): string | undefined {
  if (binFolder() !== undefined || process.env['BELAY_REQUIRE_POSTGRES'] === '1') return undefined;
  return `no PostgreSQL server below ${ROOT}`;
}

function binFolder(): string | undefined {
  if (!existsSync(ROOT)) return undefined;
  const versions = readdirSync(ROOT).sort((a, b) => Number(b) - Number(a));
  return versions.map((version) => join(ROOT, version, 'bin')).find((bin) => existsSync(join(bin, 'initdb')));
}

/** Starts one in a temporary folder, on a free port of loopback, without fsync. It never runs as root. */
export async function startPostgres(): Promise<TestPostgres> {
  const bin = binFolder();
  if (bin === undefined)
    throw new Error(`BELAY_REQUIRE_POSTGRES is set, but there is no PostgreSQL below ${ROOT}`);
  const folder = mkdtempSync(join(tmpdir(), 'belay-postgres-'));
  const password = randomBytes(12).toString('hex');
  const passwordFile = join(folder, 'password');
  writeFileSync(passwordFile, password, { mode: 0o600 });
  giveToServerUser(folder, passwordFile);
  const data = join(folder, 'data');
  const port = await freePort();
  const initdb = [
    '-D',
    data,
    '-U',
    'belay',
    '-A',
    'scram-sha-256',
    `--pwfile=${passwordFile}`,
    '-E',
    'UTF8',
    '--locale=C',
    '-N',
  ];
  await serverCommand(join(bin, 'initdb'), initdb);
  const options = `-p ${port} -c listen_addresses=127.0.0.1 -c unix_socket_directories=${folder} -c fsync=off
    -c full_page_writes=off -c shared_buffers=16MB -c max_connections=80`.replaceAll('\n', ' ');
  await serverCommand(join(bin, 'pg_ctl'), [
    '-D',
    data,
    '-w',
    '-l',
    join(folder, 'log'),
    '-o',
    options,
    'start',
  ]);
  const stopArguments = ['-D', data, '-m', 'immediate', '-w', 'stop'];
  const stop = (): void => {
    const [file, args] = asServerUser(join(bin, 'pg_ctl'), stopArguments);
    spawnSync(file, args);
    rmSync(folder, { recursive: true, force: true });
  };
  process.once('exit', stop);
  return {
    url: `postgres://belay:${password}@127.0.0.1:${port}/postgres`,
    stop: async () => {
      process.removeListener('exit', stop);
      stop();
    },
  };
}

const isRoot = (): boolean => process.getuid?.() === 0;

/** The server refuses root, so root lends it the user `postgres` of the package. */
function asServerUser(file: string, args: readonly string[]): [string, string[]] {
  return isRoot() ? [RUNUSER, ['-u', 'postgres', '--', file, ...args]] : [file, [...args]];
}

async function serverCommand(file: string, args: readonly string[]): Promise<void> {
  const [command, list] = asServerUser(file, args);
  await run(command, list, { cwd: '/' });
}

function giveToServerUser(...paths: readonly string[]): void {
  if (!isRoot()) return;
  const uid = Number(spawnSync('id', ['-u', 'postgres'], { encoding: 'utf8' }).stdout.trim());
  for (const path of paths) {
    chownSync(path, uid, statSync(path).gid);
    chmodSync(path, statSync(path).isDirectory() ? 0o700 : 0o600);
  }
}
