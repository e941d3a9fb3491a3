import { randomUUID } from 'node:crypto';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { link, readFile, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { BelayError } from '../base/error.ts';
import { atomicWriteFile, syncFolder } from './files.ts';
import { generateMasterKeyText, type MasterKey, parseMasterKey } from './seal.ts';

/** Name of the systemd credential (`LoadCredential=belay-master-key:…`). */
const CREDENTIAL_NAME = 'belay-master-key';
/**
 * Name of the environment variable. It is taken out of the environment once read, so no child inherits it (S8); the
 * system still shows it to the same user and root in /proc, so a file or credential is the better place.
 */
const MASTER_KEY_VARIABLE = 'BELAY_MASTER_KEY';

export interface MasterKeySources {
  /** A key file; must be readable by its owner only. */
  readonly file?: string;
  /** Make the file when there is none. Only for a store that has no key yet (`hasMasterKey`): a new key would not open it. */
  readonly create?: boolean;
  /** `process.env` of the caller. The variable is deleted from it. */
  readonly environment: Record<string, string | undefined>;
}

/**
 * Finds the master key: systemd credential first, then the environment, then the file.
 * `MasterKeyMissing`, `MasterKeyUnsafe`, `MasterKeyInvalid` (never).
 */
export async function loadMasterKey(sources: MasterKeySources): Promise<MasterKey> {
  const { environment, file } = sources;
  const variable = environment[MASTER_KEY_VARIABLE];
  delete environment[MASTER_KEY_VARIABLE];
  const folder = environment['CREDENTIALS_DIRECTORY'];
  const credential = folder === undefined ? undefined : join(folder, CREDENTIAL_NAME);
  if (credential !== undefined && existsSync(credential))
    return parseMasterKey(readFileSync(credential, 'utf8'));
  if (variable !== undefined && variable !== '') return parseMasterKey(variable);
  if (file === undefined) throw missing(`no key file, no ${MASTER_KEY_VARIABLE}, no systemd credential`);
  if (sources.create === true) await createKeyFile(file);
  return await readKeyFile(file);
}

/** Reads a key file. `MasterKeyMissing`, `MasterKeyUnsafe`, `MasterKeyInvalid` (never). */
export async function readKeyFile(file: string): Promise<MasterKey> {
  if (!existsSync(file)) throw missing(`there is no file ${file}`);
  const mode = statSync(file).mode & 0o777;
  if ((mode & 0o077) !== 0) {
    throw new BelayError(
      'MasterKeyUnsafe',
      `${file} has mode ${mode.toString(8)}: others can read the master key`,
      {
        retry: 'never',
        fix: `Run: chmod 600 ${file} (and rotate the key when others may have read it)`,
      },
    );
  }
  return parseMasterKey(await readFile(file, 'utf8'));
}

/** Makes a new key file (0600) unless there is one; of two processes that try at once, one makes it and both use it. */
export async function createKeyFile(file: string): Promise<void> {
  if (existsSync(file)) return;
  const fresh = `${file}.${randomUUID()}.new`;
  await atomicWriteFile(fresh, generateMasterKeyText().reveal(), 0o600);
  try {
    // A link, unlike a rename, never replaces what another process made meanwhile.
    await link(fresh, file);
    await syncFolder(dirname(file));
  } catch (failure) {
    if ((failure as { code?: string }).code !== 'EEXIST') throw failure;
  } finally {
    await rm(fresh, { force: true });
  }
}

const missing = (why: string): BelayError =>
  new BelayError('MasterKeyMissing', `the master key was not found: ${why}`, {
    retry: 'never',
    // Another key would open nothing, so making one is the way out for an empty store only.
    fix:
      'A store that was used needs the very key it was sealed with: put it back, or copy it from the other control plane, with mode 600; ' +
      `${MASTER_KEY_VARIABLE} and LoadCredential=${CREDENTIAL_NAME} do as well. Only a new store takes a new key: openssl rand -hex 32`,
  });
