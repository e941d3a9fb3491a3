import { expect, test } from 'vitest';
import { soak } from './main.ts';

test('L1 S6 S10 A2.7 ten rounds of kill -9 during creation and writing: always Ready, one initiation, one set of users, nothing lost', async () => {
  const lines: string[] = [];
  const result = await soak(10, 20_261, (line) => lines.push(line)).catch((error: Error) => {
    throw new Error(`${error.message}\n${lines.join('\n')}`);
  });
  expect(result).toMatchObject({ rounds: 10, lost: 0 });
  expect(
    Object.values(result.kills).every((n) => n > 0),
    JSON.stringify(result.kills),
  ).toBe(true);
}, 900_000);
