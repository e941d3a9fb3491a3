/**
 * The envelope around every sealed row. A row has its own data key; the data key is sealed by a key derived from the master key. The
 * row's name is authenticated with both, so rows cannot be swapped or renamed by somebody who can write the
 * database. Both layers are AES-256-GCM with random nonces; a fresh data key per write keeps nonces from ever
 * repeating under one key however many rows there are.
 *
 * Layout: magic `BLY1` · key id (8) · nonce (12) · sealed data key (32) · tag (16) · nonce (12) · ciphertext · tag (16)
 */
import { Buffer } from 'node:buffer';
import { createCipheriv, createDecipheriv, createSecretKey, hkdfSync, randomBytes } from 'node:crypto';
import { BelayError } from '../base/error.ts';
import { type Secret, secret } from '../base/secret.ts';

/** 256 bits. Only the sealing functions look inside. */
export type MasterKey = Secret<Buffer>;

const MAGIC = Buffer.from('BLY1');
const ID_BYTES = 8;
const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const WRAPPED_BYTES = NONCE_BYTES + KEY_BYTES + TAG_BYTES;
const HEADER_BYTES = MAGIC.length + ID_BYTES;

/** The master key from its 32 bytes. `MasterKeyInvalid` (never). */
export function masterKeyFrom(bytes: Uint8Array): MasterKey {
  if (bytes.length !== KEY_BYTES) throw invalidKey(`it has ${bytes.length} bytes instead of ${KEY_BYTES}`);
  return secret(Buffer.from(bytes));
}

/** The master key from its text: 32 bytes as 64 hex digits or as base64. `MasterKeyInvalid` (never). */
export function parseMasterKey(text: string): MasterKey {
  const trimmed = text.trim();
  if (/^[0-9a-f]{64}$/i.test(trimmed)) return masterKeyFrom(Buffer.from(trimmed, 'hex'));
  if (/^[A-Za-z0-9+/_-]{43}=?$/.test(trimmed)) return masterKeyFrom(Buffer.from(trimmed, 'base64'));
  // The text itself stays out of the message: it may be a key with a typing error (S8).
  throw invalidKey(`${trimmed.length} characters that are neither 64 hex digits nor 44 base64 characters`);
}

/** A new random key as text for a file. */
export const generateMasterKeyText = (): Secret<string> =>
  secret(`${randomBytes(KEY_BYTES).toString('hex')}\n`);

const invalidKey = (why: string): BelayError =>
  new BelayError('MasterKeyInvalid', `the master key cannot be used: ${why}`, {
    retry: 'never',
    fix: 'Give 32 random bytes as hex or base64, for example from: openssl rand -hex 32',
  });

/** Names a key without giving it away; stored in every row's header, so a row tells which key opens it. */
export const keyId = (key: MasterKey): string => derive(key, 'id', ID_BYTES).toString('hex');

/** Seals a value under a row name. */
export function seal(key: MasterKey, name: string, value: string): Uint8Array {
  const dataKey = randomBytes(KEY_BYTES);
  try {
    const id = derive(key, 'id', ID_BYTES);
    const wrapped = encrypt(wrappingKey(key), `key:${name}`, dataKey);
    return Buffer.concat([MAGIC, id, wrapped, encrypt(dataKey, `value:${name}`, Buffer.from(value, 'utf8'))]);
  } finally {
    dataKey.fill(0);
  }
}

/**
 * Opens a sealed value. `MasterKeyWrong` (never): sealed with another key. `SealBroken` (never): damaged, forged,
 * or the row of another name.
 */
export function unseal(key: MasterKey, name: string, sealed: Uint8Array): Secret<string> {
  const bytes = Buffer.from(sealed);
  if (bytes.length < HEADER_BYTES + WRAPPED_BYTES || !bytes.subarray(0, MAGIC.length).equals(MAGIC))
    throw broken(name);
  const id = bytes.subarray(MAGIC.length, HEADER_BYTES).toString('hex');
  if (id !== keyId(key)) throw wrongKey(id, keyId(key));
  const end = HEADER_BYTES + WRAPPED_BYTES;
  try {
    const dataKey = decrypt(wrappingKey(key), `key:${name}`, bytes.subarray(HEADER_BYTES, end));
    return secret(decrypt(dataKey, `value:${name}`, bytes.subarray(end)).toString('utf8'));
  } catch {
    throw broken(name);
  }
}

const broken = (name: string): BelayError =>
  new BelayError('SealBroken', `the sealed value ${name} is damaged or belongs to another name`, {
    retry: 'never',
    fix: 'Restore the store from a backup; somebody or something changed this row outside of belay.',
  });

/** The key at hand is not the one the store was sealed with. Nothing was written. */
export const wrongKey = (wanted: string, given: string): BelayError =>
  new BelayError(
    'MasterKeyWrong',
    `the store is sealed with master key ${wanted}, the key given is ${given}`,
    {
      retry: 'never',
      fix: 'Give the master key this store was made with (file, BELAY_MASTER_KEY or systemd credential); without it its secrets cannot be read.',
    },
  );

/** Separate keys for separate uses: what names the key says nothing about what seals. Kept as long as the key itself is. */
function derive(key: MasterKey, use: string, bytes: number): Buffer {
  const known = derived.get(key) ?? new Map<string, Buffer>();
  derived.set(key, known);
  const made =
    known.get(use) ?? Buffer.from(hkdfSync('sha256', key.reveal(), Buffer.alloc(0), `belay ${use}`, bytes));
  known.set(use, made);
  return made;
}
const derived = new WeakMap<MasterKey, Map<string, Buffer>>();

const wrappingKey = (key: MasterKey): Buffer => derive(key, 'wrap', KEY_BYTES);

// Keys are wrapped as key objects: for plain bytes the runtime looks far longer what they are than it takes to use them.
function encrypt(key: Buffer, bound: string, value: Buffer): Buffer {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv('aes-256-gcm', createSecretKey(key), nonce, { authTagLength: TAG_BYTES });
  cipher.setAAD(Buffer.from(bound, 'utf8'));
  return Buffer.concat([nonce, cipher.update(value), cipher.final(), cipher.getAuthTag()]);
}

function decrypt(key: Buffer, bound: string, bytes: Buffer): Buffer {
  const decipher = createDecipheriv('aes-256-gcm', createSecretKey(key), bytes.subarray(0, NONCE_BYTES), {
    authTagLength: TAG_BYTES,
  });
  decipher.setAAD(Buffer.from(bound, 'utf8'));
  decipher.setAuthTag(bytes.subarray(bytes.length - TAG_BYTES));
  return Buffer.concat([
    decipher.update(bytes.subarray(NONCE_BYTES, bytes.length - TAG_BYTES)),
    decipher.final(),
  ]);
}
