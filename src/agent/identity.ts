/** The host's place in the installation: kept in one private file, made by joining, renewed before it ends. */
import { X509Certificate } from 'node:crypto';
import { dirname } from 'node:path';
import { asBelayError, BelayError } from '../base/error.ts';
import type { Secret } from '../base/secret.ts';
import {
  type AgentConnection,
  type AgentIdentity,
  joinHost,
  makeSigningRequest,
  RENEW_BELOW,
  RENEW_CHECK,
} from '../channel/index.ts';
import { trustOf } from '../clusters/authority.ts';
import type { HostIdentity } from '../clusters/facts.ts';
import type { Clock, Log } from '../engine/ports.ts';
import { makeFolder, PRIVATE, readJson, writeJson } from './files.ts';
import { JOIN_RETRY } from './limits.ts';

export interface Membership {
  readonly identity: AgentIdentity;
  readonly urls: readonly string[];
}

export interface JoinOptions {
  readonly path: string;
  readonly name: string;
  readonly urls: readonly string[];
  readonly joinToken: Secret<string> | null;
  readonly caFingerprint: string | null;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/** The identity kept from earlier, or null. A file that cannot be read counts as none. */
export function loadMembership(path: string): Membership | null {
  const kept = readJson(path) as Membership | null;
  return kept?.identity?.keyPem ? kept : null;
}

/**
 * Joins with the token, trying the given control planes until one answers. Errors: `JoinTokenMissing` (never), and what
 * the control plane says about the token (never); a network failure is tried again for ever.
 */
export async function join(options: JoinOptions): Promise<Membership> {
  const { path, joinToken, clock, log, signal } = options;
  if (joinToken === null) {
    throw new BelayError('JoinTokenMissing', 'this host has not joined yet and has no join token', {
      retry: 'never',
      fix: 'Make one on the control plane with `belay host token NAME` and pass it in BELAY_JOIN_TOKEN.',
    });
  }
  for (let attempt = 0; ; attempt++) {
    const url = options.urls[attempt % options.urls.length] as string;
    try {
      const joined = await joinHost({
        url,
        token: joinToken,
        caFingerprint: options.caFingerprint,
        hostName: options.name,
      });
      const urls = [...new Set([...options.urls, ...joined.urls])];
      makeFolder(dirname(path));
      writeJson(path, { identity: joined.identity, urls }, PRIVATE);
      log.info('joined', { host: options.name, url });
      return { identity: joined.identity, urls };
    } catch (failure) {
      const error = asBelayError(failure);
      if (error.retry === 'never') throw error;
      log.warn('cannot join yet', { url, error: error.message });
      await pause(clock, signal);
    }
  }
}

function pause(clock: Clock, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => reject(new BelayError('Closed', 'the agent stops', { retry: 'never' }));
    if (signal.aborted) stop();
    signal.addEventListener('abort', stop, { once: true });
    clock.at(clock.now() + JOIN_RETRY, () => {
      signal.removeEventListener('abort', stop);
      resolve();
    });
  });
}

/** True when the certificate is past its end: no control plane takes it any more. */
export const hasEnded = (certificatePem: string, now: number): boolean =>
  Date.parse(new X509Certificate(certificatePem).validTo) <= now;

/** True when so little of the certificate's life is left that a new one should be got. */
export function needsRenewal(certificatePem: string, now: number): boolean {
  const { validFrom, validTo } = new X509Certificate(certificatePem);
  const [from, to] = [Date.parse(validFrom), Date.parse(validTo)];
  return to - now < (to - from) * RENEW_BELOW;
}

export interface IdentityKeeper {
  /** Gets another certificate now, whatever is left of this one. */
  renew(): Promise<void>;
  stop(): void;
}

/** What is said of it in reports: nothing secret. */
export function identityFacts({ identity }: Membership): HostIdentity {
  const authorities = (identity.caPem.match(CERTIFICATES) ?? []).map((pem) => new X509Certificate(pem));
  const own = new X509Certificate(identity.certificatePem);
  const print = (certificate: X509Certificate): string =>
    certificate.fingerprint256.replaceAll(':', '').toLowerCase();
  const issuer = authorities.find((ca) => own.verify(ca.publicKey));
  return {
    notAfter: Date.parse(own.validTo),
    issuer: issuer === undefined ? null : print(issuer),
    trust: trustOf(authorities.map(print)),
  };
}
const CERTIFICATES = /-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g;

/** Keeps the certificate fresh: looks now and then, has a new key signed over the channel, and keeps both in one write. */
export function keepRenewed(options: {
  readonly path: string;
  readonly membership: () => Membership;
  readonly replace: (membership: Membership) => void;
  readonly connection: AgentConnection;
  readonly clock: Clock;
  readonly log: Log;
}): IdentityKeeper {
  const { clock, connection, log } = options;
  let cancel = (): void => {};
  const renew = async (): Promise<void> => {
    const { identity, urls } = options.membership();
    const { host } = identity;
    const { keyPem, csrPem } = await makeSigningRequest(host);
    const { certificatePem, caPem } = await connection.renew(csrPem);
    const renewed: Membership = { identity: { host, keyPem, certificatePem, caPem }, urls };
    writeJson(options.path, renewed, PRIVATE);
    options.replace(renewed);
    log.info('certificate renewed', { host });
  };
  const look = async (): Promise<void> => {
    const { identity } = options.membership();
    if (needsRenewal(identity.certificatePem, clock.now()) && connection.connected().length > 0) {
      try {
        await renew();
      } catch (failure) {
        log.warn('certificate not renewed', { error: asBelayError(failure).message });
      }
    }
    later();
  };
  const later = (): void => {
    cancel = clock.at(clock.now() + RENEW_CHECK, () => void look());
  };
  void look();
  return { renew, stop: () => cancel() };
}
