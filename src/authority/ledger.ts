/**
 * What the authority keeps in the store. Tasks are MaintenanceTask objects; everything else, and a counter that every
 * decision moves, is one state row. A decision is written only if the counter still is what it was when the decision was
 * made: of two authorities on one store one gets through, the other looks again (C1.6, S13).
 */
import { BelayError } from '../base/error.ts';
import type { Millis } from '../base/units.ts';
import type { Batch, NewEvent, ObjectKey, Store, StoredObject } from '../engine/ports.ts';
import {
  type Announcement,
  type Book,
  EMPTY_BOOK,
  type Entry,
  entryOf,
  numberOf,
  statusDocument,
} from '../maintenance/index.ts';
import { DEFAULT_NAMESPACE, type MaintenanceTask } from '../model/index.ts';

/** Row of the state table. */
const HEAD = 'maintenance';
export const TASK_KIND = 'MaintenanceTask';

export type TaskDocument = MaintenanceTask['spec'];
type TaskState = NonNullable<MaintenanceTask['status']>;

interface Head {
  readonly schema: 1;
  /** Moves with every decision. */
  readonly decisions: number;
  readonly nextPermission: number;
  readonly nextRequest: number;
  /** What the control plane holds and wants for itself. */
  readonly holds: readonly Entry[];
  readonly announcements: readonly Announcement[];
  readonly evicting: Book['evicting'];
  readonly disabled: boolean;
  /** Who switched last; absent: nobody has yet. */
  readonly switched?: Switched;
}

/** Who switched new grants off or on, and when. */
export interface Switched {
  readonly by: string;
  readonly at: Millis;
}

const EMPTY_HEAD: Head = { schema: 1, decisions: 0, holds: [], disabled: false, ...EMPTY_BOOK };

/** Where a task is kept. */
export interface TaskPlace {
  readonly key: ObjectKey;
  readonly uid: string;
  readonly generation: number;
}

export interface Loaded {
  readonly book: Book;
  readonly disabled: boolean;
  readonly switched: Switched | undefined;
  readonly version: number;
  readonly places: ReadonlyMap<string, TaskPlace>;
  /** Documents nobody has decided on yet. */
  readonly undecided: readonly StoredObject[];
  /** Tasks that hold and want nothing any more, and whose objects nobody has taken away. */
  readonly ended: readonly ObjectKey[];
}

export const taskKey = (name: string): ObjectKey => ({ kind: TASK_KIND, namespace: DEFAULT_NAMESPACE, name });

export class Ledger {
  readonly #store: Store;
  #head: Head = EMPTY_HEAD;
  #version = -1;

  constructor(store: Store) {
    this.#store = store;
  }

  /** Whether somebody else has decided something since this ledger last read or wrote. */
  async isCurrent(): Promise<boolean> {
    const state = await this.#store.loadState(HEAD);
    return (state?.version ?? 0) === this.#version;
  }

  /** Reads everything. The counter is read first: what comes in later makes the next write fail and be decided anew. */
  async load(): Promise<Loaded> {
    const state = await this.#store.loadState(HEAD);
    this.#version = state?.version ?? 0;
    this.#head = (state?.value as Head | undefined) ?? EMPTY_HEAD;
    const places = new Map<string, TaskPlace>();
    const entries: Entry[] = [];
    const undecided: StoredObject[] = [];
    const ended: ObjectKey[] = [];
    for (const object of await this.#tasks()) {
      const entry = entryOf(
        object.metadata.name,
        object.spec as TaskDocument,
        object.status as TaskState | null,
      );
      if (object.status === null) undecided.push(object);
      if (entry === null && isEnded(object)) ended.push(taskKey(object.metadata.name));
      if (entry === null) continue;
      entries.push(entry);
      places.set(entry.id, placeOf(object));
    }
    entries.push(...this.#head.holds);
    entries.sort((a, b) => a.createdAt - b.createdAt || numberOf(a.id) - numberOf(b.id));
    const { nextPermission, nextRequest, announcements, evicting, disabled, switched } = this.#head;
    const book = { entries, announcements, evicting, nextPermission, nextRequest };
    return { book, disabled, switched, version: this.#version, places, undecided, ended };
  }

  async #tasks(): Promise<readonly StoredObject[]> {
    const objects: StoredObject[] = [];
    let next: string | null = null;
    do {
      const page = await this.#store.list({ kind: TASK_KIND, ...(next === null ? {} : { continue: next }) });
      objects.push(...page.items);
      next = page.continue;
    } while (next !== null);
    return objects;
  }

  /** A task of this identity that nobody has decided on yet; null: there is none. */
  async undecided(uid: string): Promise<StoredObject | null> {
    const isIt = ({ metadata, spec, status }: StoredObject): boolean =>
      status === null && ((spec as TaskDocument).uid ?? metadata.name) === uid;
    return (await this.#tasks()).find(isIt) ?? null;
  }

  /** A document of this identity that was refused for good; null: there is none. */
  async refused(uid: string): Promise<StoredObject | null> {
    const isIt = ({ metadata, spec, status }: StoredObject): boolean =>
      (status as TaskState | null)?.phase === 'Failed' &&
      ((spec as TaskDocument).uid ?? metadata.name) === uid;
    return (await this.#tasks()).find(isIt) ?? null;
  }

  /** Writes a decision. `StateConflict`: somebody else decided meanwhile, nothing was written. */
  async commit(
    book: Book,
    holds: readonly Entry[],
    changed: readonly { readonly place: TaskPlace; readonly entry: Entry | null }[],
    events: readonly NewEvent[],
    disabled: boolean,
    switched: Switched | undefined,
  ): Promise<void> {
    const { nextPermission, nextRequest, announcements, evicting } = book;
    const decisions = this.#head.decisions + 1;
    const head: Head = {
      schema: 1,
      decisions,
      nextPermission,
      nextRequest,
      holds,
      announcements,
      evicting,
      disabled,
      ...(switched === undefined ? {} : { switched }),
    };
    const status: NonNullable<Batch['status']> = changed.map(({ place, entry }) => ({
      key: place.key,
      uid: place.uid,
      value: entry === null ? ENDED : statusDocument(entry, place.generation),
    }));
    const { stateVersion } = await this.#store.commit({
      state: { uid: HEAD, version: this.#version, value: head },
      status,
      events,
    });
    this.#head = head;
    this.#version = stateVersion ?? 0;
  }

  /** A place for a new task. `AlreadyExists`. */
  async place(name: string, spec: TaskDocument): Promise<TaskPlace> {
    return placeOf(await this.#store.create({ ...taskKey(name), spec }));
  }

  /** Takes a task's object away; one that is gone already is fine. */
  async remove(key: ObjectKey): Promise<void> {
    try {
      await this.#store.update(key, { delete: true });
    } catch (failure) {
      if (!(failure instanceof BelayError) || failure.code !== 'NotFound') throw failure;
    }
  }

  /** Marks a document that can never be granted. */
  async refuse(object: StoredObject, message: string): Promise<void> {
    const { metadata } = object;
    const value = {
      observedGeneration: metadata.generation,
      phase: 'Failed',
      message,
      conditions: [],
      warnings: [],
      actions: [],
    };
    await this.#store.commit({ status: [{ key: taskKey(metadata.name), uid: metadata.uid, value }] });
  }
}

/** Nothing is held or wanted any more: what is left of a task until its object is gone. */
const ENDED = { phase: 'Ready', message: 'nothing is left to do', conditions: [], warnings: [], actions: [] };

/** One that was refused for good stays, and says why. */
const isEnded = ({ status }: StoredObject): boolean =>
  status !== null && (status as TaskState).phase !== 'Failed';

export const placeOf = ({ metadata }: StoredObject): TaskPlace => ({
  key: taskKey(metadata.name),
  uid: metadata.uid,
  generation: metadata.generation,
});
