import { expect, test } from 'vitest';
import { desired, observed } from './fixtures.ts';
import { advance } from './learn.ts';
import { initialState, retryOf } from './state.ts';
import { status } from './status.ts';
import { startStep } from './steps.ts';
import type { State } from './types.ts';

const d = desired();
const HOST = { host: 'db1', address: 'db1', port: 27017, portFixed: false };

/** What is remembered after an import ended like this, `ends` times. */
function imports(state: State, ends: readonly ('failed' | 'succeeded')[]): State {
  return ends.reduce((s, kind, i) => {
    const id = `step-${i}`;
    const started = startStep(s, { kind: 'import', member: 'orders-0', placement: HOST }, id, 0);
    const result = { serviceId: 's', volumeId: 'v', host: 'db1', address: 'db1', port: 1 };
    const facts =
      kind === 'failed' ? { kind, code: 'PortTaken', message: 'port 1 is taken' } : { kind, result };
    return advance(started, d, observed({ operations: { [id]: facts } }), 0);
  }, state);
}

test('A3.1 A3.2 failures of an operation add up: 30 s, 60 s, 120 s … ten minutes; code and message are the last ones', () => {
  const waits = [1, 2, 3, 4, 5, 6, 7].map((n) => {
    const retry = retryOf(imports(initialState(d), Array(n).fill('failed')), 'import', 'orders-0');
    return [retry?.failures, (retry?.nextTryAt ?? 0) / 1000];
  });
  expect(waits).toEqual([
    [1, 30],
    [2, 60],
    [3, 120],
    [4, 240],
    [5, 480],
    [6, 600],
    [7, 600],
  ]);
  expect(retryOf(imports(initialState(d), ['failed']), 'import', 'orders-0')).toMatchObject({
    code: 'PortTaken',
    message: 'port 1 is taken',
  });
});

test('A3.2 a success ends the waits: the next failure begins anew', () => {
  const good = imports(initialState(d), ['failed', 'failed', 'succeeded']);
  expect(good.retries).toEqual([]);
  const again = imports(good, ['failed']);
  expect(retryOf(again, 'import', 'orders-0')).toMatchObject({ failures: 1, nextTryAt: 30_000 });
});

test('A3.3 from ten failures on the status says that it keeps failing', () => {
  const of = (n: number): string | undefined => {
    const state = imports(initialState(d), Array(n).fill('failed'));
    const plan = { act: null, waits: [], blocks: [], converged: false };
    const is = status({ observed: observed(), desired: d, state, plan, now: 0, warnings: [], before: null });
    return is.conditions.find((c) => c.type === 'Blocked')?.reason;
  };
  expect([of(9), of(10)]).toEqual(['NothingInTheWay', 'KeepsFailing']);
});
