import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, test } from 'vitest';
import { BelayError } from '../base/error.ts';
import { asFailure } from './failures.ts';

const failureOf = (does: () => unknown): unknown => {
  try {
    return does();
  } catch (failure) {
    return failure;
  }
};

test('L3 a folder that cannot be used is no bug: the error names it and the way out', () => {
  const dir = mkdtempSync(path.join(os.tmpdir(), 'belay-failures-'));
  const file = path.join(dir, 'file');
  try {
    writeFileSync(file, '');
    for (const folder of [path.join(file, 'data'), file])
      expect(asFailure(failureOf(() => mkdirSync(folder, { recursive: true })))).toMatchObject({
        code: 'FileNotWritable',
        message: expect.stringContaining(file),
        fix: expect.stringContaining('name another'),
      });
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
});

test('rights, a read-only mount and a full disk each have their own way out', () => {
  const told = (code: string) =>
    asFailure(Object.assign(new Error(`${code}: open`), { code, path: '/data/x' }));
  expect(told('EACCES')).toMatchObject({
    code: 'FileNotWritable',
    fix: expect.stringContaining('another user'),
  });
  expect(told('EROFS')).toMatchObject({ code: 'FileNotWritable', fix: expect.stringContaining('read-only') });
  expect(told('ENOSPC')).toMatchObject({ code: 'DiskFull', fix: expect.stringContaining('free space') });
  expect(told('EIO').code).toBe('Internal');
  const own = new BelayError('PortTaken', 'x');
  expect(asFailure(own)).toBe(own);
});
