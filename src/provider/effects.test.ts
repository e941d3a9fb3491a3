/** What each step asks of agents, platform and store, and what it makes of their answers. */
import { randomBytes } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { BelayError } from '../base/error.ts';
import { DAY } from '../base/units.ts';
import {
  type CommandOutcome,
  type Desired,
  desiredFrom,
  initialState,
  type MemberCommand,
  type MemberSnapshot,
  type MemberState,
  type OperationWork,
  type State,
  type Step,
} from '../clusters/index.ts';
import { Informer } from '../engine/informer.ts';
import type { StoredObject } from '../engine/ports.ts';
import { silentLog } from '../engine/testing/bench.ts';
import { ManualClock } from '../engine/testing/clock.ts';
import type { MongoDBSpec } from '../model/index.ts';
import { openCertificateAuthority } from '../security/ca.ts';
import { masterKeyFrom } from '../security/seal.ts';
import { openSecrets } from '../security/secrets.ts';
import { openMemoryStore } from '../store/memory.ts';
import { Credentials } from './credentials.ts';
import { perform } from './effects.ts';
import type { Reading } from './observe.ts';
import { admitted, clusterKey, create, replicaSet } from './testing/rig.ts';
import { UserSecrets } from './userObjects.ts';

const FENCE = { lease: 'clusters/0', epoch: 1 };
const DONE: CommandOutcome = { kind: 'done', result: {} };
const refused = (kind: 'credentials' | 'transient' | 'permanent'): CommandOutcome => ({
  kind: 'refused',
  code: 1,
  codeName: 'No',
  message: 'no',
  class: kind,
});

/** One cluster whose members are placed, agents that answer as told, and all that was said to them. */
async function scene(
  answer: (command: MemberCommand) => CommandOutcome | Promise<CommandOutcome> = () => DONE,
) {
  const clock = new ManualClock(Date.UTC(2030, 0, 1));
  const store = openMemoryStore({ clock });
  const secrets = await openSecrets(store, masterKeyFrom(randomBytes(32)));
  const ca = await openCertificateAuthority(secrets, clock, { organization: 'Belay' });
  const credentials = new Credentials(secrets, ca);
  const informer = new Informer({ store, clock, log: silentLog, kinds: ['MongoDB', 'Operation'] });
  const object = await create(store, 'MongoDB', 'orders', replicaSet());
  const desired = desiredFrom({ metadata: object.metadata, spec: object.spec as MongoDBSpec });
  const said: MemberCommand[] = [];
  const given: MemberSnapshot[] = [];
  /** In the order in which they came. */
  const order: string[] = [];
  const hooks = { publish: (): void => {} };
  const agents = {
    run: async (_: unknown, command: MemberCommand) => {
      said.push(command);
      order.push(command.kind);
      return answer(command);
    },
    publish: async (_: unknown, snapshot: MemberSnapshot) => {
      hooks.publish();
      given.push(snapshot);
      order.push('publish');
    },
  };
  const platform = {
    deleteVolume: async () => ({ operationId: 'gone' }),
    deploy: async () => {
      throw new BelayError('AgentNotConnected', 'db1 is away', { retry: 'later' });
    },
  };
  const deps = {
    agents,
    platform,
    store,
    informer,
    clock,
    credentials,
    userSecrets: new UserSecrets(secrets),
    installation: 'test',
    agentVersion: '0',
  } as unknown as Parameters<typeof perform>[0];
  const observed = { userObjects: [], authority: ca.authority, services: [] } as unknown as Reading;
  await credentials.ensure(object.metadata.uid);
  const run = (step: Step, change: Partial<{ desired: Desired; state: State; object: StoredObject }> = {}) =>
    perform(
      deps,
      step,
      { object, desired, state: placed(desired), ...change },
      {
        stepId: 'step',
        fence: FENCE,
        observed,
      },
    );
  return {
    clock,
    store,
    secrets,
    ca,
    credentials,
    informer,
    object,
    desired,
    said,
    given,
    order,
    hooks,
    run,
  };
}

const placed = (want: Desired, change: Partial<MemberState> = {}): State => {
  const state = initialState(want);
  return {
    ...state,
    members: state.members.map((m, i) => ({
      ...m,
      host: `db${i + 1}`,
      address: `db${i + 1}`,
      port: 27017,
      serviceId: `s${i}`,
      volumeId: `v${i}`,
      deployedVersion: want.version,
      stage: 'active' as const,
      ...change,
    })),
  };
};
const passwordOf = (command: MemberCommand | undefined): string =>
  command !== undefined && 'as' in command ? command.as.password.reveal() : '';

describe('what is asked of a database', () => {
  test('S3 S13 a primary gets time for its heir to catch up, stays away for a while, and is never forced', async () => {
    const { run, said } = await scene();
    await run({ kind: 'stepDown', replicaSet: 'orders', member: 'orders-0' });
    expect(said).toMatchObject([{ kind: 'stepDown', forSeconds: 60, catchUpSeconds: 10 }]);
  });

  test('S5 a reconfiguration is bounded, and forced only by the operation that a person acknowledged', async () => {
    const { run, said } = await scene();
    const config = { _id: 'orders', version: 2, members: [] };
    const step = { kind: 'reconfig', replicaSet: 'orders', via: 'orders-0', config, change: '' } as const;
    await run(step);
    await run({ ...step, forcedBy: 'op-1' });
    expect(said.map((c) => c.kind === 'reconfig' && [c.maxTimeMillis, c.force])).toEqual([
      [10_000, undefined],
      [10_000, true],
    ]);
  });

  test('A5.1 A5.2 the first user and all others are made by the user administrator, for the oldest binary there is', async () => {
    const { run, said, desired, credentials, object } = await scene();
    const admin = (await credentials.login(object.metadata.uid)).password.reveal();
    const old = placed(desired);
    const state = {
      ...old,
      members: old.members.map((m, i) => (i === 1 ? { ...m, deployedVersion: '7.0.43-23' } : m)),
    };
    await run({ kind: 'createFirstUser', replicaSet: 'orders', via: 'orders-0' });
    await run({ kind: 'reconcileSystemUsers', replicaSet: 'orders', via: 'orders-0' }, { state });
    const [first, all] = said;
    expect(first?.kind === 'createFirstUser' && first.user.password?.reveal()).toBe(admin);
    if (all?.kind !== 'reconcileUsers') throw new Error('users are reconciled');
    expect([all.as.user, all.as.password.reveal()]).toEqual(['userAdmin', admin]);
    expect(all.users.map((u) => u.user).sort()).toEqual([
      'backup',
      'clusterAdmin',
      'clusterMonitor',
      'databaseAdmin',
      'userAdmin',
    ]);
    expect(all.roles.map((r) => r.role)).toEqual(['explainRole', 'pbmAnyAction']);
    // 7.0 does not know that role yet.
    expect(JSON.stringify(all.users)).not.toContain('directShardOperations');
    await run({ kind: 'reconcileSystemUsers', replicaSet: 'orders', via: 'orders-0' });
    expect(JSON.stringify(said[2])).toContain('directShardOperations');
  });
});

describe('what answers mean', () => {
  const step: Step = { kind: 'reconcileSystemUsers', replicaSet: 'orders', via: 'orders-0' };
  test.each([
    [refused('credentials'), { kind: 'failed', code: 'CredentialRepairRequired', retry: 'never' }],
    [refused('transient'), { kind: 'failed', code: 'No', retry: 'later' }],
    [refused('permanent'), { kind: 'failed', code: 'No', retry: 'never' }],
    [{ kind: 'unknown', message: 'cut off' } as const, { kind: 'unknown', message: 'cut off' }],
  ])('A5.4 %j', async (answer, outcome) => {
    const { run } = await scene(() => answer);
    expect((await run(step)).outcome).toMatchObject(outcome);
  });

  test('A3.1 A7.1 an effect that hangs has an unknown outcome; one whose host is away was not done', async () => {
    const { run, clock } = await scene(() => new Promise(() => {}));
    const hanging = run(step).catch((failure: BelayError) => failure.retry);
    await clock.advance(30_000);
    expect(await hanging).toBe('unknown-outcome');
    const deployed = await run({ kind: 'deploy', member: 'orders-0', version: '8.0.32-14' });
    expect(deployed.outcome).toEqual({ kind: 'unknown', message: 'db1 is away' });
  });
});

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

describe('what goes', () => {
  test('S4 A6.4 a member that has left takes its secrets along; one whose cluster is suspended or deleted does not yet', async () => {
    const s = await scene();
    const { uid } = s.object.metadata;
    const step: Step = { kind: 'deleteVolume', member: 'orders-1' };
    const left = await s.run(step, { state: placed(s.desired, { stage: 'removing' }) });
    expect(left.also?.secretPrefixesToDelete).toEqual([`clusters/${uid}/members/orders-1/`]);
    expect((await s.run(step)).also).toBeUndefined();
  });

  test('A14.3 the end takes the record, the finalizer, all secrets and the operations about this cluster', async () => {
    const s = await scene();
    await s.informer.open();
    const ask = (name: string, target: string) =>
      s.store.create({
        kind: 'Operation',
        namespace: 'default',
        name,
        spec: { type: 'Restart', mongodbResourceRef: { name: target } },
        finalizers: ['belay.dev/operation'],
      });
    for (const operation of [await ask('mine', 'orders'), await ask('other', 'invoices')])
      s.informer.learn(operation);
    const { also } = await s.run({ kind: 'forget' });
    const { uid } = s.object.metadata;
    expect(also).toEqual({
      releases: [{ key: clusterKey('orders'), uid, finalizer: 'belay.dev/cluster' }],
      forgetState: true,
      secretPrefixesToDelete: [`clusters/${uid}/`],
    });
    const { items } = await s.store.list({ kind: 'Operation' });
    expect(items.map((o) => o.metadata.name)).toEqual(['other']);
    await s.informer.close();
  });
});

describe('suspension by an operation', () => {
  const asleep: Step = { kind: 'setSuspend', suspend: true };
  const spec = async (s: Awaited<ReturnType<typeof scene>>) => await s.store.get(clusterKey('orders'));

  test('A14.2 the document says so afterwards, and again when it wakes; a mark of a deletion goes with it', async () => {
    const s = await scene();
    await s.run(asleep);
    const suspended = (await spec(s)) as StoredObject;
    expect(suspended.spec).toMatchObject({ suspend: true, members: 3 });
    const marks = { annotations: { 'belay.dev/kept-by-delete': 'true', team: 'shop' } };
    const kept = (await s.store.update(clusterKey('orders'), marks)) as StoredObject;
    await s.run({ kind: 'setSuspend', suspend: false }, { object: kept });
    expect(await spec(s)).toMatchObject({
      spec: { suspend: false },
      metadata: { annotations: { team: 'shop' } },
    });
    expect(Object.keys((await spec(s))?.metadata.annotations ?? {})).toEqual(['team']);
  });

  test('S9 what somebody changed since it was planned is not turned back, and another object of that name is left alone', async () => {
    const s = await scene();
    const members = { spec: { ...(s.object.spec as object), members: 5 } };
    await s.store.update(clusterKey('orders'), members);
    await expect(s.run(asleep)).rejects.toMatchObject({ code: 'Conflict' });
    expect((await spec(s))?.spec).toMatchObject({ suspend: false, members: 5 });
    await s.store.update(clusterKey('orders'), { finalizers: [], delete: true });
    await create(s.store, 'MongoDB', 'orders', replicaSet());
    await expect(s.run(asleep)).rejects.toMatchObject({ code: 'NotFound' });
    expect((await spec(s))?.spec).toEqual(admitted('MongoDB', 'orders', replicaSet()));
  });
});
