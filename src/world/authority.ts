/**
 * An authority whose certificates are real enough to be parsed and cost next to nothing: nobody in this world checks a
 * signature. Equal histories give equal certificates.
 */
import { Buffer } from 'node:buffer';
import { createHash } from 'node:crypto';
import { secret } from '../base/secret.ts';
import { DAY, type Millis } from '../base/units.ts';
import { CERTIFICATE_RENEWAL } from '../clusters/index.ts';
import type { CertificateAuthority, CertificateRequest, Clock, IssuedCertificate } from '../engine/ports.ts';
import { CANARY } from './secrets.ts';

const LIFE: Millis = 365 * DAY;

/** Numbers of certificates are the installation's, not a process's. */
export interface Serials {
  next: number;
  /** Certificates that are issued now are renewed after this time already; null: they live as long as was asked for. */
  shortLife: Millis | null;
  /** End of life by fingerprint, for agents. */
  readonly ends: Map<string, Millis>;
}
export const newSerials = (): Serials => ({ next: 1, shortLife: null, ends: new Map() });

/** See the head of this file. */
export function worldAuthority(clock: Clock, serials: Serials): CertificateAuthority {
  const issue = async (request: CertificateRequest): Promise<IssuedCertificate> => {
    const { shortLife } = serials;
    const life = shortLife === null ? (request.validForMillis ?? LIFE) : CERTIFICATE_RENEWAL + shortLife;
    const notAfter = Math.floor((clock.now() + life) / 1000) * 1000;
    const der = certificate(request, serials.next++, clock.now() - 300_000, notAfter);
    const certificatePem = pem('CERTIFICATE', der);
    const fingerprint = createHash('sha256').update(der).digest('hex');
    serials.ends.set(fingerprint, notAfter);
    const key = `-----BEGIN PRIVATE KEY-----\n${CANARY}${fingerprint}\n-----END PRIVATE KEY-----\n`;
    return { combinedPem: secret(`${key}${certificatePem}`), certificatePem, fingerprint, notAfter };
  };
  const caPem = pem('CERTIFICATE', certificate({ commonName: 'CA', names: [], usages: [] }, 0, 0, 2 ** 41));
  const authority = { trust: 'world', issuer: 'world', notAfter: 2 ** 41, rotating: false };
  return {
    caPem,
    authority,
    refresh: async () => {},
    issuerOf: () => authority.issuer,
    issue,
    sign: (_, request) => issue(request),
  };
}

const pem = (label: string, der: Uint8Array): string => {
  const lines =
    Buffer.from(der)
      .toString('base64')
      .match(/.{1,64}/g) ?? [];
  return `-----BEGIN ${label}-----\n${lines.join('\n')}\n-----END ${label}-----\n`;
};

// ── DER ────────────────────────────────────────────────────────────────────────────────────────────────────────────

function tlv(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const body = Buffer.concat(parts);
  const { length } = body;
  const head =
    length < 128
      ? [tag, length]
      : length < 256
        ? [tag, 0x81, length]
        : [tag, 0x82, length >> 8, length & 255];
  return Buffer.concat([Buffer.from(head), body]);
}
const sequence = (...parts: readonly Uint8Array[]): Buffer => tlv(0x30, ...parts);
const oid = (hex: string): Buffer => tlv(0x06, Buffer.from(hex, 'hex'));
const utf8 = (text: string): Buffer => tlv(0x0c, Buffer.from(text));

function integer(value: number): Buffer {
  const hex = value.toString(16);
  const even = hex.length % 2 === 0 ? hex : `0${hex}`;
  // The first bit is the sign.
  return tlv(0x02, Buffer.from(/^[89a-f]/.test(even) ? `00${even}` : even, 'hex'));
}

const time = (at: Millis): Buffer =>
  tlv(0x18, Buffer.from(new Date(at).toISOString().replace(/[-:T]|\.\d+/g, '')));

/** Ed25519. */
const ALGORITHM = sequence(oid('2b6570'));
const PUBLIC_KEY = sequence(ALGORITHM, tlv(0x03, Buffer.alloc(33, 9).fill(0, 0, 1)));
const SIGNATURE = tlv(0x03, Buffer.alloc(65));

const part = (hex: string, text: string): Buffer => tlv(0x31, sequence(oid(hex), utf8(text)));

function subject({
  commonName,
  organization,
  organizationalUnit,
}: Omit<CertificateRequest, 'names' | 'usages'>): Buffer {
  return sequence(
    ...(organization === undefined ? [] : [part('55040a', organization)]),
    ...(organizationalUnit === undefined ? [] : [part('55040b', organizationalUnit)]),
    part('550403', commonName),
  );
}

function alternativeNames(names: readonly string[]): Buffer {
  const list = names.map((name) => {
    if (name === '::1') return tlv(0x87, Buffer.from([...Buffer.alloc(15), 1]));
    if (/^[\d.]+$/.test(name)) return tlv(0x87, Buffer.from(name.split('.').map(Number)));
    return tlv(0x82, Buffer.from(name));
  });
  return tlv(0xa3, sequence(sequence(oid('551d11'), tlv(0x04, sequence(...list)))));
}

function certificate(request: CertificateRequest, serial: number, from: Millis, until: Millis): Buffer {
  const version = tlv(0xa0, integer(2));
  const validity = sequence(time(from), time(until));
  const extensions = request.names.length === 0 ? [] : [alternativeNames(request.names)];
  const issuer = subject({ commonName: 'World CA' });
  const body = [
    version,
    integer(serial),
    ALGORITHM,
    issuer,
    validity,
    subject(request),
    PUBLIC_KEY,
    ...extensions,
  ];
  return sequence(sequence(...body), ALGORITHM, SIGNATURE);
}
