import { randomBytes } from 'node:crypto';
import { type Secret, secret } from '../base/secret.ts';

/** 192 bits in 32 characters: far beyond guessing, and short enough for a URL. */
const PASSWORD_BYTES = 24;

/** The server takes 6 to 1024 base64 characters; 756 bytes of randomness give 1008. */
const KEY_FILE_BYTES = 756;

/**
 * A random password, 32 characters by default, of letters, digits, `-` and `_` only: needs no escaping in
 * connection strings, YAML or shells.
 */
export const generatePassword = (bytes: number = PASSWORD_BYTES): Secret<string> =>
  secret(randomBytes(bytes).toString('base64url'));

/** Content of a new keyfile for internal authentication: 1008 base64 characters and a newline. */
export const generateKeyFile = (): Secret<string> =>
  secret(`${randomBytes(KEY_FILE_BYTES).toString('base64')}\n`);
