/** Writes to the documents of users and roles: replicated like all data. */
import type { Document } from 'bson';
import type { CommandContext, Stamp, WriteContext } from '../contracts.ts';

/** Gives optimes for these writes: the member's on a replica set, the local clock on a standalone. */
export type AdminStamp = () => Stamp;

/** Writes whole account documents. */
export class AdminWrites {
  readonly #stamp: AdminStamp;

  constructor(stamp: AdminStamp) {
    this.#stamp = stamp;
  }

  insert(context: CommandContext, ns: string, document: Document): void {
    const { data } = context.node;
    if (data.info(ns) === undefined) data.create(ns, {}, this.#write(context));
    data.insert(ns, document, this.#write(context));
  }

  replace(context: CommandContext, ns: string, document: Document): void {
    const spec = { filter: { _id: document['_id'] }, update: document, multi: false, upsert: false };
    context.node.data.update(ns, spec, this.#write(context));
  }

  /** Gives how many documents went. */
  delete(context: CommandContext, ns: string, filter: Document): number {
    return context.node.data.delete(ns, { filter, limit: 0 }, this.#write(context)).deleted;
  }

  #write(context: CommandContext): WriteContext {
    return { stamp: this.#stamp(), wall: context.node.now() };
  }
}
