import { type Collection, type Document, MongoNetworkError, type OptionalUnlessRequiredId } from 'mongodb';

/** Tries after the first: more than one member dies at once in no journey. */
const TRIES = 3;

/**
 * Inserts a document with an `_id` of its own, whatever dies meanwhile. The driver's own retry does not cover every
 * death: when its monitor sees a server vanish before the command's connection closes, the error goes out without the
 * label that makes it retryable. Writing the same `_id` again is safe; a duplicate is our own earlier try.
 */
export async function insertSurely<T extends Document>(
  collection: Collection<T>,
  document: OptionalUnlessRequiredId<T>,
): Promise<void> {
  for (let left = TRIES; ; left--) {
    try {
      await collection.insertOne(document);
      return;
    } catch (error) {
      if (left < TRIES && (error as { code?: number }).code === 11000) return;
      if (!(error instanceof MongoNetworkError) || left === 0) throw error;
    }
  }
}
