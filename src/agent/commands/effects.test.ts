/** What is said to a server, word for word, and what its answers are taken for. */
import { createServer, type Server } from 'node:net';
import { type Document, MongoNetworkError, MongoServerError, MongoServerSelectionError } from 'mongodb';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { secret } from '../../base/secret.ts';
import { manualClock } from '../../channel/testing/clock.ts';
import type { ConfigMember, ReplSetConfig } from '../../clusters/facts.ts';
import type { CommandOutcome, MemberCommand, MemberSnapshot } from '../../clusters/snapshot.ts';
import type { ClientPool } from '../mongo.ts';
import { runCommand } from './run.ts';

type Reply = Document | Error;
/** By a command's first word: the same reply always, or one after the other and the last one from then on. */
type Replies = Readonly<Record<string, Reply | readonly Reply[]>>;

/** Runs a command at a member that answers like this, and like a writable primary to everything else. */
function at(replies: Replies, ownsPort = true) {
  const said: { readonly db: string; readonly command: Document }[] = [];
  const times = new Map<string, number>();
  const answer = async (db: string, command: Document): Promise<Document> => {
    said.push({ db, command });
    const word = Object.keys(command)[0] as string;
    const time = times.get(word) ?? 0;
    times.set(word, time + 1);
    const all = [replies[word] ?? (word === 'hello' ? { isWritablePrimary: true } : { ok: 1 })].flat();
    const reply = all[Math.min(time, all.length - 1)] as Reply;
    if (reply instanceof Error) throw reply;
    return reply;
  };
  const client = {
    db: (name: string) => ({ client, command: (command: Document) => answer(name, command) }),
  };
  const clients = { get: () => client, clear: () => {} } as unknown as ClientPool;
  const snapshot = { port: 1, tlsMode: 'disabled' } as MemberSnapshot;
  const context = { snapshot, clients, ownsPort: () => ownsPort };
  const options = { timeoutMillis: 15_000, signal: new AbortController().signal, clock: manualClock() };
  return {
    run: (command: MemberCommand): Promise<CommandOutcome> => runCommand(context, command, options),
    /** The commands that begin with this word. */
    said: (word: string): readonly Document[] => said.map((s) => s.command).filter((c) => word in c),
    all: said,
  };
}

const as = { user: 'clusterAdmin', db: 'admin', password: secret('p') };
const lost = new MongoNetworkError('connection closed');
const refusal = (code: number, errmsg = 'no'): MongoServerError =>
  new MongoServerError({ ok: 0, code, codeName: `Location${code}`, errmsg });

const row = (id: number, change: Partial<ConfigMember> = {}): ConfigMember => ({
  _id: id,
  host: `db${id}:27017`,
  priority: 1,
  votes: 1,
  ...change,
});
const config = (version: number, members: readonly ConfigMember[] = [row(0), row(1)]): ReplSetConfig => ({
  _id: 'orders',
  version,
  members,
});

describe('feature compatibility version', () => {
  const raise: MemberCommand = { kind: 'setFcv', as, version: '7.0' };
  const stored = (version: string, more: Document = {}): Document => ({
    featureCompatibilityVersion: { version, ...more },
  });

  test.each([
    [[6, 0, 29, 0], {}],
    [[7, 0, 43, 0], { confirm: true }],
    [[8, 0, 32, 0], { confirm: true }],
  ])('A8.5 binary %j is asked with %j and by a majority', async (versionArray, confirm) => {
    const member = at({ getParameter: stored('6.0'), buildInfo: { versionArray } });
    expect(await member.run(raise)).toMatchObject({ kind: 'done' });
    expect(member.said('setFeatureCompatibilityVersion')).toEqual([
      { setFeatureCompatibilityVersion: '7.0', ...confirm, writeConcern: { w: 'majority' } },
    ]);
  });

  test('A8.5 S10 one that is there is not asked for; one half raised is', async () => {
    const there = at({ getParameter: stored('7.0') });
    expect(await there.run(raise)).toMatchObject({ result: { already: true } });
    expect(there.said('setFeatureCompatibilityVersion')).toEqual([]);
    const half = at({ getParameter: stored('7.0', { targetVersion: '7.0' }), buildInfo: {} });
    await half.run(raise);
    expect(half.said('setFeatureCompatibilityVersion')).toHaveLength(1);
  });

  test('A8.5 after a lost answer the stored one decides', async () => {
    const setFeatureCompatibilityVersion = lost;
    const raised = at({ getParameter: [stored('6.0'), stored('7.0')], setFeatureCompatibilityVersion });
    expect((await raised.run(raise)).kind).toBe('done');
    const not = at({ getParameter: stored('6.0'), setFeatureCompatibilityVersion });
    expect((await not.run(raise)).kind).toBe('unknown');
  });
});

describe('reconfiguration', () => {
  const has = (stored: ReplSetConfig): Document => ({ config: stored });
  const install = (wanted: ReplSetConfig, force = false): MemberCommand => ({
    kind: 'reconfig',
    as,
    config: wanted,
    maxTimeMillis: 5_000,
    ...(force ? { force: true } : {}),
  });

  test.each<Partial<ConfigMember>>([
    { host: 'db7:27017' },
    { priority: 2 },
    { votes: 0 },
    { hidden: true },
    { secondaryDelaySecs: 3_600 },
    { tags: { rack: 'a' } },
  ])(
    'CFG-01 S10 a configuration that differs in nothing but %j is not the one that is installed',
    async (change) => {
      const wanted = config(3, [row(0), row(1, change)]);
      // A person was quicker with the same version.
      const member = at({ replSetGetConfig: has(config(3)) });
      expect(await member.run(install(wanted))).toMatchObject({ kind: 'done', result: { version: 3 } });
      expect(member.said('replSetReconfig')).toEqual([{ replSetReconfig: wanted, maxTimeMS: 5_000 }]);
      const done = at({ replSetGetConfig: has(wanted) });
      expect(await done.run(install(wanted))).toMatchObject({ result: { already: true } });
      expect(done.said('replSetReconfig')).toEqual([]);
    },
  );

  test('S5 forced only when a person asked; then the server chose a version far above', async () => {
    const forced = at({ replSetGetConfig: has(config(2)) });
    await forced.run(install(config(3), true));
    expect(forced.said('replSetReconfig')).toEqual([
      { replSetReconfig: config(3), force: true, maxTimeMS: 5_000 },
    ]);
    const above = at({ replSetGetConfig: has(config(41_234)) });
    expect(await above.run(install(config(3), true))).toMatchObject({ result: { already: true } });
    // Without force the same members under another version are another configuration.
    const other = at({ replSetGetConfig: has(config(4)) });
    await other.run(install(config(3)));
    expect(other.said('replSetReconfig')).toHaveLength(1);
  });

  test.each([
    ['a lost answer', lost],
    ['one that did not get to all', refusal(64, 'New config version 3 failed to propagate to a majority')],
  ])('S10 after %s the stored configuration decides', async (_, replSetReconfig) => {
    const wanted = config(3, [row(0)]);
    const installed = at({ replSetGetConfig: [has(config(2)), has(wanted)], replSetReconfig });
    expect((await installed.run(install(wanted))).kind).toBe('done');
    const not = at({ replSetGetConfig: has(config(2)), replSetReconfig });
    expect((await not.run(install(wanted))).kind).toBe('unknown');
    const silent = at({ replSetGetConfig: [has(config(2)), lost], replSetReconfig });
    expect((await silent.run(install(wanted))).kind).toBe('unknown');
  });
});

describe('step-down', () => {
  const stepDown: MemberCommand = { kind: 'stepDown', as, forSeconds: 60, catchUpSeconds: 10 };

  test('S3 S13 an heir gets time to catch up, and nothing is forced', async () => {
    const member = at({});
    expect((await member.run(stepDown)).kind).toBe('done');
    expect(member.said('replSetStepDown')).toEqual([{ replSetStepDown: 60, secondaryCatchUpPeriodSecs: 10 }]);
  });

  test('S10 one that lost its place meanwhile is done; after a lost answer its own word decides', async () => {
    expect(await at({ replSetStepDown: refusal(10107) }).run(stepDown)).toMatchObject({
      kind: 'done',
      result: { already: true },
    });
    expect((await at({ replSetStepDown: refusal(262) }).run(stepDown)).kind).toBe('refused');
    const hello = [{ isWritablePrimary: true }, { isWritablePrimary: false }];
    expect((await at({ hello, replSetStepDown: lost }).run(stepDown)).kind).toBe('done');
    expect((await at({ replSetStepDown: lost }).run(stepDown)).kind).toBe('unknown');
  });
});

test('A5.4 S10 what found no server was never sent: it is no unknown outcome, and passes', async () => {
  const away = new MongoServerSelectionError('no server', {} as never);
  const stepDown: MemberCommand = { kind: 'stepDown', as, forSeconds: 60, catchUpSeconds: 10 };
  for (const command of [stepDown, { kind: 'reconfig', as, config: config(3), maxTimeMillis: 1 }] as const)
    expect(
      await at({
        replSetGetConfig: { config: config(2) },
        replSetStepDown: away,
        replSetReconfig: away,
      }).run(command),
      command.kind,
    ).toMatchObject({ kind: 'refused', class: 'transient' });
});

describe('initiation', () => {
  let listener: Server;
  let here: string;
  beforeAll(async () => {
    listener = createServer((socket) => socket.destroy());
    await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
    here = `127.0.0.1:${(listener.address() as { port: number }).port}`;
  });
  afterAll(() => new Promise((resolve) => listener.close(resolve)));
  const initiate = (...members: readonly ConfigMember[]): MemberCommand => ({
    kind: 'initiate',
    config: config(1, members),
  });
  const none = { isreplicaset: true };

  test('S6 nothing is said to a stranger on the port', async () => {
    const member = at({ hello: none }, false);
    expect(await member.run(initiate(row(0, { host: here })))).toMatchObject({
      kind: 'refused',
      codeName: 'PortTaken',
      class: 'transient',
    });
    expect(member.all).toEqual([]);
    const user = { user: 'userAdmin', db: 'admin', password: secret('p'), roles: [] };
    const first = at({}, false);
    expect(await first.run({ kind: 'createFirstUser', user })).toMatchObject({ codeName: 'PortTaken' });
    expect(first.all).toEqual([]);
  });

  test('INI-07 S6 the set it is in already is told by name and members; hidden ones are in no hello', async () => {
    const wanted = initiate(row(0), row(1, { priority: 0 }), row(2, { priority: 0, hidden: true }));
    const same = { setName: 'orders', hosts: ['db0:27017'], passives: ['db1:27017'] };
    expect(await at({ hello: same }).run(wanted)).toMatchObject({ result: { already: true } });
    for (const other of [
      { ...same, setName: 'invoices' },
      { ...same, passives: [] },
      { ...same, hosts: ['db0:27017', 'db9:27017'] },
    ])
      expect(await at({ hello: other }).run(wanted), JSON.stringify(other)).toMatchObject({
        kind: 'refused',
        code: 23,
        class: 'permanent',
      });
  });

  test('S6 S10 a second initiation under way passes; after a lost answer the set itself tells', async () => {
    const wanted = initiate(row(0, { host: here }));
    const busy = at({ hello: none, replSetInitiate: refusal(23) });
    expect(await busy.run(wanted)).toMatchObject({ kind: 'refused', code: 109, class: 'transient' });
    const made = [none, { setName: 'orders', hosts: [here] }];
    expect((await at({ hello: made, replSetInitiate: refusal(23) }).run(wanted)).kind).toBe('done');
    expect((await at({ hello: made, replSetInitiate: lost }).run(wanted)).kind).toBe('done');
    expect((await at({ hello: none, replSetInitiate: lost }).run(wanted)).kind).toBe('unknown');
    expect(await at({ hello: none, replSetInitiate: refusal(93) }).run(wanted)).toMatchObject({
      kind: 'refused',
      code: 93,
    });
  });
});

describe('users and roles', () => {
  const reconcile = (change: Partial<Extract<MemberCommand, { kind: 'reconcileUsers' }>>): MemberCommand => ({
    kind: 'reconcileUsers',
    as,
    roles: [],
    users: [],
    drop: [],
    ...change,
  });
  const role = (change: Document = {}) => ({ role: 'app', db: 'shop', privileges: [], roles: [], ...change });
  const user = { user: 'CN=app', db: '$external', password: null, roles: [{ role: 'read', db: 'shop' }] };
  const usersInfo = (roles: readonly Document[]): Document => ({
    users: [{ user: user.user, db: user.db, roles }],
  });

  test('B3.1 each lives in the database it names, and goes from there', async () => {
    const member = at({ rolesInfo: { roles: [] }, usersInfo: { users: [] } });
    const drop = [{ user: 'old', db: 'shop' }];
    expect(await member.run(reconcile({ roles: [role()], users: [user], drop }))).toMatchObject({
      result: { created: ['shop.app', '$external.CN=app'], dropped: ['shop.old'] },
    });
    const where = (word: string) => member.all.filter((s) => word in s.command).map((s) => s.db);
    expect([where('createRole'), where('createUser'), where('dropUser')]).toEqual([
      ['shop'],
      ['$external'],
      ['shop'],
    ]);
  });

  test('USR-12 a role of the same name in another database is another role', async () => {
    const other = at({ usersInfo: usersInfo([{ role: 'read', db: 'admin' }]) });
    expect(await other.run(reconcile({ users: [user] }))).toMatchObject({
      result: { updated: ['$external.CN=app'] },
    });
    expect(other.said('updateUser')).toEqual([{ updateUser: 'CN=app', roles: user.roles }]);
    const same = at({ usersInfo: usersInfo([{ role: 'read', db: 'shop' }]) });
    expect(await same.run(reconcile({ users: [user] }))).toMatchObject({ result: { updated: [] } });
  });

  test.each([
    ['inherited roles', { roles: [{ role: 'read', db: 'shop' }] }],
    ['restrictions', { authenticationRestrictions: [{ clientSource: ['10.0.0.0/8'] }] }],
  ])('USR-12 a role whose %s differ is made right', async (_, change) => {
    const wanted = role(change);
    const found = { ...role(), authenticationRestrictions: [] };
    const member = at({ rolesInfo: { roles: [found] } });
    expect(await member.run(reconcile({ roles: [wanted] }))).toMatchObject({
      result: { updated: ['shop.app'] },
    });
    expect(member.said('updateRole')).toEqual([
      { updateRole: 'app', privileges: [], roles: wanted.roles, ...change },
    ]);
  });

  test('S10 what another pass made or dropped meanwhile is no failure', async () => {
    const usersInfos = { users: [] };
    const made = at({ rolesInfo: { roles: [] }, usersInfo: usersInfos, createRole: refusal(51002) });
    expect((await made.run(reconcile({ roles: [role()] }))).kind).toBe('done');
    expect(made.said('updateRole')).toHaveLength(1);
    const raced = at({ usersInfo: usersInfos, createUser: refusal(51003) });
    expect((await raced.run(reconcile({ users: [user] }))).kind).toBe('done');
    expect(raced.said('updateUser')).toEqual([{ updateUser: 'CN=app', roles: user.roles }]);
    const gone = at({ dropUser: refusal(11) });
    expect(await gone.run(reconcile({ drop: [{ user: 'old', db: 'shop' }] }))).toMatchObject({
      kind: 'done',
      result: { dropped: [] },
    });
  });

  test('A5.4 one user that cannot be written fails the whole, and nobody is dropped before', async () => {
    const member = at({ usersInfo: { users: [] }, createUser: refusal(13) });
    const drop = [{ user: 'old', db: 'shop' }];
    expect(await member.run(reconcile({ users: [user], drop }))).toMatchObject({ class: 'credentials' });
    expect(member.said('dropUser')).toEqual([]);
  });
});

describe('through a router', () => {
  const addShard: MemberCommand = { kind: 'addShard', as, shard: 'events-0/db0:27018,db1:27018' };

  test('A5.3 S10 a set becomes a shard under its own name, once', async () => {
    const member = at({ listShards: { shards: [{ _id: 'events-1' }] } });
    await member.run(addShard);
    expect(member.said('addShard')).toEqual([{ addShard: 'events-0/db0:27018,db1:27018', name: 'events-0' }]);
    const there = at({ listShards: { shards: [{ _id: 'events-0' }] } });
    expect(await there.run(addShard)).toMatchObject({ result: { already: true } });
    expect(there.said('addShard')).toEqual([]);
  });

  test('A8.3 the balancer starts, or stops with the end of a migration waited for so long', async () => {
    const commands = async (enabled: boolean) => {
      const member = at({});
      await member.run({ kind: 'setBalancer', as, enabled, maxTimeMillis: 9_000 });
      return member.all.map((s) => s.command);
    };
    expect((await commands(true)).at(-1)).toEqual({ balancerStart: 1 });
    expect((await commands(false)).at(-1)).toEqual({ balancerStop: 1, maxTimeMS: 9_000 });
  });

  test('S14 whoever switches the balancer says what it was right before', async () => {
    for (const [mode, wasEnabled] of [
      ['off', false],
      ['full', true],
    ] as const) {
      const member = at({ balancerStatus: { mode } });
      const answer = await member.run({ kind: 'setBalancer', as, enabled: false, maxTimeMillis: 9_000 });
      expect(answer).toMatchObject({ kind: 'done', result: { wasEnabled } });
      expect(member.all.map((s) => Object.keys(s.command)[0])).toEqual([
        'balancerStatus',
        'find',
        'balancerStop',
      ]);
    }
  });

  test('A8.3 S14 what the AutoMerger was is told, and it is put back where the server switches it along', async () => {
    const setBalancer = { kind: 'setBalancer', as, maxTimeMillis: 9_000 } as const;
    const settings = (enabled: boolean): Document => ({ cursor: { firstBatch: [{ enabled }] } });
    for (const enabled of [true, false]) {
      const member = at({ find: settings(enabled) });
      expect(await member.run({ ...setBalancer, enabled: false })).toMatchObject({
        result: { wasEnabled: true, autoMergeWas: enabled },
      });
      expect(member.said('update')).toEqual([]);
    }
    const member = at({ find: settings(false) });
    await member.run({ ...setBalancer, enabled: true, autoMerge: false });
    expect(member.all.slice(-2)).toEqual([
      { db: 'admin', command: { balancerStart: 1 } },
      {
        db: 'config',
        command: {
          update: 'settings',
          updates: [{ q: { _id: 'automerge' }, u: { $set: { enabled: false } }, upsert: true }],
          writeConcern: { w: 'majority' },
        },
      },
    ]);
    for (const update of [
      { ok: 1, writeErrors: [{ code: 121, errmsg: 'Document failed validation' }] },
      { ok: 1, writeConcernError: { code: 64, errmsg: 'waiting for replication timed out' } },
    ])
      expect((await at({ update }).run({ ...setBalancer, enabled: true, autoMerge: false })).kind).not.toBe(
        'done',
      );
  });
});
