/** Wakes watchers. They take a ticket before they read, and sleep only while nothing happened since that ticket. */
export class Feed {
  #ticket = 0;
  #closed = false;
  readonly #sleepers = new Set<() => void>();

  get ticket(): number {
    return this.#ticket;
  }

  get closed(): boolean {
    return this.#closed;
  }

  /** Something was committed, here or elsewhere (waking for nothing is harmless). */
  wake(): void {
    this.#ticket += 1;
    const sleepers = [...this.#sleepers];
    this.#sleepers.clear();
    for (const call of sleepers) call();
  }

  /** Ends all watches. */
  close(): void {
    this.#closed = true;
    this.wake();
  }

  /** Resolves once something happened after the ticket was taken, or the signal fires, or the feed is closed. */
  after(ticket: number, signal: AbortSignal): Promise<void> {
    if (ticket !== this.#ticket || signal.aborted || this.#closed) return Promise.resolve();
    return new Promise((resolve) => {
      const done = (): void => {
        signal.removeEventListener('abort', done);
        this.#sleepers.delete(done);
        resolve();
      };
      signal.addEventListener('abort', done);
      this.#sleepers.add(done);
    });
  }
}
