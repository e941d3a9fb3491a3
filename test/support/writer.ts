import type { Collection, MongoClient } from 'mongodb';

export interface WriterReport {
  readonly acknowledged: number;
  readonly lost: number;
  readonly errors: number;
  /** Longest time between two acknowledged writes. */
  readonly longestGapMillis: number;
}

const writesOf = (client: MongoClient): Collection<{ _id: string }> =>
  client.db('live').collection<{ _id: string }>('writes', {
    writeConcern: { w: 'majority' },
    readConcern: { level: 'majority' },
  });

/** Writes one document after another with majority concern and remembers which were acknowledged. */
export class MajorityWriter {
  #client: MongoClient;
  #collection: Collection<{ _id: string }>;
  #writing: Promise<void> = Promise.resolve();
  readonly #run = `${process.pid}-${Math.floor(performance.now())}`;
  readonly #acknowledged = new Set<string>();
  #stopped = false;
  #done: Promise<void> = Promise.resolve();
  #errors = 0;
  #last = performance.now();
  #gap = 0;
  #report: WriterReport | null = null;

  private constructor(client: MongoClient) {
    this.#client = client;
    this.#collection = writesOf(client);
  }

  static async start(client: MongoClient): Promise<MajorityWriter> {
    const writer = new MajorityWriter(client);
    await writer.#write(0);
    writer.#done = writer.#loop();
    return writer;
  }

  async #loop(): Promise<void> {
    for (let n = 1; !this.#stopped; n++) {
      this.#writing = this.#write(n);
      await this.#writing;
    }
  }

  async #write(n: number): Promise<void> {
    const id = `${this.#run}-${n}`;
    try {
      await this.#collection.insertOne({ _id: id });
    } catch (error) {
      // A duplicate is our own earlier try whose answer was lost: it is there.
      if ((error as { code?: number }).code !== 11000) {
        this.#errors++;
        return;
      }
    }
    this.#acknowledged.add(id);
    const now = performance.now();
    this.#gap = Math.max(this.#gap, now - this.#last);
    this.#last = now;
  }

  /** Goes on with another client, as an application does whose connection string changed; the old one ends its write first. */
  async use(client: MongoClient): Promise<void> {
    const before = this.#client;
    this.#client = client;
    this.#collection = writesOf(client);
    await this.#writing;
    await before.close();
  }

  /** Resolves when a write that began after this call was acknowledged: the set takes writes now. */
  async proceeds(): Promise<void> {
    const before = this.#acknowledged.size;
    while (this.#acknowledged.size < before + 2 && !this.#stopped)
      await new Promise((resolve) => setTimeout(resolve, 20));
  }

  /** Stops, then looks for every acknowledged write. */
  async stop(): Promise<WriterReport> {
    if (this.#report !== null) return this.#report;
    this.#stopped = true;
    await this.#done;
    const found = await this.#collection
      .find({ _id: { $gt: this.#run, $lt: `${this.#run}~` } })
      .project<{ _id: string }>({ _id: 1 })
      .toArray();
    const there = new Set(found.map((d) => d._id));
    const lost = [...this.#acknowledged].filter((id) => !there.has(id)).length;
    await this.#client.close();
    this.#report = {
      acknowledged: this.#acknowledged.size,
      lost,
      errors: this.#errors,
      longestGapMillis: Math.round(this.#gap),
    };
    return this.#report;
  }
}
