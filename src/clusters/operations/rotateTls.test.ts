import { expect, test } from 'vitest';
import { DAY } from '../../base/units.ts';
import { desired } from '../fixtures.ts';
import { guard } from '../guard.ts';
import { advance } from '../learn.ts';
import { plan } from '../plan.ts';
import { Play } from '../play.ts';
import { preview } from '../preview.ts';
import { status } from '../status.ts';
import type { OperationRequest, State } from '../types.ts';

const asked = (change: Partial<OperationRequest> = {}): OperationRequest => ({
  uid: 'op-1',
  name: 'orders-tls',
  spec: { type: 'RotateTLS', mongodbResourceRef: { name: 'orders' } },
  createdAt: 0,
  cancelRequested: false,
  ...change,
});

/** A set whose members were given certificates by authority A. */
function play(members = 3): Play {
  const set = new Play(desired({}, members));
  set.authority = { trust: 'A', issuer: 'A', notAfter: 3650 * DAY, rotating: false };
  given(set, 'A', 300 * DAY);
  return set;
}
function given(set: Play, by: string, notAfter: number): void {
  set.state = {
    ...set.state,
    members: set.state.members.map((m) => ({
      ...m,
      activated: m.activated && {
        ...m.activated,
        certificate: { fingerprint: `old ${m.name}`, notAfter, issuer: by, trust: by },
      },
    })),
  };
}
const issuers = (set: Play): readonly unknown[] =>
  set.state.members.map((m) => [m.activated?.certificate?.issuer, m.activated?.certificate?.trust].join('/'));

test('A13.5 every member gets another certificate, one at a time, highest index first, the primary last; nothing restarts and nobody hands over', () => {
  const set = play();
  set.requests = [asked()];
  expect(preview(set.reading(), set.desired, { ...set.state, operation: null }, 0).converges).toBe(true);
  expect(set.toTheEnd()).toEqual([
    'rotateCertificate orders-2',
    'rotateCertificate orders-1',
    'rotateCertificate orders-0',
    'converged',
  ]);
  expect(set.state.ended).toMatchObject([
    {
      state: 'Succeeded',
      message: '3 members have new certificates',
      completed: ['orders-0', 'orders-1', 'orders-2'],
    },
  ]);
  expect(set.pass()).toBe('converged');
});

test('A13.5 S3 a server that does not take it online restarts, a secondary first, the primary after it handed over', () => {
  const set = play();
  set.requests = [asked()];
  set.refusesOnline = true;
  expect(set.toTheEnd().filter((line) => !line.startsWith('wait'))).toEqual([
    'rotateCertificate orders-2',
    'reload orders-2',
    'rotateCertificate orders-1',
    'reload orders-1',
    'rotateCertificate orders-0',
    'stepDown orders-0',
    'reload orders-0',
    'converged',
  ]);
  expect(set.state.retries).toEqual([]);
});

test('A13.5 S2 the next member waits until the one before presents what it was given', () => {
  const set = play();
  set.requests = [asked()];
  expect(set.pass()).toBe('rotateCertificate orders-2');
  set.presents.set(2, 'old orders-2');
  expect([set.pass(), set.pass()]).toEqual(['wait DisruptionInProgress', 'wait DisruptionInProgress']);
  set.presents.clear();
  expect(set.pass()).toBe('rotateCertificate orders-1');
});

test('A13.5 A13.1 without TLS there is nothing to rotate; cancelled, the rest keeps what it has', () => {
  const plain = new Play(desired({ tlsMode: 'disabled' }));
  plain.requests = [asked()];
  expect(plain.toTheEnd()).toEqual(['converged']);
  expect(plain.state.ended).toMatchObject([{ state: 'Failed', message: /TLS is disabled/ }]);

  const set = play();
  set.requests = [asked()];
  set.pass();
  set.requests = [asked({ cancelRequested: true })];
  expect(set.toTheEnd()).toEqual(['converged']);
  expect(set.state.ended).toMatchObject([{ state: 'Cancelled', completed: ['orders-2'] }]);
});

test('A9.4 certificates are renewed in the last thirty days, not before; the next waits for replication', () => {
  const set = play();
  given(set, 'A', 40 * DAY);
  expect(set.toTheEnd()).toEqual(['converged']);
  set.now = 11 * DAY;
  expect(set.pass()).toBe('rotateCertificate orders-2');
  set.states[2] = 'RECOVERING';
  expect(set.pass()).toBe('wait DisruptionInProgress');
  set.states[2] = 'SECONDARY';
  expect(set.toTheEnd()).toEqual(['rotateCertificate orders-1', 'rotateCertificate orders-0', 'converged']);
  expect(set.state.members.every((m) => (m.activated?.certificate?.notAfter ?? 0) > 300 * DAY)).toBe(true);
});

test('A9.4 one that has run out already waits for no healthy peers, since they refuse it', () => {
  const set = play();
  given(set, 'A', 40 * DAY);
  set.now = 50 * DAY;
  set.states = ['SECONDARY', 'RECOVERING', 'SECONDARY'];
  expect(set.pass()).toBe('rotateCertificate orders-2');
});

test('TLS-05 an authority that ends itself is no reason to renew for ever', () => {
  const set = play();
  set.authority = { trust: 'A', issuer: 'A', notAfter: 20 * DAY, rotating: false };
  given(set, 'A', 20 * DAY);
  expect(set.toTheEnd()).toEqual(['converged']);
});

test('A9.4 a refused upgrade does not let certificates run out', () => {
  const set = play();
  given(set, 'A', 10 * DAY);
  set.desired = desired({ version: '10.0.1-1', generation: 2 });
  expect(set.pass()).toBe('rotateCertificate orders-2');
});

test('S1 A9.4 a certificate brings nothing else along: with another configuration it would restart its member', () => {
  const set = play();
  given(set, 'A', 10 * DAY);
  const mongodConfig = { operationProfiling: { slowOpThresholdMs: 50 } };
  set.desired = desired({ version: '10.0.1-1', generation: 2, mongodConfig });
  expect(set.pass()).toMatch(/^blocked /);
  const step = { kind: 'rotateCertificate', member: 'orders-2', configVersion: 9 } as const;
  expect(guard(step, set.reading(), set.desired, set.state, set.now)).toMatchObject({
    reason: 'OperationPending',
    detail: 'orders-2 gets another change first',
  });
});

test('S12 TLS-02 each phase of a replaced authority reaches every member, one at a time, before anything else', () => {
  const set = play();
  const bundles = [
    { trust: 'AB', issuer: 'A', rotating: true },
    { trust: 'AB', issuer: 'B', rotating: true },
    { trust: 'B', issuer: 'B', rotating: false },
  ];
  for (const [i, bundle] of bundles.entries()) {
    set.authority = { ...bundle, notAfter: 3650 * DAY };
    expect(set.toTheEnd()).toHaveLength(3 * (i + 1) + 1);
    expect(new Set(issuers(set))).toEqual(new Set([`${bundle.issuer}/${bundle.trust}`]));
  }
});

const condition = (set: Play): unknown => {
  const { desired: wanted, state, now } = set;
  const observed = set.reading();
  const planned = plan(observed, wanted, state, now);
  const is = status({ observed, desired: wanted, state, plan: planned, now, warnings: [], before: null });
  const { status: value, reason, message } = is.conditions.find((c) => c.type === 'TLSCertificate') ?? {};
  return `${value} ${reason}: ${message}`;
};

test('A9.4 TLS-05 the condition says how many days are left, who gets a new certificate and what the others wait for', () => {
  const set = play();
  expect(condition(set)).toBe('True Valid: valid until 1970-10-28');
  given(set, 'A', 40 * DAY);
  set.now = 20.5 * DAY;
  expect(condition(set)).toBe(
    'False ExpiresSoon: certificate of orders-0 ends in 19 days, on 1970-02-10; orders-2 gets a new one now; orders-0, orders-1 to follow',
  );
  set.pass();
  expect(condition(set)).toMatch(/orders-0, orders-1 to follow; waits: orders-2 is SECONDARY/);
  set.toTheEnd();
  expect(condition(set)).toMatch(/^True Valid/);
  set.authority = { trust: 'A', issuer: 'A', notAfter: 40 * DAY, rotating: false };
  given(set, 'A', 40 * DAY);
  expect(condition(set)).toMatch(
    /^False ExpiresSoon: the certificate authority ends in 19 days, .*belay rotate ca/,
  );
});

test('A2.7 A13.5 a member that took its certificate, though no answer told so, is given the same one again and is not waited for for ever', () => {
  const set = play();
  set.requests = [asked()];
  set.pass(); // the operation begins with orders-2
  set.state = {
    ...set.state,
    members: set.state.members.map((m) =>
      m.name === 'orders-2' && m.activated !== null
        ? {
            ...m,
            stage: 'reloading' as const,
            activated: {
              ...m.activated,
              certificate: { fingerprint: 'old orders-2', notAfter: 300 * DAY, issuer: 'A', trust: 'A' },
            },
          }
        : m,
    ),
  };
  const read = set.reading();
  const members = read.members.map((m) =>
    m.name === 'orders-2' && m.facts !== null
      ? {
          ...m,
          facts: {
            ...m.facts,
            configVersion: m.facts.configVersion + 1,
            certificate: { notAfter: 600 * DAY, fingerprint: 'sha256:new' },
          },
        }
      : m,
  );
  const again = [{ kind: 'rotateCertificate', member: 'orders-2' }];
  const decided = (state: State) => plan({ ...read, members }, set.desired, state, set.now).act?.steps;
  expect(decided(set.state)).toMatchObject(again);
  // Also when the operation was cancelled meanwhile: what it presents must be known before anybody else is touched.
  expect(decided({ ...set.state, operation: null })).toMatchObject(again);
});

test('A13.5 L1 a rotation that TLS was switched off under is over, and says so', () => {
  const set = play();
  set.requests = [asked()];
  const begun = advance(set.state, set.desired, set.reading(), 1);
  expect(begun.operation?.type).toBe('RotateTLS');
  const off: State = {
    ...begun,
    members: begun.members.map((m) => ({
      ...m,
      activated: m.activated && { ...m.activated, tlsMode: 'disabled' as const },
    })),
  };
  const wanted = { ...set.desired, tlsMode: 'disabled', generation: 2 } as const;
  expect(advance(off, wanted, set.reading(), 2).ended).toMatchObject([
    { state: 'Succeeded', message: 'TLS was switched off meanwhile: nobody presents a certificate any more' },
  ]);
});
