import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { buildProgram } from './program.ts';
import { type CliRig, makeCli, ORDERS_YAML } from './testing/rig.ts';

let cli: CliRig;
beforeAll(async () => {
  cli = await makeCli();
  await cli.belay(['apply', '-f', '-'], {
    stdin: `${ORDERS_YAML}---\n${ORDERS_YAML.replace('orders', 'audit')}`,
  });
  const elsewhere = ORDERS_YAML.replace('name: orders', 'name: events\n  namespace: prod');
  await cli.belay(['apply', '-f', '-'], { stdin: elsewhere });
});
afterAll(() => cli.close());

const complete = async (...words: readonly string[]): Promise<readonly string[]> => {
  const { code, out, err } = await cli.belay(['complete', '--', ...words]);
  expect({ code, err }).toEqual({ code: 0, err: '' });
  return out === '' ? [] : out.trimEnd().split('\n');
};

test('verbs, kinds, names of real objects, options and their values complete', async () => {
  expect(await complete('ge')).toEqual(['get']);
  expect(await complete('')).toContain('apply');
  expect(await complete('')).not.toContain('complete');
  expect(await complete('get', 'mongodb')).toEqual(['mongodb', 'mongodbusers']);
  expect(await complete('get', 'sec')).toEqual(['secrets']);
  expect(await complete('get', 'mongodb', '')).toEqual(['audit', 'orders']);
  expect(await complete('get', 'mdb', 'or')).toEqual(['orders']);
  expect(await complete('get', 'mongodb/or')).toEqual(['mongodb/orders']);
  expect(await complete('get', 'mongodb', '-n', 'prod', '')).toEqual(['events']);
  expect(await complete('-n', 'prod', 'get', 'mongodb', '')).toEqual(['events']);
  expect(await complete('connect', '')).toEqual(['audit', 'orders']);
  expect(await complete('get', 'mongodb', '-o', 'j')).toEqual(['json']);
  expect(await complete('token', '')).toEqual(['create', 'list', 'revoke']);
  expect(await complete('token', 'create', 'x', '--role', 'o')).toEqual(['operator']);
  expect(await complete('wait', 'mongodb', 'orders', '--for', 'R')).toEqual(['Ready']);
  expect(await complete('delete', 'mongodb', 'orders', '--ke')).toEqual(['--keep-volumes']);
  expect(await complete('completion', '')).toEqual(['bash', 'zsh', 'fish']);
});

test('what is not known completes to nothing, and a control plane that is away does not disturb', async () => {
  expect(await complete('nothing', 'x')).toEqual([]);
  expect(await complete('get', 'nokind', '')).toEqual([]);
  expect(await complete('explain', '')).toEqual([]);
  const away = await cli.belay(['complete', '--', 'get', 'mongodb', ''], {
    env: { BELAY_SERVER: 'http://127.0.0.1:1' },
  });
  expect(away).toEqual({ code: 0, out: '', err: '' });
});

test('the scripts are what the shells understand', async () => {
  for (const shell of ['bash', 'zsh', 'fish']) {
    const { code, out } = await cli.belay(['completion', shell]);
    expect({ shell, code }).toEqual({ shell, code: 0 });
    expect(out).toContain('belay complete --');
  }
  const { out } = await cli.belay(['completion', 'bash']);
  const script = `${out}\nbelay() { printf 'get\\ngap\\n'; }\nCOMP_WORDS=(belay ge)\nCOMP_CWORD=1\n_belay\necho "\${COMPREPLY[@]}"`;
  expect(execFileSync('bash', ['-c', script], { encoding: 'utf8' }).trim()).toBe('get');
});

// ── advice ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Words behind the program's name in prose. */
const PROSE = new Set([
  'process',
  'store',
  'master',
  'goes',
  'writes',
  'annotations',
  'itself',
  'keeps',
  'wrote',
  'has',
  'is',
  'does',
  'needs',
  'on',
  'of',
  'in',
  'was',
]);

function verbsOf(command: Command): ReadonlyMap<string, Command> {
  return new Map(command.commands.map((c) => [c.name(), c]));
}

function sources(folder: string): readonly string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory())
      return ['testing', 'simulator', 'member'].includes(entry.name) ? [] : sources(path);
    return entry.name.endsWith('.ts') && !entry.name.includes('.test.') ? [path] : [];
  });
}

/** What a text advises to type: `belay host token NAME`. */
function advised(file: string): readonly string[] {
  const text = readFileSync(file, 'utf8').replace(/^\s*(\*|\/\/|\/\*\*).*$/gm, '');
  return [
    ...text.matchAll(
      /\bbelay ([a-z][a-z-]*(?: [a-z][a-z-]*)?)((?: +--?[a-z][a-z-]*(?:[ =][A-Z]+)?| +[A-Z]+| +\$\{[^}]+\})*)/g,
    ),
  ].map(([, words = '', rest = '']) => words + rest);
}

test('every command that a message advises exists, with its options', () => {
  const program = buildProgram('0');
  const wrong: string[] = [];
  let checked = 0;
  for (const file of sources(new URL('..', import.meta.url).pathname)) {
    for (const advice of advised(file)) {
      const [first = '', second = ''] = advice.split(' ');
      if (PROSE.has(first)) continue;
      const verb = verbsOf(program).get(first);
      const below = verb === undefined ? undefined : verbsOf(verb).get(second);
      const options = (below ?? verb)?.options.flatMap((o) => [o.long, o.short]) ?? [];
      const unknown = [...advice.matchAll(/ (--?[a-z][a-z-]*)/g)]
        .map(([, o = '']) => o)
        .filter((o) => !options.includes(o));
      const groupAlone = verb !== undefined && verb.commands.length > 0 && below === undefined;
      if (verb === undefined || groupAlone || unknown.length > 0)
        wrong.push(`${file.replace(/^.*\/src\//, '')}: belay ${advice}`);
      checked++;
    }
  }
  expect(checked).toBeGreaterThan(30);
  expect(wrong).toEqual([]);
});
