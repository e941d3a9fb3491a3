/**
 * Checkers at moments that no planted bug shows apart (docs/mutants.md): each looks at a small world in which its own
 * invariant is broken in one way only, and at the same one as it ought to be.
 */
import { expect, test } from 'vitest';
import { MINUTE, type Millis, SECOND } from '../base/units.ts';
import type { HostOperation, StoredObject } from '../engine/ports.ts';
import { memoryDisk } from '../store/memory-tables.ts';
import type { Deed } from './agent.ts';
import { CHECKERS } from './checkers/index.ts';
import type { ControlPlane } from './controlPlane.ts';
import type { Machine } from './machine.ts';
import type { Mongod } from './mongod.ts';
import { CANARY } from './secrets.ts';
import type { Stage } from './stage.ts';
import type { Watcher } from './world.ts';

type Loose = Readonly<Record<string, unknown>>;
type Provider = Parameters<NonNullable<Watcher['born']>>[1];

/** A world of one machine a member, which its checkers take for the true one. */
class Small {
  now: Millis = 0;
  readonly broken: string[] = [];
  readonly disk = memoryDisk();
  readonly machines = new Map<string, Machine>();
  readonly listening = new Map<string, Mongod>();
  readonly storm = {
    hands: [] as Loose[],
    meddled: new Set(),
    votesChangedAt: Number.NEGATIVE_INFINITY,
  };

  watcher(id: string): Watcher {
    const make = CHECKERS[id];
    if (make === undefined) throw new Error(`no checker ${id}`);
    const fail = (invariant: string): void => void this.broken.push(invariant);
    const timeline = Object.defineProperty({}, 'now', { get: () => this.now });
    const { disk, machines, listening, storm } = this;
    const world = { narrator: { fail }, timeline, machines, listening, looked: null };
    const calm = { rates: {}, faults: [] };
    return make({
      world: { ...world, installation: { disk }, planes: [{ alive: true }] },
      scenario: calm,
      people: { wishes: [] },
      storm,
      clients: new Map(),
      troubled: new Map(),
      downAsked: new Map(),
    } as unknown as Stage);
  }

  object(kind: string, name: string, spec: Loose, status: Loose | null = null, more: Loose = {}): void {
    const metadata = { uid: `uid-${name}`, name, generation: 1, deletionTimestamp: null, ...more };
    this.disk.objects.set(`${kind}/${name}`, { kind, metadata, spec, status } as unknown as StoredObject);
  }

  /** A cluster of one config server, shards of one and one router, or a replica set; other fields as given. */
  cluster(name: string, spec: Loose = {}): void {
    const counts = { shardCount: 1, configServerCount: 1, mongodsPerShardCount: 1, mongosCount: 1 };
    const maintenance = { interruption: 'Forbidden' };
    const plain = { type: 'ShardedCluster', ...counts, suspend: false, paused: false, maintenance };
    this.object('MongoDB', name, { ...plain, ...spec });
  }

  /** A member of a cluster on a machine of its own; `process`: what runs there, null: nothing does. */
  member(cluster: string, name: string, process: Loose | null, more: Loose = {}): Machine {
    const owner = { clusterUid: `uid-${cluster}`, member: name, installation: 'world', hostname: name };
    const [id, volumeId] = [`s-${name}`, `v-${name}`];
    const record = { id, owner, hostname: name, address: name, port: 1, volumeId, version: '8.0.1', ...more };
    const machine = {
      name: `host-${name}`,
      disk: { services: new Map([[id, record]]), volumes: new Map(), snapshots: new Map() },
      runs: new Map(process === null ? [] : [[id, { process }]]),
    } as unknown as Machine;
    this.machines.set(machine.name, machine);
    if (process !== null) this.listening.set(`${name}:1`, process as unknown as Mongod);
    return machine;
  }
}

/** The only member of its set, which is its primary; `also`: more rows of its configuration. */
function mongod(name: string, data: Loose = {}, more: Loose = {}, also: readonly string[] = []): Loose {
  const host = `${name}:1`;
  const members = [name, ...also].map((n) => ({ host: `${n}:1`, votes: 1, priority: 1 }));
  const config = { version: 1, term: 1, members, settings: {} };
  const users = new Map([['admin.clusterMonitor', { name: 'admin.clusterMonitor', password: 'old' }]]);
  return {
    kind: 'mongod',
    phase: 'listening',
    state: 'PRIMARY',
    writable: true,
    host,
    options: { keyFile: 'k', tlsMode: 'requireTLS', version: '8.0.1' },
    machine: { config, term: 1, applied: { op: null } },
    data: { users, shards: new Map(), config, log: [], fcv: '8.0', ...data },
    moving: null,
    ...more,
  };
}
const router = (name: string, options: Loose = {}): Loose => ({
  kind: 'router',
  phase: 'listening',
  host: `${name}:1`,
  options: { keyFile: 'k', tlsMode: 'requireTLS', version: '8.0.1', ...options },
});
const FENCE = { lease: 'l', epoch: 1 };
const deed = (what: Loose): Deed => what as unknown as Deed;
const operate = (operation: Loose): Deed =>
  deed({ kind: 'operate', operation: operation as unknown as HostOperation, fence: FENCE });
const publish = (snapshot: Loose): Deed => deed({ kind: 'publish', serviceId: 's', snapshot, fence: FENCE });

test('S8 a secret is noticed in what a control plane logs, in its words and beside them', () => {
  for (const [message, fields] of [
    [`login with ${CANARY}1`, {}],
    ['login', { user: 'u', tried: ['x', { password: `${CANARY}1` }] }],
    ['login', { [`${CANARY}1`]: true }],
  ] as const) {
    const small = new Small();
    const watcher = small.watcher('S8');
    watcher.logged?.('plane1', 'login', { user: 'u' });
    expect(small.broken).toEqual([]);
    watcher.logged?.('plane1', message, fields);
    expect(small.broken, message).toEqual(['S8']);
  }
});

test('S9 a write of an older epoch is noticed before anything of the newer one is written', () => {
  const small = new Small();
  const watcher = small.watcher('S9');
  const lease = (epoch: number) => ({ name: 'l', holder: 'plane2', epoch, expiresAt: 1 });
  small.disk.leases.set('l', lease(1));
  watcher.committed?.('plane1', { fence: FENCE });
  expect(small.broken).toEqual([]);
  small.disk.leases.set('l', lease(2));
  watcher.committed?.('plane1', { fence: FENCE });
  expect(small.broken).toEqual(['S9']);
});

test('S11 nothing is given to members of a cluster that has been suspended for longer than an effect takes', () => {
  const small = new Small();
  small.cluster('c', { suspend: true });
  const machine = small.member('c', 'c-cfg-0', null);
  const watcher = small.watcher('S11');
  watcher.second?.();
  small.now = 30 * SECOND;
  watcher.deed?.(machine, publish({ clusterUid: 'uid-c' }));
  expect(small.broken).toEqual([]);
  small.now = 40 * SECOND;
  watcher.deed?.(machine, publish({ clusterUid: 'uid-c' }));
  expect(small.broken).toEqual(['S11']);
});

test('S6 a second set among the members of one is noticed by the data it is made on', () => {
  const small = new Small();
  const watcher = small.watcher('S6');
  const made = (name: string, replicaSetId: string): void => {
    const data = { hasUserData: false };
    const machine = small.member('c', name, null);
    const owner = { clusterUid: 'uid-c', member: name } as never;
    machine.disk.volumes.set('v', { id: 'v', owner, data } as never);
    const config = { settings: { replicaSetId } };
    watcher.member?.({ data, host: name } as never, [{ kind: 'saveConfig', config }] as never);
  };
  made('c-s0-0', 'id-1');
  made('c-s0-1', 'id-1');
  made('c-s1-0', 'id-2');
  expect(small.broken).toEqual([]);
  made('c-s0-2', 'id-2');
  expect(small.broken).toEqual(['S6']);
});

test('S12 a router that does not share the key, a TLS mode or a password with its cluster is noticed', () => {
  const secret = (password: string) => ({ password: { reveal: () => password } });
  const seen = (options: Loose, password = 'old'): readonly string[] => {
    const small = new Small();
    small.cluster('c');
    small.member('c', 'c-cfg-0', mongod('c-cfg-0'));
    const machine = small.member('c', 'c-mongos-0', router('c-mongos-0', options));
    machine.disk.snapshots.set('s-c-mongos-0', { monitor: secret(password), nextMonitor: null } as never);
    small.watcher('S12').second?.();
    return small.broken;
  };
  expect(seen({})).toEqual([]);
  expect(seen({ keyFile: 'other' })).toEqual(['S12']);
  expect(seen({ tlsMode: 'disabled' })).toEqual(['S12']);
  expect(seen({}, 'new')).toEqual(['S12']);
});

test('S14 a restart while the balancer runs is noticed though a person switched it on, unless that was a moment ago', () => {
  const restarts = (at: Millis): readonly string[] => {
    const small = new Small();
    small.cluster('c');
    const config = mongod('c-cfg-0', { shards: new Map([['c-s0', 'h']]), balancerOn: true });
    const machine = small.member('c', 'c-cfg-0', config);
    const watcher = small.watcher('S14');
    small.storm.hands.push({ at: 0, uid: 'uid-c', on: true, autoMerge: true, kept: true });
    small.now = at;
    const record = machine.disk.services.get('s-c-cfg-0');
    watcher.deed?.(machine, deed({ kind: 'stop', why: 'restart', run: { process: config }, record }));
    return small.broken;
  };
  expect(restarts(30 * SECOND)).toEqual([]);
  expect(restarts(10 * MINUTE)).toEqual(['S14']);
});

test('S15 a phase and a condition Ready that do not agree are noticed, whichever says it', () => {
  for (const [phase, status] of [
    ['Ready', 'False'],
    ['Changing', 'True'],
  ] as const) {
    const small = new Small();
    small.cluster('c');
    const value = (ready: string) => ({ phase, conditions: [{ type: 'Ready', status: ready }] });
    const tell = (ready: string): void =>
      small.watcher('S15').committed?.('plane1', {
        status: [{ key: { kind: 'MongoDB', name: 'c' }, uid: 'uid-c', value: value(ready) }],
      } as never);
    tell(phase === 'Ready' ? 'True' : 'False');
    expect(small.broken).toEqual([]);
    tell(status);
    expect(small.broken).toEqual(['S15']);
  }
});

test('S16 an intent for another snapshot is none for this one', () => {
  const small = new Small();
  const detail = { configVersion: 3 };
  const entry = { clusterUid: 'uid-c', target: 'c-0', reason: 'ConfigChanged', detail };
  small.disk.journal.set('i', { seq: 1, entry: entry as never });
  const watcher = small.watcher('S16');
  const give = (configVersion: number): void =>
    watcher.deed?.({ name: 'h' } as Machine, publish({ clusterUid: 'uid-c', member: 'c-0', configVersion }));
  give(3);
  expect(small.broken).toEqual([]);
  give(4);
  expect(small.broken).toEqual(['S16']);
});

test('L3 a block without a way out is noticed also beside a wait', () => {
  const small = new Small();
  const wait = { on: 'Backoff', detail: 'd', until: 5 };
  const plans = (fix: string): void => {
    const planned = { act: null, waits: [wait], blocks: [{ by: 'b', detail: 'd', fix }], converged: false };
    const provider = { plan: () => planned } as unknown as Provider;
    small.watcher('L3').born?.({} as ControlPlane, provider);
    provider.plan({ object: { metadata: { name: 'c' } } } as never, {} as never, 0);
  };
  plans('do this');
  expect(small.broken).toEqual([]);
  plans('');
  expect(small.broken).toEqual(['L3']);
});

test('A6.5 a shard that was made and is not wanted any more is noticed; one that was not made may go', () => {
  const fewer = (made: boolean): readonly string[] => {
    const small = new Small();
    small.cluster('c', { shardCount: 2 });
    if (made) small.member('c', 'c-s1-0', null);
    const watcher = small.watcher('A5.3');
    watcher.second?.();
    small.cluster('c', { shardCount: 1 });
    watcher.second?.();
    return small.broken;
  };
  expect(fewer(false)).toEqual([]);
  expect(fewer(true)).toEqual(['A6.5']);
});

test('A8.2 a router that takes a binary before a registered shard has it is noticed', () => {
  const takes = (shard: string, registered: boolean): readonly string[] => {
    const small = new Small();
    small.cluster('c');
    const shards = new Map(registered ? [['c-s0', 'h']] : []);
    small.member('c', 'c-cfg-0', mongod('c-cfg-0', { shards }), { version: '8.0.2' });
    small.member('c', 'c-s0-0', mongod('c-s0-0'), { version: shard });
    const machine = small.member('c', 'c-mongos-0', router('c-mongos-0'));
    const owner = { clusterUid: 'uid-c', member: 'c-mongos-0' };
    const spec = { owner, version: '8.0.2', product: 'mongos' };
    small
      .watcher('A8.2')
      .deed?.(machine, operate({ kind: 'deploy', id: 'd', serviceId: 's-c-mongos-0', spec }));
    return small.broken;
  };
  expect(takes('8.0.2', true)).toEqual([]);
  expect(takes('8.0.1', false)).toEqual([]);
  expect(takes('8.0.1', true)).toEqual(['A8.2']);
});

test('A8.2 a new router that begins with a newer major than a server it speaks to has is noticed', () => {
  const begins = (shard: string): readonly string[] => {
    const small = new Small();
    small.cluster('c');
    const shards = new Map([['c-s0', 'h']]);
    small.member('c', 'c-cfg-0', mongod('c-cfg-0', { shards }), { version: '8.0.2' });
    small.member('c', 'c-s0-0', mongod('c-s0-0'), { version: shard });
    const machine = small.member('c', 'c-mongos-0', null, { version: null });
    const spec = {
      owner: { clusterUid: 'uid-c', member: 'c-mongos-0' },
      version: '8.0.2',
      product: 'mongos',
    };
    const operation = operate({ kind: 'deploy', id: 'd', serviceId: 's-c-mongos-0', spec });
    small.watcher('A8.2').deed?.(machine, operation);
    return small.broken;
  };
  expect(begins('8.0.1')).toEqual([]);
  expect(begins('7.0.9')).toEqual(['A8.2']);
});

// ── operations ─────────────────────────────────────────────────────────────────────────────────────────────────────

/** An operation on a replica set of one that is called Succeeded, after `done` was done to it. */
function succeeded(spec: Loose, done: (small: Small, process: Loose) => void): readonly string[] {
  const small = new Small();
  small.cluster('c', { type: 'ReplicaSet', members: 1 });
  const process = mongod('c-0');
  small.member('c', 'c-0', process);
  const ask = { mongodbResourceRef: { name: 'c' }, ...spec };
  small.object('Operation', 'op', ask, { state: 'Running' });
  const watcher = small.watcher('A13');
  watcher.second?.();
  done(small, process);
  small.object('Operation', 'op', ask, { state: 'Succeeded' });
  watcher.second?.();
  return small.broken;
}
const nothing = (): void => undefined;

test('A13.2 a restart that is called done is noticed where a process is the one it was', () => {
  const anew = (small: Small): void => void small.member('c', 'c-0', mongod('c-0'));
  for (const members of [[], ['c-0']]) {
    expect(succeeded({ type: 'Restart', members }, anew)).toEqual([]);
    expect(succeeded({ type: 'Restart', members }, nothing)).toEqual(['A13']);
  }
  expect(succeeded({ type: 'Restart', members: ['c-1'] }, nothing)).toEqual([]);
});

test('A13.3 a replacement that is called done is noticed where the old one is still a member', () => {
  const leaves = (small: Small): void => {
    small.member('c', 'c-0', null);
    small.member('c', 'c-1', mongod('c-1'));
  };
  for (const type of ['Replace', 'Move']) {
    expect(succeeded({ type, member: 'c-0' }, leaves)).toEqual([]);
    expect(succeeded({ type, member: 'c-0' }, nothing)).toEqual(['A13']);
  }
});

test('A13.4 a rotation that is called done is noticed where a password is the one it was', () => {
  const changed = (_: Small, { data }: Loose): void =>
    void (data as { users: Map<string, Loose> }).users.set('admin.clusterMonitor', { password: 'new' });
  const rotates = { type: 'RotateUsers', users: [] };
  expect(succeeded(rotates, changed)).toEqual([]);
  expect(succeeded(rotates, nothing)).toEqual(['A13']);
  expect(succeeded({ ...rotates, users: ['backup'] }, nothing)).toEqual([]);
});

test('A13.1 S7 a raise of the compatibility version that is called done is noticed where it is an older one', () => {
  const older = (_: Small, { data }: Loose): void => {
    (data as { fcv: string }).fcv = '7.0';
  };
  expect(succeeded({ type: 'RaiseFCV' }, nothing)).toEqual([]);
  expect(succeeded({ type: 'RaiseFCV' }, older)).toEqual(['A13']);
});

// ── maintenance ────────────────────────────────────────────────────────────────────────────────────────────────────

/** What is granted to people in the authority's own row. */
const granted = (id: string, mode: string, member: string): Loose => ({
  id,
  uid: `task-${id}`,
  mode,
  held: [{ id, action: { type: 'lock', scope: { kind: 'node', node: `default/${member}` } }, duration: 1 }],
});

test('C2.5 S13 a second grant in the mode strong is noticed, one in the mode smart that leaves a majority is not', () => {
  const second = (mode: string): readonly string[] => {
    const small = new Small();
    small.cluster('c', { type: 'ReplicaSet', members: 5 });
    const names = [0, 1, 2, 3, 4].map((index) => `c-${index}`);
    for (const name of names) {
      const others = names.filter((other) => other !== name);
      const role = name === 'c-0' ? {} : { state: 'SECONDARY', writable: false };
      small.member('c', name, mongod(name, {}, role, others));
    }
    const watcher = small.watcher('C2');
    const holds = [granted('1', mode, 'c-1')];
    const commit = (): void => {
      small.disk.states.set('maintenance', { version: 1, text: JSON.stringify({ holds }) });
      watcher.committed?.('plane1', { state: { uid: 'maintenance' } } as never);
    };
    watcher.second?.();
    commit();
    expect(small.broken).toEqual([]);
    holds.push(granted('2', mode, 'c-2'));
    commit();
    return small.broken;
  };
  expect(second('smart')).toEqual([]);
  expect(second('strong')).toEqual(['S13']);
});

test('C2 S13 a member whose place is in maintenance is not made anew elsewhere', () => {
  const small = new Small();
  small.cluster('c', { type: 'ReplicaSet', members: 1 });
  const machine = small.member('c', 'c-0', mongod('c-0'));
  const watcher = small.watcher('C2');
  const owner = { clusterUid: 'uid-c', member: 'c-0' };
  const makes = (): void => watcher.deed?.(machine, operate({ kind: 'import', id: 'i', spec: { owner } }));
  makes();
  expect(small.broken).toEqual([]);
  const holds = [granted('1', 'smart', 'c-0')];
  small.disk.states.set('maintenance', { version: 1, text: JSON.stringify({ holds }) });
  makes();
  expect(small.broken).toEqual(['S13']);
});
