import { X509Certificate } from 'node:crypto';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeAll, expect, test, vi } from 'vitest';
import { asBelayError, BelayError } from '../base/error.ts';
import { secret } from '../base/secret.ts';
import { makeSigningRequest } from './csr.ts';
import { caFingerprint, createJoinHandler, joinHost } from './join.ts';
import { makeTestCa, type TestCa } from './testing/pki.ts';
import { startAgent, startControlPlane } from './testing/rig.ts';

let ca: TestCa;
const open: Server[] = [];
beforeAll(async () => {
  ca = await makeTestCa();
});
afterEach(() => {
  for (const server of open.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

/** A face that mounts the two routes, as the server does. */
async function face(
  redeem: (token: string, host: string) => Promise<void>,
): Promise<{ url: string; bodies: string[] }> {
  const { keyPem, certificatePem } = await ca.issue('control');
  const bodies: string[] = [];
  const join = createJoinHandler({
    redeem,
    sign: async (_host, csrPem) => ({ certificatePem: await ca.sign(csrPem) }),
    caPem: () => ca.caPem,
    urls: () => ['https://one:8443', 'https://two:8443'],
  });
  const server = createServer({ key: keyPem, cert: certificatePem }, async (request, response) => {
    if (request.url === '/agent/v1/ca') return void response.end(ca.caPem);
    let body = '';
    for await (const chunk of request) body += chunk;
    bodies.push(body);
    try {
      response.end(JSON.stringify(await join(JSON.parse(body))));
    } catch (failure) {
      const { code, message: detail } = asBelayError(failure);
      response.writeHead(403).end(JSON.stringify({ code, detail }));
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  open.push(server);
  return { url: `https://localhost:${(server.address() as AddressInfo).port}`, bodies };
}

test('a host joins with a token and the pinned authority; its key never leaves it', async () => {
  const used: string[] = [];
  const { url, bodies } = await face(async (token, host) => void used.push(`${token} ${host}`));
  const joined = await joinHost({
    url,
    token: secret('belay_join_x'),
    caFingerprint: caFingerprint(ca.caPem),
    hostName: 'host-a',
  });
  expect(used).toEqual(['belay_join_x host-a']);
  expect(joined.urls).toEqual(['https://one:8443', 'https://two:8443']);
  expect(joined.identity.caPem).toBe(ca.caPem);
  const certificate = new X509Certificate(joined.identity.certificatePem);
  expect(certificate.subject).toBe('CN=host-a');
  expect(certificate.verify(new X509Certificate(ca.caPem).publicKey)).toBe(true);
  expect(joined.identity.keyPem).toContain('PRIVATE KEY');
  expect(bodies.join()).not.toContain('PRIVATE KEY');
});

test('with another fingerprint the token is not sent at all', async () => {
  const { url, bodies } = await face(async () => {});
  const other = await makeTestCa();
  const join = joinHost({
    url,
    token: secret('belay_join_x'),
    caFingerprint: caFingerprint(other.caPem),
    hostName: 'host-a',
  });
  await expect(join).rejects.toMatchObject({ code: 'CaMismatch', retry: 'never' });
  const untrusted = joinHost({ url, token: secret('belay_join_x'), caFingerprint: null, hostName: 'host-a' });
  await expect(untrusted).rejects.toMatchObject({ code: 'ControlPlaneUnreachable', retry: 'later' });
  expect(bodies).toEqual([]);
});

test('a refused token says why and is not tried again; a bad host name does not use the token up', async () => {
  let redeemed = 0;
  const { url } = await face(async () => {
    redeemed++;
    throw new BelayError('TokenExpired', 'the join token expired 3 d ago', { retry: 'never' });
  });
  const join = (hostName: string) =>
    joinHost({ url, token: secret('belay_join_x'), caFingerprint: caFingerprint(ca.caPem), hostName });
  await expect(join('Not A Name')).rejects.toMatchObject({ code: 'Invalid', retry: 'never' });
  expect(redeemed).toBe(0);
  await expect(join('host-a')).rejects.toMatchObject({ code: 'TokenExpired', retry: 'never' });
});

test('a connected agent has a new key signed before its certificate ends', async () => {
  const renewed: string[] = [];
  const control = await startControlPlane(ca, {
    renew: async (host, csrPem) => {
      renewed.push(host);
      return { certificatePem: await ca.sign(csrPem), caPem: ca.caPem };
    },
  });
  const host = await startAgent(ca, 'host-a', ['https://localhost:1', control.url]);
  await vi.waitFor(() => expect(host.connection.connected()).toEqual([control.url]), { timeout: 5_000 });
  const { csrPem } = await makeSigningRequest('host-a');
  const { certificatePem } = await host.connection.renew(csrPem);
  expect(new X509Certificate(certificatePem).subject).toBe('CN=host-a');
  expect(renewed).toEqual(['host-a']);
  host.connection.close();
  await control.close();
});
