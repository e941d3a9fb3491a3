/** The certificate a listener of this process shows: issued by the installation's CA, renewed while the process runs. */
import type { Server } from 'node:https';
import { hostname } from 'node:os';
import { DAY, type Millis } from '../base/units.ts';
import type { Clock, Log } from '../engine/ports.ts';
import type { ReplaceableAuthority } from '../security/ca.ts';

/** Made anew at every start. */
const LIFE: Millis = 365 * DAY;
/** A process that runs longer than this gets another one long before the first ends. */
const RENEW_AFTER: Millis = LIFE / 3;

export interface OwnCertificate {
  /** Key and certificate. */
  readonly pem: string;
  /** Renews it on this server from now on; connections that are open stay. Gives a canceller. */
  keep(server: Pick<Server, 'setSecureContext'>): () => void;
}

/** Issues a certificate for these names and every name this machine has. Addresses that stand for all are left out. */
export async function ownCertificate(
  parts: { readonly ca: ReplaceableAuthority; readonly clock: Clock; readonly log: Log },
  options: {
    readonly commonName: string;
    readonly names: readonly string[];
    /** Ask clients for certificates of the CA too. */
    readonly clients: boolean;
  },
): Promise<OwnCertificate> {
  const { ca, clock, log } = parts;
  const names = ['localhost', '127.0.0.1', '::1', hostname(), ...options.names].filter(
    (name) => !isWildcard(name),
  );
  const issue = async (): Promise<string> => {
    const { commonName } = options;
    const request = {
      commonName,
      names: [...new Set(names)],
      usages: ['server'],
      validForMillis: LIFE,
    } as const;
    return (await ca.issue(request)).combinedPem.reveal();
  };
  const pem = await issue();
  const keep: OwnCertificate['keep'] = (server) => {
    let cancel = (): void => {};
    const renew = async (): Promise<void> => {
      try {
        const next = await issue();
        server.setSecureContext({
          key: next,
          cert: next,
          ...(options.clients ? { ca: ca.caPem } : {}),
        });
        log.info('renewed the certificate of a listener', { commonName: options.commonName });
        cancel();
        arm(RENEW_AFTER);
      } catch (failure) {
        cancel();
        log.warn('a listener keeps its certificate, renewing failed', { failure });
        arm(DAY);
      }
    };
    const arm = (wait: Millis): void => {
      cancel = clock.at(clock.now() + wait, () => void renew());
    };
    arm(RENEW_AFTER);
    // Another authority issues or is trusted (S12): at once, connections that are open stay.
    const leave = ca.onChange(() => void renew());
    return () => {
      leave();
      cancel();
    };
  };
  return { pem, keep };
}

/** Addresses that stand for all. */
export const isWildcard = (host: string): boolean => host === '0.0.0.0' || host === '::';
