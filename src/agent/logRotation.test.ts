import { existsSync, readdirSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { LOG_LIMIT, LOGS_KEPT } from './limits.ts';
import { rotateLog } from './logRotation.ts';
import { type Scratch, scratch } from './testing/scratch.ts';

let box: Scratch;
let log: string;
beforeEach(() => {
  box = scratch();
  log = join(box.path, 'mongod.log');
});
afterEach(() => box.remove());

/** A server's log of this size; no room is used for it. */
function written(bytes: number): void {
  writeFileSync(log, '');
  truncateSync(log, bytes);
}

test('STO-07 a log that grew to its limit is moved away, the server opens a new one, and only a few old ones stay', () => {
  let reopened = 0;
  for (let round = 1; round <= LOGS_KEPT + 3; round++) {
    written(LOG_LIMIT + round);
    rotateLog(log, () => reopened++);
    expect([reopened, existsSync(log)]).toEqual([round, false]);
    expect(statSync(`${log}.1`).size).toBe(LOG_LIMIT + round);
  }
  expect(readdirSync(box.path)).toHaveLength(LOGS_KEPT);
});

test('STO-07 a log below its limit, or none, is left alone', () => {
  const never = (): void => expect.unreachable();
  rotateLog(log, never);
  written(LOG_LIMIT - 1);
  rotateLog(log, never);
  expect(statSync(log).size).toBe(LOG_LIMIT - 1);
});
