/** The window of the replicated log kept in memory, with what undoes each entry. */
import { Binary, type Document, Long, type Timestamp, UUID } from 'bson';
import type { OplogEntry, OpTime } from '../contracts.ts';
import { canonicalDocument, toNumber } from './bson.ts';
import type { Undo } from './catalog.ts';
import { compareTimestamps } from './compare.ts';

/** Orders optimes by term, then timestamp. */
export function compareOpTimes(left: OpTime, right: OpTime): number {
  return left.t.compare(right.t) || compareTimestamps(left.ts, right.ts);
}

/** Why 100,000 entries and 64 MiB: enough for any test to catch up from, little enough for a small machine. */
const OPLOG_LIMITS = { entries: 100_000, bytes: 64 * 1024 * 1024 } as const;

/** One entry with its size and its undo steps (absent once it can't be rolled back any more). */
export interface OplogItem {
  readonly entry: OplogEntry;
  readonly bytes: number;
  readonly undo: readonly Undo[] | undefined;
}

export class OplogWindow {
  private items: OplogItem[] = [];
  private bytes = 0;
  private readonly limits: { readonly entries: number; readonly bytes: number };
  /** Where the log begins when it has no entry (after an initial sync). */
  start: OpTime | null = null;

  constructor(limits: { readonly entries: number; readonly bytes: number } = OPLOG_LIMITS) {
    this.limits = limits;
  }

  push(item: OplogItem): void {
    this.items.push(item);
    this.bytes += item.bytes;
    if (this.items.length > this.limits.entries * 1.1 || this.bytes > this.limits.bytes * 1.1) this.evict();
  }

  /** Lets the oldest go in one sweep, so that the array isn't shifted for every write. The newest always stays. */
  private evict(): void {
    let gone = 0;
    while (
      gone < this.items.length - 1 &&
      (this.items.length - gone > this.limits.entries || this.bytes > this.limits.bytes)
    ) {
      this.bytes -= this.items[gone]!.bytes;
      gone += 1;
    }
    this.items.splice(0, gone);
  }

  /** Index of the first item after an optime. */
  private after(opTime: OpTime): number {
    let low = 0;
    let high = this.items.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (compareOpTimes(this.items[middle]!.entry, opTime) <= 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  entriesAfter(opTime: OpTime | null, limit: number): OplogEntry[] {
    const from = opTime ? this.after(opTime) : 0;
    return this.items.slice(from, from + limit).map(({ entry }) => entry);
  }

  /** The newest entry at or before an optime. */
  find(opTime: OpTime): OplogEntry | undefined {
    return this.items[this.after(opTime) - 1]?.entry;
  }

  oldest(): OpTime | null {
    return this.items[0]?.entry ?? this.start;
  }

  newest(): OpTime | null {
    return this.items.at(-1)?.entry ?? this.start;
  }

  all(): readonly OplogItem[] {
    return this.items;
  }

  /** Takes off everything after an optime; undefined when undo information is missing for some of it. */
  cutAfter(opTime: OpTime): OplogItem[] | undefined {
    const from = this.after(opTime);
    const cut = this.items.slice(from);
    if (cut.some(({ undo }) => undo === undefined)) return undefined;
    this.items.length = from;
    for (const { bytes } of cut) this.bytes -= bytes;
    return cut;
  }

  /** Forgets how to undo entries up to an optime. */
  setStable(opTime: OpTime): void {
    for (let index = this.after(opTime) - 1; index >= 0; index--) {
      const item = this.items[index]!;
      if (item.undo === undefined) break;
      this.items[index] = { ...item, undo: undefined };
    }
  }

  clear(): void {
    this.items = [];
    this.bytes = 0;
    this.start = null;
  }
}

/** The entry as the document clients see in `local.oplog.rs`. */
export function entryToDocument(entry: OplogEntry): Document {
  return canonicalDocument({ ...entry, v: Long.fromNumber(2) });
}

/** An entry from bytes or another member: log documents in canonical form, the entry's own small numbers plain. */
export function entryFromDocument(document: Document): OplogEntry {
  const { ts, t, op, ns, ui, o, o2, wall, lsid, txnNumber, stmtId, prevOpTime, preImage } = document;
  return {
    ts: ts as Timestamp,
    t: Long.fromValue(t as Long),
    op: op as OplogEntry['op'],
    ns: ns as string,
    ...(ui instanceof Binary && { ui: ui instanceof UUID ? ui : ui.toUUID() }),
    o: canonicalDocument(o as Document),
    ...(o2 !== undefined && { o2: canonicalDocument(o2 as Document) }),
    wall: wall as Date,
    v: 2,
    ...(lsid !== undefined && { lsid: lsid as Document }),
    ...(txnNumber !== undefined && { txnNumber: txnNumber as Long }),
    ...(stmtId !== undefined && { stmtId: toNumber(stmtId) ?? 0 }),
    ...(prevOpTime !== undefined && { prevOpTime: prevOpTime as OpTime }),
    ...(preImage !== undefined && { preImage: preImage as Document }),
  };
}
