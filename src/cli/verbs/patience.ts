/** Long-running verbs outlive a control plane that is away for a while: it is asked again, with a word about it. */
import { BelayError } from '../../base/error.ts';
import { formatDuration, MINUTE, type Millis, SECOND } from '../../base/units.ts';
import type { Context } from '../context.ts';
import { pause } from './pause.ts';

/** A control plane that does not answer for so long is given up. An upgrade or a failover of its store takes less. */
export const AWAY_LIMIT: Millis = 15 * MINUTE;
/** Between two tries. */
const AGAIN_AFTER: Millis = 2 * SECOND;

const isAway = (failure: unknown): failure is BelayError =>
  failure instanceof BelayError && failure.retry !== 'never' && failure.code !== 'MaintenanceDisabled';

/** Asks until there is an answer; says once that the control plane is away, and once that it is back. */
export class Patience {
  readonly #context: Context;
  #awaySince: Millis | null = null;

  constructor(context: Context) {
    this.#context = context;
  }

  /**
   * The answer of `work`. Throws what is no absence, and `ServerUnreachable` when it was away for `AWAY_LIMIT` or the signal
   * has ended the waiting.
   */
  async ask<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
    for (;;) {
      try {
        const answer = await work();
        this.#answered();
        return answer;
      } catch (failure) {
        if (!isAway(failure)) {
          // A refusal is an answer too.
          if (failure instanceof BelayError) this.#answered();
          throw failure;
        }
        this.#missed(failure);
        if (signal.aborted || this.#awayFor() >= AWAY_LIMIT) throw failure;
      }
      await pause(this.#context, AGAIN_AFTER, signal);
    }
  }

  #awayFor(): Millis {
    return this.#awaySince === null ? 0 : this.#context.now() - this.#awaySince;
  }

  #missed(failure: BelayError): void {
    if (this.#awaySince !== null) return;
    this.#awaySince = this.#context.now();
    this.#context.terminal.err(
      `${failure.message}; it is asked again for ${formatDuration(AWAY_LIMIT)}, what is held stays held until its deadline`,
    );
  }

  #answered(): void {
    if (this.#awaySince === null) return;
    this.#context.terminal.err(`the control plane is back after ${formatDuration(this.#awayFor())}`);
    this.#awaySince = null;
  }
}
