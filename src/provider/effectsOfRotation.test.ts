/** New passwords and certificates: in which order they are made, given, tried and kept. */
import { describe, expect, test } from 'vitest';
import { BelayError } from '../base/error.ts';
import { DAY } from '../base/units.ts';
import type { CommandOutcome, MemberState, OperationWork, State, Step } from '../clusters/index.ts';
import { DONE, passwordOf, placed, refused, scene } from './testing/steps.ts';

describe('rotation of system users', () => {
  const rotation = (
    change: Partial<Extract<OperationWork, { kind: 'RotateUsers' }>>,
    state: State,
  ): State => ({
    ...state,
    operation: {
      uid: 'op',
      name: 'op',
      type: 'RotateUsers',
      startedAt: 0,
      members: [],
      completed: [],
      work: {
        kind: 'RotateUsers',
        users: ['userAdmin', 'clusterMonitor'],
        staged: true,
        begun: false,
        sets: [],
        kept: false,
        ...change,
      },
    },
  });
  const USERS = ['userAdmin', 'clusterMonitor'];

  test('A13.4 S12 while a password changes, the old one is tried and then the new one; other refusals are no reason to', async () => {
    let works = '';
    let otherwise = refused('credentials');
    const s = await scene((command) => (passwordOf(command) === works ? DONE : otherwise));
    const { uid } = s.object.metadata;
    await s.credentials.stage(uid, USERS);
    const old = (await s.credentials.login(uid)).password.reveal();
    const next = (await s.credentials.stagedLogin(uid, 'userAdmin'))?.password.reveal() ?? '';
    const step: Step = { kind: 'rotateUsers', replicaSet: 'orders', via: 'orders-0', users: USERS };
    const tried = async (): Promise<readonly [string, readonly string[]]> => {
      s.said.length = 0;
      const { outcome } = await s.run(step);
      return [outcome.kind, s.said.map(passwordOf)];
    };
    works = old;
    expect(await tried()).toEqual(['done', [old]]);
    const [sent] = s.said;
    expect(sent?.kind === 'reconcileUsers' && sent.users[0]?.password?.reveal()).toBe(next);
    works = next;
    expect(await tried()).toEqual(['done', [old, next]]);
    works = 'another';
    expect(await tried()).toEqual(['failed', [old, next]]);
    otherwise = refused('transient');
    expect(await tried()).toEqual(['failed', [old]]);
  });

  test('A13.4 S10 what was staged becomes the cluster’s, once, and nothing of it is left beside', async () => {
    const s = await scene();
    const { uid } = s.object.metadata;
    await s.credentials.stage(uid, USERS);
    const next = (await s.credentials.stagedLogin(uid, 'userAdmin'))?.password.reveal();
    const untouched = (await s.credentials.login(uid, 'backup')).password.reveal();
    const keep: Step = { kind: 'keepLogins', users: USERS };
    for (let time = 0; time < 2; time++) {
      const { also } = await s.run(keep);
      expect(also?.secretPrefixesToDelete).toEqual([`clusters/${uid}/next-users/`]);
      expect((await s.credentials.login(uid)).password.reveal()).toBe(next);
      await s.secrets.delete(`clusters/${uid}/next-users/`);
    }
    expect((await s.credentials.login(uid, 'backup')).password.reveal()).toBe(untouched);
  });

  test('S12 CRD-11 an agent is given both passwords, and the new one alone only where it was seen to work', async () => {
    let proof: CommandOutcome = refused('credentials');
    const s = await scene(() => proof);
    const { uid } = s.object.metadata;
    await s.credentials.stage(uid, USERS);
    const member = placed(s.desired).members[0] as MemberState;
    const { given } = await s.credentials.certificate(s.desired, uid, member, s.clock.now());
    const activated = { configVersion: 3, certificate: given } as MemberState['activated'];
    const state = placed(s.desired, { activated });
    const step: Step = { kind: 'giveLogins', member: 'orders-0', configVersion: 4 };
    expect((await s.run(step, { state: rotation({}, state) })).outcome.kind).toBe('done');
    expect(s.order).toEqual(['publish']);
    expect(s.given[0]?.nextMonitor?.password.reveal()).not.toBe(s.given[0]?.monitor.password.reveal());
    expect(s.given[0]?.certificatesOnline).toBe(true);

    const alone = rotation({ kept: true }, state);
    expect((await s.run(step, { state: alone })).outcome).toMatchObject({
      code: 'LoginNotConfirmed',
      retry: 'later',
    });
    expect(s.given).toHaveLength(1);
    proof = DONE;
    await s.run(step, { state: alone });
    expect(s.order.slice(-2)).toEqual(['verifyLogin', 'publish']);
    expect(s.given[1]?.nextMonitor).toBeNull();
    // The certificate it has, though its end comes near.
    await s.clock.advance(360 * DAY);
    await s.run(step, { state: alone });
    expect(s.given[2]?.certificatePem.reveal()).toBe(s.given[0]?.certificatePem.reveal());
  });

  test('S12 CRD-11 A9.4 a certificate that an effect before left half given comes along with passwords, and is taken too', async () => {
    let answer: CommandOutcome = DONE;
    const s = await scene(() => answer);
    const { uid } = s.object.metadata;
    await s.credentials.stage(uid, USERS);
    const member = placed(s.desired).members[0] as MemberState;
    const { given } = await s.credentials.certificate(s.desired, uid, member, s.clock.now());
    const step: Step = { kind: 'giveLogins', member: 'orders-0', configVersion: 4 };
    const about = (change: object) => {
      const activated = { configVersion: 3, tlsMode: 'requireTLS', certificate: given, ...change };
      return { state: rotation({}, placed(s.desired, { activated: activated as MemberState['activated'] })) };
    };
    await s.run(step, about({}));
    expect(s.order).toEqual(['publish']);
    const other = { ...given, fingerprint: 'another' };
    const done = await s.run(step, about({ certificate: other }));
    expect(s.order.slice(1)).toEqual(['publish', 'rotateCertificates']);
    expect(done.outcome).toMatchObject({ kind: 'done', result: { snapshot: { certificate: given } } });
    await s.run(step, about({ certificate: { ...given, trust: 'older' } }));
    expect(s.order.at(-1)).toBe('rotateCertificates');
    answer = refused('permanent');
    expect((await s.run(step, about({ certificate: other }))).outcome.kind).toBe('failed');
    // Without TLS nobody presents one.
    await s.run(step, about({ certificate: other, tlsMode: 'disabled' }));
    expect(s.order.at(-1)).toBe('publish');
  });
});

describe('certificates', () => {
  test('S12 A9.4 a successor is the member’s certificate only when the member has it', async () => {
    const s = await scene();
    const { uid } = s.object.metadata;
    const step: Step = { kind: 'publish', member: 'orders-0', configVersion: 1 };
    await s.run(step, { state: placed(s.desired) });
    const first = s.given[0]?.certificatePem.reveal();
    const member = placed(s.desired).members[0] as MemberState;
    const { given } = await s.credentials.certificate(s.desired, uid, member, s.clock.now());
    const activated = {
      configVersion: 1,
      tlsMode: 'requireTLS',
      certificate: given,
    } as MemberState['activated'];
    const state = placed(s.desired, { activated });
    await s.clock.advance(350 * DAY);
    s.hooks.publish = () => {
      throw new BelayError('AgentNotConnected', 'away', { retry: 'later' });
    };
    await s.run(step, { state }).catch(() => {});
    const inUse = async () => (await s.credentials.certificateInUse(uid, 'orders-0')).pem.reveal();
    expect(await inUse()).toBe(first);
    s.hooks.publish = () => {};
    await s.run(step, { state });
    expect(s.given.at(-1)?.certificatePem.reveal()).not.toBe(first);
    expect(await inUse()).toBe(s.given.at(-1)?.certificatePem.reveal());
  });

  test.each([
    ['permanent', 'CertificateNotTaken', 'later'],
    ['credentials', 'CertificateNotTaken', 'later'],
    ['transient', 'No', 'later'],
  ] as const)('A9.4 a server whose refusal is %s: %s', async (kind, code, retry) => {
    const s = await scene(() => refused(kind));
    const step: Step = { kind: 'rotateCertificate', member: 'orders-0', configVersion: 2 };
    expect((await s.run(step)).outcome).toMatchObject({ kind: 'failed', code, retry });
    expect(s.order.slice(0, 2)).toEqual(['publish', 'rotateCertificates']);
    expect(s.given[0]?.certificatesOnline).toBe(true);
  });
});
