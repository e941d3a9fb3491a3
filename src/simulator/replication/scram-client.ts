import { createHash, createHmac, pbkdf2 as pbkdf2Callback, randomBytes, timingSafeEqual } from 'node:crypto';
import { promisify } from 'node:util';
import type { Secret } from '../../base/secret.ts';

const pbkdf2 = promisify(pbkdf2Callback);
const MIN_ITERATIONS = 4096;
const NONCE_BYTES = 24;
const KEY_BYTES = 32;

/** Salted passwords of the key, kept because every new connection would hash again. */
const cache = new Map<string, Buffer>();
const CACHE_SIZE = 64;

async function saltedPassword(password: Secret<string>, salt: string, iterations: number): Promise<Buffer> {
  const name = createHash('sha256').update(`${iterations}/${salt}/${password.reveal()}`).digest('hex');
  const known = cache.get(name);
  if (known) return known;
  const salted = await pbkdf2(
    password.reveal(),
    Buffer.from(salt, 'base64'),
    iterations,
    KEY_BYTES,
    'sha256',
  );
  if (cache.size >= CACHE_SIZE) cache.clear();
  cache.set(name, salted);
  return salted;
}

const hmac = (key: Buffer, text: string): Buffer => createHmac('sha256', key).update(text).digest();

/** The client's side of SCRAM-SHA-256 as `__system`, the user members log in as with their shared key. */
export class ScramClient {
  readonly #password: Secret<string>;
  readonly #nonce = randomBytes(NONCE_BYTES).toString('base64');
  #serverSignature: Buffer = Buffer.alloc(0);

  constructor(password: Secret<string>) {
    this.#password = password;
  }

  get #bare(): string {
    return `n=__system,r=${this.#nonce}`;
  }

  first(): Buffer {
    return Buffer.from(`n,,${this.#bare}`);
  }

  /** The proof for the server's first message. Throws when that is not an answer to ours. */
  async proof(serverFirst: string): Promise<Buffer> {
    const match = /^r=([^,]+),s=([^,]+),i=(\d+)/.exec(serverFirst);
    const [, nonce = '', salt = '', count = '0'] = match ?? [];
    const iterations = Number(count);
    if (!nonce.startsWith(this.#nonce) || iterations < MIN_ITERATIONS) {
      throw new Error('unexpected SCRAM message from the server');
    }
    const salted = await saltedPassword(this.#password, salt, iterations);
    const withoutProof = `c=biws,r=${nonce}`;
    const auth = `${this.#bare},${serverFirst},${withoutProof}`;
    const clientKey = hmac(salted, 'Client Key');
    const storedKey = createHash('sha256').update(clientKey).digest();
    const signature = hmac(storedKey, auth);
    const proof = Buffer.from(clientKey.map((byte, index) => byte ^ signature[index]!));
    this.#serverSignature = hmac(hmac(salted, 'Server Key'), auth);
    return Buffer.from(`${withoutProof},p=${proof.toString('base64')}`);
  }

  /** The server knows the key too. */
  verify(serverFinal: string): boolean {
    const given = Buffer.from(/^v=(.+)$/.exec(serverFinal)?.[1] ?? '', 'base64');
    return given.length === this.#serverSignature.length && timingSafeEqual(given, this.#serverSignature);
  }
}
