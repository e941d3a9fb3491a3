/** Tailable cursors over capped collections and the oplog: they go on where the collection grows. */
import type { Document } from 'bson';
import type { FindSpec } from '../contracts.ts';
import { toBoolean } from './arguments.ts';
import type { Call } from './call.ts';
import type { CursorSource } from './cursors.ts';
import { fail } from './errors.ts';

const OPLOG = 'local.oplog.rs';

/**
 * A source that starts with what is there and follows. It remembers the `_id` (the `ts` in the oplog) of the last document
 * it read; when that one was overwritten meanwhile the cursor ends with 136 CappedPositionLost.
 */
export function tailableSource(call: Call, ns: string, spec: FindSpec): CursorSource {
  const { data, services } = call;
  const info = data.info(ns);
  if (ns !== OPLOG && info !== undefined && !toBoolean(info.options['capped'])) {
    throw fail(
      2,
      `error processing query: ns=${ns} Tree: $and\nSort: {}\nProj: {}\n planner returned error :: caused by :: ` +
        'tailable cursor requested on non capped collection',
    );
  }
  if (info === undefined && ns !== OPLOG) return endedSource();
  let buffer: Document[] = data.find(ns, spec);
  let dirty = false;
  let seen = data.count(ns);
  let newest = lastOf(call, ns);
  const stop = data.onApplied((entry) => {
    if (entry.ns === ns || entry.ns.endsWith('.$cmd') || ns === OPLOG) dirty = true;
  });
  let dropped = false;
  const refill = () => {
    if (buffer.length > 0 || !dirty) return;
    dirty = false;
    if (data.info(ns)?.uuid.toString() !== info?.uuid.toString()) dropped = true;
    else buffer = newer(call, ns, spec, newest, seen);
    seen = data.count(ns);
    newest = lastOf(call, ns);
  };
  return {
    kind: 'tailable',
    peek: () => {
      refill();
      return buffer[0];
    },
    shift: () => {
      buffer.shift();
    },
    ended: () => dropped && buffer.length === 0,
    wait: async (limit, signal) => {
      refill();
      if (buffer.length === 0 && !dropped) await services.applied.wait(limit, signal);
    },
    close: stop,
  };
}

function endedSource(): CursorSource {
  return { kind: 'static', peek: () => undefined, shift: () => undefined, ended: () => true };
}

const keyOf = (ns: string): string => (ns === OPLOG ? 'ts' : '_id');

function lastOf(call: Call, ns: string): unknown {
  const key = keyOf(ns);
  return call.data.find(ns, { sort: { $natural: -1 }, limit: 1, projection: { [key]: 1 } })[0]?.[key];
}

/** The matching documents after the remembered position, in insertion order. */
function newer(call: Call, ns: string, spec: FindSpec, after: unknown, before: number): Document[] {
  const key = keyOf(ns);
  if (ns === OPLOG) {
    const filter =
      after === undefined ? (spec.filter ?? {}) : { $and: [spec.filter ?? {}, { ts: { $gt: after } }] };
    return call.data.find(ns, { ...spec, filter });
  }
  const ids = call.data.find(ns, { projection: { [key]: 1 } }).map((document) => document[key] as unknown);
  const position = after === undefined ? -1 : ids.findLastIndex((id) => sameValue(id, after));
  if (position < 0 && after !== undefined && before > 0) {
    throw fail(136, 'CollectionScan died due to position in capped collection being deleted.');
  }
  const fresh = ids.slice(position + 1);
  return fresh.flatMap((id) =>
    call.data.find(ns, { ...spec, filter: { $and: [{ _id: { $eq: id } }, spec.filter ?? {}] } }),
  );
}

function sameValue(left: unknown, right: unknown): boolean {
  if (left === right) return true;
  if (left === null || right === null || typeof left !== 'object' || typeof right !== 'object') return false;
  return (left as { _bsontype?: string })._bsontype === (right as { _bsontype?: string })._bsontype
    ? JSON.stringify(left) === JSON.stringify(right)
    : false;
}
