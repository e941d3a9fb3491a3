// Must be the first import: x509 needs its metadata store in place.
import 'reflect-metadata';
import { createHash, randomBytes, webcrypto, X509Certificate } from 'node:crypto';
import { isIP } from 'node:net';
import * as x509 from '@peculiar/x509';
import { BelayError } from '../base/error.ts';
import { secret } from '../base/secret.ts';
import { DAY, HOUR, MINUTE, type Millis } from '../base/units.ts';
import { type AuthorityPhase, trustOf } from '../clusters/authority.ts';
import type { Authority } from '../clusters/types.ts';
import type {
  CertificateAuthority,
  CertificateRequest,
  Clock,
  IssuedCertificate,
  Secrets,
} from '../engine/ports.ts';

type Key = webcrypto.CryptoKey;
type KeyPair = webcrypto.CryptoKeyPair;

x509.cryptoProvider.set(webcrypto);

/** Where the installation's CA is kept: keys and certificates, one PEM. */
export const CA_SECRET = 'installation/ca';
/** One that is about to be introduced; gone when it is. */
const NEXT_CA_SECRET = 'installation/next-ca';
const FIRST_NAME = 'Belay CA';

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
/** The CA outlives every cluster's usual life; leaves are renewed long before. */
const CA_LIFE: Millis = 10 * 365 * DAY;
const LEAF_LIFE: Millis = 365 * DAY;
/** Certificates begin a little in the past: hosts' clocks differ. */
const BACKDATE: Millis = 5 * MINUTE;
/** A leaf shorter than this could not be renewed in time; the CA is at its end. */
const LEAST_LIFE: Millis = HOUR;

const USAGE_OIDS = { server: '1.3.6.1.5.5.7.3.1', client: '1.3.6.1.5.5.7.3.2' } as const;

/**
 * The installation's certificate authority, kept as one row `installation/ca` in the sealed store: made once, and replaced
 * in steps that are each one write of that row (S12). Leaves are P-256 with random serials; none outlives its authority
 * (TLS-05). Every issue looks at the row first, so that no control plane issues by an authority that was left.
 */
export async function openCertificateAuthority(
  secrets: Secrets,
  clock: Clock,
  options: { readonly organization: string },
): Promise<ReplaceableAuthority> {
  const stored = await secrets.ensure(CA_SECRET, () => makeCa(options.organization, FIRST_NAME, clock.now()));
  const authority = new InstallationAuthority(secrets, clock, options.organization);
  await authority.take(stored.reveal());
  return authority;
}

/** An authority that can be replaced by another, phase by phase. Whether the next phase may come is not decided here. */
export interface ReplaceableAuthority extends CertificateAuthority {
  readonly phase: AuthorityPhase;
  /** Called after another bundle or issuer was read; gives a canceller. */
  onChange(listener: () => void): () => void;
  /** `stable` → `introduced`: a new one is made and trusted besides. Elsewhere: nothing (S10). */
  introduce(): Promise<void>;
  /** `introduced` → `switched`: from now on the new one issues. */
  switchOver(): Promise<void>;
  /** `switched` → `stable`: the old one is trusted no more. */
  retire(): Promise<void>;
}

interface KeptAuthority {
  readonly certificate: x509.X509Certificate;
  readonly key: Key;
  readonly pem: string;
}

class InstallationAuthority implements ReplaceableAuthority {
  readonly #secrets: Secrets;
  readonly #clock: Clock;
  readonly #organization: string;
  #row = '';
  #issuing: KeptAuthority | null = null;
  #next: KeptAuthority | null = null;
  #left: readonly x509.X509Certificate[] = [];
  readonly #listeners = new Set<() => void>();
  caPem = '';
  authority: Authority = { trust: '', issuer: '', notAfter: 0, rotating: false };

  constructor(secrets: Secrets, clock: Clock, organization: string) {
    this.#secrets = secrets;
    this.#clock = clock;
    this.#organization = organization;
  }

  get phase(): AuthorityPhase {
    return this.#next !== null ? 'introduced' : this.#left.length > 0 ? 'switched' : 'stable';
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  async refresh(): Promise<void> {
    const stored = await this.#secrets.get(CA_SECRET);
    if (stored !== null) await this.take(stored.reveal());
  }

  /** Key and certificate of the one that issues, then of one that is to follow, then certificates of one that was left. */
  async take(row: string): Promise<void> {
    if (row === this.#row) return;
    const { own, others } = await readRow(row);
    const [issuing, next = null] = own;
    if (issuing === undefined) throw damaged();
    const trusted = [...own.map((kept) => kept.certificate), ...others];
    const prints = trusted.map((certificate) => fingerprintOf(certificate.rawData));
    this.#row = row;
    this.#issuing = issuing;
    this.#next = next;
    this.#left = others;
    this.caPem = trusted.map(pemOf).join('');
    this.authority = {
      trust: trustOf(prints),
      issuer: prints[0] as string,
      notAfter: issuing.certificate.notAfter.getTime(),
      rotating: trusted.length > 1,
    };
    for (const listener of this.#listeners) listener();
  }

  issuerOf(certificatePem: string): string | null {
    const certificate = parse(certificateBlock(certificatePem));
    const trusted = this.caPem.match(CERTIFICATES) ?? [];
    const issuer = trusted.map(parse).find((ca) => certificate.verify(ca.publicKey));
    return issuer === undefined ? null : fingerprintOf(issuer.raw);
  }

  async issue(request: CertificateRequest): Promise<IssuedCertificate> {
    const { certificate, key } = await this.#current();
    return issue(certificate, key, this.#complete(request), this.#clock.now());
  }

  async sign(csrPem: string, request: CertificateRequest): Promise<ReturnType<typeof plain>> {
    const { certificate, key } = await this.#current();
    const publicKey = await publicKeyOf(csrPem);
    return plain(await certify(certificate, key, this.#complete(request), publicKey, this.#clock.now()));
  }

  async #current(): Promise<KeptAuthority> {
    await this.refresh();
    if (this.#issuing === null) throw damaged();
    return this.#issuing;
  }

  #complete(request: CertificateRequest): CertificateRequest {
    return { ...request, organization: request.organization ?? this.#organization };
  }

  async introduce(): Promise<void> {
    const issuing = await this.#current();
    if (this.phase !== 'stable') return;
    // Two control planes that begin at once make one and the same.
    const name = `${FIRST_NAME} ${randomBytes(4).toString('hex')}`;
    const make = (): Promise<string> => makeCa(this.#organization, name, this.#clock.now());
    const next = await this.#secrets.ensure(NEXT_CA_SECRET, make);
    await this.#replace(issuing.pem + next.reveal());
    await this.#secrets.delete(NEXT_CA_SECRET);
  }

  async switchOver(): Promise<void> {
    const old = await this.#current();
    if (this.#next === null) return;
    await this.#replace(this.#next.pem + pemOf(old.certificate));
  }

  async retire(): Promise<void> {
    const issuing = await this.#current();
    if (this.phase === 'switched') await this.#replace(issuing.pem);
  }

  async #replace(row: string): Promise<void> {
    await this.#secrets.put(CA_SECRET, secret(row));
    await this.take(row);
  }
}

/** The key of a request whose signature proves that the sender has its private half. `InvalidRequest` (never). */
async function publicKeyOf(csrPem: string): Promise<Key> {
  try {
    const request = new x509.Pkcs10CertificateRequest(csrPem);
    if (await request.verify()) return await request.publicKey.export();
  } catch {
    // said below
  }
  throw new BelayError('InvalidRequest', 'this is not a certificate request that is signed by its own key', {
    retry: 'never',
    fix: 'Send a PKCS#10 request as PEM text.',
  });
}

async function makeCa(organization: string, commonName: string, now: Millis): Promise<string> {
  const keys = await newKeys();
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    serialNumber: newSerial(),
    name: nameOf({ O: organization, CN: commonName }),
    notBefore: new Date(now - BACKDATE),
    notAfter: new Date(now + CA_LIFE),
    signingAlgorithm: ALGORITHM,
    keys,
    extensions: [
      // No CA below this one.
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  return (await privatePem(keys.privateKey)) + pemOf(certificate);
}

const BLOCKS = /-----BEGIN ([A-Z ]+)-----[\s\S]+?-----END \1-----/g;
const CERTIFICATES = /-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g;

/** Every key belongs to the certificate behind it; certificates without one are trusted only. */
async function readRow(
  row: string,
): Promise<{ readonly own: readonly KeptAuthority[]; readonly others: readonly x509.X509Certificate[] }> {
  const own: KeptAuthority[] = [];
  const others: x509.X509Certificate[] = [];
  let keyPem: string | null = null;
  try {
    for (const block of row.match(BLOCKS) ?? []) {
      if (block.includes('PRIVATE KEY-----')) keyPem = block;
      else if (keyPem === null) others.push(new x509.X509Certificate(block));
      else {
        own.push({ ...(await readCa(keyPem, block)), pem: `${keyPem}\n${block}\n` });
        keyPem = null;
      }
    }
  } catch (cause) {
    throw damaged(cause);
  }
  return { own, others };
}

async function readCa(
  keyPem: string,
  certificatePem: string,
): Promise<{ certificate: x509.X509Certificate; key: Key }> {
  const der = x509.PemConverter.decode(keyPem)[0] as ArrayBuffer;
  const key = await webcrypto.subtle.importKey('pkcs8', der, ALGORITHM, false, ['sign']);
  return { certificate: new x509.X509Certificate(certificatePem), key };
}

const damaged = (cause?: unknown): BelayError =>
  new BelayError(
    'CertificateAuthorityDamaged',
    `the sealed secret ${CA_SECRET} is not a key and a certificate`,
    {
      retry: 'never',
      fix: 'Restore the store from a backup.',
      // The cause could quote the key (S8).
      cause: cause instanceof BelayError ? cause : undefined,
    },
  );

async function issue(
  ca: x509.X509Certificate,
  caKey: Key,
  request: CertificateRequest,
  now: Millis,
): Promise<IssuedCertificate> {
  const keys = await newKeys();
  const issued = plain(await certify(ca, caKey, request, keys.publicKey, now));
  return { ...issued, combinedPem: secret((await privatePem(keys.privateKey)) + issued.certificatePem) };
}

function plain(
  certificate: x509.X509Certificate,
): Pick<IssuedCertificate, 'certificatePem' | 'fingerprint' | 'notAfter'> {
  return {
    certificatePem: pemOf(certificate),
    fingerprint: fingerprintOf(certificate.rawData),
    // X.509 knows whole seconds only.
    notAfter: certificate.notAfter.getTime(),
  };
}

async function certify(
  ca: x509.X509Certificate,
  caKey: Key,
  request: CertificateRequest,
  publicKey: Key,
  now: Millis,
): Promise<x509.X509Certificate> {
  const notAfter = Math.min(now + (request.validForMillis ?? LEAF_LIFE), ca.notAfter.getTime());
  if (notAfter - now < Math.min(LEAST_LIFE, request.validForMillis ?? LEAST_LIFE)) throw caEnds(ca);
  return x509.X509CertificateGenerator.create({
    serialNumber: newSerial(),
    subject: nameOf({ O: request.organization, OU: request.organizationalUnit, CN: request.commonName }),
    issuer: ca.subjectName,
    notBefore: new Date(Math.max(now - BACKDATE, ca.notBefore.getTime())),
    notAfter: new Date(notAfter),
    signingAlgorithm: ALGORITHM,
    publicKey,
    signingKey: caKey,
    extensions: await leafExtensions(ca, publicKey, request),
  });
}

async function leafExtensions(
  ca: x509.X509Certificate,
  publicKey: Key,
  request: CertificateRequest,
): Promise<x509.Extension[]> {
  const names = [...new Set(request.names)].map(alternativeName);
  return [
    new x509.BasicConstraintsExtension(false, undefined, true),
    new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature | x509.KeyUsageFlags.keyAgreement, true),
    new x509.ExtendedKeyUsageExtension(request.usages.map((usage) => USAGE_OIDS[usage])),
    ...(names.length === 0 ? [] : [new x509.SubjectAlternativeNameExtension(names)]),
    await x509.AuthorityKeyIdentifierExtension.create(ca, false),
    await x509.SubjectKeyIdentifierExtension.create(publicKey),
  ];
}

/** `InvalidCertificateName` (never) for what is neither a DNS name nor an IP address. */
function alternativeName(name: string): { type: 'dns' | 'ip'; value: string } {
  if (isIP(name) !== 0) return { type: 'ip', value: name };
  if (
    /^(\*\.)?[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?)*$/.test(
      name,
    )
  ) {
    return { type: 'dns', value: name };
  }
  throw new BelayError('InvalidCertificateName', `'${name}' is neither a DNS name nor an IP address`, {
    retry: 'never',
    fix: 'Use the name or address that clients connect to, without port.',
  });
}

const caEnds = (ca: x509.X509Certificate): BelayError =>
  new BelayError(
    'CertificateAuthorityExpires',
    `the installation's CA ends on ${ca.notAfter.toISOString()}`,
    {
      retry: 'never',
      fix: 'Rotate the CA; certificates cannot outlive it.',
    },
  );

/** O, OU, CN in the order given; parts without a value are left out. */
function nameOf(parts: Readonly<Record<string, string | undefined>>): x509.Name {
  const given = Object.entries(parts).filter((part): part is [string, string] => part[1] !== undefined);
  return new x509.Name(given.map(([type, value]) => ({ [type]: [value] })));
}

const newKeys = (): Promise<KeyPair> =>
  webcrypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify']) as Promise<KeyPair>;

/** 126 random bits, positive and never zero, as RFC 5280 wants. */
function newSerial(): string {
  const bytes = randomBytes(16);
  bytes[0] = ((bytes[0] as number) & 0x3f) | 0x40;
  return bytes.toString('hex');
}

const pemOf = (certificate: x509.X509Certificate): string => `${certificate.toString('pem').trimEnd()}\n`;

async function privatePem(key: Key): Promise<string> {
  const der = await webcrypto.subtle.exportKey('pkcs8', key);
  return `${x509.PemConverter.encode(der, 'PRIVATE KEY').trimEnd()}\n`;
}

const fingerprintOf = (der: ArrayBuffer | Uint8Array): string =>
  createHash('sha256').update(new Uint8Array(der)).digest('hex');

/** Splits a combined PEM into its key and its certificates. `InvalidCertificate` (never). */
export function splitCombined(pem: string): { readonly keyPem: string; readonly certificatePem: string } {
  const blocks = pem.match(/-----BEGIN ([A-Z ]+)-----[\s\S]+?-----END \1-----/g) ?? [];
  const keyPem = blocks.find((block) => block.includes('PRIVATE KEY-----'));
  const certificates = blocks.filter((block) => block.startsWith('-----BEGIN CERTIFICATE-----'));
  if (keyPem === undefined || certificates.length === 0)
    throw invalid('it needs one private key and one certificate');
  return { keyPem: `${keyPem}\n`, certificatePem: `${certificates.join('\n')}\n` };
}

/** What people and planners want to know of a certificate. */
export interface CertificateFacts {
  /** RFC 2253 order, `CN=host,OU=cluster,O=acme`: the form the server takes as a user's name in `$external`. */
  readonly subject: string;
  readonly issuer: string;
  readonly dnsNames: readonly string[];
  readonly ipAddresses: readonly string[];
  readonly notBefore: Millis;
  readonly notAfter: Millis;
  readonly serialNumber: string;
  /** SHA-256 in hex, lower case, without colons. */
  readonly fingerprint: string;
  readonly isCa: boolean;
}

/** Reads the first certificate of a PEM text, which may hold a key as well. `InvalidCertificate` (never). */
export function inspectCertificate(pem: string): CertificateFacts {
  const certificate = parse(certificateBlock(pem));
  const names = (certificate.subjectAltName ?? '').split(', ');
  const ofType = (type: string): string[] =>
    names.filter((name) => name.startsWith(`${type}:`)).map((name) => name.slice(type.length + 1));
  return {
    subject: rfc2253(certificate.subject),
    issuer: rfc2253(certificate.issuer),
    dnsNames: ofType('DNS'),
    ipAddresses: ofType('IP Address'),
    notBefore: Date.parse(certificate.validFrom),
    notAfter: Date.parse(certificate.validTo),
    serialNumber: certificate.serialNumber.toLowerCase(),
    fingerprint: fingerprintOf(certificate.raw),
    isCa: certificate.ca,
  };
}

function certificateBlock(pem: string): string {
  const [block] = pem.match(CERTIFICATES) ?? [];
  if (block === undefined) throw invalid('there is no certificate in it');
  return block;
}

const rfc2253 = (lines: string): string => lines.split('\n').reverse().join(',');

function parse(block: string): X509Certificate {
  try {
    return new X509Certificate(block);
  } catch {
    throw invalid('it cannot be read');
  }
}

const invalid = (why: string): BelayError =>
  new BelayError('InvalidCertificate', `this is not a usable certificate: ${why}`, {
    retry: 'never',
    fix: 'Give PEM text as openssl writes it.',
  });
