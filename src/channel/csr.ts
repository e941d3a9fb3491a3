/** Keys and signing requests of hosts. The library is loaded on use: an agent needs it once a year. */
import { webcrypto } from 'node:crypto';

/** A new P-256 key (PKCS#8 PEM) and a signing request (PKCS#10 PEM) for it with the host's name as its subject. */
export async function makeSigningRequest(
  hostName: string,
): Promise<{ readonly keyPem: string; readonly csrPem: string }> {
  await import('reflect-metadata');
  const { Pkcs10CertificateRequestGenerator } = await import('@peculiar/x509');
  const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
  const csr = await Pkcs10CertificateRequestGenerator.create({
    name: [{ CN: [hostName] }],
    keys: keys as webcrypto.CryptoKeyPair,
    signingAlgorithm: algorithm,
  });
  const pkcs8 = Buffer.from(await webcrypto.subtle.exportKey('pkcs8', keys.privateKey)).toString('base64');
  const lines = pkcs8.match(/.{1,64}/g) ?? [];
  const keyPem = `-----BEGIN PRIVATE KEY-----\n${lines.join('\n')}\n-----END PRIVATE KEY-----\n`;
  return { keyPem, csrPem: csr.toString('pem') };
}
