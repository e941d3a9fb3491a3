import type { Command } from 'commander';
import { expect, test } from 'vitest';
import { formatLimit } from '../base/units.ts';
import { EXIT, exitCodeFor } from './exit.ts';
import { age, table } from './output.ts';
import { buildProgram } from './program.ts';
import { belay } from './testing/rig.ts';
import { parseTimeout } from './verbKit.ts';
import { goalTest } from './verbs/wait.ts';

/** Nothing listens there: whatever answers anyway needs no control plane. */
const NOWHERE = { env: { BELAY_SERVER: 'http://127.0.0.1:1', XDG_CONFIG_HOME: '/nonexistent' } };

// ── words ──────────────────────────────────────────────────────────────────────────────────────────────────────────

test('no words, --help and help list the verbs; --version tells it', async () => {
  for (const args of [[], ['--help'], ['help']]) {
    const { code, out } = await belay(args);
    expect({ args, code }).toEqual({ args, code: 0 });
    for (const verb of ['get', 'apply', 'plan', 'delete', 'demo', 'up'])
      expect(out).toMatch(new RegExp(`^ {2}${verb} `, 'm'));
    expect(out).not.toContain('complete ');
  }
  expect((await belay(['--version'])).out).toMatch(/^\d+\.\d+\.\d+\n$/);
});

function allVerbs(command: Command, above: readonly string[]): readonly (readonly string[])[] {
  return command.commands.flatMap((c) => [[...above, c.name()], ...allVerbs(c, [...above, c.name()])]);
}

test('every verb explains itself with --help and by help VERB', async () => {
  const verbs = allVerbs(buildProgram('0'), []).filter((v) => !['help', 'complete'].includes(v.at(-1) ?? ''));
  expect(verbs.length).toBeGreaterThan(20);
  for (const verb of verbs) {
    const { code, out } = await belay([...verb, '--help']);
    expect({ verb, code }).toEqual({ verb, code: 0 });
    expect(out).toContain(`Usage: belay ${verb.join(' ')}`);
  }
  expect((await belay(['help', 'get'])).out).toContain('Usage: belay get');
});

test.each([
  [['maintenance', 'lst']],
  [['maintenance', 'lst', '--owner', 'eve']],
  [['maintenance', 'lst', '--help']],
  [['-n', 'x', 'maintenance', 'lst', '-h']],
  [['maintenance', 'help', 'lst']],
  [['help', 'maintenance', 'lst']],
])('%j names no verb, with or without help: exit 2, and what may have been meant', async (args) => {
  const { code, out, err } = await belay(args, NOWHERE);
  expect([code, out]).toEqual([2, '']);
  expect(err).toContain("unknown command 'lst'");
  expect(err).toContain('Did you mean list?');
});

test('help about a verb below another tells of that one', async () => {
  for (const args of [
    ['help', 'maintenance', 'create'],
    ['maintenance', 'help', 'create'],
    ['maintenance', 'create', '-h'],
  ])
    expect((await belay(args)).out).toContain('Usage: belay maintenance create');
  expect((await belay(['maintenance', 'help'])).out).toContain('Usage: belay maintenance ');
  expect((await belay(['help', 'gett'])).err).toContain("unknown command 'gett'");
});

test.each([
  [['gett'], 'Did you mean get?'],
  [['get'], "missing required argument 'kind'"],
  [['get', 'mongodb', '--wathc'], 'Did you mean --watch?'],
  [['get', 'mongodb', '-o', 'xml'], 'Allowed choices are table, wide, json, yaml, name'],
  [['get', 'mongdb'], 'did you mean mongodb?'],
  [['get', 'mongodb/a/b'], 'KIND/NAME'],
  [['get', 'mongodb/a', 'hosts/b'], 'all of one kind'],
  [['get', 'mongodb', '--server', 'ftp://x'], 'is not the address of a control plane'],
  [['wait', 'mongodb', 'x'], 'what should be waited for?'],
  [['wait', 'mongodb', 'x', '--for', 'Ready', '--timeout', 'soon'], 'Write a duration'],
  [['explain', 'mongodb.spec.member'], 'did you mean members?'],
  [['completion', 'tcsh'], 'shells: bash, zsh, fish'],
  [['apply', '-f', '/nonexistent.yaml'], 'does not exist'],
  [['agent'], "required option '--data <dir>'"],
  [
    ['up', '--listen', 'nonsense', '--data', '/tmp/belay-unused', '--simulate'],
    'is not an address to listen on',
  ],
])('%j is wrong usage: exit 2 and the way out', async (args, text) => {
  const { code, out, err } = await belay(args, NOWHERE);
  expect({ code, out }).toEqual({ code: 2, out: '' });
  expect(err).toContain(text);
});

test('codes of errors and exits', () => {
  const expected = {
    Usage: 2,
    WaitTimedOut: 3,
    Invalid: 4,
    Forbidden: 4,
    Unauthorized: 4,
    AlreadyExists: 4,
    BeingDeleted: 4,
    TokenExpired: 4,
    TokenUsed: 4,
    Conflict: 4,
    PreconditionFailed: 4,
    Refused: 4,
    UnsupportedFeature: 4,
    NotFound: 1,
    ServerUnreachable: 1,
    Internal: 1,
  };
  for (const [code, exit] of Object.entries(expected))
    expect({ code, exit: exitCodeFor(code) }).toEqual({ code, exit });
  expect(EXIT.changes).toBe(10);
});

test('a time limit is told as it was given, whole seconds of it', () => {
  const told = [50, 2500, 89_999, 90_000, 60_000, 7_200_000, 5_400_000, 86_461_000, 3_599_700].map(
    formatLimit,
  );
  expect(told).toEqual([
    '50 ms',
    '2.5 s',
    '1 min 30 s',
    '1 min 30 s',
    '1 min',
    '2 h',
    '1 h 30 min',
    '1 d',
    '1 h',
  ]);
});

test('durations', () => {
  expect(['90', '90s', '2m', '1h', '500ms', '1.5h', '1d'].map(parseTimeout)).toEqual([
    90_000, 90_000, 120_000, 3_600_000, 500, 5_400_000, 86_400_000,
  ]);
  for (const text of ['', 'x', '-1', '1w', '30d']) expect(() => parseTimeout(text)).toThrow();
});

// ── without a control plane ────────────────────────────────────────────────────────────────────────────────────────

test('explain, catalog and convert need no control plane', async () => {
  const kinds = await belay(['explain'], NOWHERE);
  expect(kinds).toMatchObject({ code: 0, out: expect.stringMatching(/^NAME .*\nmongodb +mdb +MongoDB/) });
  const field = await belay(['explain', 'mongodb.spec.members'], NOWHERE);
  expect(field.out).toContain('FIELD   spec.members  <whole number>');
  const catalog = await belay(['catalog'], NOWHERE);
  expect(catalog.out).toMatch(/8\.0\.32-14 +8\.0 +default/);
  expect(JSON.parse((await belay(['catalog', '-o', 'json'], NOWHERE)).out)[0]).toHaveProperty('version');
  const file = new URL('../../examples/mongodb-com-replica-set.yaml', import.meta.url).pathname;
  const converted = await belay(['convert', '-f', file], NOWHERE);
  expect(converted.code).toBe(0);
  expect(converted.out).toMatch(/^apiVersion: belay\.dev\/v1\nkind: MongoDB\n/);
  expect(converted.err).toMatch(/mongodb-com-replica-set\.yaml:\d+:\d+ {2}ignored|kept {2}spec\./);
  expect(JSON.parse((await belay(['convert', '-q', '-f', file, '-o', 'json'], NOWHERE)).out).kind).toBe(
    'MongoDB',
  );
  const wrong = await belay(['convert', '-f', '-'], {
    ...NOWHERE,
    stdin: 'apiVersion: mongodb.com/v1\nkind: MongoDB\n',
  });
  expect(wrong).toMatchObject({ code: 4, out: '', err: expect.stringContaining('cannot be converted') });
});

test('a control plane that is not there: exit 1, what was tried and how to start one', async () => {
  const { code, err } = await belay(['get', 'mongodb'], NOWHERE);
  expect(code).toBe(1);
  expect(err).toMatch(
    /^error ServerUnreachable: no answer from http:\/\/127\.0\.0\.1:1: .*\nfix: start it with: belay up/,
  );
  expect((await belay(['get', 'mongodb', '-w'], NOWHERE)).code).toBe(1);
  const version = await belay(['version'], NOWHERE);
  expect(version).toMatchObject({
    code: 0,
    out: expect.stringMatching(/^belay \d/),
    err: expect.stringContaining('no answer from'),
  });
  expect(JSON.parse((await belay(['version', '-o', 'json'], NOWHERE)).out)).toMatchObject({ server: null });
  const doctor = await belay(['doctor', '-o', 'json'], { env: { ...NOWHERE.env, PATH: '' } });
  expect(JSON.parse(doctor.out)).toContainEqual(
    expect.objectContaining({
      about: 'control plane',
      level: 'warning',
      fix: expect.stringContaining('belay up'),
    }),
  );
  const text = await belay(['doctor'], { env: { ...NOWHERE.env, PATH: '' } });
  expect(text.out).toMatch(/^✔ node {11}Node 2\d/);
});

// ── looks ──────────────────────────────────────────────────────────────────────────────────────────────────────────

test('tables: two blanks between columns, none at the end; columns of a watch stay wide', () => {
  expect(
    table(
      ['A', 'LONG'],
      [
        ['x', 'y'],
        ['wider', ''],
      ],
    ),
  ).toBe('A      LONG\nx      y\nwider');
  const widths: number[] = [];
  table(['A', 'B'], [['wide', 'x']], { widths });
  expect(table(null, [['a', 'b']], { widths })).toBe('a     b');
});

test('ages in one unit; what is no time is a dash', () => {
  const now = Date.parse('2026-01-10T00:00:00Z');
  const ago = (seconds: number) => age(new Date(now - seconds * 1000).toISOString(), now);
  expect([0, 119, 120, 7199, 7200, 172_799, 172_800, -5].map(ago)).toEqual([
    '0 s',
    '119 s',
    '2 min',
    '119 min',
    '2 h',
    '47 h',
    '2 d',
    '0 s',
  ]);
  expect([age(undefined, now), age('never', now)]).toEqual(['–', '–']);
});

test('S15 goals hold only for the current generation', () => {
  const object = (status: object, generation = 2) => ({ metadata: { generation }, status }) as never;
  const ready = { phase: 'Ready', observedGeneration: 2, conditions: [{ type: 'Ready', status: 'True' }] };
  expect(goalTest('Ready')(object(ready))).toBe(true);
  expect(goalTest('ready')(object(ready))).toBe(true);
  expect(goalTest('Ready')(object({ ...ready, observedGeneration: 1 }))).toBe(false);
  expect(goalTest('Ready')(object({ ...ready, conditions: [{ type: 'Ready', status: 'False' }] }))).toBe(
    false,
  );
  expect(goalTest('condition=Ready=False')(object(ready))).toBe(false);
  expect(goalTest('phase=Suspended')(object({ phase: 'Suspended', observedGeneration: 2 }))).toBe(true);
  expect(goalTest('Ready')(object({ phase: 'Ready' }))).toBe(true);
  expect(goalTest('Ready')(object({}))).toBe(false);
  expect([goalTest('delete')(null), goalTest('delete')(object({})), goalTest('Ready')(null)]).toEqual([
    true,
    false,
    false,
  ]);
});
