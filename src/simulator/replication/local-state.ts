/** What a member keeps of its own on disk, unreplicated, and how the machine sees its log. */
import { calculateObjectSize, Int32, Long } from 'bson';
import type { DataStore, Logger, OplogEntry } from '../contracts.ts';
import type { ReplicaSetConfig } from '../member/config.ts';
import { parseConfig } from '../member/config-parse.ts';
import { NOWHERE, type OpTime, sameOpTime } from '../member/optime.ts';
import type { LogView, State } from '../member/types.ts';
import type { Batch } from './peer-codec.ts';
import { configDocument, fromBson, numberOf, plain, positionOf, toBson } from './values.ts';

/** Keys of the unreplicated documents. */
const KEYS = {
  config: 'system.replset',
  vote: 'replset.election',
  rollbackId: 'system.rollback.id',
  synced: 'replset.initialSyncId',
} as const;
const BATCH_ENTRIES = 1_000;
const BATCH_BYTES = 8_000_000;

/** The stored configuration; null when there is none or it cannot be read (then the log says why). */
export function loadConfig(data: DataStore, logger: Logger): ReplicaSetConfig | null {
  const stored = data.getLocal(KEYS.config);
  if (stored === undefined) return null;
  const parsed = parseConfig(plain(stored));
  if (parsed.ok) return parsed.value;
  const attr = { error: parsed.error };
  logger.log(
    'E',
    'REPL',
    21313,
    'initandlisten',
    'Locally stored replica set configuration is invalid',
    attr,
  );
  return null;
}

export function saveConfig(data: DataStore, config: ReplicaSetConfig): void {
  data.setLocal(KEYS.config, configDocument(config, { forClients: false }));
}

export function loadVote(data: DataStore): State['vote'] | null {
  const stored = data.getLocal(KEYS.vote);
  if (stored === undefined) return null;
  return { term: numberOf(stored['term']) ?? -1, candidate: numberOf(stored['candidateIndex']) ?? -1 };
}

export function saveVote(data: DataStore, { term, candidate }: State['vote']): void {
  data.setLocal(KEYS.vote, { term: Long.fromNumber(term), candidateIndex: Long.fromNumber(candidate) });
}

export const loadRollbackId = (data: DataStore): number =>
  numberOf(data.getLocal(KEYS.rollbackId)?.['rollbackId']) ?? 1;

export function saveRollbackId(data: DataStore, rollbackId: number): void {
  data.setLocal(KEYS.rollbackId, { rollbackId: new Int32(rollbackId) });
}

/** The data are complete: initiated here, or an initial sync ended well. */
export const isSynced = (data: DataStore): boolean => data.getLocal(KEYS.synced)?.['done'] === true;

export function saveSynced(data: DataStore, done: boolean): void {
  data.setLocal(KEYS.synced, { done });
}

/** Data that a set's initiation elsewhere would destroy. */
export function hasUserData(data: DataStore): boolean {
  return data
    .databases()
    .filter((db) => db !== 'local' && db !== 'config')
    .some((db) => data.collections(db).some(({ name }) => `${db}.${name}` !== 'admin.system.version'));
}

export const logViewOf = (data: DataStore): LogView => ({
  oldest: () => fromBson(data.oldestOplog()),
  last: () => {
    const last = data.lastApplied();
    const entry = last === null ? undefined : data.oplogFind(last);
    return entry ? positionOf(entry) : NOWHERE;
  },
  atOrBefore: (op) => fromBson(data.oplogFind(toBson(op))),
});

/** What to send to a member whose log ends at `after`. */
export function batchAfter(data: DataStore, after: OpTime): Batch {
  const found = fromBson(data.oplogFind(toBson(after)));
  if (found === null) return { kind: 'tooStale' };
  if (!sameOpTime(found, after)) return { kind: 'diverged', ancestor: found };
  const entries: OplogEntry[] = [];
  let bytes = 0;
  for (const entry of data.oplogAfter(toBson(after), BATCH_ENTRIES)) {
    bytes += calculateObjectSize(entry);
    if (entries.length > 0 && bytes > BATCH_BYTES) break;
    entries.push(entry);
  }
  return { kind: 'entries', entries };
}
