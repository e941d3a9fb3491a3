import { X509Certificate } from 'node:crypto';
import { expect, test } from 'vitest';
import { DAY } from '../base/units.ts';
import { makeSigningRequest } from '../channel/csr.ts';
import { openCertificateAuthority } from '../security/ca.ts';
import { masterKeyFrom } from '../security/seal.ts';
import { openSecrets } from '../security/secrets.ts';
import { openMemoryStore } from '../store/memory.ts';
import { ManualClock } from '../store/testing/clock.ts';
import { certifyHost, knownHost, namesOf } from './agentListener.ts';

test('a certificate counts only while its host has a document: deleting it locks the host out', async () => {
  const store = openMemoryStore({ clock: new ManualClock() });
  const key = { kind: 'Host', namespace: 'default', name: 'db1' };
  expect(await knownHost(store, 'db1')).toBeNull();
  await store.create({ ...key, spec: {} });
  expect([await knownHost(store, 'db1'), await knownHost(store, 'db2')]).toEqual(['db1', null]);
  await store.update(key, { delete: true });
  expect(await knownHost(store, 'db1')).toBeNull();
});

test('a host’s certificate names the host, lets it in as a client and serves nobody', async () => {
  const clock = new ManualClock(Date.UTC(2030, 0, 1));
  const secrets = await openSecrets(openMemoryStore({ clock }), masterKeyFrom(new Uint8Array(32).fill(1)));
  const ca = await openCertificateAuthority(secrets, clock, { organization: 'acme' });
  const { csrPem } = await makeSigningRequest('another-name');
  const { certificatePem } = await certifyHost(ca, 'db1', csrPem);
  const certificate = new X509Certificate(certificatePem);
  expect(certificate.subject.split('\n')).toContain('CN=db1');
  expect(certificate.keyUsage).toEqual(['1.3.6.1.5.5.7.3.2']);
  expect(certificate.subjectAltName).toBeUndefined();
  expect(certificate.validToDate.getTime() - clock.now()).toBe(90 * DAY);
});

test('names of URLs as certificates have them', () => {
  expect(namesOf(['https://control.example.org:7718', 'https://[fd00::1]:7718', 'https://10.0.0.1'])).toEqual(
    ['control.example.org', 'fd00::1', '10.0.0.1'],
  );
  expect(() => namesOf(['not a url'])).toThrow(expect.objectContaining({ code: 'Usage' }));
});
