/** A router's cursor: the results of one or several shards as one, in order where an order is asked for. */
import type { Document, Long } from 'bson';
import type { Millis } from '../../base/units.ts';
import type { CursorSource } from '../commands/cursors.ts';
import { type SetClient, unreachable } from '../sharding/set-client.ts';
import { assertGood } from './call.ts';

/** A cursor open on one member. */
export interface RemoteCursor {
  readonly client: SetClient;
  readonly host: string;
  readonly db: string;
  readonly collection: string;
  readonly id: Long;
  readonly firstBatch: readonly Document[];
  readonly token?: Document | undefined;
}

export interface RemoteOptions {
  /** Order in which every shard gives its documents; absent: any. */
  readonly compare?: ((left: Document, right: Document) => number) | undefined;
  readonly skip?: number;
  readonly limit?: number;
  /** Made of each document before it goes to the client. */
  readonly project?: ((document: Document) => Document) | undefined;
  /** Session fields for the members' getMore. */
  readonly session: Document;
  readonly batchSize?: number | undefined;
  /** True for streams that never end by themselves. */
  readonly tails?: boolean;
}

interface Part {
  readonly remote: RemoteCursor;
  readonly buffer: Document[];
  id: Long;
  token: Document | undefined;
}

/** Results of several shards as one source. Documents are fetched when the buffers are empty. */
export class RemoteSource implements CursorSource {
  readonly kind = 'tailable';
  readonly #parts: readonly Part[];
  readonly #options: RemoteOptions;
  #skip: number;
  #left: number;

  constructor(remotes: readonly RemoteCursor[], options: RemoteOptions) {
    this.#parts = remotes.map((remote) => ({
      remote,
      buffer: [...remote.firstBatch],
      id: remote.id,
      token: remote.token,
    }));
    this.#options = options;
    this.#skip = options.skip ?? 0;
    this.#left = options.limit ?? Number.POSITIVE_INFINITY;
  }

  /** Skips what is to be skipped, which may need more than the first batches. */
  async prime(signal: AbortSignal): Promise<void> {
    while (this.#skip > 0 && !this.#drained()) {
      const part = this.#next();
      if (part === undefined) await this.#fetch(signal);
      else {
        part.buffer.shift();
        this.#skip -= 1;
      }
    }
  }

  peek(): Document | undefined {
    if (this.#left <= 0) return undefined;
    const document = this.#next()?.buffer[0];
    return document === undefined ? undefined : (this.#options.project?.(document) ?? document);
  }

  shift(): void {
    this.#next()?.buffer.shift();
    this.#left -= 1;
  }

  ended(): boolean {
    return this.#left <= 0 || this.#drained();
  }

  async wait(limit: Millis, signal: AbortSignal): Promise<void> {
    await this.#fetch(signal, limit);
  }

  postBatchResumeToken(): Document {
    return this.#parts[0]?.token as Document;
  }

  close(): void {
    for (const { id, remote } of this.#parts) {
      if (id.isZero()) continue;
      const command = { killCursors: remote.collection, cursors: [id] };
      remote.client
        .ask(remote.host, remote.db, command, { resend: 'never', timeout: CLOSE_LIMIT })
        .catch(() => undefined);
    }
  }

  #drained(): boolean {
    return this.#parts.every(({ id, buffer }) => id.isZero() && buffer.length === 0);
  }

  /** The part whose document comes next; undefined while one that may have it must be asked first. */
  #next(): Part | undefined {
    const { compare } = this.#options;
    const open = this.#parts.filter(({ id, buffer }) => buffer.length > 0 || !id.isZero());
    if (compare === undefined) return open.find(({ buffer }) => buffer.length > 0);
    if (open.some(({ buffer }) => buffer.length === 0)) return undefined;
    return open.reduce<Part | undefined>(
      (best, part) => (best === undefined || compare(part.buffer[0]!, best.buffer[0]!) < 0 ? part : best),
      undefined,
    );
  }

  async #fetch(signal: AbortSignal, limit?: Millis): Promise<void> {
    const empty = this.#parts.filter(({ id, buffer }) => buffer.length === 0 && !id.isZero());
    await Promise.all(empty.map((part) => this.#more(part, signal, limit)));
  }

  async #more(part: Part, signal: AbortSignal, limit: Millis | undefined): Promise<void> {
    const { remote } = part;
    const { session, batchSize, tails } = this.#options;
    const command = {
      getMore: part.id,
      collection: remote.collection,
      ...(batchSize ? { batchSize } : {}),
      ...(tails && limit !== undefined ? { maxTimeMS: Math.max(1, Math.floor(limit)) } : {}),
      ...session,
    };
    const asked = remote.client
      .ask(remote.host, remote.db, command, { resend: 'never' })
      .catch((failure: unknown) => Promise.reject(unreachable(failure, remote.host)));
    const reply = assertGood(await orAbort(asked, signal));
    part.buffer.push(...reply['cursor'].nextBatch);
    part.id = reply['cursor'].id;
    part.token = reply['cursor'].postBatchResumeToken ?? part.token;
  }
}

const CLOSE_LIMIT: Millis = 5_000;

async function orAbort<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  if (signal.aborted) throw signal.reason;
  let stop: () => void = () => undefined;
  const aborted = new Promise<never>((_, reject) => {
    stop = () => reject(signal.reason);
    signal.addEventListener('abort', stop, { once: true });
  });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener('abort', stop);
  }
}
