import type { Document } from 'bson';
import type { Secret } from '../../base/secret.ts';
import type { Millis } from '../../base/units.ts';
import { type DialTls, PeerConnection, type PeerLogin, PeerUnreachable } from './peer-connection.ts';

/** Idle connections kept per member: one for heartbeats, one held by a fetch, one for reports. */
const MAX_IDLE = 3;
/** A connection that takes longer to open is none. */
const DIAL_LIMIT: Millis = 20_000;

export interface PeerPoolOptions {
  /** Asked for every new connection, so that mode changes and rotated certificates take effect. */
  readonly tls: () => DialTls | null;
  readonly login: () => PeerLogin;
  /** Idle connections kept per member; routers keep more. */
  readonly maxIdle?: number;
}

/** How one request may be sent. */
export interface PeerRequest {
  readonly timeout: Millis;
  /** Whether it may be sent again when a kept connection turns out to be dead: not for what must not happen twice. */
  readonly again: boolean;
}

/** Connections to other members, with a life. */
export class PeerPool {
  readonly #options: PeerPoolOptions;
  readonly #idle = new Map<string, PeerConnection[]>();
  readonly #open = new Map<PeerConnection, string>();
  #closed = false;

  constructor(options: PeerPoolOptions) {
    this.#options = options;
  }

  /** Runs one command on a member. Throws PeerUnreachable or PeerError. */
  async call(host: string, db: string, command: Document, timeout: Millis): Promise<Document> {
    return this.#run(host, { timeout, again: true }, (connection) => connection.call(db, command, timeout));
  }

  /** Runs one command on a member and gives the reply, good or bad. Throws PeerUnreachable, or PeerError for a refused login. */
  async ask(host: string, db: string, command: Document, request: PeerRequest): Promise<Document> {
    return this.#run(host, request, (connection) => connection.ask(db, command, request.timeout));
  }

  async #run(
    host: string,
    { timeout, again }: PeerRequest,
    use: (connection: PeerConnection) => Promise<Document>,
  ): Promise<Document> {
    for (;;) {
      const idle = this.#take(host);
      const connection = idle ?? (await this.#dial(host, Math.min(timeout, DIAL_LIMIT)));
      try {
        const reply = await use(connection);
        this.#give(host, connection);
        return reply;
      } catch (failure) {
        if (connection.usable) this.#give(host, connection);
        // A kept connection may have died unnoticed with the member's restart: once more on another.
        else if (
          idle !== undefined &&
          again &&
          failure instanceof PeerUnreachable &&
          !failure.timedOut &&
          !this.#closed
        )
          continue;
        throw failure;
      }
    }
  }

  /** Drops what is kept for a member. */
  forget(host: string): void {
    for (const connection of this.#idle.get(host) ?? []) connection.close();
    this.#idle.delete(host);
  }

  /** Ends every connection to a member, also those in use: it is gone, or answers no more. */
  drop(host: string): void {
    this.forget(host);
    for (const [connection, where] of [...this.#open]) if (where === host) connection.close();
  }

  close(): void {
    this.#closed = true;
    for (const connection of [...this.#open.keys()]) connection.close();
    this.#idle.clear();
  }

  #take(host: string): PeerConnection | undefined {
    const kept = this.#idle.get(host) ?? [];
    for (;;) {
      const connection = kept.pop();
      if (connection === undefined || connection.usable) return connection;
    }
  }

  #give(host: string, connection: PeerConnection) {
    const kept = this.#idle.get(host) ?? [];
    if (this.#closed || kept.length >= (this.#options.maxIdle ?? MAX_IDLE)) return connection.close();
    kept.push(connection);
    this.#idle.set(host, kept);
  }

  async #dial(host: string, timeout: Millis): Promise<PeerConnection> {
    if (this.#closed) throw new PeerUnreachable('shutting down', false);
    const { tls, login } = this.#options;
    const connection = await PeerConnection.open({ host, tls: tls(), login: login(), timeout });
    if (this.#closed) {
      connection.close();
      throw new PeerUnreachable('shutting down', false);
    }
    this.#open.set(connection, host);
    connection.onClose = () => this.#open.delete(connection);
    return connection;
  }
}

/** How a process logs in at others: with its certificate in the X.509 modes, else with the shared key, if there is one. */
export function peerLogin(
  keys: readonly Secret<string>[] | null | undefined,
  clusterAuthMode: string,
): PeerLogin {
  if (clusterAuthMode === 'sendX509' || clusterAuthMode === 'x509') return { kind: 'x509' };
  return keys && keys.length > 0 ? { kind: 'keys', keys } : { kind: 'none' };
}
