import type { Authority } from '../authority/index.ts';
import type { Agents, Clock, Log, Secrets, Store } from '../engine/ports.ts';
import type { MongoDBProvider } from '../provider/mongodb.ts';
import type { Tokens } from '../security/tokens.ts';
import type { AuthorityRotation } from './authorityRotation.ts';

/** Who is asking: the token's name and what its role permits. */
export interface Identity {
  readonly name: string;
  readonly role: 'admin' | 'operator' | 'viewer';
}

/** What the REST API needs; a `main` gives it. */
export interface ApiDeps {
  readonly store: Store;
  readonly secrets: Secrets;
  readonly agents: Agents;
  readonly clock: Clock;
  readonly log: Log;
  readonly provider: MongoDBProvider;
  /** Throws TokenUnknown, TokenExpired. */
  readonly authenticate: (token: string) => Promise<Identity>;
  /** A one-time token for a host to join with (its name, or `*`), and what an agent is started with. */
  readonly createJoinToken: (host: string, ttlMillis: number) => Promise<JoinInvitation>;
  readonly tokens: Tokens;
  /** The one authority that says what may go down now (C1). */
  readonly maintenance: Authority;
  /** Replacement of the certificate authority. */
  readonly caRotation: Pick<AuthorityRotation, 'status' | 'introduce' | 'switchOver'>;
  /** Members a host carries, `namespace/name`, as far as this process knows. */
  readonly membersOn: (host: string) => readonly string[];
  /** Prometheus text. */
  readonly metrics: () => Promise<string>;
  /** Store and engine work. */
  readonly ready: () => Promise<boolean>;
  readonly version: string;
  /** Told of every answered request: method, route (with placeholders) and status. */
  readonly counted?: (method: string, route: string, status: number) => void;
}

export interface JoinInvitation {
  readonly token: string;
  readonly expiresAt: string;
  readonly urls: readonly string[];
  readonly caFingerprint: string;
}
