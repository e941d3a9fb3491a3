/** What a process really shows to those who connect: the certificate on its port, not the one in its file (A9.4). */
import { connect } from 'node:tls';
import type { Millis } from '../base/units.ts';
import type { MemberFacts } from '../clusters/facts.ts';

/** A handshake on this machine. */
const HANDSHAKE: Millis = 3_000;

/** The certificate presented on a port of this machine; null: nobody answers there in TLS. */
export function servedCertificate(port: number): Promise<MemberFacts['certificate']> {
  return new Promise((resolve) => {
    // Whose it is and whether it is trusted is what the caller asks; nothing is said over this connection.
    const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false, timeout: HANDSHAKE });
    const end = (answer: MemberFacts['certificate']): void => {
      socket.destroy();
      resolve(answer);
    };
    socket.once('secureConnect', () => {
      const certificate = socket.getPeerX509Certificate();
      end(
        certificate === undefined
          ? null
          : { notAfter: Date.parse(certificate.validTo), fingerprint: printOf(certificate.fingerprint256) },
      );
    });
    socket.once('timeout', () => end(null));
    socket.once('error', () => end(null));
  });
}

/** `sha256:` and lower-case hex, as everywhere in reports. */
export const printOf = (fingerprint256: string): string =>
  `sha256:${fingerprint256.replaceAll(':', '').toLowerCase()}`;
