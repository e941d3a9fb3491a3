import { expect, test } from 'vitest';
import { remembered } from './memo.ts';

test('answers are made once, until there are too many of them', () => {
  const made: string[] = [];
  const twice = remembered(2, (text) => {
    made.push(text);
    return text + text;
  });
  expect([twice('a'), twice('a'), twice('b'), twice('a')]).toEqual(['aa', 'aa', 'bb', 'aa']);
  expect(made).toEqual(['a', 'b']);
  expect([twice('c'), twice('a')]).toEqual(['cc', 'aa']);
  expect(made).toEqual(['a', 'b', 'c', 'a']);
});
