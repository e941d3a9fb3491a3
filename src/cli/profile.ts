import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { Secret } from '../base/secret.ts';

/** Which control plane the verbs talk to when nobody says: written by `belay up`, kept with 0600. */
export interface Profile {
  readonly server: string;
  /** File that holds the API token; the token itself is never in the profile. */
  readonly tokenFile: string;
}

const folder = (): string =>
  path.join(process.env['XDG_CONFIG_HOME'] ?? path.join(os.homedir(), '.config'), 'belay');
const file = (): string => path.join(folder(), 'profile.json');

/** The profile, or null when there is none or it cannot be read. */
export function readProfile(): Profile | null {
  try {
    const value = JSON.parse(readFileSync(file(), 'utf8')) as Partial<Profile>;
    return typeof value.server === 'string' && typeof value.tokenFile === 'string'
      ? { server: value.server, tokenFile: value.tokenFile }
      : null;
  } catch {
    return null;
  }
}

/** Writes the profile in one step. */
export function writeProfile(profile: Profile): void {
  mkdirSync(folder(), { recursive: true, mode: 0o700 });
  const temporary = `${file()}.${process.pid}`;
  writeFileSync(temporary, `${JSON.stringify(profile, null, 2)}\n`, { mode: 0o600 });
  renameSync(temporary, file());
}

/** Removes the profile if it still points at this server. */
export function removeProfile(server: string): void {
  if (readProfile()?.server === server) rmSync(file(), { force: true });
}

/** The token to use: `--token`, BELAY_TOKEN, or the profile's file. */
export function findToken(given: string | undefined, profile: Profile | null): Secret<string> | null {
  const value = given ?? process.env['BELAY_TOKEN'];
  if (value !== undefined && value !== '') return new Secret(value);
  if (profile !== null && existsSync(profile.tokenFile))
    return new Secret(readFileSync(profile.tokenFile, 'utf8').trim());
  return null;
}
