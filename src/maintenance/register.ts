import { numberOf } from './answers.ts';
import type { Book, Entry, Permission } from './types.ts';

/** What became of an entry by being put. */
interface Put {
  readonly before: Entry | undefined;
  /** Permissions it had and has no more. */
  readonly released: readonly Permission[];
  /** It holds or wants something; one that does neither is gone. */
  readonly stays: boolean;
}

/** Entries by their ids, tasks and permissions, the numbers given to them, and which of them have to be written. */
export class Register {
  readonly #entries = new Map<string, Entry>();
  readonly #byUid = new Map<string, string>();
  /** Entry by permission. */
  readonly #permissions = new Map<string, string>();
  readonly #changed = new Set<string>();
  #nextPermission = 1;
  #nextRequest = 1;

  /** Empty, with the numbers of a book. */
  reset({ nextPermission, nextRequest }: Pick<Book, 'nextPermission' | 'nextRequest'>): void {
    this.#entries.clear();
    this.#byUid.clear();
    this.#permissions.clear();
    this.#nextPermission = nextPermission;
    this.#nextRequest = nextRequest;
  }

  book(): Pick<Book, 'entries' | 'nextPermission' | 'nextRequest'> {
    return {
      entries: [...this.#entries.values()],
      nextPermission: this.#nextPermission,
      nextRequest: this.#nextRequest,
    };
  }

  get(id: string): Entry | undefined {
    return this.#entries.get(id);
  }

  task(uid: string): Entry | undefined {
    return this.#entries.get(this.#byUid.get(uid) ?? '');
  }

  /** The entry that holds a permission. */
  holderOf(permissionId: string): Entry | undefined {
    return this.#entries.get(this.#permissions.get(permissionId) ?? '');
  }

  all(): Iterable<Entry> {
    return this.#entries.values();
  }

  /** Number of the next request. */
  get nextRequest(): number {
    return this.#nextRequest;
  }

  /** Number of the next permission. */
  get nextPermission(): number {
    return this.#nextPermission;
  }

  put(entry: Entry): Put {
    const { id, uid, held, pending } = entry;
    const before = this.#entries.get(id);
    this.#changed.add(id);
    const kept = new Set(held.map((p) => p.id));
    const released = (before?.held ?? []).filter((p) => !kept.has(p.id));
    for (const p of released) this.#permissions.delete(p.id);
    for (const p of held) {
      this.#permissions.set(p.id, id);
      this.#nextPermission = Math.max(this.#nextPermission, numberOf(p.id) + 1);
    }
    const stays = pending.length > 0 || held.length > 0;
    if (!stays) {
      this.#entries.delete(id);
      if (uid !== null) this.#byUid.delete(uid);
      return { before, released, stays };
    }
    this.#entries.set(id, entry);
    if (uid !== null) this.#byUid.set(uid, id);
    if (before === undefined) this.#nextRequest = Math.max(this.#nextRequest, numberOf(id) + 1);
    return { before, released, stays };
  }

  /** Identities of entries that changed, came or went since the last call. */
  takeChanges(): readonly string[] {
    const changed = [...this.#changed];
    this.#changed.clear();
    return changed;
  }

  /** Changes that were taken and are not written yet. */
  markChanged(ids: readonly string[]): void {
    for (const id of ids) this.#changed.add(id);
  }
}
