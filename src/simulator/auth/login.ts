/** Logging in: SCRAM, X.509, members by key or certificate; logging out (4.1, 4.2). */
import { Binary, type Document } from 'bson';
import type { AuthenticatedUser, CommandContext, CommandSpec, Connection, ServerNode } from '../contracts.ts';
import { ServerError } from '../contracts.ts';
import { asFlag, asNumber, isDocument } from '../wire/bson.ts';
import { ClientConnection } from '../wire/connection.ts';
import { SYSTEM_USER } from './access.ts';
import type { Accounts } from './accounts.ts';
import type { KeyFile } from './keyfile.ts';
import { meetsRestrictions } from './restrictions.ts';
import {
  clientUser,
  isScram,
  keyCredentials,
  SCRAM_MECHANISMS,
  ScramConversation,
  type ScramCredentials,
  type ScramMechanism,
  storedCredentials,
} from './scram.ts';
import { isMember, type MemberRule } from './subject.ts';

export type ClusterAuthMode = 'keyFile' | 'sendKeyFile' | 'sendX509' | 'x509';

/** What logging in depends on besides users. */
export interface LoginSettings {
  readonly keys: KeyFile | null;
  /** Changes at run time with setParameter. */
  clusterAuthMode(): ClusterAuthMode;
  memberRule(): MemberRule;
}

const failed = (): ServerError => new ServerError(18, 'AuthenticationFailed', 'Authentication failed.');
const X509 = 'MONGODB-X509';

interface Pending {
  readonly id: number;
  readonly db: string;
  readonly mechanism: ScramMechanism;
  readonly skipEmptyExchange: boolean;
  readonly speculative: boolean;
  readonly scram: ScramConversation;
  /** The proof was right; one empty message is still awaited. */
  proven: boolean;
}

/** The login service of one process. */
export class Logins {
  readonly #node: ServerNode;
  readonly #accounts: Accounts;
  readonly #settings: LoginSettings;
  readonly #keyCredentials = new Map<ScramMechanism, Promise<readonly ScramCredentials[]>>();
  readonly counts = new Map<string, { received: number; successful: number; speculative: number }>();

  constructor(node: ServerNode, accounts: Accounts, settings: LoginSettings) {
    this.#node = node;
    this.#accounts = accounts;
    this.#settings = settings;
  }

  /** `saslStart`, `saslContinue`, `authenticate` and `logout`. */
  specs(): readonly CommandSpec[] {
    return [
      {
        name: 'saslStart',
        auth: 'none',
        access: 'any',
        run: (context) => this.start(context, context.command, context.db, false),
      },
      { name: 'saslContinue', auth: 'none', access: 'any', run: (context) => this.continue(context) },
      {
        name: 'authenticate',
        auth: 'none',
        access: 'any',
        run: (context) => this.authenticate(context, context.command, context.db, false),
      },
      { name: 'logout', auth: 'none', access: 'any', run: (context) => this.logout(context) },
    ];
  }

  /** Login inside `hello`: its reply, or undefined for any failure. */
  async speculate(context: CommandContext, login: Document): Promise<Document | undefined> {
    const usual = login['saslStart'] === undefined ? '$external' : 'admin';
    const db = typeof login['db'] === 'string' ? login['db'] : usual;
    try {
      return login['saslStart'] === undefined
        ? await this.authenticate(context, login, db, true)
        : await this.start(context, login, db, true);
    } catch (failure) {
      if (failure instanceof ServerError) return undefined;
      throw failure;
    }
  }

  /** A user's mechanisms that are enabled here; undefined when there is no such user. */
  mechanismsOf(user: string, db: string): readonly string[] | undefined {
    if (user === SYSTEM_USER.user && db === SYSTEM_USER.db)
      return this.#settings.keys === null ? undefined : SCRAM_MECHANISMS;
    const document = this.#accounts.user(db, user);
    if (document === undefined) return undefined;
    if (document['credentials']?.['external'] !== undefined) return [X509];
    return SCRAM_MECHANISMS.filter(
      (name) => this.#isEnabled(name) && document['credentials']?.[name] !== undefined,
    );
  }

  async start(
    context: CommandContext,
    command: Document,
    db: string,
    speculative: boolean,
  ): Promise<Document> {
    const mechanism = String(command['mechanism']);
    if (!this.#isEnabled(mechanism) || !isScram(mechanism)) {
      throw new ServerError(
        334,
        'MechanismUnavailable',
        `Received authentication for mechanism ${mechanism} which is unknown or not enabled`,
      );
    }
    this.#count(mechanism, speculative);
    const connection = clientOf(context.connection);
    connection.conversation = undefined;
    const payload = payloadOf(command);
    const user = clientUser(payload);
    const candidates = user === undefined ? [] : await this.#candidates(mechanism, user, db);
    const scram = ScramConversation.start(mechanism, payload, candidates);
    if (scram === undefined)
      throw this.#refuse(
        context,
        mechanism,
        user ?? '',
        db,
        speculative,
        'UserNotFound: Could not find user',
      );
    const options = command['options'];
    connection.conversation = {
      id: 1,
      db,
      mechanism,
      skipEmptyExchange: isDocument(options) && asFlag(options['skipEmptyExchange']),
      speculative,
      scram,
      proven: false,
    } satisfies Pending;
    return { conversationId: 1, done: false, payload: new Binary(Buffer.from(scram.firstReply)) };
  }

  continue(context: CommandContext): Document {
    const connection = clientOf(context.connection);
    const pending = connection.conversation as Pending | undefined;
    if (pending === undefined) throw new ServerError(17, 'ProtocolError', 'No SASL session state found');
    if (asNumber(context.command['conversationId']) !== pending.id) {
      throw new ServerError(17, 'ProtocolError', 'sasl: Mismatched conversation id');
    }
    if (pending.proven) {
      this.#finish(context, connection, pending);
      return { conversationId: pending.id, done: true, payload: new Binary(Buffer.alloc(0)) };
    }
    const answer = pending.scram.finish(payloadOf(context.command));
    if (answer === undefined) {
      connection.conversation = undefined;
      throw this.#refuse(
        context,
        pending.mechanism,
        pending.scram.user,
        pending.db,
        pending.speculative,
        'AuthenticationFailed: SCRAM authentication failed, storedKey mismatch',
      );
    }
    pending.proven = true;
    if (pending.skipEmptyExchange) this.#finish(context, connection, pending);
    return {
      conversationId: pending.id,
      done: pending.skipEmptyExchange,
      payload: new Binary(Buffer.from(answer)),
    };
  }

  #finish(context: CommandContext, connection: ClientConnection, pending: Pending): void {
    connection.conversation = undefined;
    this.#admit(
      context,
      { user: pending.scram.user, db: pending.db },
      pending.mechanism,
      pending.speculative,
    );
  }

  async authenticate(
    context: CommandContext,
    command: Document,
    db: string,
    speculative: boolean,
  ): Promise<Document> {
    const mechanism = String(command['mechanism'] ?? '');
    if (mechanism !== X509 || !this.#isEnabled(X509)) {
      throw new ServerError(
        334,
        'MechanismUnavailable',
        `Received authentication for mechanism ${mechanism} which is unknown or not enabled`,
      );
    }
    this.#count(X509, speculative);
    if (db !== '$external')
      throw new ServerError(
        17,
        'ProtocolError',
        'X.509 authentication must always use the $external database.',
      );
    const { connection } = context;
    const subject = connection.peerSubject;
    const named = command['user'];
    if (subject === undefined) {
      this.#logFailure(
        context,
        X509,
        String(named ?? ''),
        db,
        speculative,
        'AuthenticationFailed: No verified subject name available from client',
      );
      throw new ServerError(18, 'AuthenticationFailed', 'No verified subject name available from client');
    }
    if (typeof named === 'string' && named !== '' && named !== subject) {
      throw this.#refuse(
        context,
        X509,
        named,
        db,
        speculative,
        'AuthenticationFailed: There is no x.509 client certificate matching the user.',
      );
    }
    const member = this.#acceptsMemberCertificates() && isMember(subject, this.#settings.memberRule());
    if (!member && this.#accounts.user(db, subject) === undefined) {
      throw this.#refuse(
        context,
        X509,
        subject,
        db,
        speculative,
        `UserNotFound: Could not find user "${subject}" for db "$external"`,
      );
    }
    this.#admit(
      context,
      member ? { user: SYSTEM_USER.user, db: '$external' } : { user: subject, db },
      X509,
      speculative,
    );
    return { dbname: '$external', user: subject };
  }

  logout(context: CommandContext): Document {
    const { connection, db } = context;
    connection.users = connection.users.filter((user) => user.db !== db);
    connection.internal = connection.internal && connection.users.length > 0;
    return {};
  }

  // ── parts ────────────────────────────────────────────────────────────────────────────────────────────────────────

  #isEnabled(mechanism: string): boolean {
    const enabled = this.#node.parameters.get('authenticationMechanisms');
    return Array.isArray(enabled) && enabled.includes(mechanism);
  }

  async #candidates(
    mechanism: ScramMechanism,
    user: string,
    db: string,
  ): Promise<readonly ScramCredentials[]> {
    if (user === SYSTEM_USER.user && db === SYSTEM_USER.db) return this.#memberCandidates(mechanism);
    const document = this.#accounts.user(db, user);
    const credentials = document === undefined ? undefined : storedCredentials(document, mechanism);
    return credentials === undefined ? [] : [credentials];
  }

  #memberCandidates(mechanism: ScramMechanism): Promise<readonly ScramCredentials[]> {
    const { keys } = this.#settings;
    if (keys === null || this.#settings.clusterAuthMode() === 'x509') return Promise.resolve([]);
    const present = this.#keyCredentials.get(mechanism);
    if (present !== undefined) return present;
    const parameter = mechanism === 'SCRAM-SHA-1' ? 'scramIterationCount' : 'scramSHA256IterationCount';
    const made = keyCredentials(mechanism, keys, Number(this.#node.parameters.get(parameter)));
    this.#keyCredentials.set(mechanism, made);
    return made;
  }

  #acceptsMemberCertificates(): boolean {
    return this.#settings.clusterAuthMode() !== 'keyFile';
  }

  /** The proof was right; what is left are the user's own restrictions. */
  #admit(context: CommandContext, user: AuthenticatedUser, mechanism: string, speculative: boolean): void {
    const { connection } = context;
    const system = user.user === SYSTEM_USER.user;
    const restrictions = system ? [] : this.#accounts.ofUser(user.db, user.user).restrictions;
    if (
      !meetsRestrictions(restrictions, addressOf(connection.remote), addressOf(clientOf(connection).local))
    ) {
      throw this.#refuse(
        context,
        mechanism,
        user.user,
        user.db,
        speculative,
        'AuthenticationRestrictionUnmet: authentication restrictions unmet',
      );
    }
    connection.users = [...connection.users.filter((other) => other.db !== user.db), user];
    if (system) connection.internal = true;
    const counts = this.counts.get(mechanism);
    if (counts !== undefined) counts.successful += 1;
    this.#node.logger.log('I', 'ACCESS', 5286306, `conn${connection.id}`, 'Successfully authenticated', {
      client: connection.remote,
      isSpeculative: speculative,
      isClusterMember: system,
      mechanism,
      user: user.user,
      db: user.db,
      result: 0,
      extraInfo: {},
    });
  }

  #refuse(
    context: CommandContext,
    mechanism: string,
    user: string,
    db: string,
    speculative: boolean,
    reason: string,
  ): ServerError {
    this.#logFailure(context, mechanism, user, db, speculative, reason);
    return failed();
  }

  #logFailure(
    context: CommandContext,
    mechanism: string,
    user: string,
    db: string,
    speculative: boolean,
    error: string,
  ): void {
    const { connection } = context;
    this.#node.logger.log('I', 'ACCESS', 5286307, `conn${connection.id}`, 'Failed to authenticate', {
      client: connection.remote,
      isSpeculative: speculative,
      isClusterMember: user === SYSTEM_USER.user,
      mechanism,
      user,
      db,
      error,
      result: 18,
      extraInfo: {},
    });
  }

  #count(mechanism: string, speculative: boolean): void {
    const counts = this.counts.get(mechanism) ?? { received: 0, successful: 0, speculative: 0 };
    counts.received += 1;
    if (speculative) counts.speculative += 1;
    this.counts.set(mechanism, counts);
  }
}

function clientOf(connection: Connection): ClientConnection {
  if (connection instanceof ClientConnection) return connection;
  throw new ServerError(20, 'IllegalOperation', 'only a client connection can log in');
}

function payloadOf(command: Document): Uint8Array {
  const payload: unknown = command['payload'];
  if (payload instanceof Binary) return payload.buffer.subarray(0, payload.length());
  if (typeof payload === 'string') return Buffer.from(payload, 'base64');
  throw failed();
}

/** `10.0.0.1` of `10.0.0.1:5000` or `[::1]:5000`. */
const addressOf = (remote: string): string => remote.replace(/:\d+$/, '').replace(/^\[|\]$/g, '');
