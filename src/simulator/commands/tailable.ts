/** Tailable cursors over capped collections and the oplog: they go on where the collection grows. */
import type { Document } from 'bson';
import { Long } from 'bson';
import type { FindSpec, OpTime } from '../contracts.ts';
import { toBoolean } from './arguments.ts';
import type { Call } from './call.ts';
import type { CursorSource } from './cursors.ts';
import { fail } from './errors.ts';
import { pipe } from './pipe.ts';

const OPLOG = 'local.oplog.rs';
/** Oplog entries read at once. */
const PAGE = 1_000;

/** What has come since the last look; throws 136 when the place was overwritten. `over`: nothing can follow any more. */
interface Follower {
  next(): Document[];
  over(): boolean;
}

/** A source that starts with what is there and follows. 2 for a collection that is not capped. */
export function tailableSource(call: Call, ns: string, spec: FindSpec): CursorSource {
  const { data, services } = call;
  const info = data.info(ns);
  if (info === undefined) return endedSource();
  if (!toBoolean(info.options['capped'])) {
    throw fail(
      2,
      `error processing query: ns=${ns} planner returned error :: caused by :: tailable cursor requested on non ` +
        'capped collection',
    );
  }
  let buffer = data.find(ns, spec);
  const follower = ns === OPLOG ? followOplog(call, spec) : followCapped(call, ns, spec);
  let dirty = false;
  const stop = data.onApplied((entry) => {
    if (ns === OPLOG || entry.ns === ns || entry.op === 'c') dirty = true;
  });
  const refill = () => {
    while (buffer.length === 0 && dirty) {
      const fresh = follower.next();
      buffer = fresh;
      if (fresh.length === 0) dirty = false;
    }
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
    ended: () => follower.over() && buffer.length === 0,
    wait: async (limit, signal) => {
      refill();
      if (buffer.length === 0 && !follower.over()) await services.applied.wait(limit, signal);
    },
    close: stop,
  };
}

function endedSource(): CursorSource {
  return { kind: 'static', peek: () => undefined, shift: () => undefined, ended: () => true };
}

/** The log by optime: nothing before the place is looked at again. */
function followOplog(call: Call, spec: FindSpec): Follower {
  let read: OpTime | null = call.data.lastApplied();
  const stages: Document[] = [
    ...(spec.filter === undefined ? [] : [{ $match: spec.filter }]),
    ...(spec.projection === undefined ? [] : [{ $project: spec.projection }]),
  ];
  return {
    over: () => false,
    next: () => {
      for (;;) {
        const page = call.data.oplogAfter(read, PAGE);
        const last = page.at(-1);
        if (last === undefined) return [];
        read = { ts: last.ts, t: last.t };
        const documents = page.map((entry) => ({ ...entry, v: Long.fromNumber(2) }));
        const matched = pipe(call, documents, stages);
        if (matched.length > 0) return matched;
      }
    },
  };
}

/** A capped collection by the `_id` last seen, in insertion order. */
function followCapped(call: Call, ns: string, spec: FindSpec): Follower {
  const { data } = call;
  const uuid = data.info(ns)?.uuid.toString();
  const ids = () => data.find(ns, { projection: { _id: 1 } }).map((document) => document['_id'] as unknown);
  let newest: unknown = ids().at(-1);
  let dropped = false;
  return {
    over: () => dropped,
    next: () => {
      if (data.info(ns)?.uuid.toString() !== uuid) {
        dropped = true;
        return [];
      }
      const present = ids();
      const position = newest === undefined ? -1 : present.findLastIndex((id) => sameValue(id, newest));
      if (position < 0 && newest !== undefined) {
        throw fail(136, 'CollectionScan died due to position in capped collection being deleted.');
      }
      newest = present.at(-1) ?? newest;
      const { filter = {}, ...rest } = spec;
      return present
        .slice(position + 1)
        .flatMap((id) => data.find(ns, { ...rest, filter: { $and: [{ _id: { $eq: id } }, filter] } }));
    },
  };
}

function sameValue(left: unknown, right: unknown): boolean {
  if (left === right) return true;
  if (left === null || right === null || typeof left !== 'object' || typeof right !== 'object') return false;
  const type = (value: object) => (value as { _bsontype?: string })._bsontype;
  return type(left) === type(right) && JSON.stringify(left) === JSON.stringify(right);
}
