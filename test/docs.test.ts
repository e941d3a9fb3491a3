/**
 * The documentation keeps its promises: what it shows is run as it stands, in order, against one installation; what
 * cannot be run here is at least spelled right, or is on a list with the reason.
 */
import { spawn } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ROOMS } from '../scripts/layers.ts';
import { buildProgram } from '../src/cli/program.ts';
import { parseDocuments, validate } from '../src/model/index.ts';
import {
  blocksOf,
  brokenLinks,
  commandsOf,
  filesOf,
  inlineCommandsOf,
  missingLines,
  type ShownCommand,
  trackedFiles,
  usageProblem,
} from './support/markdown.ts';
import { kill, LONG, ROOT, Stack } from './support/stack.ts';

const PAGES = trackedFiles(ROOT).filter(
  (name) => name.endsWith('.md') && !name.startsWith('docs/reference/'),
);
const read = (name: string): string => readFileSync(path.join(ROOT, name), 'utf8');

/** Verbs that go on until they are told to stop, or need a terminal or a stopped control plane: spelling only. */
const SPELLING_ONLY =
  /belay (up|demo|server|agent|key)\b|belay get .*(-w|--watch)\b|belay connect (?!.*--print)/;

/** First words that are not run, and why. Anything else in a console block is an error. */
const NOT_RUN: Readonly<Record<string, string>> = {
  npm: 'run by CI itself; its scripts are looked up below',
  export: 'the test sets what these set',
  git: 'gets the repository itself',
  scp: 'names machines that are only examples',
  openssl: 'another program, on files of the page before',
  sqlite3: 'another program, on files of the machine described',
  sudo: 'changes the machine: users, units, packages',
  'simulator/bin/mongod --dbpath': 'goes on until it is stopped',
};

const firstWord = (text: string): string =>
  text.replace(/^(?:[A-Z_]+=(?:\$\([^)]*\)|\S+)\s+)+/, '').split(' ')[0] as string;
const reasonNotToRun = (text: string): string | undefined =>
  Object.entries(NOT_RUN).find(([start]) => text.startsWith(start) || firstWord(text) === start)?.[1];
const isRun = (text: string): boolean =>
  !SPELLING_ONLY.test(text) &&
  (firstWord(text) === 'belay' || /^(kill -9|simulator\/bin\/mongod --version)/.test(text));

// ── without an installation ────────────────────────────────────────────────────────────────────────────────────────

test('every command in a console block is run, spelled right, or not run for a reason', () => {
  const unknown = PAGES.flatMap((page) =>
    commandsOf(read(page))
      .filter(({ text }) => !isRun(text) && reasonNotToRun(text) === undefined && !SPELLING_ONLY.test(text))
      .map(({ line, text }) => `${page}:${line} ${text}`),
  );
  expect(unknown).toEqual([]);
});

test('verbs and options of belay exist wherever a page names them', () => {
  const program = buildProgram('0');
  const wrong = PAGES.flatMap((page) =>
    [...commandsOf(read(page)).map((c) => c.text), ...inlineCommandsOf(read(page))]
      .filter((text) => firstWord(text) === 'belay')
      .flatMap((text) => {
        const problem = usageProblem(text, program);
        return problem === null ? [] : [`${page}: ${text}: ${problem}`];
      }),
  );
  expect(wrong).toEqual([]);
});

test('npm scripts that a page names exist', () => {
  const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> };
  const named = PAGES.flatMap((page) =>
    [...read(page).matchAll(/npm (?:run (?:-s )?([a-z][\w:]*)|(test))\b/g)].map((m) => m[1] ?? m[2] ?? ''),
  );
  expect(named.filter((name) => scripts[name] === undefined)).toEqual([]);
  expect(named).toContain('demo');
  expect(named).toContain('test');
});

test('links between files of the repository lead somewhere', () => {
  const broken = PAGES.flatMap((page) => brokenLinks(path.join(ROOT, page)).map((to) => `${page} → ${to}`));
  expect(broken).toEqual([]);
});

test('files that a page names exist', () => {
  const tops = [
    ...ROOMS.map((room) => room.name),
    'src',
    'test',
    'scripts',
    'bench',
    'docs',
    'packaging',
    'examples',
  ];
  const there = (file: string): boolean =>
    ['', 'src'].some((under) => existsSync(path.join(ROOT, under, file)));
  const named = PAGES.flatMap((page) =>
    [...read(page).matchAll(/`([a-z]+\/[\w./-]+)`/g)].map((m) => ({ page, file: m[1] as string })),
  ).filter(({ file }) => tops.includes(file.split('/')[0] as string));
  expect(named.length).toBeGreaterThan(50);
  expect(named.filter(({ file }) => !there(file))).toEqual([]);
});

test('what the README shows of the demo is in its recording', () => {
  const recording = read('docs/demo.txt').split('\n');
  const [shown] = blocksOf(read('README.md')).filter((b) => b.language === 'text');
  expect(shown?.lines.length).toBeGreaterThan(3);
  expect(shown?.lines.filter((line) => !recording.includes(line))).toEqual([]);
});

test('every page below docs is in its index', () => {
  const index = read('docs/README.md');
  const pages = PAGES.filter((p) => /^docs\/(?!adr\/|README)/.test(p)).map((p) => p.slice('docs/'.length));
  expect(pages.filter((page) => !index.includes(`(${page})`))).toEqual([]);
});

test('documents shown in pages are valid', () => {
  for (const page of PAGES)
    for (const { language, lines, line } of blocksOf(read(page)).filter((b) => b.language === 'yaml')) {
      const { documents, problems } = parseDocuments(lines.join('\n'), `${page}:${line}`);
      expect(problems, `${page}:${line} ${language}`).toEqual([]);
      for (const { value } of documents) expect(validate(value).problems, `${page}:${line}`).toEqual([]);
    }
});

/** Codes in `new BelayError('Code'` of the product, tests and played parts left out. */
function codesInSource(): readonly string[] {
  const files = trackedFiles(ROOT).filter(
    (n) => /^src\/.*\.ts$/.test(n) && !/\.test\.ts$|\/testing\//.test(n),
  );
  const codes = files.flatMap((name) =>
    [...read(name).matchAll(/new BelayError\(\s*'(\w+)'/g)].map((m) => m[1] as string),
  );
  return [...new Set(codes)].sort();
}

test('every error code of the source is explained', () => {
  const page = read('docs/errors.md');
  const codes = codesInSource();
  expect(codes.length).toBeGreaterThan(50);
  expect(codes.filter((code) => !page.includes(`| \`${code}\` |`))).toEqual([]);
});

/** The names in a union type of the planner's vocabulary. */
function reasonsOf(type: string): readonly string[] {
  const [, body = ''] =
    new RegExp(`export type ${type} =([^;]*);`).exec(read('src/clusters/decisions.ts')) ?? [];
  return [...body.matchAll(/'(\w+)'/g)].map((m) => m[1] as string);
}

test.each(['BlockReason', 'WaitReason'])('L3 every %s is explained with what to do', (type) => {
  const page = read('docs/tasks/troubleshooting.md');
  const reasons = reasonsOf(type);
  expect(reasons.length).toBeGreaterThan(5);
  expect(reasons.filter((reason) => !page.includes(`| \`${reason}\` |`))).toEqual([]);
});

test('every variable of the simulator is explained', () => {
  const sources = trackedFiles(ROOT).filter((n) => /^(src\/simulator|simulator)\//.test(n));
  const named = sources.flatMap((n) => read(n).match(/BELAY_SIM_[A-Z_]*[A-Z]/g) ?? []);
  expect([...new Set(named)].filter((name) => !read('docs/simulator.md').includes(`\`${name}\``))).toEqual(
    [],
  );
});

// ── with one ───────────────────────────────────────────────────────────────────────────────────────────────────────

/** As with the real one, stopping takes 15 s and an election after a restart of all takes 10 s; nothing here is about that. */
const QUICK = {
  BELAY_SIM_SHUTDOWN_MILLIS: '200',
  BELAY_SIM_ELECTION_TIMEOUT_MILLIS: '1500',
  BELAY_SIM_HEARTBEAT_MILLIS: '300',
};

let stack: Stack;
let home: string;

beforeAll(async () => {
  home = mkdtempSync(path.join(os.tmpdir(), 'belay-docs-'));
  for (const name of ['examples', 'simulator']) symlinkSync(path.join(ROOT, name), path.join(home, name));
  mkdirSync(path.join(home, 'bin'));
  symlinkSync(path.join(ROOT, 'bin/belay'), path.join(home, 'bin/belay'));
  stack = await Stack.start({ env: QUICK });
}, LONG);
afterAll(async () => {
  await stack?.stop();
  rmSync(home, { recursive: true, force: true });
}, LONG);

/** As a reader would: in a shell, in a folder with the examples. */
function shell(command: string): Promise<{ readonly code: number | null; readonly output: string }> {
  const env = {
    ...process.env,
    NO_COLOR: '1',
    HOME: home,
    XDG_CONFIG_HOME: path.join(home, 'config'),
    XDG_CACHE_HOME: path.join(home, 'cache'),
    PATH: `${path.join(home, 'bin')}:${process.env['PATH']}`,
    BELAY_SERVER: stack.server.url,
    BELAY_TOKEN: stack.server.token,
  };
  return new Promise((resolve) => {
    const child = spawn('sh', ['-c', command], { cwd: home, env, stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    child.stdout.on('data', (chunk) => {
      output += chunk;
    });
    child.stderr.on('data', (chunk) => {
      output += chunk;
    });
    child.on('close', (code) => resolve({ code, output }));
  });
}

/** Only ever a process of this test's own installation. */
function killOne(): void {
  const [pid] = stack.mongods();
  expect(pid, 'a member to kill').toBeDefined();
  kill(pid as number);
}

async function runShown(page: string, { line, text, exit, output }: ShownCommand): Promise<void> {
  const at = `${page}:${line} $ ${text}`;
  if (text.startsWith('kill ')) return killOne();
  const run = await shell(text);
  if (exit !== 'any') expect(run.code, `${at}\n${run.output}`).toBe(exit);
  expect(missingLines(output, run.output), `${at} printed:\n${run.output}`).toEqual([]);
}

/** Whatever a page or an example left behind. */
async function clean(): Promise<void> {
  for (const plural of ['mongodb', 'mongodbusers']) {
    const { items } = await stack.server.api.get<{ items: { metadata: { name: string } }[] }>(
      `/api/v1/${plural}`,
    );
    for (const { metadata } of items)
      await stack.belay(['delete', plural, metadata.name, '--yes', '--timeout', '60s']);
  }
}

test.each(PAGES.filter((page) => commandsOf(read(page)).some(({ text }) => isRun(text))))(
  '%s: every command does what the page shows',
  async (page) => {
    for (const [name, text] of filesOf(read(page))) writeFileSync(path.join(home, name), text);
    try {
      for (const command of commandsOf(read(page))) if (isRun(command.text)) await runShown(page, command);
    } finally {
      await clean();
    }
  },
  LONG,
);

async function applyUntilReady(file: string): Promise<void> {
  const applied = await shell(`belay apply -f examples/${file} -o name`);
  expect(applied.code, applied.output).toBe(0);
  for (const [, plural, object] of applied.output.matchAll(/^(mongodb|mongodbusers)\/(\S+)$/gm))
    await stack.untilPhase(object as string, 'Ready', 'default', plural as string);
}

test.each(readdirSync(path.join(ROOT, 'examples')).sort())(
  'B1.2 B1.3 examples/%s becomes Ready',
  async (file) => {
    const needs = file === 'user.yaml' ? ['replica-set.yaml'] : [];
    try {
      for (const name of [...needs, file]) await applyUntilReady(name);
    } finally {
      await clean();
    }
  },
  LONG,
);
