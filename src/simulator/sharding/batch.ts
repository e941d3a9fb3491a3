/** Write batches over several shards: which statements travel together, and their replies as one. Pure. */
import type { Document } from 'bson';
import { toNumber } from '../data/index.ts';

/** One statement and the shards it goes to. */
export interface Targeted {
  /** Place in the client's command. */
  readonly index: number;
  readonly shards: readonly string[];
}

/** Statements that are sent to one shard in one message. */
export interface Group<T extends Targeted> {
  readonly shard: string;
  readonly statements: readonly T[];
}

/**
 * The rounds in which statements are sent. Ordered: one after the other, neighbours for the same shard together. Unordered: one
 * round with one message per shard.
 */
export function rounds<T extends Targeted>(
  statements: readonly T[],
  ordered: boolean,
): readonly (readonly Group<T>[])[] {
  if (!ordered) {
    const byShard = new Map<string, T[]>();
    for (const statement of statements)
      for (const shard of statement.shards) byShard.set(shard, [...(byShard.get(shard) ?? []), statement]);
    return [[...byShard].map(([shard, list]) => ({ shard, statements: list }))];
  }
  const result: { shards: readonly string[]; statements: T[] }[] = [];
  for (const statement of statements) {
    const last = result.at(-1);
    const joins =
      last !== undefined &&
      last.shards.length === 1 &&
      statement.shards.length === 1 &&
      last.shards[0] === statement.shards[0];
    if (joins) last.statements.push(statement);
    else result.push({ shards: statement.shards, statements: [statement] });
  }
  return result.map(({ shards, statements: list }) => shards.map((shard) => ({ shard, statements: list })));
}

/** What a batch did so far, over all shards. */
export interface BatchTotals {
  n: number;
  nModified: number;
  readonly upserted: Document[];
  readonly writeErrors: Document[];
  readonly concernErrors: Document[];
  readonly retried: number[];
  readonly labels: Set<string>;
}

export const newTotals = (): BatchTotals => ({
  n: 0,
  nModified: 0,
  upserted: [],
  writeErrors: [],
  concernErrors: [],
  retried: [],
  labels: new Set(),
});

/** Adds one shard's good reply; places in it mean statements of the group. */
export function addReply(totals: BatchTotals, reply: Document, group: Group<Targeted>): void {
  const placed = (entry: Document): Document => ({
    ...entry,
    index: group.statements[toNumber(entry['index']) ?? 0]?.index ?? 0,
  });
  totals.n += toNumber(reply['n']) ?? 0;
  totals.nModified += toNumber(reply['nModified']) ?? 0;
  totals.upserted.push(...((reply['upserted'] ?? []) as Document[]).map(placed));
  for (const error of ((reply['writeErrors'] ?? []) as Document[]).map(placed)) {
    if (!totals.writeErrors.some(({ index }) => index === error['index'])) totals.writeErrors.push(error);
  }
  if (reply['writeConcernError'] !== undefined) totals.concernErrors.push(reply['writeConcernError']);
  totals.retried.push(...((reply['retriedStmtIds'] ?? []) as number[]).map(Number));
  for (const label of (reply['errorLabels'] ?? []) as string[]) totals.labels.add(label);
}
