/** Whole documents that a member of a sharded cluster keeps for the cluster: replicated, changed together or not at all. */
import type { Document } from 'bson';
import { fail } from '../commands/errors.ts';
import type { TransactionView, WriteContext } from '../contracts.ts';
import type { SimulatorNode } from '../process/node.ts';

/** Changes to make in one go. */
export interface Change {
  put(ns: string, document: Document): void;
  remove(ns: string, filter: Document): void;
}

/** The documents of one process. */
export class Documents {
  readonly #node: SimulatorNode;

  constructor(node: SimulatorNode) {
    this.#node = node;
  }

  get(ns: string, id: unknown): Document | undefined {
    return this.#node.data.find(ns, { filter: { _id: id } })[0];
  }

  find(ns: string, filter: Document = {}, sort?: Document): readonly Document[] {
    return this.#node.data.find(ns, { filter, ...(sort === undefined ? {} : { sort }) });
  }

  /** Makes changes as one entry of the log. Only while writable (10107). */
  change(make: (change: Change) => void): void {
    const { data } = this.#node;
    const context = this.#context();
    const wanted: ((view: TransactionView) => void)[] = [];
    const namespaces = new Set<string>();
    make({
      put: (ns, document) => {
        namespaces.add(ns);
        const spec = { filter: { _id: document['_id'] }, update: document, multi: false, upsert: true };
        wanted.push((view) => void view.update(ns, spec, context));
      },
      remove: (ns, filter) => {
        wanted.push((view) => void view.delete(ns, { filter, limit: 0 }, context));
      },
    });
    for (const ns of namespaces) if (data.info(ns) === undefined) data.create(ns, {}, context);
    const view = data.beginTransaction();
    try {
      for (const step of wanted) step(view);
      view.commit(context);
    } catch (failure) {
      view.abort();
      throw failure;
    }
  }

  /** Makes changes and waits until a majority has them. */
  async changeSurely(make: (change: Change) => void): Promise<void> {
    this.change(make);
    await this.settled();
  }

  /** Waits until a majority has everything written so far. Throws the member's refusal, 189 for a lost role. */
  async settled(): Promise<void> {
    const { replication } = this.#node;
    const last = replication?.lastApplied() ?? null;
    if (replication === null || last === null) return;
    const error = await replication.awaitWriteConcern(last, { w: 'majority' }, new AbortController().signal);
    if (error !== null) throw fail(Number(error['code']), String(error['errmsg']));
  }

  #context(): WriteContext {
    return { stamp: this.#node.stamp(), wall: this.#node.now() };
  }
}
