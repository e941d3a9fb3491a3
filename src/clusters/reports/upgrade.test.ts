import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { desired, seen } from '../fixtures.ts';
import { advance } from '../learn.ts';
import { plan } from '../plan.ts';
import { Play } from '../play.ts';
import { recordOf } from '../record.ts';
import { status } from '../status.ts';
import type { Desired, Observed } from '../types.ts';

/** A record as the version before operations and sharded clusters left it in the store. */
const GOLDEN: unknown = JSON.parse(
  readFileSync(new URL('../../../test/cases/record-before-operations.json', import.meta.url), 'utf8'),
);
const want = desired();
const record = () => ({ ...recordOf(GOLDEN), users: [] });

function healthy(): Observed {
  const o = seen(record(), want, ['PRIMARY', 'SECONDARY', 'SECONDARY']);
  return {
    ...o,
    members: o.members.map((m, i) => ({
      ...m,
      facts: m.facts && {
        ...m.facts,
        configVersion: 4,
        certificate: { notAfter: 9e12, fingerprint: `sha256:${`0${i + 1}`.repeat(32)}` },
      },
    })),
  };
}

test('UPG-06 A6.2 the record of the version before and the same spec: no step, no restart, Ready all the while', () => {
  const o = healthy();
  const state = advance(record(), want, o, 0);
  const decided = plan(o, want, state, 0);
  expect([decided.act, decided.waits, decided.blocks]).toEqual([null, [], []]);
  const is = status({ observed: o, desired: want, state, plan: decided, now: 0, warnings: [], before: null });
  expect([is.phase, is.readyMembers]).toEqual(['Ready', 3]);
  expect(state.configVersion).toBe(4);
});

test('UPG-06 A2.5 what other parts keep in the record stays, and a record of this version is not touched', () => {
  const state = recordOf(GOLDEN);
  expect(state['pbmCleanup']).toEqual({ kept: true });
  expect(state.users).toHaveLength(1);
  expect(state.nextMemberIndex).toEqual({ orders: 3 });
  expect(recordOf(state)).toBe(state);
});

/** A set whose record comes from the version before. */
class Upgraded extends Play {
  constructor(to: Desired) {
    super(want);
    this.state = record();
    this.desired = to;
  }
}

test('UPG-08 a new control plane and a new version in one go: first nothing for the record, then the plain roll of binaries', () => {
  const old = desired({ version: '8.0.29-13' });
  const play = new Upgraded(old);
  play.state = {
    ...play.state,
    members: play.state.members.map((m) => ({ ...m, deployedVersion: '8.0.29-13' })),
  };
  expect(play.pass()).toBe('converged');
  play.desired = want;
  expect(play.toTheEnd()).toEqual([
    'upgrade orders-2',
    'upgrade orders-1',
    'stepDown orders-0',
    'upgrade orders-0',
    'converged',
  ]);
  const together = new Upgraded(want);
  together.state = {
    ...together.state,
    members: together.state.members.map((m) => ({ ...m, deployedVersion: '8.0.29-13' })),
  };
  const lines = together.toTheEnd();
  expect(lines.filter((l) => l.startsWith('reload'))).toEqual([]);
  expect(lines.filter((l) => l.startsWith('upgrade'))).toHaveLength(3);
  expect(lines.at(-1)).toBe('converged');
});

test('UPG-01 a compatibility version that does not fit stops the upgrade at once, and a corrected document goes on', () => {
  const play = new Play(desired({ version: '7.0.43-23' }));
  play.fcv = '6.0';
  play.desired = desired({ version: '8.0.32-14' });
  for (let i = 0; i < 5; i++) expect(play.pass()).toBe('blocked FcvTooOld');
  play.desired = desired({ version: '7.0.43-23' });
  expect(play.toTheEnd()).toEqual(['converged']);
  play.fcv = '7.0';
  play.desired = desired({ version: '8.0.32-14' });
  expect(play.toTheEnd().at(-1)).toBe('converged');
});
