import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import type { Log } from '../engine/ports.ts';
import { systemClock } from './clock.ts';
import { masterKeyFile, rotateMasterKeyOf } from './masterKey.ts';
import { isLoopback, parseAddress, type RunningServer, type ServerOptions, startServer } from './start.ts';

const folders: string[] = [];
const running: RunningServer[] = [];
afterEach(async () => {
  for (const server of running.splice(0)) await server.close();
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

function scratch(): string {
  const folder = mkdtempSync(join(tmpdir(), 'belay-start-'));
  folders.push(folder);
  return folder;
}
const lines: string[] = [];
const line = (message: string, fields: unknown): void =>
  void lines.push(`${message} ${JSON.stringify(fields)}`);
const log: Log = { debug: line, info: line, warn: line, error: line };
const free = { host: '127.0.0.1', port: 0 };

async function start(dataDir: string, change: Partial<ServerOptions> = {}): Promise<RunningServer> {
  const server = await startServer({
    dataDir,
    listen: free,
    agentListen: free,
    tls: false,
    version: '1.2.3',
    log,
    ...change,
  });
  running.push(server);
  return server;
}
async function stop(server: RunningServer): Promise<void> {
  running.splice(running.indexOf(server), 1);
  await server.close();
}
const tokenOf = (server: RunningServer): string => readFileSync(server.tokenFile, 'utf8').trim();

test('addresses to listen on', () => {
  expect(parseAddress('127.0.0.1:7717')).toEqual({ host: '127.0.0.1', port: 7717 });
  expect(parseAddress('[::1]:1')).toEqual({ host: '::1', port: 1 });
  expect(parseAddress(':80')).toEqual({ host: '0.0.0.0', port: 80 });
  for (const text of ['7717', 'host', 'host:99999', 'host:', 'a:b:1'])
    expect(() => parseAddress(text), text).toThrow(expect.objectContaining({ code: 'Usage' }));
  expect(['127.0.0.1', '127.0.0.2', '::1', 'localhost', '0.0.0.0', 'db1'].filter(isLoopback)).toHaveLength(4);
});

test('S8 the first start makes an admin token that only its owner may read; it stays, and is made anew when it was revoked', async () => {
  const folder = scratch();
  const first = await start(folder);
  expect(statSync(first.tokenFile).mode & 0o777).toBe(0o600);
  expect(statSync(masterKeyFile(folder)).mode & 0o777).toBe(0o600);
  const token = tokenOf(first);
  const ask = (server: RunningServer, bearer: string, path = '/api/v1/whoami') =>
    fetch(`${server.url}${path}`, { headers: { authorization: `Bearer ${bearer}` } });
  expect(await (await ask(first, token)).json()).toMatchObject({ role: 'admin' });
  const metrics = await (await ask(first, token, '/metrics')).text();
  expect(metrics).toContain('belay_clusters{phase="Ready"} 0');
  expect(metrics).toContain('belay_api_requests_total{method="GET",route="/api/v1/whoami",status="200"} 1');
  expect(lines.join('\n')).not.toContain(token.split('.')[1]);
  await stop(first);
  const second = await start(folder);
  expect(tokenOf(second)).toBe(token);
  const [row] = await second.controlPlane.tokens.list('api');
  await second.controlPlane.tokens.revoke(row?.id ?? '');
  await stop(second);
  expect(tokenOf(await start(folder))).not.toBe(token);
});

test('off loopback the API is served over TLS only, with a certificate of the CA in ca.pem', async () => {
  const folder = scratch();
  await expect(start(folder, { listen: { host: '0.0.0.0', port: 0 } })).rejects.toMatchObject({
    code: 'Usage',
    fix: expect.stringContaining('--tls'),
  });
  const server = await start(folder, { tls: true, listen: { host: '0.0.0.0', port: 0 } });
  expect(server.url).toMatch(/^https:\/\/localhost:\d+$/);
  const ca = readFileSync(server.caFile);
  const status = await new Promise((resolve, reject) => {
    request(`${server.url}/healthz`, { ca }, (response) => {
      response.resume();
      resolve(response.statusCode);
    })
      .on('error', reject)
      .end();
  });
  expect(status).toBe(200);
  await expect(fetch(`${server.url}/healthz`)).rejects.toThrow();
});

test('a port that is taken is refused with what to do, and everything is closed again', async () => {
  const first = await start(scratch());
  const folder = scratch();
  const listen = { host: '127.0.0.1', port: Number(new URL(first.url).port) };
  const refused = expect.objectContaining({ code: 'PortTaken', fix: expect.stringContaining('--listen') });
  await expect(start(folder, { listen })).rejects.toEqual(refused);
  await start(folder);
});

test('a store whose key file is missing gets no new key', async () => {
  const folder = scratch();
  await stop(await start(folder));
  rmSync(masterKeyFile(folder));
  await expect(start(folder)).rejects.toMatchObject({
    code: 'MasterKeyMissing',
    fix: expect.stringContaining('the very key it was sealed with'),
  });
  expect(existsSync(masterKeyFile(folder))).toBe(false);
  const other = scratch();
  const storeUrl = `sqlite:${join(folder, 'belay.db')}`;
  await expect(start(other, { storeUrl })).rejects.toMatchObject({ code: 'MasterKeyMissing' });
});

test('the master key is rotated while no control plane runs; the old one opens nothing any more', async () => {
  const folder = scratch();
  const first = await start(folder);
  const token = tokenOf(first);
  await expect(rotateMasterKeyOf({ dataDir: folder, clock: systemClock })).rejects.toMatchObject({
    code: 'DataFolderInUse',
  });
  await stop(first);
  const before = readFileSync(masterKeyFile(folder), 'utf8');
  const done = await rotateMasterKeyOf({ dataDir: folder, clock: systemClock });
  expect(done.rows).toBeGreaterThan(0);
  expect(readFileSync(masterKeyFile(folder), 'utf8')).not.toBe(before);
  expect(tokenOf(await start(folder))).toBe(token);
  await expect(
    start(scratch(), { storeUrl: `sqlite:${join(folder, 'belay.db')}`, masterKeyFile: done.oldKeyFile }),
  ).rejects.toMatchObject({ code: 'MasterKeyWrong' });
});
