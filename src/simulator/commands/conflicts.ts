/** Writes outside transactions wait for the transaction that holds what they touch, as they do on a server. */
import type { Millis } from '../../base/units.ts';
import { ServerError } from '../contracts.ts';
import type { Call } from './call.ts';
import { throwIfAborted } from './errors.ts';
import { pause } from './notifier.ts';

/** Between two tries of a write that met an open transaction. */
const RETRY: Millis = 5;

/** True for 112 WriteConflict. */
export function isConflict(failure: unknown): boolean {
  return failure instanceof ServerError && failure.code === 112;
}

/** Runs a write again until no open transaction is in its way or the call ends. Inside a transaction a conflict is final. */
export async function retryConflicts<T>(call: Call, write: () => T | Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await write();
    } catch (failure) {
      if (!isConflict(failure) || call.transaction !== null) throw failure;
    }
    await pause(RETRY, call.context.signal);
    throwIfAborted(call.context.signal);
    call.node.replication?.assertWritable(call.db);
  }
}
