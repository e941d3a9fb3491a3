/** What the control plane itself wants, holds and gives back. */
import { expect, test } from 'vitest';
import { MINUTE } from '../base/units.ts';
import { playedSet } from './testing/played.ts';
import { fullDisk, member, SETTLED, stage, states, task } from './testing/stage.ts';

test('C3.2 S2 the engine waits for a person with that reason, and a person for the engine', async () => {
  const { another, clock } = stage();
  const authority = await another();
  await authority.create(task('t', ['h0']), undefined);
  const refused = await authority.acquire(member('a-1'));
  expect(refused).toMatchObject({ kind: 'refused', refusal: { reason: 'WouldLoseMajority' } });
  expect(refused.kind === 'refused' && refused.refusal.message).toContain('task t (owner eve)');
  await authority.drop('t');
  await clock.advance(SETTLED);
  expect((await authority.acquire(member('a-1'))).kind).toBe('granted');
  const reply = await authority.create(task('u', ['h0']), undefined);
  expect(reply.groups[0]?.[0]?.details).toContain('locked by belay-p-');
  expect(reply.groups[0]?.[0]?.details).toContain('task MongoDB default/a: restart (owner belay)');
  await authority.release('cluster/a-1');
  expect(states(await authority.refresh('u'))).toEqual(['h0 PERFORMED']);
});

test('C6.1 S13 what was handed over is granted at once, once the control plane holds nothing there any more', async () => {
  const { another, source } = stage();
  const [mine, other] = [await another(), await another()];
  source.setRole('a', 'default/a-0', 'PRIMARY');
  let told = 0;
  other.onChange(() => told++);
  const reply = await mine.create(task('t', ['h0'], { stepDown: true }), undefined);
  expect(reply.groups[0]?.[0]?.reason).toBe('PrimaryStepsDown');
  // The other control plane, whose cluster it is, hears of it and hands over.
  await expect.poll(() => other.handOvers().map(({ node }) => node)).toEqual(['default/a-0']);
  expect((await other.acquire(member('a-0'))).kind).toBe('granted');
  source.setRole('a', 'default/a-0', 'SECONDARY');
  expect(states(await mine.refresh('t'))).toEqual(['h0 PENDING']);
  expect((await mine.get('t')).groups[0]?.[0]?.reason).toBe('PrimaryStepsDown');
  await other.release('cluster/a-0');
  await expect.poll(async () => states(await mine.get('t'))).toEqual(['h0 PERFORMED']);
  expect(other.handOvers()).toEqual([]);
});

test('C3.2 a wish of the engine that nobody repeats is given up and holds nobody back', async () => {
  const { another, clock } = stage();
  const authority = await another();
  await authority.create(task('t', ['h0']), undefined);
  await authority.acquire(member('a-1', { priority: -10 }));
  await authority.drop('t');
  expect(states(await authority.create(task('u', ['h1']), undefined))).toEqual(['h1 PENDING']);
  await clock.advance(3 * MINUTE);
  expect(states(await authority.refresh('u'))).toEqual(['h1 PERFORMED']);
});

test('S13 S2 what the engine holds is kept until its deadline, when a wish beside it is given up', async () => {
  const { another, clock } = stage();
  const authority = await another();
  expect((await authority.acquire(member('a-0', { duration: 20 * MINUTE }))).kind).toBe('granted');
  expect((await authority.acquire(member('a-1'))).kind).toBe('refused');
  await clock.advance(3 * MINUTE);
  expect(authority.holds('cluster/')).toEqual(['cluster/a-0']);
  expect((await authority.mayTake(member('a-1'))).kind).toBe('refused');
});

test('L2 a wish that waits writes next to nothing while it is repeated', async () => {
  const { another, store, clock } = stage();
  const authority = await another();
  await authority.create(task('t', ['h0']), undefined);
  await authority.acquire(member('a-1'));
  const writes = store.writes;
  for (let i = 0; i < 15; i++) {
    await clock.advance(1_000);
    await authority.acquire(member('a-1'));
  }
  expect(store.writes).toBe(writes);
});

test('S14 S13 a hold that was given back in vain is still known, so that it is given back again', async () => {
  const { another, store, source } = stage();
  source.set('c', playedSet('c', ['h1', 'h2', 'h3']));
  const disk = fullDisk(store);
  const authority = await another(disk.store);
  const ask = {
    id: 'c/m',
    node: 'default/c-0',
    holder: 'c',
    why: 'restarts',
    priority: 100,
    mode: 'strong',
  } as const;
  expect((await authority.acquire({ ...ask, duration: MINUTE })).kind).toBe('granted');
  expect(authority.holds('c/')).toEqual(['c/m']);
  disk.full = true;
  await expect(authority.release('c/m')).rejects.toThrow('disk full');
  expect(authority.holds('c/')).toEqual(['c/m']);
  disk.full = false;
  await authority.release('c/m');
  expect(authority.holds('c/')).toEqual([]);
});

test('C6.4 the control plane’s own waiting work is named by what it does', async () => {
  const { another } = stage();
  const authority = await another();
  await authority.create(task('t', ['h0']), undefined);
  await authority.acquire(member('a-1'));
  const h1 = (await authority.hosts()).find(({ host: name }) => name === 'h1');
  expect(h1?.waiting).toMatchObject([{ task: 'MongoDB default/a: restart', owner: 'belay' }]);
});

test('C3.2 C1.5 what the engine holds or waits for is no task of anybody, and holds no name of a person', async () => {
  const { another, clock } = stage();
  const authority = await another();
  expect((await authority.acquire(member('a-0'))).kind).toBe('granted');
  expect((await authority.acquire(member('a-1'))).kind).toBe('refused');
  expect((await authority.acquire(member('b-1', { id: 'other/b-1' }))).kind).toBe('granted');
  await authority.create(task('t', ['h2'], { mode: 'force' }), undefined);
  expect(await authority.list('')).toEqual(['t']);
  expect([...authority.holds('cluster/')].sort()).toEqual(['cluster/a-0', 'cluster/a-1']);
  expect(authority.holds('other/')).toEqual(['other/b-1']);
  expect(['default/a-0', 'default/nobody'].map((key) => authority.holderOf(key))).toEqual([null, null]);
  const held = { task: 't', owner: 'eve', until: clock.now() + 10 * MINUTE };
  expect(authority.holderOf('default/a-2')).toEqual(held);
  // Only asked: nothing is held or remembered.
  expect((await authority.mayTake(member('b-2'))).kind).toBe('refused');
  expect(authority.holds('cluster/b')).toEqual([]);
  await authority.release('cluster/a-0');
  expect(authority.holds('cluster/')).toEqual(['cluster/a-1']);
});

test('C3.1 C3.2 a wish of another urgency or mode for the same member is another wish at once, and the old one is gone', async () => {
  const { another, clock } = stage();
  const authority = await another();
  await authority.create(task('t', ['h0']), undefined);
  const rows = async () => {
    const views = await authority.hosts();
    return views.flatMap((h) => h.waiting.map((w) => `${h.host} ${w.task} ${w.priority}`));
  };
  await authority.acquire(member('a-1', { priority: 5 }));
  expect(await rows()).toEqual(['h1 MongoDB default/a: restart 5']);
  await authority.acquire(member('a-1', { priority: -5 }));
  expect(await rows()).toEqual(['h1 MongoDB default/a: restart -5']);
  await authority.acquire(member('a-2', { id: 'cluster/a-1', priority: -5 }));
  expect(await rows()).toEqual(['h2 MongoDB default/a: restart -5']);
  // A mode that asks for less is judged as such, not as the wish was before.
  const weak = member('b-2', { id: 'cluster/b', mode: 'weak', priority: -5 });
  expect((await authority.acquire({ ...weak, mode: 'strong' })).kind).toBe('refused');
  await authority.drop('t');
  await clock.advance(SETTLED);
  expect((await authority.acquire(weak)).kind).toBe('granted');
});
