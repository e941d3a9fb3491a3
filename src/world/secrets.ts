/**
 * The sealed secrets of this world. Every secret text carries the canary, and a sealed row hides it: whoever finds the
 * canary anywhere else has found a leak (S8). Values are made from names, so that equal seeds have equal secrets.
 */
import { Buffer } from 'node:buffer';
import { BelayError } from '../base/error.ts';
import { hash } from '../base/rng.ts';
import { type Secret, secret } from '../base/secret.ts';
import type { Secrets, Store } from '../engine/ports.ts';

/** Part of every secret value. */
export const CANARY = 'CaNaRy';

const seal = (text: string): Uint8Array => Buffer.from(text, 'utf8').map((byte) => byte ^ 0x5a);
const unseal = (sealed: Uint8Array): string =>
  Buffer.from(sealed.map((byte) => byte ^ 0x5a)).toString('utf8');

/** How often a value was made for each name: one made anew after its end is another one. */
export type Makes = Map<string, number>;

function make(name: string, makes: Makes): string {
  const count = (makes.get(name) ?? 0) + 1;
  makes.set(name, count);
  return `${CANARY}${hash(`${name}#${count}`).toString(36)}`;
}

/** See the head of this file. */
export class WorldSecrets implements Secrets {
  readonly #store: Store;
  readonly #makes: Makes;

  constructor(store: Store, makes: Makes) {
    this.#store = store;
    this.#makes = makes;
  }

  async get(name: string): Promise<Secret<string> | null> {
    const row = await this.#store.getSealed(name);
    return row === null ? null : secret(unseal(row.sealed));
  }

  /** The maker's own value is not taken: real randomness would make every run another. */
  async ensure(name: string): Promise<Secret<string>> {
    const there = await this.get(name);
    if (there !== null) return there;
    const value = make(name, this.#makes);
    try {
      await this.#store.putSealed(name, seal(value), 0);
      return secret(value);
    } catch (failure) {
      if (!(failure instanceof BelayError) || failure.code !== 'Conflict') throw failure;
    }
    const theirs = await this.get(name);
    return theirs ?? (await this.ensure(name));
  }

  async put(name: string, value: Secret<string>): Promise<void> {
    await this.#store.putSealed(name, seal(value.reveal()), null);
  }

  async list(prefix: string): Promise<readonly string[]> {
    return (await this.#store.listSealed(prefix)).map((row) => row.name);
  }

  async delete(prefix: string): Promise<void> {
    await this.#store.deleteSealed(prefix);
  }
}
