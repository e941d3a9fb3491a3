/** Removes documents whose time is over, on the member that may write. */
import type { Document } from 'bson';
import { MINUTE, SECOND } from '../../base/units.ts';
import type { DataStore, ServerNode } from '../contracts.ts';
import { toNumber } from './arguments.ts';
import type { CommandServices } from './services.ts';

/** Starts the monitor; its interval is the parameter ttlMonitorSleepSecs, 60 s by default. Gives the function that ends it. */
export function startTtlMonitor(node: ServerNode, services: CommandServices): () => void {
  let timer: NodeJS.Timeout;
  const arm = () => {
    const seconds = toNumber(node.parameters.get('ttlMonitorSleepSecs'));
    timer = setTimeout(run, seconds === undefined ? MINUTE : seconds * SECOND);
    timer.unref();
  };
  const run = () => {
    try {
      if (node.parameters.get('ttlMonitorEnabled') !== false) deleteExpired(node, services);
    } catch (failure) {
      node.logger.log('W', 'INDEX', 22537, 'TTLMonitor', 'TTLMonitor pass failed', {
        error: String(failure),
      });
    }
    arm();
  };
  arm();
  return () => clearTimeout(timer);
}

/** One pass over all TTL indexes; gives how many documents went. Nothing happens where writes are not allowed. */
export function deleteExpired(node: ServerNode, services: CommandServices): number {
  const { data, replication } = node;
  if (replication !== null && !replication.isWritablePrimary()) return 0;
  let deleted = 0;
  for (const db of data.databases()) {
    if (db === 'local') continue;
    for (const info of data.collections(db)) {
      if (info.type !== 'view') deleted += expireCollection(node, services, `${db}.${info.name}`, data);
    }
  }
  return deleted;
}

function expireCollection(node: ServerNode, services: CommandServices, ns: string, data: DataStore): number {
  let deleted = 0;
  for (const index of data.indexes(ns)) {
    const seconds = toNumber(index['expireAfterSeconds']);
    const field = Object.keys(index['key'] as Document)[0];
    if (seconds === undefined || field === undefined) continue;
    const limit = new Date(node.now().getTime() - seconds * SECOND);
    const filter: Document = { [field]: { $lt: limit, $type: 'date' } };
    const partial: Document | undefined = index['partialFilterExpression'];
    const outcome = data.delete(
      ns,
      { filter: partial === undefined ? filter : { $and: [filter, partial] }, limit: 0 },
      { stamp: node.replication?.stamp ?? services.localStamp, wall: node.now() },
    );
    deleted += outcome.deleted;
  }
  return deleted;
}
