/** A certificate authority for tests of this folder and of the agent. Not for the product: keys lie in plain memory. */
import 'reflect-metadata';
import { webcrypto } from 'node:crypto';
import * as x509 from '@peculiar/x509';
import { DAY } from '../../base/units.ts';

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };

export interface TestCa {
  readonly caPem: string;
  /** Key and certificate of a new leaf. */
  issue(commonName: string, names?: readonly string[]): Promise<{ keyPem: string; certificatePem: string }>;
  sign(csrPem: string): Promise<string>;
}

const newKeys = (): Promise<webcrypto.CryptoKeyPair> =>
  webcrypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify']) as Promise<webcrypto.CryptoKeyPair>;

async function keyPem(key: webcrypto.CryptoKey): Promise<string> {
  const pkcs8 = Buffer.from(await webcrypto.subtle.exportKey('pkcs8', key)).toString('base64');
  return `-----BEGIN PRIVATE KEY-----\n${pkcs8.match(/.{1,64}/g)?.join('\n')}\n-----END PRIVATE KEY-----\n`;
}

/** Makes an authority and what it issues; certificates are valid from a day ago for thirty days. */
export async function makeTestCa(): Promise<TestCa> {
  const caKeys = await newKeys();
  const notBefore = new Date(Date.now() - DAY);
  const notAfter = new Date(Date.now() + 30 * DAY);
  let serial = 1;
  const ca = await x509.X509CertificateGenerator.createSelfSigned({
    serialNumber: '01',
    name: 'CN=Test CA',
    notBefore,
    notAfter,
    keys: caKeys,
    signingAlgorithm: ALGORITHM,
    extensions: [new x509.BasicConstraintsExtension(true, undefined, true)],
  });
  const leaf = async (commonName: string, publicKey: x509.PublicKeyType, names: readonly string[]) => {
    serial++;
    const certificate = await x509.X509CertificateGenerator.create({
      serialNumber: `1${serial.toString(16).padStart(3, '0')}`,
      subject: `CN=${commonName}`,
      issuer: ca.subject,
      notBefore,
      notAfter,
      publicKey,
      signingKey: caKeys.privateKey,
      signingAlgorithm: ALGORITHM,
      extensions: [
        new x509.SubjectAlternativeNameExtension(
          names.map((value) => ({ type: /^[\d.]+$/.test(value) ? 'ip' : 'dns', value }) as const),
        ),
      ],
    });
    return certificate.toString('pem');
  };
  return {
    caPem: ca.toString('pem'),
    issue: async (commonName, names = ['localhost', '127.0.0.1']) => {
      const keys = await newKeys();
      return {
        keyPem: await keyPem(keys.privateKey),
        certificatePem: await leaf(commonName, keys.publicKey, names),
      };
    },
    sign: async (csrPem) => {
      const csr = new x509.Pkcs10CertificateRequest(csrPem);
      return leaf(csr.subjectName.getField('CN')[0] ?? '', csr.publicKey, [csr.subject]);
    },
  };
}
