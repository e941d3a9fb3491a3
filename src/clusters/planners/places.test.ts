/** Where new members go, and whose the services are that lie there already. */
import { expect, test } from 'vitest';
import type { OwnerMarker, ServiceFacts } from '../facts.ts';
import { desired, host, markerOf, observed, serviceOf } from '../fixtures.ts';
import { guard } from '../guard.ts';
import { advance } from '../learn.ts';
import { plan } from '../plan.ts';
import { preview } from '../preview.ts';
import { initialState, memberOf, withMember } from '../state.ts';
import { applyOutcome, startStep } from '../steps.ts';
import type { Desired, Observed, ObservedHost, State } from '../types.ts';

const want = desired({}, 2);
const state = { ...initialState(want), credentialsReady: true };
const decided = (change: Partial<Observed>, spec: Desired = want) => {
  const record = { ...initialState(spec), credentialsReady: true };
  return plan(observed({ services: [], ...change }), spec, record, 0);
};

const marker = (change: Partial<OwnerMarker> = {}): OwnerMarker => ({
  ...markerOf(state.uid, 'orders-0'),
  ...change,
});
const service = (change: Partial<ServiceFacts> = {}): ServiceFacts => serviceOf(marker(), change);

/** A record whose imports were begun at these places, and of which the platform knows nothing any more. */
function forgotten(spec: Desired, places: Readonly<Record<string, string>>): State {
  const begun = Object.entries(places).reduce(
    (record, [member, name]) => {
      const placement = { host: name, address: name, port: 27017, portFixed: false };
      return startStep(record, { kind: 'import', member, placement }, `i-${member}`, 0);
    },
    { ...initialState(spec), credentialsReady: true } as State,
  );
  const operations = Object.fromEntries(begun.pending.map((p) => [p.stepId, { kind: 'unknown' as const }]));
  return advance(begun, spec, observed({ operations }), 1000);
}

test('A4.6 A3.4 S10 what a forgotten import made on another host than the one chosen is found there, with its address and port; nothing is made twice', () => {
  const record = forgotten(want, { 'orders-0': 'db1', 'orders-1': 'db2' });
  expect(record.pending).toEqual([]);
  const volume = service({ id: 'v-1', kind: 'volume', host: 'db3', port: null });
  const reading = observed({ services: [volume, service({ host: 'db3', port: 27020 })] });
  const step = plan(reading, want, record, 1000).act?.steps[0];
  const placement = { host: 'db3', address: 'db3', port: 27020, portFixed: true };
  expect(step).toEqual({ kind: 'adopt', member: 'orders-0', serviceId: 's-1', volumeId: 'v-1', placement });
  if (step === undefined) throw new Error('it is taken over');
  expect(guard(step, reading, want, record, 1000)).toBeNull();
  // Where it was before, as after a suspension, is not where it was found.
  const moved = withMember(record, 'orders-0', { host: 'db1' });
  expect(plan(reading, want, moved, 1000).act?.steps[0]).toEqual(step);
  const known = applyOutcome(
    startStep(record, step, 'a', 1000),
    step,
    'a',
    { kind: 'done', result: {} },
    1000,
  );
  expect(memberOf(known, 'orders-0')).toMatchObject({
    stage: 'imported',
    host: 'db3',
    address: 'db3',
    port: 27020,
    serviceId: 's-1',
    volumeId: 'v-1',
  });
  const next = plan(reading, want, advance(known, want, reading, 2000), 2000).act?.steps ?? [];
  expect(next.filter((s) => s.kind === 'import')).toMatchObject([{ member: 'orders-1' }]);
});

test('A4.3 A4.5 S4 a service of ours is taken over for the member its marker names, and for no other', () => {
  const ours = decided({ services: [service(), service({ id: 'v-1', kind: 'volume', port: null })] });
  expect(ours.act?.steps).toMatchObject([
    { kind: 'adopt', member: 'orders-0', serviceId: 's-1', volumeId: 'v-1' },
  ]);
  for (const owner of [marker({ member: 'orders-1' }), marker({ clusterUid: 'another' }), null]) {
    const told = decided({ services: [service({ owner })] });
    expect([told.act, told.blocks.map((b) => b.by)], JSON.stringify(owner)).toEqual([
      null,
      ['OwnershipConflict'],
    ]);
  }
});

const placesOn = (hosts: readonly ObservedHost[], spec: Desired): readonly string[] =>
  (decided({ hosts }, spec).act?.steps ?? []).flatMap((step) =>
    step.kind === 'import' ? [`${step.placement.host}:${step.placement.port}`] : [],
  );

test('A15.1 members of a set go to hosts of their own, to the emptiest first, and by name where all else is equal', () => {
  const loaded = [host('db1', { memberCount: 5 }), host('db2', { memberCount: 1 }), host('db3')];
  expect(placesOn(loaded, desired({}, 1))).toEqual(['db3:27017']);
  expect(placesOn(loaded, desired({}, 2))).toEqual(['db3:27017', 'db2:27017']);
  expect(placesOn(loaded, desired({}, 3))).toEqual(['db3:27017', 'db2:27017', 'db1:27017']);
  expect(placesOn([host('b'), host('a')], desired({}, 1))).toEqual(['a:27017']);
});

test('A10.1 several members on one host get ports of their own, from the host’s first or the spec’s on', () => {
  const one = [host('db1', { firstPort: 30_000 })];
  expect(placesOn(one, desired({}, 3))).toEqual(['db1:30000', 'db1:30001', 'db1:30002']);
  expect(placesOn(one, desired({ port: 28_000 }, 3))).toEqual(['db1:28000', 'db1:28001', 'db1:28002']);
  const taken = [host('db1', { portsTaken: [{ port: 27_018, by: 'default/other-0' }] })];
  expect(placesOn(taken, desired({}, 2))).toEqual(['db1:27017', 'db1:27019']);
});

test('A13.7 a host that takes no members, or that the spec does not name, gets none', () => {
  const hosts = [host('db1', { schedulable: false }), host('db2'), host('db3')];
  expect(placesOn(hosts, desired({}, 1))).toEqual(['db2:27017']);
  expect(placesOn(hosts, desired({ hosts: ['db1', 'db3'] }, 1))).toEqual(['db3:27017']);
  expect(decided({ hosts }, desired({ hosts: ['db1'] }, 1)).act).toBeNull();
});

test('C3.2 A15.1 L3 a host that a person works on gets no new member: another as good is taken, and without one it is waited for', () => {
  const maintenance = { task: 'disks', owner: 'eve', until: Date.UTC(2026, 10, 30, 12) };
  const hosts = [host('db1', { maintenance }), host('db2'), host('db3')];
  expect(placesOn(hosts, desired({}, 2))).toEqual(['db2:27017', 'db3:27017']);
  // Two of a set on one host would stay there after the task.
  const waits = (of: readonly ObservedHost[], spec: Desired) => {
    const { act, waits, blocks } = decided({ hosts: of }, spec);
    expect([act, blocks]).toEqual([null, []]);
    return waits
      .filter(({ on }) => on === 'MaintenanceGrant')
      .map(({ member, detail }) => `${member}: ${detail}`);
  };
  expect(waits(hosts, desired({}, 3))).toEqual([
    'orders-2: orders-2 is placed when host db1 is free again: task disks of eve until 2026-11-30T12:00:00Z',
  ]);
  const open = [host('db1', { maintenance: { ...maintenance, until: null } }), host('db2')];
  expect(waits(open, desired({ hosts: ['db1'] }, 1))).toEqual([
    'orders-0: orders-0 is placed when host db1 is free again: task disks of eve',
  ]);
  const pinned = desired({ hosts: ['db1'] }, 1);
  const seen = preview(observed({ hosts: open }), pinned, initialState(pinned), 0);
  expect(seen.waits.map((w) => w.on)).toContain('MaintenanceGrant');
  expect([seen.steps.map((s) => s.verb), seen.converges]).toEqual([['ensureCredentials'], false]);
});

test('A4.8 A14.2 a port that somebody took while nothing ran there is chosen anew, unless a set knows its member by it', () => {
  const taken = {
    action: 'import',
    member: 'orders-1',
    failures: 1,
    code: 'PortTaken',
    message: '',
    nextTryAt: 0,
  };
  const before: State = {
    ...state,
    members: state.members.map((m, i) => ({ ...m, host: `db${i + 1}`, address: `db${i + 1}`, port: 27018 })),
    retries: [taken],
  };
  const placesIn = (record: State, spec: Desired = want) =>
    plan(observed({ services: [] }), spec, record, 1000).act?.steps.flatMap((step) =>
      step.kind === 'import' ? [`${step.placement.host}:${step.placement.port}`] : [],
    );
  expect(placesIn({ ...before, retries: [] })).toEqual(['db1:27018', 'db2:27018']);
  expect(placesIn(before)).toEqual(['db1:27018', 'db2:27017']);
  expect(placesIn(before, { ...want, port: 27018 })).toEqual(['db1:27018', 'db2:27018']);
  const known = before.replicaSets.map((r) => ({ ...r, stage: 'ready' as const }));
  expect(placesIn({ ...before, replicaSets: known })).toEqual(['db1:27018', 'db2:27018']);
});

test('A4.3 no port above the last one is given: the block says which host has none left, and what to do', () => {
  const hosts = [host('db1', { address: 'localhost' })];
  const last = decided({ hosts }, desired({ port: 65_534 }, 2));
  const placements = (last.act?.steps ?? []).flatMap((s) => (s.kind === 'import' ? [s.placement.port] : []));
  expect(placements).toEqual([65_534, 65_535]);
  const beyond = decided({ hosts }, desired({ port: 65_535 }, 2)).blocks;
  expect(beyond).toMatchObject(
    [{ by: 'PortTaken', detail: 'no port from 65535 to 65535 is left on host db1', fix: /lower/ }].map(
      (block) => ({ ...block, fix: expect.stringMatching(block.fix) }),
    ),
  );
  const first = hosts.map((h) => ({ ...h, firstPort: 65_535 }));
  const { blocks } = decided({ hosts: first }, desired({ port: null }, 2));
  expect(blocks).toMatchObject([
    { by: 'PortTaken', fix: expect.stringContaining('spec.firstPort of host db1') },
  ]);
});

test('C6.4 A14.3 a host that somebody works on is waited for also while its agent is away', () => {
  const held = { task: 'reboot', owner: 'eve', until: null };
  const away = [host('db1'), host('db2', { connected: false, maintenance: held })];
  const { act, waits } = decided({ hosts: away });
  expect(act).toBeNull();
  expect(waits[0]).toMatchObject({
    on: 'MaintenanceGrant',
    member: 'orders-1',
    detail: expect.stringContaining('db2'),
  });
});

test('A4.3 L3 a host that takes no new members is named as what stands in the way; one that nobody knows is not', () => {
  const closed = [host('db1', { schedulable: false })];
  const { blocks } = decided({ hosts: closed });
  expect(blocks).toMatchObject([
    {
      by: 'NoHosts',
      detail: 'new members are not to be placed on db1',
      fix: expect.stringContaining('set spec.unschedulable of db1 to false'),
    },
  ]);
  const elsewhere = decided({ hosts: closed }, desired({ hosts: ['db9'] }, 2)).blocks;
  expect(elsewhere).toMatchObject([{ by: 'NoHosts', detail: 'no host fits spec.placement (db9)' }]);
});

test('A4.6 S4 a member of whose forgotten import only the volume is left is made where that lies', () => {
  const record = forgotten(want, { 'orders-0': 'db3', 'orders-1': 'db2' });
  const volume = service({ id: 'v-1', kind: 'volume', host: 'db3', port: null });
  const places = (services: readonly ServiceFacts[]): readonly string[] =>
    (plan(observed({ services }), want, record, 1000).act?.steps ?? []).flatMap((s) =>
      s.kind === 'import' ? [`${s.member} ${s.placement.host}`] : [],
    );
  expect(places([])).toEqual(['orders-0 db1', 'orders-1 db2']);
  expect(places([volume])).toContain('orders-0 db3');
  // One with another's marker is not taken for it.
  const other = { ...volume, owner: markerOf(state.uid, 'orders-7'), hostname: 'orders-7' };
  expect(places([other])).toEqual(['orders-0 db1', 'orders-1 db2']);
});
