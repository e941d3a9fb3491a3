/** Error labels as the server sets them (5.3, 5.4, 5.5). */
import type { Document } from 'bson';
import { toNumber } from './arguments.ts';

const RETRYABLE: ReadonlySet<number> = new Set([
  6, 7, 89, 91, 134, 189, 262, 317, 358, 384, 402, 406, 407, 412, 453, 462, 9001, 10107, 11600, 11602, 13435,
  13436, 50915,
]);
const TRANSIENT: ReadonlySet<number> = new Set([
  6, 7, 24, 89, 91, 112, 134, 150, 189, 239, 246, 250, 251, 262, 267, 272, 317, 384, 402, 406, 407, 412, 453,
  462, 9001, 10107, 11600, 11602, 13435, 13436, 50915,
]);
const RESUMABLE: ReadonlySet<number> = new Set([
  6, 7, 63, 89, 91, 133, 150, 189, 234, 262, 9001, 10107, 11600, 11602, 13435, 13436,
]);
const NOT_RESUMABLE: ReadonlySet<number> = new Set([280, 286]);

/** What about a command decides its labels. */
export interface LabelFacts {
  readonly name: string;
  /** Has lsid and txnNumber. */
  readonly numbered: boolean;
  /** `autocommit: false`. */
  readonly inTransaction: boolean;
  /** An aggregate with `$changeStream`, or a getMore on such a cursor. */
  readonly changeStream: boolean;
}

/** The labels for a reply with these codes; null where there is no such error. */
export function errorLabels(facts: LabelFacts, code: number | null, concernCode: number | null): string[] {
  const labels: string[] = [];
  const ends = facts.name === 'commitTransaction' || facts.name === 'abortTransaction';
  const retryable =
    (code !== null && RETRYABLE.has(code)) ||
    (code === null && concernCode !== null && RETRYABLE.has(concernCode));
  if (facts.numbered && (ends || !facts.inTransaction) && retryable) labels.push('RetryableWriteError');
  else if (facts.inTransaction && code !== null && isTransient(facts.name, code, concernCode)) {
    labels.push('TransientTransactionError');
  }
  if (facts.changeStream && code !== null && RESUMABLE.has(code)) labels.push('ResumableChangeStreamError');
  if (code !== null && NOT_RESUMABLE.has(code)) labels.push('NonResumableChangeStreamError');
  return labels;
}

/** 251 on abort says nothing new, and on commit only counts when the write concern held. */
function isTransient(name: string, code: number, concernCode: number | null): boolean {
  if (!TRANSIENT.has(code)) return false;
  if (name === 'abortTransaction') return code !== 251;
  if (name === 'commitTransaction' && code === 251) return concernCode === null;
  return true;
}

/** True for a reply with `ok: 0`, whichever number type says so. */
export function isFailure(reply: Document): boolean {
  return toNumber(reply['ok']) === 0;
}

/** Adds the labels to a reply, in place; labels already there stay. */
export function addErrorLabels(reply: Document, facts: LabelFacts): void {
  const code = isFailure(reply) ? (toNumber(reply['code']) ?? 8) : null;
  const concern: Document | undefined = reply['writeConcernError'];
  const concernCode = concern === undefined ? null : (toNumber(concern['code']) ?? 0);
  if (code === null && concernCode === null) return;
  const labels = errorLabels(facts, code, concernCode);
  if (labels.length === 0) return;
  reply['errorLabels'] = [...new Set([...((reply['errorLabels'] as string[] | undefined) ?? []), ...labels])];
}
