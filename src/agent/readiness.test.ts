import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { revealSnapshot } from '../channel/index.ts';
import { snapshot } from '../channel/testing/facts.ts';
import type { MemberStateName } from '../clusters/facts.ts';
import { freePort } from '../engine/testing/freePort.ts';
import { layoutOf } from './layout.ts';
import { checkMember, judgeLiveness, judgeReadiness, main } from './readiness.ts';
import { ownerOf } from './testing/bench.ts';
import { type Scratch, scratch } from './testing/scratch.ts';

let box: Scratch;
beforeEach(() => {
  box = scratch();
});
afterEach(() => box.remove());

test('A4.8 ROL-05 ready are primaries, secondaries and arbiters, and whoever has no set to belong to yet', () => {
  const ready = (state: MemberStateName | null) => judgeReadiness(state, true).ok;
  expect(['PRIMARY', 'SECONDARY', 'ARBITER'].map((state) => ready(state as MemberStateName))).toEqual([
    true,
    true,
    true,
  ]);
  for (const state of [
    'STARTUP',
    'STARTUP2',
    'RECOVERING',
    'ROLLBACK',
    'REMOVED',
    'DOWN',
    'UNKNOWN',
  ] as const) {
    expect(ready(state)).toBe(false);
  }
  expect(ready(null)).toBe(false);
  expect(judgeReadiness('STARTUP', false).ok).toBe(true);
});

test('ROL-05 a process is alive while it syncs, recovers or rolls back, however long, and while it may still be starting', () => {
  const live = (state: MemberStateName | null, uptimeSeconds: number, oplogGb = 0, syncing = false) =>
    judgeLiveness({ state, uptimeSeconds, oplogGb, syncing }).ok;
  expect(live('STARTUP2', 30)).toBe(true);
  expect(live('STARTUP2', 31)).toBe(false);
  expect(live('STARTUP', 150, 2)).toBe(true);
  expect(live('STARTUP', 151, 2)).toBe(false);
  expect(live('STARTUP2', 1e6, 0, true)).toBe(true);
  for (const state of ['PRIMARY', 'SECONDARY', 'ARBITER', 'RECOVERING', 'ROLLBACK'] as const) {
    expect(live(state, 1e6)).toBe(true);
  }
  for (const state of ['UNKNOWN', 'DOWN', 'REMOVED', null] as const) expect(live(state, 0)).toBe(false);
});

async function service(replicaSetId: string | null): Promise<string> {
  const layout = layoutOf(box.path);
  const paths = layout.service('s1');
  mkdirSync(paths.folder, { recursive: true });
  mkdirSync(layout.volume('v1').folder, { recursive: true });
  const owner = ownerOf('orders-0');
  writeFileSync(paths.record, JSON.stringify({ id: 's1', owner, volumeId: 'v1' }));
  writeFileSync(layout.volume('v1').owner, JSON.stringify({ id: 'v1', owner, createdAt: 0, replicaSetId }));
  return paths.folder;
}

test('without a snapshot there is nothing to wait for; a member that does not answer counts only once its set exists', async () => {
  const folder = await service(null);
  expect(await checkMember(folder, false)).toEqual({ ok: true, reason: 'no snapshot yet' });
  const given = snapshot('x', { port: await freePort(), tlsMode: 'disabled' });
  writeFileSync(join(folder, 'snapshot.json'), JSON.stringify(revealSnapshot(given)));
  expect(await checkMember(folder, false)).toEqual({ ok: true, reason: 'not initiated yet' });
  await service('0123456789abcdef01234567');
  expect((await checkMember(folder, false)).ok).toBe(false);
  expect((await checkMember(folder, true)).ok).toBe(false);
  expect(await main(['--member', 'orders-0', '--data', box.path])).toBe(1);
  expect(await main(['--member', 'nobody', '--data', box.path])).toBe(1);
  writeFileSync(join(folder, 'snapshot.json'), JSON.stringify(revealSnapshot({ ...given, run: 'stopped' })));
  expect(await main([folder])).toBe(0);
});
