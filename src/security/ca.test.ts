// Must be the first import: x509 needs its metadata store in place.
import 'reflect-metadata';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect, createServer, type TLSSocket } from 'node:tls';
import { BasicConstraintsExtension, X509Certificate } from '@peculiar/x509';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { BelayError } from '../base/error.ts';
import { DAY, HOUR } from '../base/units.ts';
import { makeSigningRequest } from '../channel/csr.ts';
import type { CertificateAuthority, Secrets } from '../engine/ports.ts';
import { openMemoryStore } from '../store/memory.ts';
import { ManualClock } from '../store/testing/clock.ts';
import { CA_SECRET, inspectCertificate, openCertificateAuthority, splitCombined } from './ca.ts';
import { masterKeyFrom } from './seal.ts';
import { openSecrets } from './secrets.ts';

const noOpenssl =
  spawnSync('openssl', ['version']).status === 0 ? '' : ' (skipped: openssl is not installed)';
const key = masterKeyFrom(new Uint8Array(32).fill(1));
const member = {
  commonName: 'orders-0',
  organizationalUnit: 'prod-orders',
  names: ['orders-0.example.org', 'localhost', '127.0.0.1', '::1', '*.example.org'],
  usages: ['server', 'client'] as const,
};

let clock: ManualClock;
let secrets: Secrets;
let ca: CertificateAuthority;
let folder: string;
beforeAll(async () => {
  // Real time: openssl and node compare with the machine's clock.
  clock = new ManualClock(Date.now());
  secrets = await openSecrets(openMemoryStore({ clock }), key);
  ca = await openCertificateAuthority(secrets, clock, { organization: 'acme' });
  folder = mkdtempSync(join(tmpdir(), 'belay-ca-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test('the CA is made once per installation', async () => {
  const again = await openCertificateAuthority(secrets, clock, { organization: 'acme' });
  expect(again.caPem).toBe(ca.caPem);
  const facts = inspectCertificate(ca.caPem);
  expect(facts).toMatchObject({ isCa: true, subject: 'CN=Belay CA,O=acme', issuer: 'CN=Belay CA,O=acme' });
  expect(facts.notAfter - clock.now()).toBeGreaterThan(9.9 * 365 * DAY);
  const issued = await again.issue(member);
  expect(inspectCertificate(issued.certificatePem).issuer).toBe(facts.subject);
});

test('A9.7 a member certificate has its subject, names and addresses, key usage and fingerprint', async () => {
  const issued = await ca.issue(member);
  const facts = inspectCertificate(issued.combinedPem.reveal());
  expect(facts).toMatchObject({
    subject: 'CN=orders-0,OU=prod-orders,O=acme',
    dnsNames: ['orders-0.example.org', 'localhost', '*.example.org'],
    isCa: false,
    fingerprint: issued.fingerprint,
    notAfter: issued.notAfter,
  });
  expect(facts.ipAddresses).toEqual(['127.0.0.1', '0:0:0:0:0:0:0:1']);
  expect(issued.fingerprint).toMatch(/^[0-9a-f]{64}$/);
  const { keyPem, certificatePem } = splitCombined(issued.combinedPem.reveal());
  expect(keyPem).toMatch(/^-----BEGIN PRIVATE KEY-----\n/);
  expect(certificatePem).toBe(issued.certificatePem);
  const second = await ca.issue(member);
  expect(inspectCertificate(second.certificatePem).serialNumber).not.toBe(facts.serialNumber);
});

test('a leaf says that it is no authority', async () => {
  const { certificatePem } = await ca.issue(member);
  const leaf = new X509Certificate(certificatePem).getExtension(BasicConstraintsExtension);
  expect(leaf?.ca).toBe(false);
});

test('TLS-05 no certificate outlives the CA, and a CA at its end says so', async () => {
  const end = inspectCertificate(ca.caPem).notAfter;
  const long = await ca.issue({ ...member, validForMillis: 100 * 365 * DAY });
  expect(long.notAfter).toBe(end);
  expect((await ca.issue({ ...member, validForMillis: 30 * DAY })).notAfter).toBeLessThanOrEqual(
    clock.now() + 30 * DAY,
  );
  const late = new ManualClock(end - HOUR / 2);
  const old = await openCertificateAuthority(secrets, late, { organization: 'acme' });
  await expect(old.issue(member)).rejects.toMatchObject({ code: 'CertificateAuthorityExpires' });
});

test('names that are no host names, and texts that are no certificates, are refused', async () => {
  for (const name of ['a b', 'host:27017', '', 'x\ny', '-a', 'http://x']) {
    await expect(ca.issue({ ...member, names: [name] })).rejects.toMatchObject({
      code: 'InvalidCertificateName',
    });
  }
  expect(() => inspectCertificate('nothing')).toThrow(BelayError);
  expect(() => inspectCertificate('-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----')).toThrow(
    /cannot be read/,
  );
  expect(() => splitCombined(ca.caPem)).toThrow(/one private key/);
});

test('S8 the CA key is only in the sealed store, and damage does not show it', async () => {
  expect(ca.caPem).not.toContain('PRIVATE KEY');
  expect(JSON.stringify(await ca.issue(member))).not.toContain('PRIVATE KEY');
  const { keyPem } = splitCombined((await secrets.get(CA_SECRET))?.reveal() ?? '');
  const damaged = { ...secrets, ensure: async () => ({ reveal: () => keyPem }) as never };
  const failure = await openCertificateAuthority(damaged, clock, { organization: 'acme' }).catch(
    (error) => error,
  );
  expect(failure).toMatchObject({ code: 'CertificateAuthorityDamaged' });
  expect(String(failure.stack)).not.toContain(keyPem.split('\n')[1]);
});

test.skipIf(noOpenssl !== '')(
  `openssl accepts the chain under strict rules, for both uses${noOpenssl}`,
  async () => {
    const caFile = join(folder, 'ca.pem');
    const leafFile = join(folder, 'member.pem');
    writeFileSync(caFile, ca.caPem);
    writeFileSync(leafFile, (await ca.issue(member)).combinedPem.reveal());
    for (const purpose of ['sslserver', 'sslclient']) {
      const args = ['verify', '-x509_strict', '-purpose', purpose, '-CAfile', caFile, leafFile];
      expect(execFileSync('openssl', args, { encoding: 'utf8' })).toContain(': OK');
    }
    const host = ['-verify_hostname', 'other.org', '-CAfile', caFile, leafFile];
    expect(spawnSync('openssl', ['verify', ...host]).status).not.toBe(0);
    writeFileSync(leafFile, (await ca.issue({ ...member, usages: ['client'] })).combinedPem.reveal());
    const asServer = ['verify', '-purpose', 'sslserver', '-CAfile', caFile, leafFile];
    expect(spawnSync('openssl', asServer).status).not.toBe(0);
    const text = execFileSync('openssl', ['pkey', '-in', leafFile, '-text', '-noout'], { encoding: 'utf8' });
    expect(text).toContain('P-256');
  },
);

test('node connects both ways with certificates of the CA, and not without', async () => {
  const server = (await ca.issue(member)).combinedPem.reveal();
  const client = (
    await ca.issue({ ...member, commonName: 'agent', names: ['agent'], usages: ['client'] })
  ).combinedPem.reveal();
  const options = { key: server, cert: server, ca: ca.caPem, requestCert: true, rejectUnauthorized: true };
  const listener = createServer(options, (socket) =>
    socket.end(String(socket.getPeerCertificate().subject.CN)),
  );
  await new Promise<void>((done) => listener.listen(0, '127.0.0.1', done));
  const { port } = listener.address() as { port: number };
  const ask = (credentials: object, servername: string): Promise<string> =>
    new Promise((resolve) => {
      let text = '';
      const socket: TLSSocket = connect({
        host: '127.0.0.1',
        port,
        servername,
        ca: ca.caPem,
        ...credentials,
      });
      socket.on('data', (data) => {
        text += data;
      });
      socket.on('error', () => resolve('refused'));
      socket.on('close', () => resolve(text));
    });
  const own = { key: client, cert: client };
  expect(await ask(own, 'orders-0.example.org')).toBe('agent');
  expect(await ask(own, 'localhost')).toBe('agent');
  expect(await ask(own, 'elsewhere.net')).toBe('refused');
  expect(await ask({}, 'localhost')).not.toBe('agent');
  listener.close();
});

test("a host's own key is certified under the name we say, and a request that proves nothing is refused", async () => {
  const { csrPem } = await makeSigningRequest('whatever-it-asks-for');
  const signed = await ca.sign(csrPem, { commonName: 'db1', names: [], usages: ['client'] });
  expect(inspectCertificate(signed.certificatePem)).toMatchObject({
    subject: 'CN=db1,O=acme',
    fingerprint: signed.fingerprint,
    isCa: false,
  });
  // Well-formed, and the last bit of its signature is another one.
  const der = Buffer.from(csrPem.replace(/-----[^-]+-----|\s/g, ''), 'base64');
  der[der.length - 1] = (der.at(-1) as number) ^ 1;
  const lines = der.toString('base64').replace(/.{64}/g, '$&\n');
  const forged = `-----BEGIN CERTIFICATE REQUEST-----\n${lines}\n-----END CERTIFICATE REQUEST-----\n`;
  await expect(ca.sign(forged, { commonName: 'db1', names: [], usages: ['client'] })).rejects.toMatchObject({
    code: 'InvalidRequest',
  });
});
