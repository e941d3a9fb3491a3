import { expect, test } from 'vitest';
import { makeRng } from '../base/rng.ts';
import { MINUTE } from '../base/units.ts';
import type { TaskReply } from '../maintenance/index.ts';
import { Authority } from './authority.ts';
import { PlayedFleet, playedSet, quiet } from './testing/played.ts';
import { fullDisk, HOSTS, member, SETTLED, stage, states, task } from './testing/stage.ts';

test('C1.6 tasks, locks and their order survive a restart of the authority', async () => {
  const { another, store } = stage();
  const first = await another();
  await first.create(task('t', ['h0', 'h1']), undefined);
  await first.create(task('u', ['h2'], { owner: 'bob' }), undefined);
  const before = [await first.get('t'), await first.get('u'), await first.list('')];
  await first.close();
  const second = await another();
  expect([await second.get('t'), await second.get('u'), await second.list('')]).toEqual(before);
  expect(states(await second.get('t'))).toEqual(['h0 PERFORMED', 'h1 PENDING']);
  const { items } = await store.list({ kind: 'MaintenanceTask' });
  expect(items.map((o) => [o.metadata.name, (o.status as { phase: string }).phase])).toEqual([
    ['t', 'Reconciling'],
    ['u', 'Pending'],
  ]);
});

test('C1.6 S13 two authorities on one store never both grant', async () => {
  const { another, clock } = stage();
  const [one, two] = [await another(), await another()];
  const replies = await Promise.all([
    one.create(task('t', ['h0']), undefined),
    two.create(task('u', ['h1']), undefined),
    one.create(task('v', ['h2']), undefined),
  ]);
  expect(replies.flatMap(states).filter((s) => s.endsWith('PERFORMED'))).toHaveLength(1);
  const wishes = await Promise.all([
    one.acquire(member('a-0')),
    two.acquire(member('a-1')),
    two.acquire(member('a-2')),
  ]);
  expect(wishes.filter((w) => w.kind === 'granted')).toEqual([]);
  await Promise.all(['t', 'u', 'v'].map((uid, i) => (i === 1 ? two : one).drop(uid)));
  await clock.advance(SETTLED);
  const again = await Promise.all([
    one.acquire(member('a-0')),
    two.acquire(member('a-1')),
    two.acquire(member('a-2')),
  ]);
  expect(again.filter((w) => w.kind === 'granted')).toHaveLength(1);
});

test('C1.6 the same identity given to two authorities at once makes one task', async () => {
  const { another } = stage();
  const [one, two] = [await another(), await another()];
  const replies = await Promise.all([
    one.create(task('t', ['h0']), undefined),
    two.create(task('t', ['h1']), undefined),
  ]);
  expect(replies.map((r) => r.status).sort()).toEqual(['BAD_REQUEST', 'SUCCESS']);
  expect(await one.list('')).toEqual(['t']);
});

test('C1.5 a task that is refused for good leaves nothing behind, and its identity is free', async () => {
  const { another, store } = stage();
  const authority = await another();
  const bad = await authority.create(task('t', ['nowhere']), undefined);
  expect([bad.status, bad.issues]).toEqual(['BAD_REQUEST', ['there is no host nowhere']]);
  expect((await store.list({ kind: 'MaintenanceTask' })).items).toEqual([]);
  expect((await authority.create(task('t', ['h0']), undefined)).status).toBe('SUCCESS');
});

test('C1.3 a deadline that passes frees its host by itself, and the pending rest stays', async () => {
  const { another, clock } = stage();
  const authority = await another();
  await authority.create(task('t', ['h0', 'h1']), undefined);
  await clock.advance(11 * MINUTE);
  expect(states(await authority.get('t'))).toEqual(['h1 PENDING']);
  expect(states(await authority.refresh('t'))).toEqual(['h1 PERFORMED']);
  await authority.complete((await authority.get('t')).groups.flat().map((a) => a.id ?? ''));
  expect(await authority.list('')).toEqual([]);
});

test('C5.3 what the fleet reports counts at once, up and down', async () => {
  const { another, source } = stage();
  const authority = await another();
  source.setNode('a', 'default/a-2', 'down');
  expect(states(await authority.create(task('t', ['h0']), undefined))).toEqual(['h0 PENDING']);
  source.setNode('a', 'default/a-2', 'up');
  expect(states(await authority.refresh('t'))).toEqual(['h0 PERFORMED']);
});

test('MNT-28 a database that comes and goes takes its members along; locks of others stay', async () => {
  const { another, source } = stage();
  const authority = await another();
  await authority.create(task('t', ['h0']), undefined);
  source.set('c', playedSet('c', HOSTS));
  expect(states(await authority.create(task('u', ['h1']), undefined))).toEqual(['h1 PENDING']);
  source.set('a', { nodes: [] });
  source.set('b', { nodes: [] });
  source.set('c', { nodes: [], hosts: HOSTS });
  expect(states(await authority.refresh('u'))).toEqual(['h1 PERFORMED']);
});

test('C1 a document that was applied is decided on; deleting it gives everything back', async () => {
  const { another, store, clock } = stage();
  const authority = await another();
  const spec = {
    mode: 'strong',
    priority: 0,
    reason: '',
    maxInFlight: 0,
    owner: 'carol',
    groups: [{ actions: [{ type: 'lock', scope: { host: 'h0' }, duration: '10m' }] }],
  };
  const key = { kind: 'MaintenanceTask', namespace: 'default', name: 'by-hand' };
  await store.create({ ...key, spec });
  await clock.advance(1);
  expect(states(await authority.get('by-hand'))).toEqual(['h0 PERFORMED']);
  expect(states(await authority.create(task('u', ['h1']), undefined))).toEqual(['h1 PENDING']);
  await store.update(key, { delete: true });
  await clock.advance(1);
  expect(states(await authority.refresh('u'))).toEqual(['h1 PERFORMED']);
  await store.create({
    ...key,
    name: 'hopeless',
    spec: { ...spec, groups: [{ actions: [{ type: 'lock', scope: { host: 'x' }, duration: '1m' }] }] },
  });
  await clock.advance(1);
  expect((await store.get({ ...key, name: 'hopeless' }))?.status).toMatchObject({
    phase: 'Failed',
    message: 'there is no host x',
  });
});

test('C1.5 S10 a task whose maker got no answer is refreshed, or dropped, before anybody has decided on it', async () => {
  const { another, store } = stage();
  const authority = await another();
  const document = async (name: string): Promise<void> => {
    const groups = [{ actions: [{ type: 'lock', scope: { host: 'h0' }, duration: '5m' }] }];
    const spec = { mode: 'strong', priority: 0, owner: 'eve', reason: '', maxInFlight: 0, groups };
    await store.create({ kind: 'MaintenanceTask', namespace: 'default', name, spec });
  };
  await document('lost');
  expect((await authority.create(task('lost', ['h1']), undefined)).issues[0]).toContain('already exists');
  expect((await authority.create(task('lost', ['h9']), undefined)).issues[0]).toContain('already exists');
  expect(states(await authority.refresh('lost'))).toEqual(['h0 PERFORMED']);
  await document('unwanted');
  expect((await authority.drop('unwanted')).status).toBe('SUCCESS');
  expect(await store.get({ kind: 'MaintenanceTask', namespace: 'default', name: 'unwanted' })).toBeNull();
  expect((await authority.drop('unwanted')).status).toBe('BAD_REQUEST');
});

test('C1.3 S14 the object of a task that has ended goes, also when its removal failed, and its identity is free', async () => {
  const { another, store, clock } = stage();
  let failing = true;
  const torn = new Proxy(store, {
    get: (target, name) => {
      const value = Reflect.get(target, name, target) as unknown;
      if (name === 'update' && failing) return () => Promise.reject(new Error('no answer'));
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
  const authority = await another(torn);
  await authority.create(task('t', ['h0']), undefined);
  expect((await authority.complete(['eve-p-1'])).status).toBe('SUCCESS');
  const key = { kind: 'MaintenanceTask', namespace: 'default', name: 't' };
  expect((await store.get(key))?.status).toMatchObject({ actions: [] });
  failing = false;
  await clock.advance(10_000);
  expect(await store.get(key)).toBeNull();
  // One that another control plane left behind is found at the next start.
  await authority.create(task('u', ['h1']), undefined);
  failing = true;
  await authority.drop('u');
  await authority.close();
  await another();
  await expect.poll(() => store.get({ ...key, name: 'u' })).toBeNull();
});

test('MNT-01 S16 force is recorded with who and why', async () => {
  const { another, store } = stage();
  const authority = await another();
  await authority.create(
    task('t', ['h0', 'h1'], { mode: 'force', description: 'fire in the rack' }),
    undefined,
  );
  const events = await store.events({ limit: 10 });
  expect(events.map((e) => [e.type, e.reason, e.message])).toEqual([
    ['Warning', 'MaintenanceForced', 'eve took host h0, host h1 in mode force (fire in the rack)'],
  ]);
});

test('S10 S13 a store that fails in the middle of a decision leaves the truth of the store', async () => {
  const { another, store } = stage();
  const disk = fullDisk(store);
  disk.full = true;
  const authority = await another(disk.store);
  await expect(authority.create(task('t', ['h0']), undefined)).rejects.toThrow('disk full');
  disk.full = false;
  expect(states(await authority.create(task('u', ['h1']), undefined))).not.toEqual([]);
  const granted = (await authority.hosts()).flatMap((h) => h.holders.map((x) => `${h.host} ${x.task}`));
  expect(new Set(granted.map((g) => g.split(' ')[1])).size).toBe(1);
});

test('C6.4 hosts show state, holder, deadline, who waits, and what to be careful about', async () => {
  const { another, source, clock } = stage();
  source.set('c', playedSet('c', ['h1', 'h1', 'h2']));
  const authority = await another();
  await authority.create(task('t', ['h0']), undefined);
  await authority.create(task('u', ['h0'], { owner: 'bob', priority: 3 }), undefined);
  source.setNode('a', 'default/a-0', 'down');
  const [h0, h1] = await authority.hosts();
  expect(h0).toMatchObject({
    host: 'h0',
    state: 'Maintenance',
    holders: [{ task: 't', owner: 'eve', until: 10 * MINUTE }],
    waiting: [{ task: 'u', owner: 'bob', priority: 3, stale: false }],
    warnings: [],
  });
  expect(h0?.nodes.map((n) => [n.node.name, n.state])).toEqual([
    ['a-0', 'Maintenance'],
    ['b-0', 'Up'],
  ]);
  expect(h1?.warnings).toEqual(['c-0 and c-1 of default/c are on one host and go down together']);
  const holder = { task: 't', owner: 'eve', until: 10 * MINUTE };
  expect(authority.holderOf('default/a-0')).toEqual(holder);
  expect(['h0', 'h1'].map((name) => authority.hostHolderOf(name))).toEqual([holder, null]);
  await authority.setDisabled(true);
  await clock.advance(25 * 60 * MINUTE);
  const [later] = await authority.hosts();
  expect(later?.warnings).toEqual([
    'task u of bob waits and was last asked for 1 d ago: it holds nobody back until it is refreshed',
  ]);
  expect(later?.waiting).toMatchObject([{ task: 'u', stale: true }]);
});

test('C3.1 C3.2 C6.4 a task whose owner has died lets the control plane go on by itself, for all authorities, and is told', async () => {
  const { another, clock, store } = stage();
  const [one, two] = [await another(), await another()];
  await one.create(task('other', ['h0'], { owner: 'bob' }), undefined);
  await one.create(task('dead', ['h1']), undefined);
  await one.drop('other');
  await clock.advance(MINUTE);
  const wish = member('a-2', { priority: 100 });
  expect(await two.acquire(wish)).toMatchObject({
    kind: 'refused',
    refusal: { reason: 'WouldLoseMajority' },
  });
  for (let i = 0; i < 15; i++) {
    await clock.advance(MINUTE);
    await two.acquire(wish);
  }
  expect(await two.acquire(wish)).toMatchObject({ kind: 'granted' });
  expect((await two.get('dead')).entry).toMatchObject({ stale: true });
  const events = await store.events({ limit: 100 });
  expect(events.map((e) => e.reason)).toContain('MaintenanceForgotten');
  await two.release(wish.id);
  await clock.advance(MINUTE);
  expect(states(await one.refresh('dead'))).toEqual(['h1 PERFORMED']);
});

test('C1.5 new work can be switched off for all authorities; completing and dropping still work', async () => {
  const { another } = stage();
  const [one, two] = [await another(), await another()];
  await one.create(task('t', ['h0']), undefined);
  await one.setDisabled(true);
  expect((await two.create(task('u', ['h1']), undefined)).status).toBe('UNAVAILABLE');
  expect((await two.refresh('t')).status).toBe('UNAVAILABLE');
  expect(await two.acquire(member('a-1'))).toMatchObject({
    kind: 'refused',
    refusal: { reason: 'Disabled' },
  });
  expect((await two.drop('t')).status).toBe('SUCCESS');
  await two.setDisabled(false);
  expect((await one.create(task('u', ['h1']), undefined)).status).toBe('SUCCESS');
});

test('C1.5 S10 a document that was deleted and made anew meanwhile is not decided on by what the old one said', async () => {
  const { another, store } = stage();
  const authority = await another();
  await authority.setDisabled(true);
  const key = { kind: 'MaintenanceTask', namespace: 'default', name: 'doc' };
  const of = (host: string) => {
    const groups = [{ actions: [{ type: 'lock', scope: { host }, duration: '5m' }] }];
    return { mode: 'strong', priority: 0, owner: 'eve', reason: '', maxInFlight: 0, groups };
  };
  const old = await store.create({ ...key, spec: of('h0') });
  await store.update(key, { delete: true });
  await store.create({ ...key, spec: of('h1') });
  await authority.setDisabled(false);
  expect(await authority.adopt(old)).toBeNull();
  expect(states(await authority.get('doc'))).toEqual(['h1 PERFORMED']);
});

test('C1.6 a switch of grants that could not be written is off for nobody, and can be tried again', async () => {
  const { another, store } = stage();
  const disk = fullDisk(store);
  const authority = await another(disk.store);
  disk.full = true;
  await expect(authority.setDisabled(true)).rejects.toThrow('disk full');
  disk.full = false;
  expect(await authority.switchState()).toEqual({ disabled: false, switched: undefined });
  expect(states(await authority.create(task('t', ['h0']), undefined))).toEqual(['h0 PERFORMED']);
  await authority.setDisabled(true, 'eve');
  expect((await (await another()).switchState()).disabled).toBe(true);
});

test('C1.3 S13 what is past its deadline is held by nobody, also while that cannot be written', async () => {
  const { another, store, clock } = stage();
  const disk = fullDisk(store);
  const authority = await another(disk.store);
  await authority.create(task('t', ['h0']), undefined);
  const holders = () =>
    [authority.holderOf('default/a-0'), authority.hostHolderOf('h0')].map((h) => h?.task ?? null);
  disk.full = true;
  await clock.advance(10 * MINUTE - 1);
  expect([holders(), authority.heldHosts().size]).toEqual([['t', 't'], 1]);
  await clock.advance(1);
  expect([holders(), authority.heldHosts().size]).toEqual([[null, null], 0]);
});

test('C1.5 a document that comes while grants are switched off is not refused for good: it is decided on when they are on again', async () => {
  const { another, store, clock } = stage();
  const [one, two] = [await another(), await another()];
  await one.setDisabled(true);
  const groups = [{ actions: [{ type: 'lock', scope: { host: 'h0' }, duration: '5m' }] }];
  const spec = { mode: 'strong', priority: 0, owner: 'eve', reason: '', maxInFlight: 0, groups };
  const key = { kind: 'MaintenanceTask', namespace: 'default', name: 'early' };
  await store.create({ ...key, spec });
  await clock.advance(MINUTE);
  expect((await store.get(key))?.status).toBeNull();
  expect(await two.get('early')).toMatchObject({ status: 'UNAVAILABLE', entry: null });
  await one.setDisabled(false);
  await clock.advance(MINUTE);
  expect((await store.get(key))?.status).toMatchObject({ phase: 'Ready' });
});

test('C1.6 S13 three authorities on one store, asked at random at the same time, never exceed the mode together', async () => {
  const { another, store, clock } = stage();
  const authorities = [await another(), await another(), await another()];
  const rng = makeRng(7);
  const held = async (): Promise<ReadonlyMap<string, readonly string[]>> => {
    const fresh = new Authority({
      store,
      clock,
      log: quiet,
      source: new PlayedFleet({ a: playedSet('a', HOSTS), b: playedSet('b', HOSTS) }),
    });
    await fresh.open();
    const nodes = await fresh.nodes();
    await fresh.close();
    return new Map(
      nodes.filter((n) => n.holders.length > 0).map((n) => [n.node.key, n.holders.map((h) => h.permission)]),
    );
  };
  let granted = 0;
  for (let round = 0; round < 40; round++) {
    const told = await Promise.all(
      Array.from({ length: 5 }, async (_, i): Promise<readonly string[]> => {
        const authority = rng.pick(authorities);
        const what = rng.below(6);
        if (what < 2)
          return performed(
            await authority.create(task(`t${round}-${i}`, [rng.pick(HOSTS), rng.pick(HOSTS)]), undefined),
          );
        if (what === 2)
          return asked(await authority.acquire(member(`${rng.pick(['a', 'b'])}-${rng.below(3)}`)));
        const uids = await authority.list('');
        if (uids.length === 0) return [];
        const uid = rng.pick(uids);
        if (what === 3) return performed(await authority.refresh(uid));
        await (what === 4
          ? authority.drop(uid)
          : authority.release(`cluster/${rng.pick(['a', 'b'])}-${rng.below(3)}`));
        return [];
      }),
    );
    granted += told.flat().length;
    const locked = [...(await held()).keys()];
    for (const set of ['default/a-', 'default/b-'])
      expect(locked.filter((key) => key.startsWith(set)).length).toBeLessThan(2);
    await clock.advance(rng.below(3) * MINUTE);
  }
  expect(granted).toBeGreaterThan(10);
});

const performed = (reply: TaskReply): readonly string[] =>
  states(reply).filter((s) => s.endsWith('PERFORMED'));
const asked = (admission: { readonly kind: string }): readonly string[] =>
  admission.kind === 'granted' ? ['granted'] : [];

test('C1.5 S10 a task without an identity is given one, a dry run leaves nothing, and a second of that identity says so', async () => {
  const { another, store } = stage();
  const authority = await another();
  const dry = await authority.create(task('t', ['h0'], { dryRun: true }), undefined);
  expect([dry.status, states(dry)]).toEqual(['SUCCESS', ['h0 PERFORMED']]);
  expect([await authority.list(''), (await store.list({ kind: 'MaintenanceTask' })).items]).toEqual([[], []]);
  await authority.create(task('', ['h0']), undefined);
  const [uid = ''] = await authority.list('');
  expect(uid).toMatch(/^m-[0-9a-f]{8}$/);
  expect(states(await authority.get(uid))).toEqual(['h0 PERFORMED']);
  expect(await authority.create(task(uid, ['h1']), undefined)).toMatchObject({
    status: 'BAD_REQUEST',
    issues: [`Maintenance task already exists: ${uid}`],
    groups: [],
    entry: null,
  });
  // What is no name of an object gets one, and is found by its own words.
  await authority.create(task('Fix the Rack!', ['h1']), undefined);
  const names = (await store.list({ kind: 'MaintenanceTask' })).items.map((o) => o.metadata.name);
  expect(names.filter((name) => name !== uid)).toEqual([expect.stringMatching(/^task-[0-9a-f-]{36}$/)]);
  expect(states(await authority.get('Fix the Rack!'))).toEqual(['h1 PENDING']);
});

test('C1.6 the order in which tasks were made survives, whatever they are called and however the store pages them', async () => {
  const { another, store, clock } = stage();
  const paged = new Proxy(store, {
    get: (target, name) => {
      if (name === 'list') return (query: object) => target.list({ ...query, limit: 1 } as never);
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
  const first = await another();
  // Two of the same moment, and one that is later though its name comes first.
  await first.create(task('z', ['h0']), undefined);
  await first.create(task('y', ['h1']), undefined);
  await clock.advance(1);
  await first.create(task('a', ['h2']), undefined);
  const told = await first.list('');
  expect(told).toEqual(['z', 'y', 'a']);
  await first.close();
  const second = await another(paged);
  expect(await second.list('')).toEqual(told);
  const key = { kind: 'MaintenanceTask', namespace: 'default', name: 'y' };
  expect((await second.drop('y')).status).toBe('SUCCESS');
  expect(await store.get(key)).toBeNull();
});

test('C1.5 S10 a document nobody has decided on is found by the identity it names, and one that was refused says why for this generation', async () => {
  const { another, store, clock } = stage();
  const authority = await another();
  const groups = (host: string) => [{ actions: [{ type: 'lock', scope: { host }, duration: '5m' }] }];
  const spec = { mode: 'strong', priority: 0, owner: 'eve', reason: '', maxInFlight: 0 };
  const key = { kind: 'MaintenanceTask', namespace: 'default' };
  await store.create({ ...key, name: 'other', spec: { ...spec, uid: 'not this', groups: groups('h1') } });
  await store.create({ ...key, name: 'doc', spec: { ...spec, uid: 'mine', groups: groups('h0') } });
  expect(states(await authority.refresh('mine'))).toEqual([expect.stringMatching(/^h0 /)]);
  expect((await authority.get('doc')).status).toBe('BAD_REQUEST');
  await store.create({ ...key, name: 'hopeless', spec: { ...spec, groups: groups('x') } });
  await clock.advance(1);
  expect((await store.get({ ...key, name: 'hopeless' }))?.status).toEqual({
    observedGeneration: 1,
    phase: 'Failed',
    message: 'there is no host x',
    conditions: [],
    warnings: [],
    actions: [],
  });
  // It stays, and says so after a restart too.
  await authority.close();
  await another();
  await clock.advance(MINUTE);
  expect((await store.get({ ...key, name: 'hopeless' }))?.status).toMatchObject({ phase: 'Failed' });
});
