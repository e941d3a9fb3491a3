import fc from 'fast-check';
import { expect, test } from 'vitest';
import { desired, placed } from './fixtures.ts';
import { initialState, withMember } from './state.ts';
import {
  connectionString,
  hostPort,
  initialConfig,
  isBeingReplaced,
  serviceHostname,
  wantedMember,
} from './topology.ts';
import type { MemberState, State } from './types.ts';

test('A7.4 URI-02 IPv6 addresses stand in brackets, in the set’s configuration and in the connection string', () => {
  expect([
    hostPort('db1', 27017),
    hostPort('10.0.0.1', 27017),
    hostPort('fd00::1', 27017),
    hostPort('[fd00::1]', 27017),
  ]).toEqual(['db1:27017', '10.0.0.1:27017', '[fd00::1]:27017', '[fd00::1]:27017']);
  const d = desired();
  const state = withMember(placed(d), 'orders-1', { address: 'fd00::2', port: 27018 });
  expect(initialConfig(state, d)?.members.map((m) => m.host)).toEqual([
    'db1:27017',
    '[fd00::2]:27018',
    'db3:27017',
  ]);
  expect(connectionString(state, d)).toBe(
    'mongodb://db1:27017,[fd00::2]:27018,db3:27017/?replicaSet=orders&tls=true',
  );
});

test('TLS-08 the connection string asks for TLS exactly where members prefer or require it', () => {
  const asks = (tlsMode: 'disabled' | 'allowTLS' | 'preferTLS' | 'requireTLS'): boolean => {
    const d = desired({ tlsMode });
    return connectionString(placed(d), d)?.includes('tls=true') ?? false;
  };
  expect([asks('disabled'), asks('allowTLS'), asks('preferTLS'), asks('requireTLS')]).toEqual([
    false,
    false,
    true,
    true,
  ]);
});

test('A7.4 there is no connection string and no configuration until every member has its place', () => {
  const d = desired();
  expect([connectionString(initialState(d), d), initialConfig(initialState(d), d)]).toEqual([null, null]);
  const some = withMember(placed(d), 'orders-2', { port: null });
  expect([connectionString(some, d), initialConfig(some, d)]).toEqual([null, null]);
});

test('A5.1 CFG-01 a set is initiated with the votes, priorities, delays and tags the spec gives its members', () => {
  const plain = { votes: 1, priority: 1, hidden: false, secondaryDelaySecs: 0, tags: {} } as const;
  const members = [
    { ...plain, priority: 5, tags: { rack: 'a' } },
    plain,
    { ...plain, votes: 0 as const, priority: 0, hidden: true, secondaryDelaySecs: 3600 },
  ];
  const d = desired({ members });
  const config = initialConfig(placed(d), d);
  expect(config?._id).toBe('orders');
  expect(config?.version).toBe(1);
  expect(config?.members).toMatchObject([
    { _id: 0, host: 'db1:27017', votes: 1, priority: 5, tags: { rack: 'a' } },
    { _id: 1, host: 'db2:27017', votes: 1, priority: 1 },
    { _id: 2, host: 'db3:27017', votes: 0, priority: 0, hidden: true, secondaryDelaySecs: 3600 },
  ]);
});

test('TEN-01 clusters of one name in two namespaces never share a service name', () => {
  expect(serviceHostname({ namespace: 'default' }, 'orders-0')).toBe('orders-0');
  expect(serviceHostname({ namespace: 'shop' }, 'orders-0')).not.toBe('orders-0');
  expect(serviceHostname({ namespace: 'shop' }, 'orders-0')).not.toBe(
    serviceHostname({ namespace: 'books' }, 'orders-0'),
  );
});

test('TEN-01 S4 two clusters never meet in one service name: names of members hold no two hyphens in a row', () => {
  const label = fc.stringMatching(/^[a-z][a-z0-9]{0,3}(-[a-z0-9]{1,3}){0,2}$/);
  const namespace = fc.stringMatching(/^[a-z0-9]{1,3}(-{1,2}[a-z0-9]{1,3}){0,2}$/);
  const cluster = fc.tuple(fc.oneof(fc.constant('default'), namespace), label);
  fc.assert(
    fc.property(cluster, cluster, ([n1, c1], [n2, c2]) => {
      const [one, other] = [
        serviceHostname({ namespace: n1 }, `${c1}-0`),
        serviceHostname({ namespace: n2 }, `${c2}-0`),
      ];
      expect(one === other).toBe(n1 === n2 && c1 === c2);
    }),
  );
});

test('A7.4 TLS-08 the connection string follows the spec, though nothing else is new in the record', () => {
  const [before, after] = [desired({ tlsMode: 'allowTLS' }), desired({ tlsMode: 'preferTLS' })];
  const state = placed(before);
  const asks = [before, after, before].map((d) => connectionString(state, d)?.includes('tls=true'));
  expect(asks).toEqual([false, true, false]);
});

test('S6 A5.1 who initiates its set has the place the spec gives it, and what lets it lead where that gives it none', () => {
  const via = (priority: number) => {
    const base = desired();
    const [first, ...others] = base.members;
    const members = [{ ...first!, priority, tags: { rack: 'a' } }, ...others];
    const d = desired({ members });
    const state = placed(d);
    const [set] = state.replicaSets;
    const asked: State = {
      ...state,
      replicaSets: [{ ...set!, initiating: true, initiatedVia: 'orders-0' }],
    };
    return initialConfig(asked, d)?.members[0];
  };
  expect(via(5)).toMatchObject({ priority: 5, votes: 1, tags: { rack: 'a' } });
  expect(via(0)).toMatchObject({ priority: 1, votes: 1 });
});

test('A13.3 a substitute that was given up takes nobody’s place and has none', () => {
  const d = desired();
  const state = placed(d, { stage: 'active' });
  const settings = { votes: 1, priority: 7, hidden: false, secondaryDelaySecs: 0, tags: {} } as const;
  const beside = (stage: MemberState['stage']) => {
    const substitute: MemberState = {
      ...(state.members[1] as MemberState),
      name: 'orders-3',
      index: 3,
      stage,
      replacement: { of: 'orders-1', settings, host: null, avoidHosts: [], because: 'Replacing' },
    };
    const now = { ...state, members: [...state.members, substitute] };
    return [isBeingReplaced(now, { name: 'orders-1' }), wantedMember(now, d, substitute)];
  };
  expect(beside('syncing')).toEqual([true, settings]);
  expect(beside('removing')).toEqual([false, null]);
});
