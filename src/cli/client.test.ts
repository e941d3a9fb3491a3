import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type RequestListener, type Server } from 'node:http';
import { createServer as createHttps } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { secret } from '../base/secret.ts';
import { openCertificateAuthority } from '../security/ca.ts';
import { systemClock } from '../server/clock.ts';
import { ApiClient, serverUrl, type WatchEvent } from './client.ts';
import { makeContext } from './context.ts';
import { readProfile, removeProfile, writeProfile } from './profile.ts';
import { belay } from './testing/rig.ts';

const undo: (() => void)[] = [];
afterEach(() => {
  for (const step of undo.splice(0).reverse()) step();
});

async function serve(
  handler: RequestListener,
  make: (h: RequestListener) => Server = createServer,
): Promise<string> {
  const server = make(handler);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  undo.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}
function scratch(): string {
  const folder = mkdtempSync(join(tmpdir(), 'belay-client-'));
  undo.push(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

test('addresses in one form', () => {
  expect(serverUrl('127.0.0.1:7717')).toBe('http://127.0.0.1:7717');
  expect(serverUrl('HTTPS://Control:7717//')).toBe('https://control:7717');
  expect(serverUrl('http://proxy/belay/')).toBe('http://proxy/belay');
  for (const text of ['', 'ftp://x', 'http://user:pw@x', 'http://'])
    expect(() => serverUrl(text)).toThrow(expect.objectContaining({ code: 'Usage' }));
});

test('answers that are not of a control plane say so', async () => {
  const html = await serve((_, response) => response.writeHead(200).end('<html>hello</html>'));
  await expect(new ApiClient(html, null).get('/x')).rejects.toMatchObject({
    code: 'NotBelay',
    fix: expect.stringContaining('--server'),
  });
  const bad = await serve((_, response) => response.writeHead(502).end('Bad Gateway'));
  await expect(new ApiClient(bad, null).get('/x')).rejects.toMatchObject({
    code: 'NotBelay',
    message: expect.stringContaining('502'),
  });
  const away = await serve((_, response) =>
    response.writeHead(302, { location: 'http://127.0.0.1:1/' }).end(),
  );
  await expect(new ApiClient(away, secret('t')).get('/x')).rejects.toMatchObject({
    code: 'ServerUnreachable',
  });
  const problem = { code: 'Refused', detail: 'no', fix: 'do', errors: [{ path: 'a', message: 'b' }] };
  const refusing = await serve((_, response) => response.writeHead(409).end(JSON.stringify(problem)));
  await expect(new ApiClient(refusing, null).get('/x')).rejects.toMatchObject({
    code: 'Refused',
    message: 'no',
    fix: 'do',
    retry: 'never',
    problems: problem.errors,
  });
});

test('a token goes only to the server of its profile', async () => {
  const home = scratch();
  const env = { XDG_CONFIG_HOME: home };
  const seen: (string | undefined)[] = [];
  const url = await serve((request, response) => {
    seen.push(request.headers.authorization);
    response.end('{"items":[],"metadata":{}}');
  });
  writeFileSync(join(home, 'token'), 'the-token\n');
  writeProfile({ server: `http://${url}/`, tokenFile: join(home, 'token') }, env);
  await belay(['get', 'mongodb'], { env });
  const other = await serve((request, response) => {
    seen.push(request.headers.authorization);
    response.end('{"items":[],"metadata":{}}');
  });
  await belay(['get', 'mongodb', '--server', other], { env });
  await belay(['get', 'mongodb', '--server', other], { env: { ...env, BELAY_TOKEN: 'mine' } });
  expect(seen).toEqual(['Bearer the-token', undefined, 'Bearer mine']);
  removeProfile('http://elsewhere', env);
  expect(readProfile(env)).not.toBeNull();
  expect(makeContext({}, { env, fetch, now: () => 0 } as never).client.url).toBe(`http://${url}`);
});

test('a server with a certificate of its own is refused with what to do, and trusted with its CA', async () => {
  const folder = scratch();
  const store = new Map<string, string>();
  const secrets = {
    ensure: async (name: string, make: () => string | Promise<string>) => {
      if (!store.has(name)) store.set(name, await make());
      return secret(store.get(name) ?? '');
    },
    get: async (name: string) => secret(store.get(name) ?? ''),
  };
  const ca = await openCertificateAuthority(secrets as never, systemClock, { organization: 'Test' });
  const { combinedPem } = await ca.issue({ commonName: 'api', names: ['127.0.0.1'], usages: ['server'] });
  const pem = combinedPem.reveal();
  const host = await serve(
    (_, response) => response.end('{"items":[],"metadata":{"resourceVersion":"1"}}'),
    (handler) => createHttps({ key: pem, cert: pem }, handler) as unknown as Server,
  );
  const server = `https://${host}`;
  const env = { XDG_CONFIG_HOME: folder };
  const refused = await belay(['get', 'mongodb', '--server', server], { env });
  expect(refused).toMatchObject({
    code: 1,
    err: expect.stringMatching(/error ServerUntrusted: [\s\S]*fix: copy ca\.pem/),
  });
  const caFile = join(folder, 'ca.pem');
  expect((await belay(['get', 'mongodb', '--server', server, '--ca-file', caFile], { env })).code).toBe(2);
  writeFileSync(caFile, ca.caPem);
  expect((await belay(['get', 'mongodb', '--server', server, '--ca-file', caFile], { env })).code).toBe(0);
  expect(
    (await belay(['get', 'mongodb', '--server', server], { env: { ...env, BELAY_CA_FILE: caFile } })).code,
  ).toBe(0);
});

// ── watches ────────────────────────────────────────────────────────────────────────────────────────────────────────

const named = (name: string, version: string) => ({
  metadata: { name, namespace: 'default', resourceVersion: version },
});
const line = (type: string, id: string, data: unknown): string =>
  `event: ${type}\nid: ${id}\ndata: ${JSON.stringify(data)}\n\n`;
const text = (event: WatchEvent): string =>
  event.type === 'LISTED' ? 'LISTED' : `${event.type} ${event.object.metadata.name}`;

/** A server that answers each connection with the next script; gives what was asked. */
async function scripted(scripts: readonly (readonly string[] | { status: number; body: unknown })[]) {
  const asked: (string | null)[] = [];
  const url = await serve((request, response) => {
    const script = scripts[asked.length] ?? [];
    asked.push(new URL(request.url ?? '', 'http://x').searchParams.get('resourceVersion'));
    if ('status' in script) {
      response.writeHead(script.status).end(JSON.stringify(script.body));
      return;
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const part of script) response.write(part);
    // The connection is lost after each script but the last.
    if (asked.length < scripts.length) setImmediate(() => response.destroy());
  });
  return { url, asked };
}

async function collect(url: string, until: string): Promise<readonly string[]> {
  const seen: string[] = [];
  for await (const event of new ApiClient(url, null).watch('/x', {}, new AbortController().signal)) {
    seen.push(text(event));
    if (seen.at(-1) === until) break;
  }
  return seen;
}

test('a lost watch goes on after the last id it saw', async () => {
  const { url, asked } = await scripted([
    [line('ADDED', '1', named('a', '1')), line('BOOKMARK', '5', {})],
    [line('ADDED', '6', named('b', '6')), ': \n\n'],
    [line('DELETED', '7', named('a', '7'))],
  ]);
  expect(await collect(url, 'DELETED a')).toEqual(['ADDED a', 'LISTED', 'ADDED b', 'DELETED a']);
  expect(asked).toEqual([null, '5', '6']);
});

test('after Gone everything is read again, and what vanished meanwhile is told', async () => {
  const gone = { status: 410, code: 'Gone', detail: 'too old' };
  const { url, asked } = await scripted([
    [line('ADDED', '1', named('a', '1')), line('ADDED', '2', named('b', '2')), line('BOOKMARK', '2', {})],
    { status: 410, body: gone },
    [line('ADDED', '9', named('b', '9')), line('BOOKMARK', '9', {}), line('ERROR', '9', gone)],
    [line('ADDED', '12', named('c', '12')), line('BOOKMARK', '12', {})],
  ]);
  const seen = await collect(url, 'ADDED c');
  expect(seen).toEqual(['ADDED a', 'ADDED b', 'LISTED', 'ADDED b', 'DELETED a', 'LISTED', 'ADDED c']);
  expect(asked).toEqual([null, '2', null, null]);
});

test('a watch that never worked, or is refused, fails at once', async () => {
  await expect(collect('127.0.0.1:1', 'x')).rejects.toMatchObject({ code: 'ServerUnreachable' });
  const { url, asked } = await scripted([
    [line('BOOKMARK', '1', {})],
    { status: 401, body: { code: 'TokenExpired', detail: 'over' } },
    [],
  ]);
  await expect(collect(url, 'x')).rejects.toMatchObject({ code: 'TokenExpired' });
  expect(asked).toHaveLength(2);
});
