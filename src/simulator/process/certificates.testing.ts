/** A small certificate authority for tests. */
import 'reflect-metadata';
import { webcrypto } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import {
  BasicConstraintsExtension,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  SubjectAlternativeNameExtension,
  X509CertificateGenerator,
} from '@peculiar/x509';

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
const DAY = 24 * 3600 * 1000;

/** Issues certificates for `localhost` into combined PEM files. */
export class TestCa {
  readonly #keys: webcrypto.CryptoKeyPair;
  readonly #name: string;
  readonly pem: string;

  private constructor(keys: webcrypto.CryptoKeyPair, name: string, pem: string) {
    this.#keys = keys;
    this.#name = name;
    this.pem = pem;
  }

  static async create(name = 'CN=Test CA,O=Belay'): Promise<TestCa> {
    const keys = (await webcrypto.subtle.generateKey(ALGORITHM, true, [
      'sign',
      'verify',
    ])) as webcrypto.CryptoKeyPair;
    const certificate = await X509CertificateGenerator.createSelfSigned({
      name,
      keys,
      notBefore: new Date(Date.now() - DAY),
      notAfter: new Date(Date.now() + DAY),
      signingAlgorithm: ALGORITHM,
      extensions: [new BasicConstraintsExtension(true, undefined, true)],
    });
    return new TestCa(keys, name, certificate.toString('pem'));
  }

  /** Writes key and certificate of a subject into one file. Life in days; negative ones have passed. */
  async issue(path: string, subject: string, days = 1): Promise<void> {
    const keys = (await webcrypto.subtle.generateKey(ALGORITHM, true, [
      'sign',
      'verify',
    ])) as webcrypto.CryptoKeyPair;
    const certificate = await X509CertificateGenerator.create({
      subject,
      issuer: this.#name,
      publicKey: keys.publicKey,
      signingKey: this.#keys.privateKey,
      notBefore: new Date(Date.now() - 3 * DAY),
      notAfter: new Date(Date.now() + days * DAY),
      signingAlgorithm: ALGORITHM,
      extensions: [
        new SubjectAlternativeNameExtension([
          { type: 'dns', value: 'localhost' },
          { type: 'ip', value: '127.0.0.1' },
        ]),
        new ExtendedKeyUsageExtension([ExtendedKeyUsage.serverAuth, ExtendedKeyUsage.clientAuth]),
      ],
    });
    const key = Buffer.from(await webcrypto.subtle.exportKey('pkcs8', keys.privateKey)).toString('base64');
    const keyPem = `-----BEGIN PRIVATE KEY-----\n${key.match(/.{1,64}/g)!.join('\n')}\n-----END PRIVATE KEY-----\n`;
    writeFileSync(path, `${keyPem}${certificate.toString('pem')}\n`, { mode: 0o600 });
  }
}
