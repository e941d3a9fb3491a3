/**
 * The secrets of one cluster: keyfile, system users' passwords, owner key, member certificates. Everything is made once
 * and then only read (two callers get the same value), so a step that was interrupted can simply be done again.
 */
import { createHmac, randomBytes, timingSafeEqual, X509Certificate } from 'node:crypto';
import { BelayError } from '../base/error.ts';
import { remembered } from '../base/memo.ts';
import type { Secret } from '../base/secret.ts';
import { DAY, type Millis } from '../base/units.ts';
import {
  type Authority,
  CERTIFICATE_RENEWAL,
  type Desired,
  type GivenCertificate,
  type Login,
  type MemberState,
  type OwnerMarker,
  serviceHostname,
} from '../clusters/index.ts';
import type { CertificateAuthority, Secrets } from '../engine/ports.ts';
import { SYSTEM_USERNAMES } from '../model/index.ts';
import {
  clusterSecrets,
  keyFileSecret,
  memberCertificateSecret,
  ownerKeySecret,
  stagedCertificateSecret,
  stagedPasswords,
  systemPasswordSecret,
} from './names.ts';
import { type SystemUsername, USER_ADMIN } from './users.ts';

/** Bytes of the keyfile before base64: 1008 characters, the server takes 6 to 1024. */
const KEYFILE_BYTES = 756;
const PASSWORD_BYTES = 24;
const PROOFS_KEPT = 10_000;
/** Members' certificates live this long; they are renewed a month before (A9.4). */
const CERTIFICATE_LIFE: Millis = 365 * DAY;

/** Makes a password: URL-safe text, though nothing relies on that (CRD-02). */
export const newPassword = (): string => randomBytes(PASSWORD_BYTES).toString('base64url');

/** A member's certificate as stored. */
export interface MemberCertificate {
  readonly pem: Secret<string>;
  /** The bundle that goes with it. */
  readonly caPem: string;
  readonly given: GivenCertificate;
  /** Not its member's yet: `promote` it when the member has it. */
  readonly staged: boolean;
}

/** See the head of this file. One per control plane; keeps no secret. */
export class Credentials {
  readonly #secrets: Secrets;
  readonly #ca: CertificateAuthority;
  /** Markers whose proof was right, with the cluster they were looked at for: every look would ask again. */
  readonly #genuine = new WeakMap<OwnerMarker, string>();
  /** Proofs by what they prove. A cluster's owner key is made once and never another one (CRD-08). */
  readonly #proofs = new Map<string, string>();

  constructor(secrets: Secrets, ca: CertificateAuthority) {
    this.#secrets = secrets;
    this.#ca = ca;
  }

  /** A4.1. */
  async ensure(uid: string): Promise<void> {
    // At once: the store makes one write of them.
    await Promise.all([
      this.#secrets.ensure(keyFileSecret(uid), () => randomBytes(KEYFILE_BYTES).toString('base64')),
      this.#secrets.ensure(ownerKeySecret(uid), () => randomBytes(32).toString('base64')),
      ...SYSTEM_USERNAMES.map((user) => this.#secrets.ensure(systemPasswordSecret(uid, user), newPassword)),
    ]);
  }

  keyFile(uid: string): Promise<Secret<string>> {
    return this.#existing(keyFileSecret(uid));
  }

  async login(uid: string, user: SystemUsername = USER_ADMIN): Promise<Login> {
    return { user, db: 'admin', password: await this.#existing(systemPasswordSecret(uid, user)) };
  }

  /** A13.4: new passwords, made once and kept beside those in use until they replace them. */
  async stage(uid: string, users: readonly string[]): Promise<void> {
    await Promise.all(users.map((user) => this.#secrets.ensure(stagedPasswords(uid) + user, newPassword)));
  }

  /** The login to come; null: none is on its way. */
  async stagedLogin(uid: string, user: SystemUsername): Promise<Login | null> {
    const password = await this.#secrets.get(stagedPasswords(uid) + user);
    return password === null ? null : { user, db: 'admin', password };
  }

  /** Every replica set has them: the staged passwords become the cluster's. Done twice is done once (S10). */
  async keep(uid: string, users: readonly string[]): Promise<void> {
    await Promise.all(
      users.map(async (user) => {
        const staged = await this.#secrets.get(stagedPasswords(uid) + user);
        if (staged !== null) await this.#secrets.put(systemPasswordSecret(uid, user), staged);
      }),
    );
  }

  /** The certificate a member was given, whatever is to become of it; the bundle is the present one. */
  async certificateInUse(uid: string, member: string): Promise<MemberCertificate> {
    return this.#given(read(await this.#existing(memberCertificateSecret(uid, member))), false);
  }

  /** CRD-08: a secret of a cluster that was made is never made again under a running database. */
  async #existing(name: string): Promise<Secret<string>> {
    const value = await this.#secrets.get(name);
    if (value !== null) return value;
    throw new BelayError('SecretMissing', `the sealed secret ${name} is gone`, {
      retry: 'later',
      fix: 'restore it from a backup of the store; a new one would not fit the data',
    });
  }

  get authority(): Authority {
    return this.#ca.authority;
  }

  /**
   * The certificate for a member's next snapshot: the one it has while that is good (names of A9.7, life, issuer), else one
   * that was staged for it, else a new one, staged. `successor`: the one it runs with is not to be used again. What was
   * staged takes the old one's place when its member was given it (`promote`). However often it is asked, there is one
   * successor (S10). Subject O and OU are equal on all members of a cluster, as the server asks of member certificates.
   */
  async certificate(
    desired: Desired,
    uid: string,
    member: MemberState,
    now: Millis,
    successor = false,
  ): Promise<MemberCertificate> {
    await this.#ca.refresh();
    const names = certificateNames(desired, member);
    const current = await this.#stored(memberCertificateSecret(uid, member.name));
    const used = member.activated?.certificate?.fingerprint ?? null;
    const again = current !== null && successor && (used === null || printOf(current) === used);
    const good = current !== null && !again && this.#isGood(current, names, now);
    if (good && !successor) return this.#given(current, false);
    const staged = await this.#stored(stagedCertificateSecret(uid, member.name));
    // Somebody died between the two halves of taking the old one's place: what is left of it is put in order too.
    if (good) return this.#given(current, staged !== null);
    if (current === null) {
      const first = await this.#issue(desired, uid, member, names);
      await this.#secrets.put(memberCertificateSecret(uid, member.name), first);
      return this.#given(read(first), false);
    }
    const other = staged !== null && printOf(staged) !== used;
    if (other && this.#isGood(staged, names, now)) return this.#given(staged, true);
    const next = await this.#issue(desired, uid, member, names);
    await this.#secrets.put(stagedCertificateSecret(uid, member.name), next);
    return this.#given(read(next), true);
  }

  async #stored(name: string): Promise<Stored | null> {
    const pem = await this.#secrets.get(name);
    return pem === null ? null : read(pem);
  }

  /** Its member has it on disk: from now on it is the member's certificate. */
  async promote(uid: string, member: string, { pem, staged }: MemberCertificate): Promise<void> {
    if (!staged) return;
    await this.#secrets.put(memberCertificateSecret(uid, member), pem);
    await this.#secrets.delete(stagedCertificateSecret(uid, member));
  }

  async #issue(
    desired: Desired,
    uid: string,
    member: MemberState,
    names: readonly string[],
  ): Promise<Secret<string>> {
    const issued = await this.#ca.issue({
      commonName: serviceHostname(desired, member.name),
      organization: 'Belay',
      organizationalUnit: uid,
      names,
      usages: ['server', 'client'],
      validForMillis: CERTIFICATE_LIFE,
    });
    return issued.combinedPem;
  }

  #isGood({ part, certificate }: Stored, names: readonly string[], now: Millis): boolean {
    const ends = certificate.validToDate.getTime();
    // One of an authority that ends soon itself is as good as any (TLS-05).
    const lasting = ends - now > CERTIFICATE_RENEWAL || this.#ca.authority.notAfter - ends < DAY;
    return (
      lasting &&
      ends > now &&
      names.every((name) => covers(certificate, name)) &&
      this.#ca.issuerOf(part) === this.#ca.authority.issuer
    );
  }

  #given(stored: Stored, staged: boolean): MemberCertificate {
    const { pem, part, certificate } = stored;
    const { trust, issuer } = this.#ca.authority;
    const given = {
      fingerprint: printOf(stored),
      notAfter: certificate.validToDate.getTime(),
      issuer: this.#ca.issuerOf(part) ?? issuer,
      trust,
    };
    return { pem, caPem: this.#ca.caPem, given, staged };
  }

  // ── ownership ────────────────────────────────────────────────────────────────────────────────────────────────────

  /** A4.3: what a service of ours carries. */
  async marker(installation: string, uid: string, member: string, hostname: string): Promise<OwnerMarker> {
    const key = await this.#existing(ownerKeySecret(uid));
    const proof = this.#proof(key, installation, uid, member, hostname);
    return { installation, clusterUid: uid, member, hostname, proof };
  }

  /** Whether a marker that names this cluster was made by it; one without its proof is somebody else's. */
  async isGenuine(uid: string, marker: OwnerMarker): Promise<boolean> {
    if (this.#genuine.get(marker) === uid) return true;
    const key = await this.#secrets.get(ownerKeySecret(uid));
    if (key === null) return false;
    const { installation, member, hostname } = marker;
    const wanted = Buffer.from(this.#proof(key, installation, uid, member, hostname));
    const given = Buffer.from(marker.proof);
    const genuine = wanted.length === given.length && timingSafeEqual(wanted, given);
    if (genuine) this.#genuine.set(marker, uid);
    return genuine;
  }

  #proof(key: Secret<string>, ...parts: readonly string[]): string {
    const text = parts.join('\n');
    const known = this.#proofs.get(text);
    if (known !== undefined) return known;
    const made = createHmac('sha256', Buffer.from(key.reveal(), 'base64')).update(text).digest('base64url');
    if (this.#proofs.size >= PROOFS_KEPT) this.#proofs.clear();
    this.#proofs.set(text, made);
    return made;
  }

  /** Names of everything of one cluster that is sealed. */
  prefix(uid: string): string {
    return clusterSecrets(uid);
  }
}

/** Every name a member is reached by: its service, its address, this machine, and what the spec adds. */
export function certificateNames(desired: Desired, member: MemberState): readonly string[] {
  const hostname = serviceHostname(desired, member.name);
  const all = [
    hostname,
    ...(member.address === null ? [] : [member.address]),
    'localhost',
    '127.0.0.1',
    '::1',
    ...desired.certificateDomains.map((domain) => `${hostname}.${domain}`),
    ...desired.certificateDomains,
  ];
  return [...new Set(all)];
}

const covers = (certificate: X509Certificate, name: string): boolean =>
  /^[\d.]+$|:/.test(name)
    ? certificate.checkIP(name) !== undefined
    : certificate.checkHost(name, { wildcards: false, subject: 'never' }) !== undefined;

/** A certificate with its key as it is sealed, and what it says. */
interface Stored {
  readonly pem: Secret<string>;
  /** The certificate alone. */
  readonly part: string;
  readonly certificate: X509Certificate;
}

function read(pem: Secret<string>): Stored {
  const part = /-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/.exec(pem.reveal())?.[0] ?? '';
  return { pem, part, certificate: parsed(part) };
}

/** Equal certificates are parsed once: every snapshot of a member asks for what it has. */
const parsed = remembered(1000, (part) => new X509Certificate(part));

/** SHA-256 over the certificate, hex without colons: what agents report too. */
const printOf = ({ certificate }: Stored): string =>
  certificate.fingerprint256.replaceAll(':', '').toLowerCase();
