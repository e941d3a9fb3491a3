/** The shared key of a cluster's members (1.5). */
import { readFileSync, statSync } from 'node:fs';
import { type Secret, secret } from '../../base/secret.ts';

/** A key file that can't be used; the process ends with 1. The message never holds the key. */
export class KeyFileError extends Error {
  readonly code: number;
  readonly codeName: string;
  constructor(code: number, codeName: string, message: string) {
    super(message);
    this.name = 'KeyFileError';
    this.code = code;
    this.codeName = codeName;
  }
}

/** One or two keys: the first is shown to others, all are accepted. */
export type KeyFile = readonly Secret<string>[];

const MIN_LENGTH = 6;
const MAX_LENGTH = 1024;
const MAX_KEYS = 2;

/** Reads a key file. Throws KeyFileError for one others can read, with bad characters, or of the wrong length. */
export function readKeyFile(path: string): KeyFile {
  const mode = statMode(path);
  if ((mode & 0o077) !== 0) throw new KeyFileError(30, 'InvalidPath', `permissions on ${path} are too open`);
  const keys = splitKeys(readFileSync(path, 'utf8'));
  if (keys.length === 0)
    throw new KeyFileError(9, 'FailedToParse', `Security key file ${path} does not contain any valid keys`);
  if (keys.length > MAX_KEYS) {
    throw new KeyFileError(
      9,
      'FailedToParse',
      `Security key file ${path} must contain at most ${MAX_KEYS} keys`,
    );
  }
  return keys.map((key) => secret(checkKey(path, key)));
}

function statMode(path: string): number {
  try {
    return statSync(path).mode;
  } catch {
    throw new KeyFileError(30, 'InvalidPath', `Error reading file ${path}: No such file or directory`);
  }
}

/** The whole text is one key, unless it is a YAML list of keys. */
function splitKeys(text: string): string[] {
  const lines = text.split('\n').filter((line) => line.trim() !== '' && !line.startsWith('#'));
  if (!lines.some((line) => /^\s*-\s/.test(line))) return text.trim() === '' ? [] : [text];
  const keys: string[] = [];
  for (const line of lines) {
    const item = /^\s*-\s+(.*)$/.exec(line);
    if (item !== null) keys.push(unquote(item[1]!));
    else keys[keys.length - 1] += line;
  }
  return keys;
}

const unquote = (text: string): string => text.trim().replace(/^(["'])(.*)\1$/, '$2');

function checkKey(path: string, raw: string): string {
  const key = raw.replace(/\s/g, '');
  const bad = /[^A-Za-z0-9+/=]/.exec(key);
  if (bad !== null)
    throw new KeyFileError(12, 'UnsupportedFormat', `invalid char in key file ${path}: ${bad[0]}`);
  if (key.length < MIN_LENGTH || key.length > MAX_LENGTH) {
    throw new KeyFileError(
      2,
      'BadValue',
      `security key in ${path} has length ${key.length}, must be between ${MIN_LENGTH} and ${MAX_LENGTH} chars`,
    );
  }
  return key;
}
