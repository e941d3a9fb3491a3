import type { Document } from 'bson';
import type { Call } from './call.ts';

/** Sends documents through pipeline stages. */
export function pipe(call: Call, documents: readonly Document[], stages: readonly Document[]): Document[] {
  if (stages.length === 0) return [...documents];
  // As they are: what looks like an expression in them, a recorded pipeline for example, is none.
  return call.data.aggregate(null, call.db, [{ $documents: { $literal: documents } }, ...stages]);
}
