import { readFileSync } from 'node:fs';
import type { DescEnum, DescMessage } from '@bufbuild/protobuf';
import { afterEach, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { playedSet } from '../authority/testing/played.ts';
import { playPublic } from '../maintenance/cases/public.ts';
import { type Scenario, World } from '../maintenance/cases/scenario.ts';
import { BETTER, ORIGINAL } from '../maintenance/index.ts';
import { taskOf } from '../maintenance/testing/tasks.ts';
import { file_auth as auth } from './gen/auth_pb.js';
import { file_cms as cms } from './gen/cms_pb.js';
import { file_discovery as discovery } from './gen/discovery_pb.js';
import { file_issue as issue } from './gen/issue_pb.js';
import {
  ActionState_ActionReason,
  ActionState_ActionStatus,
  AvailabilityMode,
  file_maintenance as maintenance,
} from './gen/maintenance_pb.js';
import { file_operation as operation } from './gen/operation_pb.js';
import { grpcDriver } from './testing/driver.ts';
import { openStage, type Stage } from './testing/stage.ts';
import { replayYdbops, ydbopsWorld } from './testing/ydbops.ts';

const file = new URL('../../test/cases/maintenance.yaml', import.meta.url);
const { cases } = parse(readFileSync(file, 'utf8')) as { cases: readonly Scenario[] };
const open: Stage[] = [];
afterEach(async () => {
  for (const stage of open.splice(0)) await stage.close();
});
async function stageOf(
  world: World,
  compat = BETTER,
  others: Parameters<typeof openStage>[2] = {},
): Promise<Stage> {
  const stage = await openStage(world, compat, others);
  open.push(stage);
  return stage;
}

describe('C6.2 scenarios of the public layer pass through a client and a socket', () => {
  for (const scenario of cases.filter((c) => c.layer === 'maintenance')) {
    const compat = scenario.status === 'quirk' ? ORIGINAL : BETTER;
    test(scenario.id, async () => {
      const world = new World(scenario.cluster);
      const problems = await playPublic(scenario, world, grpcDriver(world, await stageOf(world, compat)));
      expect(problems).toEqual([]);
    });
  }
});

describe('C6.2 calls that ydbops was seen to make end where they ended', () => {
  for (const scenario of cases.filter((c) => c.layer === 'ydbops')) {
    test(scenario.id, async () => {
      const stage = await stageOf(ydbopsWorld(scenario));
      expect(await replayYdbops(scenario, stage)).toEqual([]);
    });
  }
});

const atOnce = { seconds: 60n, nanos: 0 };
const lock = (nodeId: number) => ({
  action: {
    case: 'lockAction' as const,
    value: { scope: { scope: { case: 'nodeId' as const, value: nodeId } }, duration: atOnce },
  },
});
const request = (taskUid: string, ...nodes: readonly number[]) => ({
  taskOptions: { taskUid, availabilityMode: AvailabilityMode.STRONG, description: 'kernel' },
  actionGroups: nodes.map((n) => ({ actions: [lock(n)] })),
});

test('C6.2 who has no token, a wrong one or too weak a role is refused in the operation, with a result', async () => {
  const stage = await stageOf(new World({ nodes: 8 }));
  const nobody = await stage.client('').nodes();
  expect([nobody.status, nobody.issues]).toEqual([
    'UNAUTHORIZED',
    ['Access denied: no token in x-ydb-auth-ticket'],
  ]);
  const wrong = stage.client('');
  wrong.token = 'guessed';
  expect((await wrong.list('')).status).toBe('UNAUTHORIZED');
  const viewer = stage.client('viewer');
  expect((await viewer.nodes()).result.nodes).toHaveLength(8);
  const refused = await viewer.create(request('t', 1));
  expect([refused.status, refused.issues]).toEqual([
    'UNAUTHORIZED',
    ["Access denied: 'viewer' is a viewer, and this takes an operator"],
  ]);
  expect((await viewer.drop('t')).status).toBe('UNAUTHORIZED');
  const other = await stage.client('').login('eve', 'belay_api_token_of_bob');
  expect(other.status).toBe('UNAUTHORIZED');
});

test('C6.2 errors carry a result all the same, and the words that say what is wrong', async () => {
  const client = (await stageOf(new World({ nodes: 8 }))).client('eve');
  const replies = await Promise.all([
    client.refresh('nope'),
    client.get('nope'),
    client.create(request('t', 99)),
    client.complete([]),
  ]);
  expect(replies.map((r) => [r.status, r.issues[0]])).toEqual([
    ['BAD_REQUEST', 'Task not found: nope'],
    ['BAD_REQUEST', 'Task not found: nope'],
    ['BAD_REQUEST', 'there is no node played/99'],
    ['BAD_REQUEST', 'Empty actions'],
  ]);
});

test('C6.2 a host made of digits is a number of a node; drain takes nodes only', async () => {
  const client = (await stageOf(new World({ nodes: 8 }))).client('eve');
  const scope = { scope: { case: 'host' as const, value: '3' } };
  const byHost = await client.create({
    ...request('t'),
    actionGroups: [{ actions: [{ action: { case: 'lockAction', value: { scope, duration: atOnce } } }] }],
  });
  expect(byHost.result.actionGroupStates[0]?.actionStates[0]?.action?.action.value?.scope?.scope).toEqual({
    case: 'nodeId',
    value: 3,
  });
  const named = { scope: { case: 'host' as const, value: 'host-4' } };
  const drain = await client.create({
    ...request('u'),
    actionGroups: [{ actions: [{ action: { case: 'drainAction', value: { scope: named } } }] }],
  });
  expect([drain.status, drain.issues]).toEqual(['BAD_REQUEST', ['Unsupported scope: drain takes a node']]);
});

test('C6.2 get tells all options while something is held; compat: only while something waits', async () => {
  const told = await Promise.all(
    [BETTER, ORIGINAL].map(async (compat) => {
      const client = (await stageOf(new World({ nodes: 8 }), compat)).client('eve');
      await client.create(request('t', 1));
      return (await client.get('t')).result.taskOptions?.description;
    }),
  );
  expect(told).toEqual(['kernel', '']);
});

/** A second topology of three nodes that serve `/Root/db1`, and a managed set. */
const OTHERS = (): Parameters<typeof openStage>[2] => ({
  co: [
    {
      nodes: [1, 2, 3].map((id) => ({
        ...playedSet('co', ['c1', 'c2', 'c3']).nodes[id - 1]!,
        key: `co/${id}`,
        name: `node ${id} of co`,
        id,
        kind: 'dynamic' as const,
        cluster: 'co',
        tenant: '/Root/db1',
      })),
    },
    true,
  ],
  orders: [playedSet('orders', ['db1', 'db2', 'db3']), false],
});

test('C6.2 C6.3 which topology a call is about is never guessed: by its name, by a database of it, or refused', async () => {
  const client = (await stageOf(new World({ nodes: 8 }), BETTER, OTHERS())).client('eve');
  const told = async (database: string) => {
    client.database = database;
    const { status, issues, result } = await client.nodes();
    return status === 'SUCCESS' ? result.nodes.map((n) => n.host).slice(0, 2) : [status, issues[0]];
  };
  expect(await told('/Root/db1')).toEqual(['c1', 'c2']);
  expect(await told('co')).toEqual(['c1', 'c2']);
  expect((await client.listDatabases()).result.paths).toEqual(['/Root/db1']);
  expect(await told('/played')).toHaveLength(2);
  expect(await told('/default/orders')).toEqual(['db1', 'db2']);
  const ask =
    'There are co, played: name one, or a database of it, in x-ydb-database, or have the endpoint speak of one (--maintenance-topology)';
  expect(await told('')).toEqual(['BAD_REQUEST', `which topology? ${ask}`]);
  expect(await told('/Root/nope')).toEqual([
    'BAD_REQUEST',
    `which topology? there is no database /Root/nope. ${ask}`,
  ]);
});

test('C6.2 tasks about another topology or a managed set are neither listed nor told nor touched', async () => {
  const stage = await stageOf(new World({ nodes: 8 }), BETTER, OTHERS());
  const [here, there] = [stage.client('eve'), stage.client('eve')];
  here.database = 'played';
  there.database = 'co';
  await here.create(request('mine', 1));
  await there.create(request('theirs', 3));
  const scope = { kind: 'node', node: 'default/orders-1' } as const;
  await stage.authority.create(taskOf('members', [[{ type: 'lock', scope, duration: 60_000 }]]), undefined);
  expect((await here.list('eve')).result.tasksUids).toEqual(['mine']);
  expect((await there.list('')).result.tasksUids).toEqual(['theirs']);
  for (const uid of ['theirs', 'members']) {
    const about = uid === 'theirs' ? 'co/3' : 'default/orders-1';
    const words = [`Task not found: ${uid} is about node ${about}, not about topology played`];
    const got = await here.get(uid);
    expect([got.status, got.issues, got.result.taskOptions?.taskUid]).toEqual(['BAD_REQUEST', words, uid]);
    const refreshed = await here.refresh(uid);
    expect([refreshed.status, refreshed.issues, refreshed.result.taskUid]).toEqual([
      'BAD_REQUEST',
      words,
      uid,
    ]);
    const dropped = await here.drop(uid);
    expect([dropped.status, dropped.issues]).toEqual(['BAD_REQUEST', words]);
  }
  const host = { scope: { case: 'host' as const, value: 'c1' } };
  const foreign = await here.create({
    ...request('t'),
    actionGroups: [{ actions: [{ action: { case: 'lockAction', value: { scope: host } } }] }],
  });
  expect([foreign.status, foreign.issues]).toEqual([
    'BAD_REQUEST',
    ['there is no host c1 in topology played'],
  ]);
  expect(await stage.authority.list('')).toEqual(['mine', 'theirs', 'members']);
});

test('C6.2 S13 C5.5 an action is completed only under the task it is of; compat: by its own identity', async () => {
  for (const compat of [BETTER, ORIGINAL]) {
    const stage = await stageOf(new World({ nodes: 8 }), compat);
    const client = stage.client('eve');
    await client.create(request('t', 1));
    const uid = { taskUid: 'zzz', actionId: 'eve-p-1' };
    const { status, issues, result } = await client.complete([uid]);
    if (compat === ORIGINAL) {
      expect([status, await stage.authority.list('')]).toEqual(['SUCCESS', []]);
      continue;
    }
    expect([status, issues]).toEqual(['BAD_REQUEST', ['Unknown permission: eve-p-1 of task zzz']]);
    expect(result.actionStatuses.map((s) => [s.actionUid?.taskUid, s.actionUid?.actionId])).toEqual([
      ['zzz', 'eve-p-1'],
    ]);
    expect((await client.complete([{ taskUid: 't', actionId: 'eve-p-1' }])).status).toBe('SUCCESS');
  }
});

test('C1.3 C1.5 C5.5 a lock of no time, or of more than thirty days, is refused; compat: only the latter', async () => {
  const lockFor = (seconds: bigint) => ({
    ...request('t'),
    actionGroups: [
      {
        actions: [
          {
            action: {
              case: 'lockAction' as const,
              value: {
                scope: { scope: { case: 'nodeId' as const, value: 1 } },
                duration: { seconds, nanos: 0 },
              },
            },
          },
        ],
      },
    ],
  });
  const told = async (compat: typeof BETTER, seconds: bigint) => {
    const client = (await stageOf(new World({ nodes: 8 }), compat)).client('eve');
    const { status, issues, result } = await client.create(lockFor(seconds));
    expect(result.taskUid).toBe('t');
    return [status, ...issues];
  };
  expect(await told(BETTER, -5n)).toEqual(['BAD_REQUEST', 'duration must be from 1s to 30d, not -5 s']);
  expect(await told(BETTER, 0n)).toEqual(['BAD_REQUEST', 'duration must be from 1s to 30d, not 0 s']);
  expect((await told(BETTER, 1_000_000_000_000n))[0]).toBe('BAD_REQUEST');
  expect(await told(BETTER, 2_592_000n)).toEqual(['SUCCESS']);
  expect(await told(ORIGINAL, 0n)).toEqual(['SUCCESS']);
  expect((await told(ORIGINAL, 1_000_000_000_000n))[0]).toBe('BAD_REQUEST');
});

test('C6.2 C1.2 C5.5 an action over max_inflight says what it waits for; compat: it says nothing', async () => {
  const told = async (compat: typeof BETTER) => {
    const client = (await stageOf(new World({ nodes: 8 }), compat)).client('eve');
    const { taskOptions, actionGroups } = request('t', 1, 2);
    const options = { ...taskOptions, availabilityMode: AvailabilityMode.FORCE, maxInflightActions: 1 };
    const { result } = await client.create({ taskOptions: options, actionGroups });
    const [state] = result.actionGroupStates[1]?.actionStates ?? [];
    return [ActionState_ActionReason[state?.reason ?? 0], state?.details];
  };
  expect(await told(BETTER)).toEqual(['GENERIC', 'waits for its turn: the task holds at most 1 at a time']);
  expect(await told(ORIGINAL)).toEqual(['UNSPECIFIED', '']);
});

test('C6.2 whoAmI tells who may manage and who may only look', async () => {
  const stage = await stageOf(new World({ nodes: 8 }));
  const told = await Promise.all(
    ['eve', 'viewer'].map(async (user) => {
      const { result } = await stage.client(user).whoAmI();
      return [
        result.user,
        result.isAdministrationAllowed,
        result.isMonitoringAllowed,
        result.isViewerAllowed,
      ];
    }),
  );
  expect(told).toEqual([
    ['eve', true, true, true],
    ['viewer', false, false, true],
  ]);
});

test('C6.2 an action of no kind is called unknown', async () => {
  const client = (await stageOf(new World({ nodes: 8 }))).client('eve');
  const { status, issues } = await client.create({ ...request('t'), actionGroups: [{ actions: [{}] }] });
  expect([status, issues]).toEqual(['BAD_REQUEST', ['Unknown action']]);
});

test('C6.2 the field whose number is a guess is read and never sent', async () => {
  const client = (await stageOf(new World({ nodes: 8 }))).client('eve');
  const { result } = await client.create({
    ...request('t', 1, 2),
    taskOptions: { taskUid: 't', availabilityMode: AvailabilityMode.FORCE, maxInflightActions: 1 },
  });
  const states = result.actionGroupStates.map((group) => group.actionStates[0]?.status);
  expect(states).toEqual([ActionState_ActionStatus.PERFORMED, ActionState_ActionStatus.PENDING]);
  expect((await client.get('t')).result.taskOptions?.maxInflightActions).toBe(0);
});

test('C6.2 a task on a thousand groups comes back whole', async () => {
  const client = (await stageOf(new World({ nodes: 1000, pdisks: 0 }))).client('eve');
  const all = Array.from({ length: 1000 }, (_, i) => i + 1);
  const { status, result } = await client.create({
    ...request('t', ...all),
    taskOptions: { taskUid: 't', availabilityMode: AvailabilityMode.FORCE },
  });
  expect([status, result.actionGroupStates.length]).toEqual(['SUCCESS', 1000]);
});

test('the numbers of fields in the .proto files are those of the generated code', () => {
  for (const desc of [maintenance, operation, issue, discovery, auth, cms]) {
    const text = readFileSync(new URL(`./proto/${desc.proto.name}`, import.meta.url), 'utf8');
    const written = [...text.matchAll(/(\w+) = (\d+);/g)].map((m) => `${m[1]} ${m[2]}`);
    const enums = (list: readonly DescEnum[]): readonly string[] =>
      list.flatMap((e) => e.values.map((v) => `${v.name} ${v.number}`));
    const all = (messages: readonly DescMessage[]): readonly string[] =>
      messages.flatMap((m) => [
        ...m.fields.map((f) => `${f.name} ${f.number}`),
        ...enums(m.nestedEnums),
        ...all(m.nestedMessages),
      ]);
    const generated = [...all(desc.messages), ...enums(desc.enums)];
    expect(written.sort()).toEqual(generated.sort());
  }
});

test('C6.2 C6.3 a database that is not known is refused also where there is one topology only', async () => {
  const client = (await stageOf(new World({ nodes: 8 }))).client('eve');
  const told = async (database: string) => {
    client.database = database;
    const { status, issues } = await client.nodes();
    return [status, issues[0] ?? ''];
  };
  expect(await told('')).toEqual(['SUCCESS', '']);
  expect(await told('/played')).toEqual(['SUCCESS', '']);
  for (const database of ['/Root/nope', '/nope']) {
    const [status, issue] = await told(database);
    expect(status).toBe('BAD_REQUEST');
    expect(issue).toContain(`there is no database ${database}. There are played: name one`);
  }
});

test('C6.2 C6.3 a call that names a managed database is about its members, and those keep their numbers', async () => {
  const sets = {
    orders: [playedSet('orders', ['db1', 'db2', 'db3']), false],
    audit: [playedSet('audit', ['db1', 'db4', 'db5']), false],
  } as const;
  const stage = await stageOf(new World({ nodes: 0 }), BETTER, sets);
  const client = stage.client('eve');
  const told = async (database: string) => {
    client.database = database;
    return (await client.nodes()).result.nodes.map((n) => `${n.host} ${n.nodeId}`);
  };
  const all = await told('');
  const [orders, audit] = [await told('/default/orders'), await told('/default/audit')];
  expect([all.length, orders.length, audit.length]).toEqual([6, 3, 3]);
  expect([...orders, ...audit].sort()).toEqual([...all].sort());
  expect(orders.map((n) => n.split(' ')[0])).toEqual(['db1', 'db2', 'db3']);
  expect((await client.listDatabases()).result.paths).toEqual(['/default/orders', '/default/audit']);

  const scope = { kind: 'node', node: 'default/orders-1' } as const;
  await stage.authority.create(taskOf('members', [[{ type: 'lock', scope, duration: 60_000 }]]), undefined);
  const listed = async (database: string) => {
    client.database = database;
    return (await client.list('')).result.tasksUids;
  };
  expect([await listed('/default/orders'), await listed('')]).toEqual([['members'], ['members']]);
  expect(await listed('/default/audit')).toEqual([]);
  const dropped = await client.drop('members');
  expect(dropped.issues).toEqual([
    'Task not found: members is about node default/orders-1, not about the managed database default/audit',
  ]);
});
