import fc from 'fast-check';
import { expect, test } from 'vitest';
import { parseDocuments } from './index.ts';

const one = (text: string) => parseDocuments(text, 'a.yaml').documents[0];

test('several documents, empty ones left out, each with its own positions', () => {
  const file = parseDocuments(
    '---\n---\nkind: A\nspec: {x: 1}\n---\n# nothing\n---\nkind: B\nspec:\n  x: 2\n',
    'a.yaml',
  );
  expect(file.problems).toEqual([]);
  expect(file.documents.map(({ value }) => value)).toEqual([
    { kind: 'A', spec: { x: 1 } },
    { kind: 'B', spec: { x: 2 } },
  ]);
  expect(file.documents[1]?.locate('spec.x')).toEqual({ line: 10, column: 6 });
});

test('a path leads to the value if it is single, else to the name; a missing field to what it is missing from', () => {
  const document = one('spec:\n  members: 4\n  list:\n    - {votes: 1}\n    - votes: 2\n  empty:\n');
  expect(document?.locate('spec.members')).toEqual({ line: 2, column: 12 });
  expect(document?.locate('spec.list')).toEqual({ line: 3, column: 3 });
  expect(document?.locate('spec.list[1].votes')).toEqual({ line: 5, column: 14 });
  expect(document?.locate('spec.list[1].priority')).toEqual({ line: 5, column: 7 });
  expect(document?.locate('spec.list[9]')).toEqual({ line: 3, column: 3 });
  expect(document?.locate('spec.empty')).toEqual({ line: 6, column: 3 });
  expect(document?.locate('spec.nothing')).toEqual({ line: 1, column: 1 });
  expect(document?.locate('')).toEqual({ line: 1, column: 1 });
});

test('keys with dots are found, dotted, nested and mixed', () => {
  const document = one('c:\n  net.tls.mode: x\n  net:\n    port: 1\n    tls.CAFile: y\n  net.tlsExtra: 3\n');
  expect(document?.locate('c.net.tls.mode')).toEqual({ line: 2, column: 17 });
  expect(document?.locate('c.net.port')).toEqual({ line: 4, column: 11 });
  expect(document?.locate('c.net.tls.CAFile')).toEqual({ line: 5, column: 17 });
  expect(document?.locate('c.net.tlsExtra')).toEqual({ line: 6, column: 17 });
});

test.each([
  ['kind: A\nkind: B\n', 2, 1, /given twice/],
  ['kind: A\nspec:\n\tx: 1\n', 3, 1, /tabs are not allowed/],
  ['kind: "A\n', 2, 1, /not valid YAML/],
  ['- a\n- b\n', 1, 1, /must be a map/],
  ['just text\n', 1, 1, /must be a map/],
  ['spec: {x: [1, 2}\n', 1, 16, /not valid YAML/],
  ['a: *unknown\n', 1, 1, /not valid YAML|unknown anchor/],
])('%j is a problem with line and column', (text, line, column, wanted) => {
  const { problems, documents } = parseDocuments(text, 'a.yaml');
  expect(documents).toEqual([]);
  expect(problems[0]?.message).toMatch(wanted);
  expect(problems[0]?.position.line).toBe(line);
  expect(problems[0]?.position.column).toBeGreaterThanOrEqual(1);
  expect(Math.abs((problems[0]?.position.column ?? 0) - column)).toBeLessThanOrEqual(8);
  expect(problems[0]?.file).toBe('a.yaml');
});

test('a broken document does not hide the sound ones beside it', () => {
  const { documents, problems } = parseDocuments('kind: A\n---\nkind: B\nkind: B\n---\nkind: C\n', 'a.yaml');
  expect(documents.map(({ value }) => value)).toEqual([{ kind: 'A' }, { kind: 'C' }]);
  expect(problems).toHaveLength(1);
});

test('JSON is read too, and a List becomes its items', () => {
  const text = JSON.stringify(
    { kind: 'List', items: [{ kind: 'A' }, { kind: 'B', spec: { x: 1 } }] },
    null,
    2,
  );
  const { documents } = parseDocuments(text, 'a.json');
  expect(documents.map(({ value }) => value)).toEqual([{ kind: 'A' }, { kind: 'B', spec: { x: 1 } }]);
  const at = documents[1]?.locate('spec.x');
  expect(text.split('\n')[(at?.line ?? 0) - 1]?.trim()).toBe('"x": 1');
});

test('S8 syntax errors never repeat the text of the file', () => {
  const { problems } = parseDocuments('password: "canary-77\nother: [canary-77\n', 'a.yaml');
  expect(problems.length).toBeGreaterThan(0);
  expect(JSON.stringify(problems)).not.toContain('canary-77');
});

test('alias bombs, walls of brackets and huge files are refused at once', () => {
  const levels = Array.from(
    { length: 12 },
    (_, i) =>
      `a${i}: &a${i} [${Array(10)
        .fill(i === 0 ? 'x' : `*a${i - 1}`)
        .join(', ')}]`,
  );
  expect(parseDocuments(levels.join('\n'), 'a.yaml').problems[0]?.message).toMatch(/aliases/);
  expect(parseDocuments('['.repeat(100_000), 'a.yaml').problems[0]?.message).toMatch(/nested deeper/);
  const deep = Array.from({ length: 1_000 }, (_, i) => `${' '.repeat(i)}a:`).join('\n');
  expect(parseDocuments(deep, 'a.yaml').problems[0]?.message).toMatch(/nested deeper/);
  expect(parseDocuments('- '.repeat(100_000), 'a.yaml').problems[0]?.message).toMatch(/nested deeper/);
  expect(parseDocuments(`a: ${'x'.repeat(5_000_000)}`, 'a.yaml').problems[0]?.message).toMatch(
    /is larger than/,
  );
});

test('a few honest aliases are resolved', () => {
  expect(one('a: &x {b: 1}\nc: *x\n')?.value).toEqual({ a: { b: 1 }, c: { b: 1 } });
});

test('no text whatever makes parsing throw, and __proto__ changes nothing', () => {
  const pieces = fc.array(
    fc.constantFrom(
      'a',
      ': ',
      '\n',
      '- ',
      '{',
      '}',
      '[',
      ']',
      '"',
      "'",
      '&x ',
      '*x',
      '|',
      '>',
      '#',
      '!!int ',
      '\t',
      '  ',
      '---\n',
      '%YAML 3\n',
      '? ',
    ),
  );
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string(),
        pieces.map((list) => list.join('')),
      ),
      (text) => {
        for (const document of parseDocuments(text, 'a').documents) document.locate('a.b[0].c');
      },
    ),
    { numRuns: 500, seed: 3 },
  );
  one('__proto__: {polluted: 1}\nconstructor: {prototype: {polluted: 1}}\n');
  expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
});

test('the key __proto__ is a problem with its place, and the other documents of the file are read', () => {
  const text = 'kind: A\nmetadata:\n  labels: {__proto__: x}\n---\nkind: B\n';
  const { documents, problems } = parseDocuments(text, 'f.yaml');
  expect(documents.map((d) => d.value)).toEqual([{ kind: 'B' }]);
  expect(problems).toMatchObject([{ position: { line: 3, column: 12 } }]);
  expect(problems[0]?.message).toContain('__proto__ is not allowed');
});
