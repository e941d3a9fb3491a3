import type { Document } from 'bson';
import type { Call } from './call.ts';

/** Sends documents through pipeline stages. */
export function pipe(call: Call, documents: readonly Document[], stages: readonly Document[]): Document[] {
  if (stages.length === 0) return [...documents];
  return call.data.aggregate(null, call.db, [{ $documents: documents }, ...stages]);
}
