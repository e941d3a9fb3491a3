import { chmodSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { BelayError } from '../base/error.ts';
import { Secret } from '../base/secret.ts';

/** Which control plane the verbs talk to when nobody says: written by `belay up`, kept with 0600. */
export interface Profile {
  readonly server: string;
  /** File that holds the API token; the token itself is never in the profile. */
  readonly tokenFile: string;
  /** File with the CA to trust, when the server is reached over TLS. */
  readonly caFile?: string;
}

type Env = Readonly<Record<string, string | undefined>>;

const folder = (env: Env): string =>
  path.join(env['XDG_CONFIG_HOME'] || path.join(env['HOME'] || os.homedir(), '.config'), 'belay');
const file = (env: Env): string => path.join(folder(env), 'profile.json');

/** The profile, or null when there is none or it cannot be read. */
export function readProfile(env: Env = process.env): Profile | null {
  try {
    const value = JSON.parse(readFileSync(file(env), 'utf8')) as Partial<Profile>;
    if (typeof value.server !== 'string' || typeof value.tokenFile !== 'string') return null;
    const { server, tokenFile, caFile } = value;
    return { server, tokenFile, ...(typeof caFile === 'string' ? { caFile } : {}) };
  } catch {
    return null;
  }
}

/** Writes the profile in one step. */
export function writeProfile(profile: Profile, env: Env = process.env): void {
  mkdirSync(folder(env), { recursive: true, mode: 0o700 });
  const temporary = `${file(env)}.${process.pid}`;
  writeFileSync(temporary, `${JSON.stringify(profile, null, 2)}\n`, { mode: 0o600 });
  chmodSync(temporary, 0o600);
  renameSync(temporary, file(env));
}

/** Removes the profile if it still points at this server. */
export function removeProfile(server: string, env: Env = process.env): void {
  if (readProfile(env)?.server === server) rmSync(file(env), { force: true });
}

/** The token to use: `--token`, BELAY_TOKEN, or the profile's file. */
export function findToken(
  given: string | undefined,
  env: Env,
  profile: Profile | null,
): Secret<string> | null {
  const value = (given ?? env['BELAY_TOKEN'] ?? '').trim();
  if (value !== '') return new Secret(value);
  if (profile === null || !existsSync(profile.tokenFile)) return null;
  try {
    return new Secret(readFileSync(profile.tokenFile, 'utf8').trim());
  } catch (cause) {
    throw new BelayError('TokenUnreadable', `${profile.tokenFile} cannot be read`, {
      retry: 'never',
      fix: 'ask who started the control plane for a token, and give it with BELAY_TOKEN',
      cause,
    });
  }
}
