import type { Buffer } from 'node:buffer';
import type { Generated } from 'kysely';

/**
 * The tables as both databases give them back. JSON is kept as text on both: the reader sees keys in the order the
 * writer chose, and nothing (number forms, `\u0000`) depends on the database. Flags and times are integers;
 * times are milliseconds. Text compares by bytes on both (PostgreSQL: collation "C").
 */
export interface Tables {
  sequence: SequenceTable;
  objects: ObjectsTable;
  changes: ChangesTable;
  states: { uid: string; version: number; value: string };
  journal: JournalTable;
  events: EventsTable;
  leases: { name: string; holder: string; epoch: number; expires_at: number };
  sealed: { name: string; sealed: Buffer; version: number };
  tokens: TokensTable;
  settings: { name: string; value: string };
}

/** One row. `version`: the last resourceVersion given; `kept`: changes up to it were deleted. */
interface SequenceTable {
  id: number;
  version: number;
  kept: number;
}

export interface ObjectsTable {
  kind: string;
  namespace: string;
  name: string;
  uid: string;
  generation: number;
  version: number;
  labels: string;
  annotations: string;
  finalizers: string;
  created_at: string;
  deleted_at: string | null;
  spec: string;
  status: string;
}

/** `object` is the whole object after the change (before it, when deleted). */
interface ChangesTable {
  version: number;
  type: string;
  kind: string;
  namespace: string;
  object: string;
}

export interface JournalTable {
  seq: Generated<number>;
  id: string;
  cluster_uid: string;
  step: string;
  target: string;
  reason: string;
  epoch: number;
  at: number;
  detail: string;
  outcome: string | null;
  outcome_at: number | null;
  outcome_message: string | null;
  held_back: number | null;
}

export interface EventsTable {
  seq: Generated<number>;
  id: string;
  subject: string;
  namespace: string;
  kind: string;
  name: string;
  uid: string;
  type: string;
  reason: string;
  message: string;
  at: number;
  first_at: number;
  count: number;
}

export interface TokensTable {
  id: string;
  kind: string;
  role: string;
  name: string;
  hash: string;
  created_at: number;
  expires_at: number | null;
  used_at: number | null;
}
