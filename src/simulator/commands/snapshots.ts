/** Views of the past for `readConcern: snapshot` outside transactions: one per read time that was handed out. */
import type { Timestamp } from 'bson';
import { MINUTE, type Millis } from '../../base/units.ts';
import type { CommandContext, TransactionView } from '../contracts.ts';
import { fail } from './errors.ts';

/**
 * A read time stays usable so long after its last use. The server keeps five minutes of history for everybody; here every kept
 * view makes the store remember all writes since, so that unused ones go sooner.
 */
const WINDOW: Millis = MINUTE;
/** Views kept at most; the oldest goes first. */
const MOST = 16;

interface Snapshot {
  readonly view: TransactionView;
  readonly time: Timestamp;
  usedAt: Millis;
}

/** The kept views of one process. */
export class Snapshots {
  private readonly byTime = new Map<string, Snapshot>();

  /** A view of now, and the time to name it by later. */
  open(context: CommandContext): { readonly view: TransactionView; readonly time: Timestamp } {
    const { node } = context;
    const time = node.replication!.lastApplied()!.ts;
    const key = time.toString();
    const present = this.byTime.get(key);
    if (present) return present;
    const snapshot = { view: node.data.beginTransaction(), time, usedAt: node.now().getTime() };
    this.byTime.set(key, snapshot);
    if (this.byTime.size > MOST) this.drop(this.byTime.keys().next().value!);
    return snapshot;
  }

  /** The view of a time handed out before, or of now when nothing was written since. 239 for one that is gone. */
  at(context: CommandContext, time: Timestamp): { readonly view: TransactionView; readonly time: Timestamp } {
    const present = this.byTime.get(time.toString());
    if (present) {
      present.usedAt = context.node.now().getTime();
      return present;
    }
    const applied = context.node.replication!.lastApplied();
    if (applied?.ts.equals(time)) return this.open(context);
    throw fail(239, `Read timestamp ${time.toString()} is older than the oldest available timestamp.`);
  }

  expire(now: Millis): void {
    for (const [key, snapshot] of this.byTime) if (now - snapshot.usedAt > WINDOW) this.drop(key);
  }

  clear(): void {
    for (const key of [...this.byTime.keys()]) this.drop(key);
  }

  private drop(key: string): void {
    this.byTime.get(key)?.view.abort();
    this.byTime.delete(key);
  }
}
