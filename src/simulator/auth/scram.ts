/** The server's side of SCRAM (RFC 5802, RFC 7677) and the credentials it stores (4.1). */
import { createHash, createHmac, pbkdf2Sync, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Document } from 'bson';
import type { Secret } from '../../base/secret.ts';

export type ScramMechanism = 'SCRAM-SHA-1' | 'SCRAM-SHA-256';

interface Algorithm {
  readonly digest: 'sha1' | 'sha256';
  readonly keyBytes: number;
  readonly saltBytes: number;
}

const ALGORITHMS: Readonly<Record<ScramMechanism, Algorithm>> = {
  'SCRAM-SHA-1': { digest: 'sha1', keyBytes: 20, saltBytes: 16 },
  'SCRAM-SHA-256': { digest: 'sha256', keyBytes: 32, saltBytes: 28 },
};
const NONCE_BYTES = 24;

/** The mechanisms in the server's order of preference. */
export const SCRAM_MECHANISMS: readonly ScramMechanism[] = ['SCRAM-SHA-1', 'SCRAM-SHA-256'];

/** True for a mechanism this file knows. */
export const isScram = (mechanism: string): mechanism is ScramMechanism =>
  Object.hasOwn(ALGORITHMS, mechanism);

/** What is stored of a password. */
export interface ScramCredentials {
  readonly iterationCount: number;
  /** Base64, as are the keys. */
  readonly salt: string;
  readonly storedKey: string;
  readonly serverKey: string;
}

/** Passwords as the mechanisms hash them: MD5 of user and password for the first, the SASLprep'd text for the second. */
export async function preparePassword(
  mechanism: ScramMechanism,
  user: string,
  password: string,
): Promise<string> {
  if (mechanism === 'SCRAM-SHA-1') return createHash('md5').update(`${user}:mongo:${password}`).digest('hex');
  if (/^[\x20-\x7e]*$/.test(password)) return password;
  const { saslprep } = await import('@mongodb-js/saslprep');
  return saslprep(password);
}

/** Credentials for a prepared password; a fresh salt unless one is given. */
export function makeCredentials(
  mechanism: ScramMechanism,
  prepared: string,
  iterationCount: number,
  salt?: Buffer,
): ScramCredentials {
  const { digest, keyBytes, saltBytes } = ALGORITHMS[mechanism];
  const used = salt ?? randomBytes(saltBytes);
  const salted = pbkdf2Sync(prepared, used, iterationCount, keyBytes, digest);
  const clientKey = createHmac(digest, salted).update('Client Key').digest();
  return {
    iterationCount,
    salt: used.toString('base64'),
    storedKey: createHash(digest).update(clientKey).digest('base64'),
    serverKey: createHmac(digest, salted).update('Server Key').digest('base64'),
  };
}

/** Credentials of each key of a key file, over one salt, so that a client with any of them is understood. */
export async function keyCredentials(
  mechanism: ScramMechanism,
  keys: readonly Secret<string>[],
  iterationCount: number,
): Promise<readonly ScramCredentials[]> {
  const salt = randomBytes(ALGORITHMS[mechanism].saltBytes);
  const prepared = await Promise.all(keys.map((key) => preparePassword(mechanism, '__system', key.reveal())));
  return prepared.map((password) => makeCredentials(mechanism, password, iterationCount, salt));
}

/** Reads stored credentials; undefined when the user has none of this mechanism. */
export function storedCredentials(user: Document, mechanism: ScramMechanism): ScramCredentials | undefined {
  const stored = user['credentials']?.[mechanism] as Document | undefined;
  if (stored === undefined) return undefined;
  return {
    iterationCount: Number(stored['iterationCount']),
    salt: String(stored['salt']),
    storedKey: String(stored['storedKey']),
    serverKey: String(stored['serverKey']),
  };
}

/** The user name in a client's first message, or undefined when the message is not one. */
export function clientUser(payload: Uint8Array): string | undefined {
  const first = parseClientFirst(Buffer.from(payload).toString('utf8'));
  return first?.user;
}

interface ClientFirst {
  readonly bare: string;
  readonly header: string;
  readonly user: string;
  readonly nonce: string;
}

function parseClientFirst(message: string): ClientFirst | undefined {
  const match = /^([ny],(?:a=[^,]*)?,)(n=([^,]*),r=([^,]+)(?:,.*)?)$/s.exec(message);
  if (match === null) return undefined;
  const user = unescapeName(match[3]!);
  return user === undefined ? undefined : { header: match[1]!, bare: match[2]!, user, nonce: match[4]! };
}

function unescapeName(name: string): string | undefined {
  if (/=(?!2C|3D)/.test(name)) return undefined;
  return name.replaceAll('=2C', ',').replaceAll('=3D', '=');
}

/** One login conversation from the client's first message on. */
export class ScramConversation {
  readonly user: string;
  readonly #algorithm: Algorithm;
  readonly #candidates: readonly ScramCredentials[];
  readonly #client: ClientFirst;
  readonly #nonce: string;
  readonly #serverFirst: string;

  /** Undefined when the first message is malformed. Candidates share salt and iteration count. */
  static start(
    mechanism: ScramMechanism,
    payload: Uint8Array,
    candidates: readonly ScramCredentials[],
  ): ScramConversation | undefined {
    const client = parseClientFirst(Buffer.from(payload).toString('utf8'));
    if (client === undefined || candidates.length === 0) return undefined;
    return new ScramConversation(ALGORITHMS[mechanism], client, candidates);
  }

  private constructor(algorithm: Algorithm, client: ClientFirst, candidates: readonly ScramCredentials[]) {
    this.user = client.user;
    this.#algorithm = algorithm;
    this.#candidates = candidates;
    this.#client = client;
    this.#nonce = client.nonce + randomBytes(NONCE_BYTES).toString('base64');
    const { salt, iterationCount } = candidates[0]!;
    this.#serverFirst = `r=${this.#nonce},s=${salt},i=${iterationCount}`;
  }

  /** The server's first message. */
  get firstReply(): string {
    return this.#serverFirst;
  }

  /** Checks the client's proof: the server's signature, or undefined when the proof is wrong. */
  finish(payload: Uint8Array): string | undefined {
    const message = Buffer.from(payload).toString('utf8');
    const match = /^(c=([^,]*),r=([^,]*)),p=(.*)$/s.exec(message);
    if (match === null || match[3] !== this.#nonce) return undefined;
    if (Buffer.from(match[2]!, 'base64').toString('utf8') !== this.#client.header) return undefined;
    const authMessage = `${this.#client.bare},${this.#serverFirst},${match[1]!}`;
    const proof = Buffer.from(match[4]!, 'base64');
    const proven = this.#candidates.find((candidate) => this.#proves(candidate, authMessage, proof));
    if (proven === undefined) return undefined;
    const serverKey = Buffer.from(proven.serverKey, 'base64');
    return `v=${createHmac(this.#algorithm.digest, serverKey).update(authMessage).digest('base64')}`;
  }

  #proves(candidate: ScramCredentials, authMessage: string, proof: Buffer): boolean {
    const { digest, keyBytes } = this.#algorithm;
    if (proof.length !== keyBytes) return false;
    const storedKey = Buffer.from(candidate.storedKey, 'base64');
    const signature = createHmac(digest, storedKey).update(authMessage).digest();
    const clientKey = Buffer.from(proof.map((byte, index) => byte ^ signature[index]!));
    return timingSafeEqual(createHash(digest).update(clientKey).digest(), storedKey);
  }
}
