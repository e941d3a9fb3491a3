import { once } from 'node:events';
import { connect } from 'node:tls';
import { afterEach, beforeAll, expect, test, vi } from 'vitest';
import { WebSocket } from 'ws';
import { BelayError } from '../base/error.ts';
import { secret } from '../base/secret.ts';
import type { MemberCommand, MemberSnapshot } from '../clusters/snapshot.ts';
import type { AgentChange, Fence } from '../engine/ports.ts';
import { PING_GROUPS, PING_INTERVAL } from './limits.ts';
import { manualClock } from './testing/clock.ts';
import { hostFacts, memberFacts, snapshot } from './testing/facts.ts';
import { makeTestCa, type TestCa } from './testing/pki.ts';
import {
  type ControlPlane,
  noHandlers,
  startAgent,
  startControlPlane,
  type TestAgent,
} from './testing/rig.ts';

const FENCE: Fence = { lease: 'p0', epoch: 1 };
let ca: TestCa;
const cleanups: (() => unknown)[] = [];

beforeAll(async () => {
  ca = await makeTestCa();
});
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function plane(options: Parameters<typeof startControlPlane>[1] = {}): Promise<ControlPlane> {
  const started = await startControlPlane(ca, options);
  cleanups.push(() => started.close());
  return started;
}
async function agent(
  name: string,
  urls: readonly string[],
  options: Parameters<typeof startAgent>[3] = {},
): Promise<TestAgent> {
  const started = await startAgent(ca, name, urls, options);
  cleanups.push(() => started.connection.close());
  return started;
}
const connected = (control: ControlPlane, name: string, wanted = true): Promise<void> =>
  vi.waitFor(() => expect(control.agents.host(name)?.connected ?? false).toBe(wanted), {
    timeout: 5_000,
    interval: 5,
  });

test('a connected agent shows its host, its members and every change of them', async () => {
  const control = await plane();
  const changes: AgentChange[] = [];
  control.agents.onChange((change) => changes.push(change));
  const host = await agent('host-a', [control.url]);
  await connected(control, 'host-a');
  expect(control.agents.hosts().map((report) => report.facts)).toEqual([hostFacts('host-a')]);

  const ref = { host: 'host-a', serviceId: 's1' };
  expect(control.agents.member(ref)).toBeNull();
  host.report({ clusterUid: 'uid-1', facts: memberFacts('s1') });
  await vi.waitFor(() => expect(control.agents.member(ref)?.facts).toEqual(memberFacts('s1')), {
    timeout: 20_000,
  });
  expect(changes).toContainEqual({ kind: 'member', host: 'host-a', serviceId: 's1', clusterUid: 'uid-1' });

  host.members.delete('s1');
  host.connection.memberChanged('s1');
  await vi.waitFor(() => expect(control.agents.member(ref)).toBeNull(), { timeout: 20_000 });
});

test('an unchanged report wakes nobody, and changes made together travel together', async () => {
  const control = await plane();
  const host = await agent('host-a', [control.url]);
  for (const id of ['s1', 's2', 's3']) host.members.set(id, { clusterUid: 'u', facts: memberFacts(id) });
  await connected(control, 'host-a');
  for (const id of ['s1', 's2', 's3']) host.connection.memberChanged(id);
  await vi.waitFor(() => expect(control.agents.member({ host: 'host-a', serviceId: 's3' })).not.toBeNull(), {
    timeout: 20_000,
  });
  const changes: AgentChange[] = [];
  control.agents.onChange((change) => changes.push(change));
  for (const id of ['s1', 's2', 's3']) host.connection.memberChanged(id);
  host.report({ clusterUid: 'u', facts: memberFacts('s3', { configVersion: 2 }) });
  await vi.waitFor(() => expect(changes).toHaveLength(1), { timeout: 20_000 });
  expect(changes[0]).toMatchObject({ kind: 'member', serviceId: 's3' });
});

test('S8 a published snapshot arrives whole; its secrets are readable only where they are revealed', async () => {
  const control = await plane();
  const got: MemberSnapshot[] = [];
  await agent('host-a', [control.url], {
    handlers: { ...noHandlers, publish: async (_id, given) => void got.push(given) },
  });
  await connected(control, 'host-a');
  const sent = snapshot('canary-1');
  await control.agents.publish({ host: 'host-a', serviceId: 's1' }, sent, FENCE);
  expect(got[0]?.keyFile.reveal()).toBe('key canary-1');
  expect(got[0]?.certificatePem.reveal()).toBe('certificate canary-1');
  expect(got[0]?.monitor.password.reveal()).toBe('monitor canary-1');
  expect(JSON.stringify(sent) + JSON.stringify(got)).not.toContain('canary-1');
});

test('S8 every command arrives as it was sent, passwords included, and prints none of them', async () => {
  const control = await plane();
  const got: MemberCommand[] = [];
  await agent('host-a', [control.url], {
    handlers: {
      ...noHandlers,
      run: async (_id, command) => {
        got.push(command);
        return { kind: 'done', result: {} };
      },
    },
  });
  await connected(control, 'host-a');
  const as = { user: 'userAdmin', db: 'admin', password: secret('p@ss:w/rd%$`\'"#&? ü') };
  const user = {
    user: 'u',
    db: 'admin',
    password: secret('canary-2'),
    roles: [{ role: 'root', db: 'admin' }],
  };
  const config = {
    _id: 'rs',
    version: 1,
    members: [{ _id: 0, host: 'a:1', priority: 1, votes: 1 as const }],
  };
  const commands: MemberCommand[] = [
    { kind: 'initiate', config },
    { kind: 'createFirstUser', user },
    { kind: 'reconcileUsers', as, roles: [], users: [user, { ...user, password: null }], drop: [] },
    { kind: 'verifyLogin', as },
    { kind: 'reconfig', as, config, maxTimeMillis: 5_000 },
    { kind: 'setFcv', as, version: '8.0' },
    { kind: 'stepDown', as, forSeconds: 60, catchUpSeconds: 10 },
  ];
  for (const command of commands) {
    const ref = { host: 'host-a', serviceId: 's1' };
    await control.agents.run(ref, command, { timeoutMillis: 1_000, stepId: 'x', fence: FENCE });
  }
  const open = (command: MemberCommand): string =>
    JSON.stringify(command, (_key, value) => (value === '***' ? undefined : value));
  expect(got.map(open)).toEqual(commands.map(open));
  expect((got[1] as unknown as { user: typeof user }).user.password.reveal()).toBe('canary-2');
  expect((got[2] as unknown as { as: typeof as }).as.password.reveal()).toBe('p@ss:w/rd%$`\'"#&? ü');
  expect((got[2] as unknown as { users: (typeof user)[] }).users[1]?.password).toBeNull();
  expect(JSON.stringify(got)).not.toContain('canary-2');
});

test('S9 an agent refuses an epoch older than one it has seen of that lease, from whichever control plane', async () => {
  const old = await plane();
  const next = await plane();
  await agent('host-a', [old.url, next.url]);
  await connected(old, 'host-a');
  await connected(next, 'host-a');
  const ref = { host: 'host-a', serviceId: 's1' };
  await old.agents.publish(ref, snapshot('x'), { lease: 'p0', epoch: 4 });
  await next.agents.publish(ref, snapshot('x'), { lease: 'p0', epoch: 5 });
  await expect(old.agents.publish(ref, snapshot('x'), { lease: 'p0', epoch: 4 })).rejects.toMatchObject({
    code: 'StaleEpoch',
    retry: 'never',
  });
  await expect(
    old.agents.startOperation(
      'host-a',
      { kind: 'deleteRuntime', id: 'o', serviceId: 's', clusterUid: 'u' },
      { lease: 'p0', epoch: 1 },
    ),
  ).rejects.toMatchObject({ code: 'StaleEpoch' });
  await old.agents.publish(ref, snapshot('x'), { lease: 'p1', epoch: 1 });
});

test('a command whose agent goes away before the answer has an unknown outcome; one never sent has not happened', async () => {
  const control = await plane();
  let started: () => void = () => {};
  const running = new Promise<void>((resolve) => {
    started = resolve;
  });
  const host = await agent('host-a', [control.url], {
    handlers: {
      ...noHandlers,
      run: () => {
        started();
        return new Promise(() => {});
      },
    },
  });
  await connected(control, 'host-a');
  const ref = { host: 'host-a', serviceId: 's1' };
  const options = { timeoutMillis: 60_000, stepId: 'step', fence: FENCE };
  const outcome = control.agents.run(ref, { kind: 'verifyLogin', as: login() }, options);
  await running;
  host.connection.close();
  expect((await outcome).kind).toBe('unknown');
  await connected(control, 'host-a', false);
  const late = control.agents.run(ref, { kind: 'verifyLogin', as: login() }, options);
  await expect(late).rejects.toMatchObject({ code: 'AgentNotConnected', retry: 'later' });
  await expect(
    control.agents.publish({ host: 'nobody', serviceId: 's' }, snapshot('x'), FENCE),
  ).rejects.toMatchObject({ code: 'AgentNotConnected' });
});

test('an effect without an answer in time is unknown, a look is only to be repeated', async () => {
  const clock = manualClock();
  const control = await plane({ clock });
  await agent('host-a', [control.url], {
    handlers: { ...noHandlers, publish: () => new Promise(() => {}), services: () => [] },
  });
  await connected(control, 'host-a');
  const publish = control.agents.publish({ host: 'host-a', serviceId: 's' }, snapshot('x'), FENCE);
  clock.advance(60_000);
  await expect(publish).rejects.toMatchObject({ code: 'NoAnswer', retry: 'unknown-outcome' });
});

test('a failure in the agent comes back with its code, retry class and way out', async () => {
  const control = await plane();
  await agent('host-a', [control.url], {
    handlers: {
      ...noHandlers,
      startOperation: async () => {
        throw new BelayError('PortTaken', 'port 27017 is taken', { retry: 'never', fix: 'Choose another.' });
      },
    },
  });
  await connected(control, 'host-a');
  const started = control.agents.startOperation(
    'host-a',
    { kind: 'deleteRuntime', id: 'o', serviceId: 's', clusterUid: 'u' },
    FENCE,
  );
  await expect(started).rejects.toMatchObject({ code: 'PortTaken', retry: 'never', fix: 'Choose another.' });
});

test('operations and services are asked of the agent and its changes wake the listener', async () => {
  const control = await plane();
  const changes: AgentChange[] = [];
  control.agents.onChange((change) => changes.push(change));
  const host = await agent('host-a', [control.url], {
    handlers: { ...noHandlers, operation: () => ({ kind: 'succeeded', result: { serviceId: 's1' } }) },
  });
  await connected(control, 'host-a');
  expect(await control.agents.operation('host-a', 'o1')).toEqual({
    kind: 'succeeded',
    result: { serviceId: 's1' },
  });
  expect(await control.agents.services('host-a')).toEqual([]);
  host.connection.operationChanged('o1', 'uid-1', { kind: 'running', detail: 'x' });
  await vi.waitFor(
    () =>
      expect(changes).toContainEqual({
        kind: 'operation',
        host: 'host-a',
        operationId: 'o1',
        clusterUid: 'uid-1',
      }),
    { timeout: 20_000 },
  );
});

test('an agent comes back by itself, tells all again, and only the newest connection of a host counts', async () => {
  const first = await plane();
  const port = Number(new URL(first.url).port);
  const host = await agent('host-a', [first.url], { random: () => 0 });
  host.report({ clusterUid: 'u', facts: memberFacts('s1') });
  await connected(first, 'host-a');
  await first.close();
  const second = await plane({ port });
  await connected(second, 'host-a');
  expect(second.agents.member({ host: 'host-a', serviceId: 's1' })?.facts).toEqual(memberFacts('s1'));

  const intruder = await agent('host-a', [second.url]);
  intruder.members.set('s2', { clusterUid: 'u', facts: memberFacts('s2') });
  await vi.waitFor(() => expect(second.agents.member({ host: 'host-a', serviceId: 's2' })).not.toBeNull(), {
    timeout: 20_000,
  });
  expect(second.agents.member({ host: 'host-a', serviceId: 's1' })).toBeNull();
  expect(second.agents.host('host-a')?.connected).toBe(true);
});

test('a host that misses two pings is not connected; one that answers stays', async () => {
  const clock = manualClock();
  const control = await plane({ clock });
  const { keyPem, certificatePem } = await ca.issue('silent');
  const ws = new WebSocket(control.url.replace('https', 'wss').concat('/agent/v1'), {
    ca: ca.caPem,
    key: keyPem,
    cert: certificatePem,
    autoPong: false,
  });
  cleanups.push(() => ws.terminate());
  await once(ws, 'open');
  ws.send(JSON.stringify({ t: 'hello', v: 1, session: 'x', host: hostFacts('silent'), members: [] }));
  await agent('lively', [control.url]);
  await connected(control, 'silent');
  await connected(control, 'lively');
  for (let round = 0; round < 4; round++) {
    const seen = control.agents.host('lively')?.seenAt ?? 0;
    for (let group = 0; group < PING_GROUPS; group++) clock.advance(PING_INTERVAL / PING_GROUPS);
    await vi.waitFor(() => expect(control.agents.host('lively')?.seenAt).toBeGreaterThan(seen), {
      interval: 2,
      timeout: 20_000,
    });
  }
  await connected(control, 'silent', false);
  expect(control.agents.host('lively')?.connected).toBe(true);
});

test('without a certificate of the installation nobody gets in, and a host speaks only for itself', async () => {
  const control = await plane();
  const address = control.url.replace('https', 'wss').concat('/agent/v1');
  const stranger = await (await makeTestCa()).issue('host-a');
  for (const client of [{}, { key: stranger.keyPem, cert: stranger.certificatePem }]) {
    const ws = new WebSocket(address, { ca: ca.caPem, ...client });
    const [error] = (await once(ws, 'error').catch((failure) => [failure])) as [Error];
    expect(error.message).toContain('401');
  }
  const own = await ca.issue('host-b');
  const liar = new WebSocket(address, { ca: ca.caPem, key: own.keyPem, cert: own.certificatePem });
  await once(liar, 'open');
  liar.send(JSON.stringify({ t: 'hello', v: 1, session: 'x', host: hostFacts('host-a'), members: [] }));
  const [code] = await once(liar, 'close');
  expect(code).toBe(4000);
  expect(control.agents.hosts()).toEqual([]);
});

test('messages that are none, of another protocol version or with wrong facts close the connection and leave no trace', async () => {
  const control = await plane();
  const own = await ca.issue('host-a');
  const hello = { t: 'hello', v: 1, session: 'x', host: hostFacts('host-a'), members: [] };
  const wrong = [
    'not json',
    JSON.stringify({ t: 'report', members: [] }),
    JSON.stringify({ ...hello, v: 2 }),
    JSON.stringify({ ...hello, members: [{ clusterUid: 'u', facts: { serviceId: 's' } }] }),
    JSON.stringify({ ...hello, host: { name: 'host-a' } }),
  ];
  for (const message of wrong) {
    const ws = new WebSocket(control.url.replace('https', 'wss').concat('/agent/v1'), {
      ca: ca.caPem,
      key: own.keyPem,
      cert: own.certificatePem,
    });
    await once(ws, 'open');
    ws.send(message);
    const [code] = await once(ws, 'close');
    expect(code).toBe(4000);
  }
  expect(control.agents.hosts()).toEqual([]);
});

test('other paths of the same server are left to others', async () => {
  const control = await plane();
  control.https.on('upgrade', (request, socket) => {
    if (request.url === '/other') socket.end('HTTP/1.1 418 mine\r\n\r\n');
  });
  const socket = connect({
    port: Number(new URL(control.url).port),
    host: '127.0.0.1',
    ca: ca.caPem,
    servername: 'localhost',
  });
  await once(socket, 'secureConnect');
  socket.write('GET /other HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n');
  const [data] = await once(socket, 'data');
  expect(String(data)).toContain('418 mine');
  socket.destroy();
});

const login = () => ({ user: 'u', db: 'admin', password: secret('p') });
