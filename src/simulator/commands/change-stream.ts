import type { Document } from 'bson';
import type { Pipeline } from './aggregate.ts';
import type { Call } from './call.ts';
import { fail } from './errors.ts';

export async function openChangeStream(
  _call: Call,
  _pipeline: Pipeline,
  _batchSize: number,
): Promise<Document> {
  throw fail(40573, 'The $changeStream stage is only supported on replica sets');
}
