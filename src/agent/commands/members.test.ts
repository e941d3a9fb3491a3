import { MongoServerError } from 'mongodb';
import { expect, test } from 'vitest';
import { refusal } from '../mongo.ts';
import { whenStale } from './refusals.ts';

const failure = (errmsg: string): MongoServerError =>
  new MongoServerError({ ok: 0, code: 103, codeName: 'NewReplicaSetConfigurationIncompatible', errmsg });

test('A5.4 STK-09 a reconfiguration built on an older reading passes by itself; one that can never be is refused for good', () => {
  const stale =
    'New replica set configuration version and term must be greater than old, but {version: 3, term: 1}';
  expect(whenStale(refusal(failure(stale))).class).toBe('transient');
  expect(whenStale(refusal(failure('priority must be 0 when hidden=true'))).class).toBe('permanent');
});
