import type { MongoClient } from 'mongodb';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { statusOf } from '../src/cli/rows.ts';
import { replicaSet, user } from './support/documents.ts';
import { LONG, Stack } from './support/stack.ts';
import { MajorityWriter } from './support/writer.ts';

const OLD = '7.0.43-23';
const NEW = '8.0.32-14';
let stack: Stack;
let client: MongoClient;
let writer: MajorityWriter;

beforeAll(async () => {
  stack = await Stack.start({ agents: [] });
  await stack.startAgent('local', { binDir: stack.builds([OLD, NEW]) });
  await stack.apply(replicaSet('live', { version: OLD }));
  await stack.apply(user('live'));
  await stack.untilReady('live');
  await stack.untilPhase('live-app', 'Ready', 'default', 'mongodbusers');
}, LONG);
afterAll(() => stack?.stop(), LONG);

beforeEach(async () => {
  client = await stack.connect('live', 'live-app');
  writer = await MajorityWriter.start(client);
}, LONG);
afterEach(async () => {
  await writer.proceeds();
  const report = await writer.stop();
  expect(report.lost).toBe(0);
}, LONG);

const pids = (): readonly number[] => [...stack.mongods()].sort();
const named = (text: string): string => /live-[a-z-]+-[a-z2-9]{4}/.exec(text)?.[0] ?? '';

async function fcv(): Promise<string> {
  const admin = await stack.connect('live', 'clusterAdmin');
  const reply = await admin.db('admin').command({ getParameter: 1, featureCompatibilityVersion: 1 });
  await admin.close();
  return reply['featureCompatibilityVersion'].version;
}

test(
  'A13.2 S1 S3 belay restart goes through all members, says where it is, and nothing acknowledged is lost',
  async () => {
    const before = pids();
    const { code, out, err } = await stack.belay(['restart', 'live']);
    expect({ code, out }).toMatchObject({
      code: 0,
      out: expect.stringContaining('3 members were restarted'),
    });
    for (const member of ['live-0', 'live-1', 'live-2']) expect(err).toContain(`${member}   ✔ done`);
    expect(pids().filter((pid) => before.includes(pid))).toEqual([]);
    expect(pids()).toHaveLength(3);
  },
  LONG,
);

test(
  'A13.1 belay cancel in the middle: the member under way is brought to its end, the others keep running as they are',
  async () => {
    const before = pids();
    const asked = await stack.belay(['restart', 'live', '--no-wait']);
    const name = named(asked.out);
    await stack.until(async () => {
      const object = await stack.object('operations', name);
      return object !== null && statusOf(object).state === 'Running';
    }, `${name} runs`);
    const cancelled = await stack.belay(['cancel', name]);
    expect(cancelled).toMatchObject({ code: 0, out: `operations/${name} Cancelled: cancelled on request\n` });
    await stack.untilReady('live');
    const kept = pids().filter((pid) => before.includes(pid));
    expect(kept.length).toBeGreaterThan(0);
    const listed = await stack.belay(['operations', 'live']);
    expect(listed.out).toMatch(new RegExp(`^${name} +Restart +live +Cancelled`, 'm'));
    const again = await stack.belay(['cancel', name]);
    expect(again.code).toBe(4);
  },
  LONG,
);

test(
  'A8.4 A8.5 after an upgrade 7.0 → 8.0 the compatibility version is raised when somebody asks, and not before',
  async () => {
    const early = await stack.belay(['raise-fcv', 'live', '--to', '8.0']);
    expect(early.code).toBe(4);
    expect(early.err).toContain('binaries of 8.0 are needed everywhere');
    await stack.apply(replicaSet('live', { version: NEW }));
    await stack.untilReady('live');
    expect(await fcv()).toBe('7.0');
    const raised = await stack.belay(['raise-fcv', 'live']);
    expect(raised).toMatchObject({
      code: 0,
      out: expect.stringContaining('the feature compatibility version is 8.0'),
    });
    expect(await fcv()).toBe('8.0');
    const back = await stack.belay(['raise-fcv', 'live', '--to', '7.0']);
    expect(back.code).toBe(4);
    expect(back.err).toContain('does not go down to 7.0');
  },
  LONG,
);
