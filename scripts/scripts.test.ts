import { expect, test } from 'vitest';
import { idsInTitles } from './coverage-spec.ts';
import { ROOMS } from './layers.ts';
import { impurities } from './purity.ts';

test('ids are found in titles only', () => {
  const text =
    "test('A4.1 S6 does', () => { /* A9.9 */ });\ntest.each([1])(`INI-06 x`, f);\nconst a = 'B1.1';";
  expect([...idsInTitles(text)].sort()).toEqual(['A4.1', 'INI-06', 'S6']);
});

test('a clock or chance in a pure room is found, one given as an argument is not', () => {
  expect(
    impurities('const a = Date.now();\nconst b = new Date(now);\n// Math.random()\nconst c = Math.random();'),
  ).toEqual(['1: Date.now()', '4: Math.random()']);
});

test('arrows point up only: no room imports one that comes later', () => {
  const order = ROOMS.map((r) => r.name);
  for (const room of ROOMS)
    for (const up of room.imports)
      expect(order.indexOf(up), `${room.name} → ${up}`).toBeLessThan(order.indexOf(room.name));
});
