/**
 * What a caller may do after a failure:
 * `later` the same call may work later · `never` it will not, something must change first ·
 * `unknown-outcome` the effect may or may not have happened: observe, never repeat blindly.
 */
export type RetryClass = 'later' | 'never' | 'unknown-outcome';

/** One thing wrong with an input, with the field path (`spec.members`), one sentence each. */
export interface Problem {
  readonly path: string;
  readonly message: string;
}

export interface BelayErrorOptions {
  readonly retry?: RetryClass;
  /** What the reader can do about it: one imperative sentence. */
  readonly fix?: string;
  readonly problems?: readonly Problem[];
  readonly cause?: unknown;
}

/**
 * The one exception type of adapters and faces. `code` is a stable PascalCase name that appears alike in
 * logs, events, API answers and the command line. The message never holds a secret (S8).
 */
export class BelayError extends Error {
  readonly code: string;
  readonly retry: RetryClass;
  readonly fix: string | undefined;
  readonly problems: readonly Problem[];

  constructor(code: string, message: string, options: BelayErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'BelayError';
    this.code = code;
    this.retry = options.retry ?? 'later';
    this.fix = options.fix;
    this.problems = options.problems ?? [];
  }
}

/** The given failure as a BelayError; anything unknown becomes `Internal` and may be tried later. */
export function asBelayError(failure: unknown): BelayError {
  if (failure instanceof BelayError) return failure;
  const message = failure instanceof Error ? failure.message : String(failure);
  return new BelayError('Internal', message, { cause: failure });
}

/** Holds an invariant (house rules, S1 to S16, or a plain fact) at run time; a breach is a bug and throws. */
export function check(condition: unknown, invariant: string, detail: string): asserts condition {
  if (!condition) throw new BelayError('InvariantBroken', `${invariant}: ${detail}`, { retry: 'never' });
}

/** For the end of an exhaustive switch: a value that cannot exist. */
export function unreachable(value: never): never {
  throw new BelayError('InvariantBroken', `unexpected value ${JSON.stringify(value)}`, { retry: 'never' });
}
