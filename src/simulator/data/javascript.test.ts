import { Code, Int32, ObjectId } from 'bson';
import { afterEach, expect, test } from 'vitest';
import { allowScripting, compileFunction, compileWhere, takeSlept } from './javascript.ts';
import { openMemoryStore } from './store.ts';
import { contextWithClock, refused } from './test-values.ts';

afterEach(() => allowScripting(true));

test('$where takes an expression, statements, a function or code, but no code with scope', () => {
  const document = { _id: 1, a: new Int32(5), day: new Date(0) };
  for (const code of [
    'this.a == 5',
    'return this.a === 5;',
    'var x = this.a; return x == 5',
    'function () { return this.a > 4; }',
    '(function() { return this.a === 5 && this.day.getTime() === 0 })',
    new Code('this.a == 5'),
  ]) {
    expect(compileWhere(code)(document)).toBe(true);
    expect(compileWhere(code)({ a: 1 })).toBe(false);
  }
  expect(refused(() => compileWhere(7)).code).toBe(2);
  expect(refused(() => compileWhere(new Code('true', {}))).code).toBe(2);
  expect(refused(() => compileWhere('this is no code')).code).toBe(139);
  expect(refused(() => compileWhere('nobody.knows')({})).message).toContain('nobody is not defined');
});

test('a query finds by $where beside other conditions', () => {
  const store = openMemoryStore();
  const clock = contextWithClock();
  for (const a of [1, 2, 3, 4]) store.insert('db.c', { _id: a, a }, clock);
  const filter = { a: { $gt: 1 }, $where: 'this.a % 2 === 0' };
  expect(store.find('db.c', { filter }).map(({ _id }) => Number(_id))).toEqual([2, 4]);
});

test('$function computes a field', () => {
  const store = openMemoryStore();
  const expression = { $function: { body: '(a, b) => a + b', args: ['$a', 2], lang: 'js' } };
  const made = store.aggregate(null, 'db', [{ $documents: [{ a: 1 }] }, { $project: { sum: expression } }]);
  expect(made).toEqual([{ sum: 3 }]);
  const id = new ObjectId();
  expect(compileFunction('function (id) { return { id, at: new Date(5) }; }')([id])).toEqual({
    id,
    at: new Date(5),
  });
});

test('sleeping is noted, not done; code reaches nothing of the process', () => {
  takeSlept();
  expect(compileWhere('sleep(2000) || true')({})).toBe(true);
  expect(takeSlept()).toBe(2000);
  expect(takeSlept()).toBe(0);
  expect(compileWhere('typeof process === "undefined" && typeof require === "undefined"')({})).toBe(true);
  expect(refused(() => compileWhere('this.constructor.constructor("return process")()')({})).code).toBe(139);
});

test('code that never ends is stopped; a process may refuse code', { timeout: 20_000 }, () => {
  expect(refused(() => compileWhere('for (;;) {}')({})).code).toBe(139);
  allowScripting(false);
  expect(refused(() => compileWhere('true')).message).toContain('globalScriptEngine');
});
