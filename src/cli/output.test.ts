import { expect, test } from 'vitest';
import { asText, inBlock, inLine, table, terminalOf } from './output.ts';
import { makeCli } from './testing/rig.ts';
import { TOPOLOGY } from './testing/topology.ts';
import { type PlanAnswer, planText } from './verbs/plan.ts';

const EVIL = 'a\nb\u001b[31mred\u009b2J\u007f\r';

test('a cell stays on its line and moves nothing, and columns are as wide as what is shown', () => {
  const shown = 'a\\nb\\x1b[31mred\\u009b2J\\u007f\\r';
  expect(table(['A', 'B'], [[EVIL, 'x']]).split('\n')).toEqual([
    `${'A'.padEnd(shown.length)}  B`,
    `${shown}  x`,
  ]);
  expect(inLine('äß→ plain')).toBe('äß→ plain');
});

test('the writer of a verb keeps lines and shows every other control character; JSON and YAML stay exact', async () => {
  const out: string[] = [];
  const io = { out: (text: string) => out.push(text), err: () => {}, env: {} } as never;
  terminalOf(io, true).out(`one\n${EVIL}`);
  expect(out.join('')).toBe('one\na\nb\\x1b[31mred\\u009b2J\\u007f\\r\n');
  expect(JSON.parse(inBlock(await asText({ EVIL }, 'json')))).toEqual({ EVIL });
  const { parse } = await import('yaml');
  for (const text of [EVIL, 'x\u0085y', '\ttab', 'a\r\nb'])
    expect(parse(inBlock(await asText({ text }, 'yaml')))).toEqual({ text });
});

test('a plan keeps what others gave on its lines', () => {
  const answer = {
    kind: 'MongoDB',
    namespace: 'default',
    name: 'orders',
    generation: { from: 1, to: 1 },
    changes: [],
    steps: [],
    warnings: [],
    refusals: [],
    waits: [{ on: 'orders-1', detail: EVIL }],
  };
  const lines = planText(answer as unknown as PlanAnswer).split('\n');
  expect(lines.at(-1)).toBe(`waits    orders-1: ${inLine(EVIL)}`);
});

test('C6.1 a task with control characters in its reason, from wherever it came, breaks no row and forges no line', async () => {
  const cli = await makeCli();
  try {
    await cli.belay(['apply', '-f', cli.file('ydb.yaml', TOPOLOGY)]);
    await cli.api.clock.advance(1);
    await cli.belay(['maintenance', 'create', '--host', 'y1', '--name', 't', '--reason', 'why']);
    // Tasks that were stored before, or came over gRPC, have whatever they have.
    const fake: typeof fetch = async (...given) => {
      const answer = await fetch(...given);
      const text = (await answer.text()).replaceAll('"why"', JSON.stringify(EVIL));
      return new Response(text, { status: answer.status, headers: { 'content-type': 'application/json' } });
    };
    const look = async (...words: string[]) => (await cli.belay(words, { fetch: fake })).out;
    const list = await look('maintenance', 'list');
    expect(list.trimEnd().split('\n')).toHaveLength(2);
    expect(list).toContain('a\\nb\\x1b[31mred');
    expect(await look('maintenance', 'get', 't')).toContain('reason: a\\nb\\x1b[31mred');
    expect(JSON.parse(await look('maintenance', 'get', 't', '-o', 'json')).reason).toBe(EVIL);
    for (const text of [list, await look('describe', 'maintenancetask', 't')])
      expect(text).not.toMatch(/[^\P{Cc}\n]/u);
  } finally {
    await cli.close();
  }
});
