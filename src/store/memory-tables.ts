import type {
  JournalEntry,
  Lease,
  ObjectEvent,
  SealedRow,
  StoredEvent,
  StoredObject,
  TokenRow,
} from '../engine/ports.ts';

/**
 * The data of memory stores. It outlives the stores opened on it, as a disk outlives processes: a world that plays
 * several control planes, or the death of one, opens several stores on one disk.
 */
export interface MemoryDisk {
  version: number;
  kept: number;
  /** Grows; gives journal and events their order. */
  seq: number;
  rowsSinceHousekeeping: number;
  readonly objects: Map<string, StoredObject>;
  changes: { readonly version: number; readonly event: ObjectEvent }[];
  readonly states: Map<string, MemoryState>;
  readonly journal: Map<string, { readonly seq: number; readonly entry: JournalEntry }>;
  readonly events: Map<string, MemoryEvent>;
  readonly leases: Map<string, Lease>;
  readonly sealed: Map<string, SealedRow>;
  readonly tokens: Map<string, TokenRow>;
  readonly settings: Map<string, string>;
  readonly wakers: Set<() => void>;
}

/** A record as text: it is written often and read only when a control plane begins. */
export interface MemoryState {
  readonly version: number;
  readonly text: string;
}

interface MemoryEvent {
  readonly seq: number;
  readonly subject: string;
  readonly event: StoredEvent;
}

/** An empty disk. */
export const memoryDisk = (): MemoryDisk => ({
  version: 0,
  kept: 0,
  seq: 0,
  rowsSinceHousekeeping: 0,
  objects: new Map(),
  changes: [],
  states: new Map(),
  journal: new Map(),
  events: new Map(),
  leases: new Map(),
  sealed: new Map(),
  tokens: new Map(),
  settings: new Map(),
  wakers: new Set(),
});

/** One write: every step notes how to take it back, so that a failure in the middle leaves nothing behind. */
export class MemoryWrite {
  readonly disk: MemoryDisk;
  rows = 0;
  changes = 0;
  readonly #undo: (() => void)[] = [];

  constructor(disk: MemoryDisk) {
    this.disk = disk;
  }

  set<V>(table: Map<string, V>, key: string, value: V): void {
    const had = table.has(key);
    const old = table.get(key) as V;
    this.#undo.push(() => (had ? table.set(key, old) : table.delete(key)));
    table.set(key, value);
    this.rows += 1;
  }

  remove<V>(table: Map<string, V>, key: string): void {
    if (!table.has(key)) return;
    this.trim(table, key);
    this.rows += 1;
  }

  /** Removes for a limit's sake, which does not count as a write. */
  trim<V>(table: Map<string, V>, key: string): void {
    const old = table.get(key) as V;
    this.#undo.push(() => table.set(key, old));
    table.delete(key);
  }

  /** Adds a change with the next resourceVersion. */
  change(make: (version: number) => ObjectEvent): ObjectEvent {
    const version = ++this.disk.version;
    const event = make(version);
    this.disk.changes.push({ version, event });
    this.#undo.push(() => {
      this.disk.changes.pop();
      this.disk.version -= 1;
    });
    this.changes += 1;
    this.rows += 1;
    return event;
  }

  rollBack(): void {
    for (const undo of this.#undo.reverse()) undo();
  }
}
