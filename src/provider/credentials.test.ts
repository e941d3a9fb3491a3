import { randomBytes, X509Certificate } from 'node:crypto';
import { expect, test } from 'vitest';
import { DAY } from '../base/units.ts';
import { type Desired, desiredFrom, initialState, type MemberState } from '../clusters/index.ts';
import type { CertificateRequest } from '../engine/ports.ts';
import { ManualClock } from '../engine/testing/clock.ts';
import type { MongoDBSpec } from '../model/index.ts';
import { openCertificateAuthority } from '../security/ca.ts';
import { masterKeyFrom } from '../security/seal.ts';
import { openSecrets } from '../security/secrets.ts';
import { openMemoryStore } from '../store/memory.ts';
import { Credentials, type MemberCertificate, newPassword } from './credentials.ts';
import { keyFileSecret } from './names.ts';
import { admitted, replicaSet } from './testing/rig.ts';

const UID = 'uid-1';

function desired(change: Readonly<Record<string, unknown>> = {}): Desired {
  const spec = admitted('MongoDB', 'orders', replicaSet(change)) as MongoDBSpec;
  const metadata = { uid: UID, namespace: 'default', name: 'orders', generation: 1, deletionTimestamp: null };
  return desiredFrom({ metadata, spec });
}
const member = (at: number, address: string): MemberState => ({
  ...(initialState(desired()).members[at] as MemberState),
  address,
});

async function scene() {
  const clock = new ManualClock(Date.UTC(2030, 0, 1));
  const store = openMemoryStore({ clock });
  const secrets = await openSecrets(store, masterKeyFrom(randomBytes(32)));
  const ca = await openCertificateAuthority(secrets, clock, { organization: 'Belay' });
  const requests: CertificateRequest[] = [];
  const issue = ca.issue.bind(ca);
  ca.issue = (request: CertificateRequest) => {
    requests.push(request);
    return issue(request);
  };
  return { clock, secrets, requests, ca, credentials: new Credentials(secrets, ca) };
}
const parsed = (pem: { reveal(): string }): X509Certificate =>
  new X509Certificate(
    /-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/.exec(pem.reveal())?.[0] ?? '',
  );

test('A9.7 a member’s certificate has every name it is reached by, and O and OU that all members of the cluster share', async () => {
  const { credentials, clock, requests } = await scene();
  const d = desired({ security: { tls: { additionalCertificateDomains: ['example.org'] } } });
  const { pem } = await credentials.certificate(d, UID, member(0, 'db1.lan'), clock.now());
  const certificate = parsed(pem);
  for (const name of ['orders-0', 'db1.lan', 'localhost', 'orders-0.example.org'])
    expect(certificate.checkHost(name), name).toBe(name);
  for (const address of ['127.0.0.1', '::1']) expect(certificate.checkIP(address), address).toBe(address);
  await credentials.certificate(d, UID, member(1, '10.0.0.2'), clock.now());
  const subjects = requests.map(({ organization, organizationalUnit }) => [organization, organizationalUnit]);
  expect(subjects).toEqual([
    ['Belay', UID],
    ['Belay', UID],
  ]);
  expect(requests[1]?.names).toContain('10.0.0.2');
  expect(requests.every((r) => r.usages.includes('server') && r.usages.includes('client'))).toBe(true);
});

test('A9.7 A9.4 a certificate is kept until its names change or a month before it ends', async () => {
  const { credentials, clock } = await scene();
  const of = async (d: Desired, address: string, after = 0): Promise<string> =>
    (await given(d, address, after)).given.fingerprint;
  const given = async (d: Desired, address: string, after: number): Promise<MemberCertificate> => {
    const made = await credentials.certificate(d, UID, member(0, address), clock.now() + after);
    await credentials.promote(UID, 'orders-0', made);
    return made;
  };
  const first = await of(desired(), 'db1');
  expect(await of(desired(), 'db1')).toBe(first);
  expect(await of(desired(), 'db1', 334 * DAY)).toBe(first);
  const moved = await of(desired(), 'db9');
  expect(moved).not.toBe(first);
  const more = await of(desired({ security: { tls: { additionalCertificateDomains: ['x.org'] } } }), 'db9');
  expect(more).not.toBe(moved);
  expect(await of(desired(), 'db9')).toBe(more);
  expect(await of(desired(), 'db9', 340 * DAY)).not.toBe(more);
});

test('A9.4 A13.5 S10 a successor is staged beside the certificate in use, is one however often it is asked for, and follows it when it was given', async () => {
  const { credentials, secrets, clock } = await scene();
  const first = await credentials.certificate(desired(), UID, member(0, 'db1'), clock.now());
  const using = (certificate: MemberCertificate): MemberState => ({
    ...member(0, 'db1'),
    activated: { certificate: certificate.given } as MemberState['activated'],
  });
  const next = (target: MemberState) => credentials.certificate(desired(), UID, target, clock.now(), true);
  const staged = await next(using(first));
  expect([staged.staged, (await next(using(first))).given]).toEqual([true, staged.given]);
  expect(staged.given.fingerprint).not.toBe(first.given.fingerprint);
  // A restart for another reason meanwhile brings what the member has.
  const other = await credentials.certificate(desired(), UID, using(first), clock.now());
  expect(other.given).toEqual(first.given);
  await credentials.promote(UID, 'orders-0', staged);
  // The control plane died before it wrote down that the member was given it.
  expect(await next(using(first))).toMatchObject({ staged: false, given: staged.given });
  expect((await secrets.list(`clusters/${UID}/`)).filter((name) => name.includes('next'))).toEqual([]);
  expect((await next(using(staged))).given.fingerprint).not.toBe(staged.given.fingerprint);
});

test('A13.5 a certificate is followed by another one also where nobody knows that its member was given it', async () => {
  const { credentials, clock } = await scene();
  const first = await credentials.certificate(desired(), UID, member(0, 'db1'), clock.now());
  const next = await credentials.certificate(desired(), UID, member(0, 'db1'), clock.now(), true);
  expect([first.staged, next.staged]).toEqual([false, true]);
  expect(next.given.fingerprint).not.toBe(first.given.fingerprint);
});

test('A9.4 TLS-05 a certificate is kept to its end where the authority ends with it, and no longer', async () => {
  const { credentials, ca, clock } = await scene();
  const first = await credentials.certificate(desired(), UID, member(0, 'db1'), clock.now());
  const { notAfter, fingerprint } = first.given;
  Object.defineProperty(ca, 'authority', { value: { ...ca.authority, notAfter: notAfter + DAY / 2 } });
  const printAt = async (now: number): Promise<string> =>
    (await credentials.certificate(desired(), UID, member(0, 'db1'), now)).given.fingerprint;
  expect(await printAt(notAfter - DAY)).toBe(fingerprint);
  expect(await printAt(notAfter + 1)).not.toBe(fingerprint);
});

test('A13.5 S10 what was left of a promotion that died half-way is not taken for a successor', async () => {
  const { credentials, clock, secrets } = await scene();
  const using = ({ given }: MemberCertificate): MemberState => {
    const target = member(0, 'db1');
    const activated = { certificate: given } as NonNullable<MemberState['activated']>;
    return { ...target, activated };
  };
  const first = await credentials.certificate(desired(), UID, member(0, 'db1'), clock.now());
  const second = await credentials.certificate(desired(), UID, using(first), clock.now(), true);
  // It became the member's and was written down, but the control plane died before the staged one was taken away.
  const promoted = await secrets.list(`clusters/${UID}/`);
  const [current, staged] = [
    promoted.find((name) => name.includes('orders-0') && !name.includes('next')),
    promoted.find((name) => name.includes('orders-0') && name.includes('next')),
  ];
  await secrets.put(current ?? '', second.pem);
  expect(staged).toBeDefined();
  const third = await credentials.certificate(desired(), UID, using(second), clock.now(), true);
  expect(third.staged).toBe(true);
  expect(third.given.fingerprint).not.toBe(second.given.fingerprint);
});

test('S12 TLS-02 while an authority is replaced, a certificate comes with a bundle that holds its issuer, and every bundle fits the certificates before and after', async () => {
  const { credentials, ca, clock } = await scene();
  const give = async (): Promise<MemberCertificate> => {
    const made = await credentials.certificate(desired(), UID, member(0, 'db1'), clock.now());
    await credentials.promote(UID, 'orders-0', made);
    return made;
  };
  const steps = [await give()];
  for (const step of ['introduce', 'switchOver', 'retire'] as const) {
    await ca[step]();
    await ca[step]();
    steps.push(await give());
  }
  const trusts = (holder: MemberCertificate, shown: MemberCertificate): boolean =>
    (holder.caPem.match(/-----BEGIN[^-]+-----[^-]+-----END[^-]+-----/g) ?? []).some((pem) =>
      parsed(shown.pem).verify(new X509Certificate(pem).publicKey),
    );
  steps.forEach((a, i) => {
    expect(trusts(a, a)).toBe(true);
    const b = steps[i + 1];
    if (b !== undefined) expect([i, trusts(a, b), trusts(b, a)]).toEqual([i, true, true]);
  });
  expect(trusts(steps[3] as MemberCertificate, steps[0] as MemberCertificate)).toBe(false);
  expect(steps.map((s) => s.caPem.match(/BEGIN/g)?.length)).toEqual([1, 2, 2, 1]);
});

test('A4.3 a marker is genuine only with the proof made for exactly this member of this cluster', async () => {
  const { credentials } = await scene();
  await credentials.ensure(UID);
  await credentials.ensure('uid-2');
  const marker = await credentials.marker('home', UID, 'orders-0', 'orders-0');
  expect(await credentials.isGenuine(UID, marker)).toBe(true);
  for (const change of [
    { member: 'orders-1' },
    { hostname: 'other' },
    { installation: 'away' },
    { proof: '' },
    { proof: `${marker.proof.slice(0, -1)}_` },
    { proof: (await credentials.marker('home', 'uid-2', 'orders-0', 'orders-0')).proof },
  ])
    expect(await credentials.isGenuine(UID, { ...marker, ...change }), JSON.stringify(change)).toBe(false);
  expect(await credentials.isGenuine('never-made', marker)).toBe(false);
});

test('CRD-02 passwords are long, safe in URLs and never equal; a keyfile is what the server takes', async () => {
  const passwords = Array.from({ length: 50 }, newPassword);
  for (const password of passwords) expect(password).toMatch(/^[A-Za-z0-9_-]{32}$/);
  expect(new Set(passwords).size).toBe(50);
  const { credentials, secrets } = await scene();
  await credentials.ensure(UID);
  const keyfile = (await secrets.get(keyFileSecret(UID)))?.reveal() ?? '';
  expect(keyfile).toMatch(/^[A-Za-z0-9+/]{756,1024}$/);
});

test('CRD-08 S10 secrets of a cluster are made once: asked for again they are the same; a lost one is not replaced', async () => {
  const { credentials, secrets } = await scene();
  await credentials.ensure(UID);
  const all = async (): Promise<readonly string[]> => {
    const names = await secrets.list(`clusters/${UID}/`);
    return Promise.all(names.map(async (name) => `${name} ${(await secrets.get(name))?.reveal()}`));
  };
  const before = await all();
  expect(before.length).toBeGreaterThanOrEqual(7);
  await credentials.ensure(UID);
  expect(await all()).toEqual(before);
  expect(new Set(before.map((row) => row.split(' ')[1])).size).toBe(before.length);
  await secrets.delete(`clusters/${UID}/users/`);
  await expect(credentials.login(UID)).rejects.toMatchObject({ retry: 'later' });
});
