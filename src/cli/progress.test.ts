import { expect, test } from 'vitest';
import type { ApiObject } from './client.ts';
import type { Terminal } from './output.ts';
import { makePainter, memberLine, progressLines } from './progress.ts';

function screen(columns: number, rows = 24) {
  const drawn: string[] = [];
  const terminal: Terminal = {
    out: () => {},
    err: (text) => void drawn.push(text),
    outRaw: () => {},
    errRaw: (text) => void drawn.push(text),
    outIsTty: true,
    errIsTty: true,
    columns,
    rows,
    color: false,
  };
  return { drawn, paint: makePainter(terminal) };
}

const LONG =
  '  now        orders-0 is the only member: working on it stops the database; set spec.maintenance.interruption: Allowed, or add members';

test('a message that is longer than the terminal is wide is broken between words, and its end, which says what to do, is there', () => {
  const { drawn, paint } = screen(60);
  paint([LONG]);
  const lines = (drawn[0] ?? '').split('\n');
  expect(lines.length).toBeGreaterThan(2);
  expect(lines.every((line) => line.length < 60)).toBe(true);
  expect(lines.map((line) => line.trim()).join(' ')).toBe(LONG.trim());
  expect(lines.slice(1).every((line) => line.startsWith('      '))).toBe(true);
  // As many lines as were drawn are drawn over.
  paint(['x']);
  expect(drawn[1]?.startsWith(`\u001b[${lines.length}A`)).toBe(true);
});

test('words longer than the line, narrow terminals and low ones are no trouble', () => {
  const narrow = screen(12);
  narrow.paint([LONG]);
  expect(narrow.drawn).toEqual([LONG.slice(0, 11)]);
  const one = screen(40);
  one.paint([`  ${'x'.repeat(100)}`]);
  expect((one.drawn[0] ?? '').split('\n').every((line) => line.length < 40)).toBe(true);
  expect((one.drawn[0] ?? '').replace(/\s/g, '')).toBe('x'.repeat(100));
  const low = screen(40, 4);
  low.paint([LONG, LONG]);
  expect((low.drawn[0] ?? '').split('\n')).toHaveLength(2);
});

test('A13.1 a line that begins with a member names it once; how an operation ended is left to the last word', () => {
  expect(memberLine({ name: 'orders-1', stage: 'deployed', message: 'orders-1 is starting' }, 8)).toMatch(
    /^ {2}orders-1 .* is starting$/,
  );
  const operation = (status: object): ApiObject =>
    ({ kind: 'Operation', metadata: { name: 'o' }, spec: {}, status }) as unknown as ApiObject;
  const running = { state: 'Running', currentMember: 'orders-3', message: 'orders-3 is starting' };
  expect(progressLines(operation(running))).toEqual(['  orders-3   · is starting', '  state      Running']);
  expect(progressLines(operation({ state: 'Succeeded', message: 'done well' }))).toEqual([
    '  state   Succeeded',
  ]);
  expect(progressLines(operation({ state: 'Waiting', message: 'orders-3 copies the data' }))).toEqual([
    '  state   Waiting   orders-3 copies the data',
  ]);
});
