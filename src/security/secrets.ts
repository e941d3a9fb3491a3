import { BelayError } from '../base/error.ts';
import { type Secret, secret } from '../base/secret.ts';
import type { SealedRow, Secrets, Store } from '../engine/ports.ts';
import { keyId, type MasterKey, seal, unseal, wrongKey } from './seal.ts';

/** The part of the store that this room needs. */
export type SealedRows = Pick<
  Store,
  'getSealed' | 'listSealed' | 'putSealed' | 'replaceSealed' | 'deleteSealed' | 'getSetting' | 'initSetting'
>;

/** A sealed constant: opening it proves that the key is right before anything is read or written with it. */
const CHECK_NAME = 'installation/key-check';
const CHECK_VALUE = 'belay master key';

/** Tries to rotate while others write secrets; each try starts from what is there then. */
const ROTATION_ATTEMPTS = 20;

/**
 * Opens the sealed secret store. Before anything else the key is checked against the store; a store without
 * secrets takes the key as its own. Values are unsealed at every read and kept nowhere. `MasterKeyWrong` (never).
 */
export async function openSecrets(store: SealedRows, masterKey: MasterKey): Promise<Secrets> {
  await adoptKey(store, masterKey);
  return new SealedSecrets(store, masterKey);
}

/**
 * Whether a master key was used on this store before. Then a missing key file must not be replaced by a new one: it
 * could open nothing.
 */
export const hasMasterKey = async (store: SealedRows): Promise<boolean> =>
  (await store.getSealed(CHECK_NAME)) !== null;

/** Checks the key, or makes it the store's key when the store has none. `MasterKeyWrong` (never). */
async function adoptKey(store: SealedRows, key: MasterKey): Promise<void> {
  if (await keyFits(store, key)) return;
  try {
    await store.putSealed(CHECK_NAME, seal(key, CHECK_NAME, CHECK_VALUE), 0);
  } catch (failure) {
    // Another process opened the same new store at the same moment; its key counts.
    if (!isConflict(failure)) throw failure;
    await keyFits(store, key);
  }
}

/** True when the key opens the store, false when the store has no key yet. `MasterKeyWrong` (never). */
async function keyFits(store: SealedRows, key: MasterKey): Promise<boolean> {
  const row = await store.getSealed(CHECK_NAME);
  if (row === null) return false;
  const value = unseal(key, CHECK_NAME, row.sealed).reveal();
  if (value !== CHECK_VALUE) throw wrongKey('of another kind', keyId(key));
  return true;
}

class SealedSecrets implements Secrets {
  readonly #store: SealedRows;
  readonly #key: MasterKey;

  constructor(store: SealedRows, key: MasterKey) {
    this.#store = store;
    this.#key = key;
  }

  async get(name: string): Promise<Secret<string> | null> {
    const row = await this.#store.getSealed(name);
    return row === null ? null : unseal(this.#key, name, row.sealed);
  }

  async ensure(name: string, make: () => Promise<string> | string): Promise<Secret<string>> {
    const there = await this.get(name);
    if (there !== null) return there;
    const value = await make();
    try {
      await this.#keyStillFits();
      await this.#store.putSealed(name, seal(this.#key, name, value), 0);
      return secret(value);
    } catch (failure) {
      if (!isConflict(failure)) throw failure;
    }
    // Somebody else made it first: both callers must go on with the same value.
    const theirs = await this.get(name);
    return theirs ?? (await this.ensure(name, make));
  }

  async put(name: string, value: Secret<string>): Promise<void> {
    await this.#keyStillFits();
    await this.#store.putSealed(name, seal(this.#key, name, value.reveal()), null);
  }

  /** The master key may have been rotated below us: better no secret than one that nobody can read later. */
  async #keyStillFits(): Promise<void> {
    await keyFits(this.#store, this.#key);
  }

  async list(prefix: string): Promise<readonly string[]> {
    const names = (await this.#store.listSealed(prefix)).map((row) => row.name);
    return names.filter((name) => name !== CHECK_NAME);
  }

  async delete(prefix: string): Promise<void> {
    if (CHECK_NAME.startsWith(prefix)) {
      throw new BelayError(
        'PrefixTooShort',
        `deleting all secrets below '${prefix}' would take the installation's key check`,
        {
          retry: 'never',
          fix: 'Name the secrets to delete more exactly, for example clusters/<uid>/.',
        },
      );
    }
    await this.#store.deleteSealed(prefix);
  }
}

/**
 * Seals everything anew with another key, in one transaction: after a crash at any moment the store is wholly under
 * the old or wholly under the new key. Control planes still running with the old key get `MasterKeyWrong` from then
 * on, at reads and writes, and must be started anew with the new one. A repeated call finds nothing to do, or what
 * a write in that very moment still put under the old key. Gives the number of rows. `MasterKeyWrong` (never), `Conflict` (later) when others never stop writing.
 */
export async function rotateMasterKey(
  store: SealedRows,
  oldKey: MasterKey,
  newKey: MasterKey,
): Promise<number> {
  for (let attempt = 1; ; attempt++) {
    const rows = await store.listSealed('');
    try {
      const next = rows.map((row) => reseal(row, oldKey, newKey)).filter((row) => row !== null);
      if (rows.length === 0) await adoptKey(store, newKey);
      else await store.replaceSealed(next);
      return next.length;
    } catch (failure) {
      if (!isConflict(failure)) throw failure;
      if (attempt >= ROTATION_ATTEMPTS) throw tooBusy(failure);
    }
  }
}

/** Null for a row that is under the new key already (a repeated rotation). */
function reseal(row: SealedRow, oldKey: MasterKey, newKey: MasterKey): SealedRow | null {
  try {
    unseal(newKey, row.name, row.sealed);
    return null;
  } catch (failure) {
    if ((failure as BelayError).code !== 'MasterKeyWrong') throw failure;
  }
  const value = unseal(oldKey, row.name, row.sealed).reveal();
  return { ...row, sealed: seal(newKey, row.name, value) };
}

const tooBusy = (cause: unknown): BelayError =>
  new BelayError('Conflict', 'secrets changed all the time while the master key was being rotated', {
    retry: 'later',
    fix: 'Stop the control planes, or rotate at a quieter time. Nothing was changed.',
    cause,
  });

const isConflict = (failure: unknown): boolean =>
  failure instanceof BelayError && failure.code === 'Conflict';
