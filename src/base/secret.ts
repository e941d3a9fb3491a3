const HIDDEN = '***';

/**
 * A value that must not be seen (S8): prints, serialises and inspects as `***`. `reveal()` is the only way
 * to the value, so every place that uses it can be found. Never store the revealed value in a longer-lived place.
 */
export class Secret<T> {
  readonly #value: T;

  constructor(value: T) {
    this.#value = value;
  }

  /** The hidden value; call it where the value leaves for its one purpose. */
  reveal(): T {
    return this.#value;
  }

  toString(): string {
    return HIDDEN;
  }

  toJSON(): string {
    return HIDDEN;
  }

  [Symbol.for('nodejs.util.inspect.custom')](): string {
    return HIDDEN;
  }
}

/** Wraps a value as a secret. */
export const secret = <T>(value: T): Secret<T> => new Secret(value);
