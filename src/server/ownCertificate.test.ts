import { X509Certificate } from 'node:crypto';
import { expect, test, vi } from 'vitest';
import { DAY } from '../base/units.ts';
import { openCertificateAuthority } from '../security/ca.ts';
import { masterKeyFrom } from '../security/seal.ts';
import { openSecrets } from '../security/secrets.ts';
import { openMemoryStore } from '../store/memory.ts';
import { ManualClock } from '../store/testing/clock.ts';
import { ownCertificate } from './ownCertificate.ts';

const certificateIn = (pem: string): X509Certificate =>
  new X509Certificate(/-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/.exec(pem)?.[0] ?? '');

async function listener(clients: boolean) {
  const clock = new ManualClock(Date.UTC(2030, 0, 1));
  const secrets = await openSecrets(openMemoryStore({ clock }), masterKeyFrom(new Uint8Array(32).fill(1)));
  const ca = await openCertificateAuthority(secrets, clock, { organization: 'Belay' });
  const log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
  const own = await ownCertificate({ ca, clock, log }, { commonName: 'belay', names: ['control'], clients });
  const contexts: { readonly cert?: string; readonly ca?: string }[] = [];
  const stop = own.keep({ setSecureContext: (context) => void contexts.push(context as never) });
  return { clock, ca, own, contexts, stop };
}

test('A9.4 a control plane that runs for long shows a new certificate long before the first ends', async () => {
  const { clock, own, contexts, stop } = await listener(false);
  const first = certificateIn(own.pem);
  expect(first.checkHost('control')).toBe('control');
  clock.advance(122 * DAY);
  await vi.waitFor(() => expect(contexts).toHaveLength(1), { timeout: 20_000 });
  const next = certificateIn(contexts[0]?.cert ?? '');
  expect(next.validToDate.getTime() - first.validToDate.getTime()).toBeGreaterThan(120 * DAY);
  expect(contexts[0]?.ca).toBeUndefined();
  stop();
  clock.advance(122 * DAY);
  expect(contexts).toHaveLength(1);
});

test('S12 a listener follows a replaced authority at once: whom it trusts first, then what it shows', async () => {
  const { ca, contexts, stop } = await listener(true);
  const issuedBy = (at: number): string | null => ca.issuerOf(contexts[at]?.cert ?? '');
  const old = ca.authority.issuer;
  await ca.introduce();
  await vi.waitFor(() => expect(contexts).toHaveLength(1), { timeout: 20_000 });
  expect([contexts[0]?.ca, issuedBy(0)]).toEqual([ca.caPem, old]);
  await ca.switchOver();
  await vi.waitFor(() => expect(contexts).toHaveLength(2), { timeout: 20_000 });
  expect(issuedBy(1)).toBe(ca.authority.issuer);
  expect(ca.authority.issuer).not.toBe(old);
  await ca.retire();
  await vi.waitFor(() => expect(contexts).toHaveLength(3), { timeout: 20_000 });
  expect(contexts[2]?.ca).toBe(ca.caPem);
  stop();
});
