/** The real program, started as people start it. */
import { type ChildProcess, spawn } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { SECOND } from '../base/units.ts';
import { type CliRig, makeCli, ORDERS_YAML, USER_YAML } from './testing/rig.ts';

const BELAY = new URL('../../bin/belay', import.meta.url).pathname;
let dir: string;
let rig: CliRig | null = null;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'belay-launch-'));
});
afterEach(async () => {
  await rig?.close();
  rig = null;
  rmSync(dir, { recursive: true, force: true });
});

interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly out: string;
  readonly err: string;
}
function start(
  command: string,
  args: readonly string[],
  env: Record<string, string> = {},
): { readonly child: ChildProcess; readonly ended: Promise<Ended>; readonly seen: () => string } {
  const child = spawn(command, args, {
    env: {
      PATH: process.env['PATH'] ?? '',
      HOME: dir,
      XDG_CONFIG_HOME: dir,
      XDG_CACHE_HOME: join(dir, 'cache'),
      NODE_COMPILE_CACHE: join(tmpdir(), 'belay-test-compile-cache'),
      ...env,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let [out, err] = ['', ''];
  child.stdout?.on('data', (chunk) => {
    out += chunk;
  });
  child.stderr?.on('data', (chunk) => {
    err += chunk;
  });
  const ended = new Promise<Ended>((resolve) =>
    child.on('close', (code, signal) => resolve({ code, signal, out, err })),
  );
  return { child, ended, seen: () => out + err };
}
const belay = (args: readonly string[], env?: Record<string, string>): Promise<Ended> =>
  start(BELAY, args, env).ended;
const until = async (holds: () => boolean): Promise<void> => {
  while (!holds()) await new Promise((resolve) => setImmediate(resolve));
};
const to = (cli: CliRig) => ({ BELAY_SERVER: cli.url, BELAY_TOKEN: cli.api.token.admin });

test('exit codes come through the launcher', async () => {
  expect(await belay(['--version'])).toMatchObject({ code: 0, err: '' });
  expect(await belay(['gett'])).toMatchObject({ code: 2, out: '' });
  expect(await belay(['get', 'mongodb', '--server', '127.0.0.1:1'])).toMatchObject({ code: 1 });
});

test('Node too old or missing, and none installed beside: what is needed and how to get it', async () => {
  const root = join(dir, 'root');
  mkdirSync(join(root, 'bin'), { recursive: true });
  copyFileSync(BELAY, join(root, 'bin/belay'));
  chmodSync(join(root, 'bin/belay'), 0o755);
  const tools = join(dir, 'tools');
  mkdirSync(tools);
  const only = { PATH: `${tools}:/usr/bin:/bin` };
  const script = (text: string): void => {
    writeFileSync(join(tools, 'node'), `#!/bin/sh\n${text}\n`);
    chmodSync(join(tools, 'node'), 0o755);
  };
  script('echo v20.11.1');
  const old = await start(join(root, 'bin/belay'), ['version'], only).ended;
  expect(old).toMatchObject({ code: 1, out: '' });
  expect(old.err).toContain('belay: needs Node 24 or later, found v20.11.1');
  expect(old.err).toContain(`Fix: run 'npm ci' in ${root}`);
  script('echo v24.0.0; [ "$1" = --version ] || echo "ran $*"');
  expect((await start(join(root, 'bin/belay'), ['version'], only).ended).out).toContain(
    `ran --disable-warning=ExperimentalWarning --no-concurrent-sparkplug --no-concurrent-recompilation ${root}/src/cli/main.ts version`,
  );
  rmSync(join(tools, 'node'));
  for (const name of ['sh', 'readlink', 'dirname', 'uname', 'cat']) {
    const real = ['/usr/bin', '/bin'].map((folder) => join(folder, name)).find((file) => existsSync(file));
    if (real !== undefined)
      writeFileSync(
        join(tools, name),
        `#!${existsSync('/bin/dash') ? '/bin/dash' : '/bin/sh'}\nexec ${real} "$@"\n`,
        { mode: 0o755 },
      );
  }
  const none = await start(join(root, 'bin/belay'), ['version'], { PATH: tools }).ended;
  expect(none).toMatchObject({ code: 1, err: expect.stringContaining('needs Node 24 or later, found none') });
});

test('a reader that goes away ends it quietly', async () => {
  const pipe = await start('/bin/sh', ['-c', `"${BELAY}" explain mongodb | head -1; echo "rest: $?"`]).ended;
  expect(pipe).toMatchObject({ code: 0, err: '' });
  expect(pipe.out).toMatch(/^KIND .*\nrest: 0\n$/);
});

test('Ctrl-C: a watch ends with 0, a wait with 130, both without a word', async () => {
  rig = await makeCli();
  await rig.belay(['apply', '-f', '-'], { stdin: ORDERS_YAML });
  const watch = start(BELAY, ['get', 'mongodb', '-w'], to(rig));
  await until(() => watch.seen().includes('orders'));
  watch.child.kill('SIGINT');
  expect(await watch.ended).toMatchObject({ code: 0, signal: null, err: '' });
  const wait = start(BELAY, ['wait', 'mongodb', 'orders', '--for', 'phase=Failed'], to(rig));
  await until(() => wait.seen().includes('orders-0'));
  wait.child.kill('SIGINT');
  const ended = await wait.ended;
  expect(ended).toMatchObject({ code: 130, signal: null });
  expect(ended.err).not.toContain('rror');
});

test.each(['SIGINT', 'SIGTERM', 'SIGHUP'] as const)(
  'C6.1 S14 maintenance run ends with %s and its command, and nothing stays locked',
  async (signal) => {
    rig = await makeCli();
    const nodes = [1, 2, 3].map((id) => `{id: ${id}, host: y${id}, state: Up}`).join(', ');
    const topology = `apiVersion: belay.dev/v1\nkind: Topology\nmetadata: {name: ydb}\nspec: {nodes: [${nodes}]}\n`;
    await rig.belay(['apply', '-f', '-'], { stdin: topology });
    await rig.api.clock.advance(1);
    // A terminal would have told the command too; this one ends by itself.
    const work = signal === 'SIGINT' ? 'exec sleep 1' : 'exec sleep 60';
    const roll = ['maintenance', 'run', '--hosts', 'y1,y2', '--', 'sh', '-c', `echo at work; ${work}`];
    const run = start(BELAY, roll, to(rig));
    await until(() => run.seen().includes('at work'));
    run.child.kill(signal);
    expect(await run.ended).toMatchObject({ code: 130, signal: null });
    expect((await rig.belay(['maintenance', 'list'])).out).toBe('There are no maintenance tasks\n');
  },
);

test('nothing but text goes to pipes; NO_COLOR and --no-color hold', async () => {
  rig = await makeCli();
  await rig.belay(['apply', '-f', '-'], { stdin: ORDERS_YAML });
  await rig.api.clock.advance(5 * SECOND);
  const piped = await belay(['get', 'mongodb', '-o', 'wide'], to(rig));
  expect(piped.out).not.toContain('\u001b');
  const args = ['get', 'mongodb'];
  expect((await rig.belay(args, { tty: true })).out).toContain('\u001b[32mReady');
  expect((await rig.belay(args, { tty: true, env: { NO_COLOR: '1' } })).out).not.toContain('\u001b');
  expect((await rig.belay(args, { tty: true, env: { NO_COLOR: '' } })).out).toContain('\u001b');
  for (const colourless of [
    ['--no-color', ...args],
    [...args, '--no-color'],
  ])
    expect((await rig.belay(colourless, { tty: true })).out).not.toContain('\u001b');
  const drawn = await rig.belay(['wait', 'mongodb', 'orders', '--for', 'Ready'], { tty: true });
  expect(drawn.err.split('\n')).toHaveLength(5);
});

// ── connect ────────────────────────────────────────────────────────────────────────────────────────────────────────

const PASSWORD = `p@ss:/?#[]%&= +'"$\\ü`;

async function withUser(): Promise<CliRig> {
  const cli = await makeCli();
  rig = cli;
  const secret = `apiVersion: v1\nkind: Secret\nmetadata: { name: pw }\nstringData: { password: ${JSON.stringify(PASSWORD)} }\n`;
  const user = `${USER_YAML}  passwordSecretKeyRef: { name: pw, key: password }\n`;
  const applied = await cli.belay(['apply', '-f', '-'], {
    stdin: `${ORDERS_YAML}---\n${secret}---\n${user}`,
  });
  expect(applied).toMatchObject({ code: 0 });
  await cli.api.clock.advance(10 * SECOND);
  return cli;
}

test('URI-02 CRD-02 connect --print gives a string that works as it is, whatever the password', async () => {
  const cli = await withUser();
  const plain = await cli.belay(['connect', 'orders', '--print']);
  expect(plain).toMatchObject({
    code: 0,
    err: '',
    out: expect.stringMatching(/^mongodb:\/\/db1:27017,db2:27017,db3:27017\/\?/),
  });
  const { out } = await cli.belay(['connect', 'mongodb/orders', '--print', '--user', 'orders-app']);
  const uri = new URL(out.trim().replace(/db1:27017,db2:27017,db3:27017/, 'db1:27017'));
  expect([decodeURIComponent(uri.username), decodeURIComponent(uri.password)]).toEqual(['app', PASSWORD]);
  expect(out.trim()).not.toMatch(/[\s"'+]/);
  expect(uri.searchParams.get('authSource')).toBe('admin');
  const caFile = uri.searchParams.get('tlsCAFile') ?? '';
  expect(readFileSync(caFile, 'utf8')).toContain('BEGIN CERTIFICATE');
  expect(
    JSON.parse((await cli.belay(['connect', 'orders', '--user', 'app', '-o', 'json'])).out),
  ).toMatchObject({ username: 'app', password: PASSWORD });
  const nobody = await cli.belay(['connect', 'orders', '--user', 'nobody', '--print']);
  expect(nobody).toMatchObject({ code: 1, err: expect.stringContaining('fix: users: orders-app') });
});

test('S8 connect starts mongosh with the password neither in its arguments nor in its environment, and leaves no file', async () => {
  const cli = await withUser();
  const tools = join(dir, 'tools');
  mkdirSync(tools);
  const record = join(dir, 'record');
  const shell = `#!/bin/sh
{ echo "args: $*"; env; for last; do :; done; stat -c 'mode: %a' "$last"; stat -c 'folder: %a' "$(dirname "$last")"; echo "script: $(cat "$last")"; } > '${record}'
exit 7
`;
  writeFileSync(join(tools, 'mongosh'), shell, { mode: 0o755 });
  const { code } = await belay(['connect', 'orders', '--user', 'orders-app'], {
    ...to(cli),
    PATH: `${tools}:${process.env['PATH']}`,
    TMPDIR: dir,
  });
  expect(code).toBe(7);
  const seen = readFileSync(record, 'utf8');
  const [before = '', script = ''] = seen.split('script: ');
  expect(before).toMatch(/^args: --nodb --quiet --shell \S+connect\.js\n/);
  expect(before).toContain('mode: 600\nfolder: 700\n');
  for (const hidden of [PASSWORD, encodeURIComponent(PASSWORD), cli.api.token.admin])
    expect(before).not.toContain(hidden);
  expect(script).toMatch(/^db = connect\("mongodb:\/\/app:p%40ss/);
  expect(existsSync(/args: .* (\S+connect\.js)/.exec(before)?.[1] ?? dir)).toBe(false);
  const given = ['--', '--eval', 'db.hello()'];
  await belay(['connect', 'orders', '--user', 'orders-app', ...given], {
    ...to(cli),
    PATH: `${tools}:${process.env['PATH']}`,
    TMPDIR: dir,
  });
  const busy = readFileSync(record, 'utf8');
  expect(busy).toMatch(/^args: --nodb --quiet --eval load\("\S+connect\.js"\) --eval db\.hello\(\)\n/);
  for (const hidden of [PASSWORD, encodeURIComponent(PASSWORD)]) expect(busy).not.toContain(hidden);
  const missing = await belay(['connect', 'orders'], { ...to(cli), PATH: '/usr/bin:/bin' });
  expect(missing).toMatchObject({ code: 1, err: expect.stringContaining('belay connect orders --print') });
});
