/** Requests over one connection, in both directions: ids, time limits, and what becomes of them when it breaks. */
import { asBelayError, BelayError, type RetryClass } from '../base/error.ts';
import type { Millis } from '../base/units.ts';
import type { Clock } from '../engine/ports.ts';
import { MAX_REQUESTS } from './limits.ts';
import { decodeError, encodeError, type RequestMessage } from './protocol.ts';

interface Pending {
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: BelayError) => void;
  readonly cancelTimer: () => void;
  readonly unanswered: RetryClass;
}

/** What to do when the request was sent and no answer came: a look can be repeated, an effect cannot. */
export interface AskOptions {
  readonly timeoutMillis: Millis;
  readonly unanswered: 'later' | 'unknown-outcome';
}

/** One side of a connection. `answer` handles the other side's requests; its failures go back as errors. */
export class Requests {
  readonly #pending = new Map<number, Pending>();
  readonly #send: (message: RequestMessage) => void;
  readonly #answer: (method: string, params: unknown) => Promise<unknown>;
  readonly #clock: Clock;
  #next = 1;
  #closed = false;

  constructor(options: {
    readonly send: (message: RequestMessage) => void;
    readonly answer: (method: string, params: unknown) => Promise<unknown>;
    readonly clock: Clock;
  }) {
    this.#send = options.send;
    this.#answer = options.answer;
    this.#clock = options.clock;
  }

  /**
   * Sends a request. Errors: the other side's own; `NoAnswer` with the given retry class when the time ran out or the
   * connection broke after sending; `TooManyRequests` (later) before sending.
   */
  ask(method: string, params: unknown, options: AskOptions): Promise<unknown> {
    if (this.#closed) return Promise.reject(disconnected());
    if (this.#pending.size >= MAX_REQUESTS) {
      return Promise.reject(
        new BelayError('TooManyRequests', `${MAX_REQUESTS} requests to this host are under way`),
      );
    }
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      const cancelTimer = this.#clock.at(this.#clock.now() + options.timeoutMillis, () =>
        this.#fail(id, `no answer to ${method} within ${options.timeoutMillis} ms`),
      );
      this.#pending.set(id, { resolve, reject, cancelTimer, unanswered: options.unanswered });
      this.#send({ t: 'ask', id, method, params });
    });
  }

  /** Takes a message of the other side. */
  take(message: RequestMessage): void {
    if (message.t === 'ask') {
      void this.#serve(message.id, message.method, message.params);
      return;
    }
    const pending = this.#forget(message.id);
    if (message.t === 'reply') pending?.resolve(message.result);
    else pending?.reject(decodeError(message.error));
  }

  /** Number of requests without an answer yet. */
  get open(): number {
    return this.#pending.size;
  }

  /** The connection is gone: nothing under way will be answered. */
  close(): void {
    this.#closed = true;
    for (const id of [...this.#pending.keys()]) this.#fail(id, 'the connection broke before the answer came');
  }

  async #serve(id: number, method: string, params: unknown): Promise<void> {
    try {
      const result = await this.#answer(method, params);
      if (!this.#closed) this.#send({ t: 'reply', id, result: result ?? null });
    } catch (failure) {
      if (!this.#closed) this.#send({ t: 'error', id, error: encodeError(asBelayError(failure)) });
    }
  }

  #forget(id: number): Pending | undefined {
    const pending = this.#pending.get(id);
    this.#pending.delete(id);
    pending?.cancelTimer();
    return pending;
  }

  #fail(id: number, message: string): void {
    const pending = this.#forget(id);
    pending?.reject(new BelayError('NoAnswer', message, { retry: pending.unanswered }));
  }
}

/** Nothing was sent: the same call works once the agent is back. */
export function disconnected(host?: string): BelayError {
  const who = host === undefined ? 'The agent' : `The agent of host ${host}`;
  return new BelayError('AgentNotConnected', `${who} is not connected`, {
    retry: 'later',
    fix: 'Start `belay agent` on the host, or look at its log for why it cannot reach the control plane.',
  });
}
