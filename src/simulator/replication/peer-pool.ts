import type { Document } from 'bson';
import type { Millis } from '../../base/units.ts';
import { type DialTls, PeerConnection, type PeerLogin, PeerUnreachable } from './peer-connection.ts';

/** Idle connections kept per member: one for heartbeats, one held by a fetch, one for reports. */
const MAX_IDLE = 3;

export interface PeerPoolOptions {
  /** Asked for every new connection, so that mode changes and rotated certificates take effect. */
  readonly tls: () => DialTls | null;
  readonly login: () => PeerLogin;
}

/** Connections to other members, with a life. */
export class PeerPool {
  readonly #options: PeerPoolOptions;
  readonly #idle = new Map<string, PeerConnection[]>();
  readonly #open = new Set<PeerConnection>();
  #closed = false;

  constructor(options: PeerPoolOptions) {
    this.#options = options;
  }

  /** Runs one command on a member. Throws PeerUnreachable or PeerError. */
  async call(host: string, db: string, command: Document, timeout: Millis): Promise<Document> {
    for (;;) {
      const idle = this.#take(host);
      const connection = idle ?? (await this.#dial(host, timeout));
      try {
        const reply = await connection.call(db, command, timeout);
        this.#give(host, connection);
        return reply;
      } catch (failure) {
        if (connection.usable) this.#give(host, connection);
        // A kept connection may have died unnoticed with the member's restart: once more on another.
        else if (
          idle !== undefined &&
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

  close(): void {
    this.#closed = true;
    for (const connection of this.#open) connection.close();
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
    if (this.#closed || kept.length >= MAX_IDLE) return connection.close();
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
    this.#open.add(connection);
    connection.onClose = () => this.#open.delete(connection);
    return connection;
  }
}
