import { X509Certificate } from 'node:crypto';
import { readdirSync, statSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { DAY, HOUR } from '../base/units.ts';
import type { AgentConnection } from '../channel/index.ts';
import { manualClock } from '../channel/testing/clock.ts';
import { quiet } from '../channel/testing/facts.ts';
import { makeTestCa } from '../channel/testing/pki.ts';
import { openExecutables } from './executables.ts';
import { judgeExit } from './exits.ts';
import { atomicWrite, PRIVATE, readText } from './files.ts';
import { hasEnded, keepRenewed, loadMembership, type Membership, needsRenewal } from './identity.ts';
import { settleLag } from './lag.ts';
import { takeLock } from './lock.ts';
import { listenerOf } from './procfs.ts';
import { readHello, readStatus } from './reading.ts';
import { readSpace, steadySpace } from './space.ts';
import { type Scratch, scratch } from './testing/scratch.ts';

let box: Scratch;
beforeEach(() => {
  box = scratch();
});
afterEach(() => box.remove());

// ── files and lock ───────────────────────────────────────────────────────────────────────────────────────────────

test('A2.6 a file is replaced whole and private from its first byte; a failed write leaves the old one and no rest', () => {
  const path = join(box.path, 'secret');
  atomicWrite(path, 'one', PRIVATE);
  expect(statSync(path).mode & 0o777).toBe(0o600);
  atomicWrite(path, 'two', PRIVATE);
  expect(readText(path)).toBe('two');
  expect(() => atomicWrite(join(box.path, 'missing', 'file'), 'x')).toThrow();
  expect(readdirSync(box.path)).toEqual(['secret']);
});

test('one agent per data folder: the second is told which process has it; a dead one’s lock is taken over', () => {
  const path = join(box.path, 'agent.lock');
  const release = takeLock(path);
  expect(() => takeLock(path)).toThrow(`process ${process.pid}`);
  release();
  writeFileSync(path, JSON.stringify({ pid: process.pid, startTicks: '1', bootId: 'x' }));
  takeLock(path)();
  writeFileSync(path, 'half a fi');
  takeLock(path)();
});

test('a damaged identity file is none, and certificates are renewed in the last third of their life', async () => {
  const path = join(box.path, 'identity.json');
  writeFileSync(path, '{"identity": {"ke');
  expect(loadMembership(path)).toBeNull();
  const { certificatePem } = await (await makeTestCa()).issue('host-a');
  const { validFrom, validTo } = new X509Certificate(certificatePem);
  const [from, to] = [Date.parse(validFrom), Date.parse(validTo)];
  expect(needsRenewal(certificatePem, from)).toBe(false);
  expect(needsRenewal(certificatePem, from + (to - from) * 0.66)).toBe(false);
  expect(needsRenewal(certificatePem, from + (to - from) * 0.67)).toBe(true);
  expect(hasEnded(certificatePem, to - 1)).toBe(false);
  expect(hasEnded(certificatePem, to)).toBe(true);
});

test('A9.4 a certificate in the last third of its life is replaced over the channel, key and all, in one file', async () => {
  const ca = await makeTestCa();
  const path = join(box.path, 'identity.json');
  const old = {
    identity: { host: 'host-a', ...(await ca.issue('host-a')), caPem: ca.caPem },
    urls: ['https://one'],
  };
  const clock = manualClock(Date.now());
  let membership: Membership = old;
  let connected: string[] = [];
  const connection = {
    connected: () => connected,
    renew: async (csrPem: string) => ({ certificatePem: await ca.sign(csrPem), caPem: 'new bundle' }),
  } as unknown as AgentConnection;
  const stop = keepRenewed({
    path,
    membership: () => membership,
    replace: (renewed) => {
      membership = renewed;
    },
    connection,
    clock,
    log: quiet,
  });
  clock.advance(25 * DAY);
  expect(membership).toBe(old);
  connected = ['https://one'];
  await vi.waitFor(
    () => {
      clock.advance(HOUR);
      expect(membership).not.toBe(old);
    },
    { timeout: 20_000 },
  );
  stop.stop();
  expect(membership.identity.caPem).toBe('new bundle');
  expect(membership.identity.keyPem).not.toBe(old.identity.keyPem);
  expect(loadMembership(path)).toEqual(membership);
  expect(statSync(path).mode & 0o777).toBe(0o600);
});

test('free space is told again only when it moved by a step', () => {
  const told = { totalBytes: 1_000, freeBytes: 500 };
  expect(steadySpace(told, { totalBytes: 1_000, freeBytes: 509 })).toBe(told);
  expect(steadySpace(told, { totalBytes: 1_000, freeBytes: 490 })).toEqual({
    totalBytes: 1_000,
    freeBytes: 490,
  });
  expect(steadySpace(told, { totalBytes: 2_000, freeBytes: 500 })?.totalBytes).toBe(2_000);
  expect(steadySpace(null, told)).toBe(told);
  expect(readSpace(box.path)?.totalBytes).toBeGreaterThan(0);
  expect(readSpace(join(box.path, 'nothing'))).toBeNull();
});

// ── executables ──────────────────────────────────────────────────────────────────────────────────────────────────

test('executables are found by version folder, plainly and on PATH; what cannot tell its version is none', async () => {
  const version = (text: string) => `echo "db version v${text}"`;
  box.script('bin/7.0.43-23/bin/mongod', version('7.0.43-23'));
  box.script('bin/mongod', version('8.0.32-14'));
  box.script('path/mongod', version('6.0.29-23'));
  box.script('broken/mongod', 'exit 1');
  const executables = openExecutables(join(box.path, 'bin'), `${box.path}/broken:${box.path}/path`);
  expect(await executables.found()).toEqual({ mongod: ['6.0.29-23', '7.0.43-23', '8.0.32-14'] });
  expect(await executables.find('mongod', '7.0.43-23')).toBe(join(box.path, 'bin/7.0.43-23/bin/mongod'));
  await expect(executables.find('mongod', '8.0.29-13')).rejects.toMatchObject({ code: 'NoExecutables' });
  box.script('bin/mongod', version('8.0.29-13 '));
  expect((await executables.found())['mongod']).toContain('8.0.29-13');
  expect(await openExecutables(null, '').found()).toEqual({});
  // Named from here, started from a folder of its own.
  const near = openExecutables(relative(process.cwd(), join(box.path, 'bin')), '');
  expect(await near.find('mongod', '7.0.43-23')).toBe(join(box.path, 'bin/7.0.43-23/bin/mongod'));
});

test('an executable that could not tell its version is asked again', async () => {
  box.script('bin/mongod', `test -e ${box.path}/library && echo "db version v8.0.32-14"`);
  const executables = openExecutables(join(box.path, 'bin'), '');
  expect(await executables.found()).toEqual({});
  box.script('library', '');
  expect(await executables.found()).toEqual({ mongod: ['8.0.32-14'] });
});

test('nobody listens on a port that is closed', () => {
  expect(listenerOf(1)).toBeNull();
});

// ── exits ────────────────────────────────────────────────────────────────────────────────────────────────────────

const line = (id: number, s: string, msg: string, attr: object = {}) =>
  `{"t":{"$date":"x"},"s":"${s}",  "c":"X","id":${id},   "ctx":"main","msg":"${msg}","attr":${JSON.stringify(attr)}}`;
const judge = (code: number | null, log: readonly string[], output = '', started = false) =>
  judgeExit({ code, signal: code === null ? 'SIGKILL' : null }, { log: log.join('\n'), output }, started);

test('an exit is explained by its code and the last error after the last start', () => {
  const log = [
    line(20573, 'F', 'Wrong mongod version', { error: 'an old story' }),
    line(20698, 'I', '***** SERVER RESTARTED *****'),
    line(20568, 'E', 'Error setting up listener', { error: { errmsg: 'Address already in use' } }),
    line(23138, 'I', 'Shutting down', { exitCode: 48 }),
  ];
  expect(judge(48, log).message).toBe(
    'its port could not be opened: Error setting up listener: Address already in use',
  );
  expect(judge(14, log.slice(0, 2)).message).toBe('it met an unrecoverable error');
  expect(judge(null, []).message).toBe('it was ended by SIGKILL');
});

test('only bad options, and errors before the first answer, are the configuration’s fault', () => {
  expect(judge(2, [], 'Unrecognized option: x\n')).toMatchObject({ rejectsConfig: true, retry: false });
  expect(judge(1, [])).toMatchObject({ rejectsConfig: true, retry: true });
  expect(judge(1, [], '', true)).toMatchObject({ rejectsConfig: false, retry: true });
  expect(judge(62, [])).toMatchObject({ rejectsConfig: false, retry: false });
  for (const code of [0, 14, 48, 100, null])
    expect(judge(code, [])).toMatchObject({ rejectsConfig: false, retry: true });
});

// ── readings ─────────────────────────────────────────────────────────────────────────────────────────────────────

test('hello tells apart who is no member yet, who was removed and who is busy', () => {
  expect(readHello({ isreplicaset: true })).toMatchObject({
    initiated: false,
    state: 'STARTUP',
    setName: null,
  });
  expect(readHello({ isreplicaset: true, setName: 'rs' })).toMatchObject({
    initiated: true,
    state: 'REMOVED',
  });
  expect(readHello({ setName: 'rs', hosts: [] })).toMatchObject({ initiated: true, state: null });
  expect(readHello({ setName: 'rs', hosts: [], isWritablePrimary: true })).toMatchObject({
    state: 'PRIMARY',
  });
  expect(readHello({ isWritablePrimary: true })).toMatchObject({ initiated: null, state: null });
});

test('an unreachable peer’s epoch optime is no lag of fifty years', () => {
  const at = (seconds: number) => new Date(1_000_000_000 + seconds * 1_000);
  const status = readStatus({
    myState: 1,
    members: [
      { _id: 0, name: 'a:1', state: 1, health: 1, optimeDate: at(10), self: true, configVersion: 3 },
      { _id: 1, name: 'b:1', state: 2, health: 1, optimeDate: at(7.5) },
      { _id: 2, name: 'c:1', state: 8, health: 0, optimeDate: new Date(0), lastHeartbeatMessage: 'refused' },
    ],
    initialSyncStatus: { approxTotalDataSize: 200, approxTotalBytesCopied: 50 },
  });
  expect(status.peers.map((peer) => peer.lagMillis)).toEqual([0, 2_000, null]);
  expect(status.peers[2]).toMatchObject({ state: 'DOWN', healthy: false, message: 'refused' });
  expect(status).toMatchObject({ state: 'PRIMARY', configVersion: 3, initialSyncPercent: 25 });
});

test('the ten-second no-op of an idle set is no lag; a lag that stays is one, and its end shows at once', () => {
  const start = { shown: 0, doubtSince: null };
  const doubted = settleLag(start, 10_000, 100_000);
  expect(doubted.shown).toBe(0);
  expect(settleLag(doubted, 0, 101_000)).toEqual(start);
  const shown = settleLag(doubted, 10_000, 102_500);
  expect(shown.shown).toBe(10_000);
  expect(settleLag(shown, 0, 103_000).shown).toBe(0);
  expect(settleLag(start, 60_000, 100_000).shown).toBe(60_000);
  expect(settleLag({ shown: null, doubtSince: null }, 3_000, 1).shown).toBe(3_000);
});

test('A7.1 a lag read just after an election is no news until it lasts: the new primary’s first write lies far ahead', () => {
  const unknown = { shown: null, doubtSince: null };
  const doubted = settleLag(unknown, 19_000, 100_000);
  expect(doubted).toEqual({ shown: null, doubtSince: 100_000 });
  expect(settleLag(doubted, 0, 102_500)).toEqual({ shown: 0, doubtSince: null });
  expect(settleLag(doubted, 21_000, 102_500)).toEqual({ shown: 21_000, doubtSince: null });
  expect(settleLag({ shown: 0, doubtSince: null }, 19_000, 100_000).shown).toBe(0);
  expect(settleLag(unknown, 60_000, 100_000).shown).toBe(60_000);
});
