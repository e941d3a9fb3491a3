import { BelayError } from '../base/error.ts';
import type { ObjectKey } from '../engine/ports.ts';

/** `MongoDB prod/orders`, for messages. */
export const describeKey = (key: ObjectKey): string => `${key.kind} ${key.namespace}/${key.name}`;

export const alreadyExists = (what: string): BelayError =>
  new BelayError('AlreadyExists', `${what} exists already`, {
    retry: 'never',
    fix: 'Choose another name, or change the one that is there.',
  });

export const notFound = (what: string): BelayError =>
  new BelayError('NotFound', `${what} does not exist`, {
    retry: 'never',
    fix: 'Check the name and the namespace.',
  });

export const conflict = (what: string, expected: string, found: string): BelayError =>
  new BelayError(
    'Conflict',
    `${what} is at version ${found}, not at ${expected}: somebody changed it meanwhile`,
    {
      retry: 'never',
      fix: 'Read it again and repeat the change on what is there now.',
    },
  );

/** The internal state moved on since it was loaded: the caller plans again from a fresh load. */
export const stateConflict = (uid: string, expected: number, found: number): BelayError =>
  new BelayError('StateConflict', `state of ${uid} is at version ${found}, not at ${expected}`, {
    retry: 'never',
    fix: 'Load the state again and plan from it.',
  });

/** S9: the writer no longer holds the lease it acts under; nothing of the batch was written. */
export const leaseLost = (lease: string, epoch: number, found: string): BelayError =>
  new BelayError('LeaseLost', `lease ${lease} with epoch ${epoch} is no longer held (${found})`, {
    retry: 'never',
    fix: 'Stop acting on this partition; whoever holds the lease now goes on.',
  });

export const gone = (since: string, kept: number): BelayError =>
  new BelayError('Gone', `changes since ${since} are not kept any more (kept: after ${kept})`, {
    retry: 'never',
    fix: 'List again and watch from the resourceVersion of that list.',
  });

/** A resourceVersion this store never gave: it was restored from a copy, or it is another store. */
export const fromTheFuture = (since: string, head: number): BelayError =>
  new BelayError('Gone', `changes since ${since} cannot be given: this store is at ${head}`, {
    retry: 'never',
    fix: 'List again and watch from the resourceVersion of that list.',
  });

export const beingDeleted = (what: string): BelayError =>
  new BelayError('BeingDeleted', `${what} is marked for deletion and takes no new finalizers`, {
    retry: 'never',
    fix: 'Wait until it is gone, then create it again.',
  });

export const tooLarge = (what: string, bytes: number, limit: number): BelayError =>
  new BelayError('TooLarge', `${what} has ${bytes} bytes; ${limit} are allowed`, {
    retry: 'never',
    fix: 'Make it smaller, or split it.',
  });

export const invalidContinue = (): BelayError =>
  new BelayError('InvalidContinue', 'the continue token of this list is not one of ours', {
    retry: 'never',
    fix: 'Start the list again without a continue token.',
  });

export const invalidSelector = (text: string, why: string): BelayError =>
  new BelayError('InvalidSelector', `label selector '${text}': ${why}`, {
    retry: 'never',
    fix: 'Write it like a=b,c!=d,e in (x,y),f notin (z),g,!h.',
  });

export const storeClosed = (): BelayError =>
  new BelayError('StoreUnavailable', 'the store was closed', { retry: 'never' });

export const storeNewer = (found: number, known: number): BelayError =>
  new BelayError(
    'StoreNewer',
    `the store has schema ${found}, this program knows up to ${known}: a newer version of belay wrote it`,
    {
      retry: 'never',
      fix: 'Start the newer version of belay, or restore a backup of the store taken before the upgrade.',
    },
  );

export const storeLocked = (where: string, cause: unknown): BelayError =>
  new BelayError('StoreLocked', `another process holds the write lock of ${where}`, {
    retry: 'later',
    fix: 'Find the other belay process that uses this store and end it, or use PostgreSQL for several control planes.',
    cause,
  });

export const storeFull = (where: string, cause: unknown): BelayError =>
  new BelayError('StoreFull', `no space left for ${where}; nothing of this write was kept`, {
    retry: 'later',
    fix: 'Free space on the disk of the store; belay goes on by itself, no restart is needed.',
    cause,
  });

export const storeDamaged = (where: string, cause: unknown): BelayError =>
  new BelayError('StoreDamaged', `${where} is not a readable belay store`, {
    retry: 'never',
    fix: 'Check that the path is right; else restore the store from a backup.',
    cause,
  });

export function invalidStoreUrl(why: string): BelayError {
  // The URL itself is not repeated: it may hold a password (S8).
  return new BelayError('InvalidStoreUrl', `the URL of the store is not usable: ${why}`, {
    retry: 'never',
    fix: 'Write sqlite:/var/lib/belay/belay.db or postgres://user:password@host:5432/database.',
  });
}
