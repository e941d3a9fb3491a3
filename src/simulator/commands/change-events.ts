/** From oplog entries to change events (5.5). */
import type { Document } from 'bson';
import type { DataStore, OplogEntry } from '../contracts.ts';
import { applyDiff, describeUpdate, isDiffEntry } from '../data/diff.ts';
import { isDocument } from './arguments.ts';
import { fail } from './errors.ts';
import { splitNamespace } from './namespaces.ts';
import { encodeToken } from './resume-token.ts';

/** What a stream watches. */
export type Scope =
  | { readonly kind: 'collection'; readonly db: string; readonly collection: string }
  | { readonly kind: 'database'; readonly db: string }
  | { readonly kind: 'cluster' };

/** Which image of a document an event carries; `off` and `default` mean none. */
export type ImageMode = 'off' | 'default' | 'updateLookup' | 'whenAvailable' | 'required';

/** What a stream watches and how much its events tell. */
export interface EventOptions {
  readonly scope: Scope;
  readonly fullDocument: ImageMode;
  readonly fullDocumentBeforeChange: ImageMode;
  readonly expanded: boolean;
}

type Op = Pick<OplogEntry, 'op' | 'ns' | 'o' | 'o2' | 'ui' | 'preImage'>;

/** One event of an entry. `index` is its place in the entry; an invalidate event shares the place of its cause. */
export interface ChangeEvent {
  readonly index: number;
  readonly invalidate: boolean;
  readonly document: Document;
}

/** The events one entry means for a stream, in order. */
export function eventsOf(entry: OplogEntry, options: EventOptions, data: DataStore): ChangeEvent[] {
  const inner: unknown = entry.op === 'c' ? entry.o['applyOps'] : undefined;
  const ops: readonly Op[] = Array.isArray(inner) ? inner : [entry];
  const events: ChangeEvent[] = [];
  for (const [index, op] of ops.entries()) {
    const body = op.op === 'c' ? commandEvent(op, options) : documentEvent(op, options, data);
    if (body === null) continue;
    const transaction = Array.isArray(inner) ? { lsid: entry.lsid, txnNumber: entry.txnNumber } : {};
    const place = { ts: entry.ts, index, kind: 'event', invalidate: false, fragment: 0 } as const;
    events.push({
      index,
      invalidate: false,
      document: {
        _id: encodeToken(place),
        operationType: body.operationType,
        clusterTime: entry.ts,
        wallTime: entry.wall,
        ...(options.expanded && op.ui !== undefined ? { collectionUUID: op.ui } : {}),
        ...body.fields,
        ...transaction,
      },
    });
    if (!invalidates(body.operationType, options.scope)) continue;
    events.push({
      index,
      invalidate: true,
      document: {
        _id: encodeToken({ ...place, invalidate: true }),
        operationType: 'invalidate',
        clusterTime: entry.ts,
        wallTime: entry.wall,
      },
    });
    break;
  }
  return events;
}

function invalidates(operationType: string, scope: Scope): boolean {
  if (scope.kind === 'collection') return ['drop', 'rename', 'dropDatabase'].includes(operationType);
  return scope.kind === 'database' && operationType === 'dropDatabase';
}

/** True when events on this namespace belong to the stream. Internal databases and system collections never do. */
function watches(scope: Scope, ns: string): boolean {
  const { db, collection } = splitNamespace(ns);
  if (scope.kind === 'collection') return db === scope.db && collection === scope.collection;
  if (collection.startsWith('system.') || collection.startsWith('tmp.')) return false;
  if (scope.kind === 'database') return db === scope.db;
  return db !== 'local' && db !== 'config' && db !== 'admin';
}

interface Body {
  readonly operationType: string;
  readonly fields: Document;
}

function nsField(ns: string): Document {
  const { db, collection } = splitNamespace(ns);
  return { db, coll: collection };
}

// ── documents ──────────────────────────────────────────────────────────────────────────────────────────────────────

function documentEvent(op: Op, options: EventOptions, data: DataStore): Body | null {
  if (!watches(options.scope, op.ns)) return null;
  const ns = nsField(op.ns);
  switch (op.op) {
    case 'i':
      return {
        operationType: 'insert',
        fields: { fullDocument: op.o, ns, documentKey: { _id: op.o['_id'] } },
      };
    case 'u':
      return updateEvent(op, options, data);
    case 'd':
      return {
        operationType: 'delete',
        fields: { ns, documentKey: { _id: op.o['_id'] }, ...beforeImage(op, options) },
      };
    default:
      return null;
  }
}

function updateEvent(op: Op, options: EventOptions, data: DataStore): Body {
  const documentKey = { _id: op.o2?.['_id'] ?? op.o['_id'] };
  const ns = nsField(op.ns);
  if (!isDiffEntry(op.o)) {
    return {
      operationType: 'replace',
      fields: { fullDocument: op.o, ns, documentKey, ...beforeImage(op, options) },
    };
  }
  const { updatedFields, removedFields, truncatedArrays } = describeUpdate(op.o);
  const after = afterImage(op, documentKey, options, data);
  return {
    operationType: 'update',
    fields: {
      ...(after === undefined ? {} : { fullDocument: after }),
      ns,
      documentKey,
      updateDescription: {
        updatedFields,
        removedFields,
        truncatedArrays,
        ...(options.expanded ? { disambiguatedPaths: disambiguatedPaths(op.o['diff']) } : {}),
      },
      ...beforeImage(op, options),
    },
  };
}

/** Paths that a dotted text can't tell apart: field names that look like array positions or have dots. */
function disambiguatedPaths(diff: Document): Document {
  const paths: Document = {};
  const note = (path: readonly (string | number)[]) => {
    const ambiguous = path.some(
      (part) => typeof part === 'string' && (part.includes('.') || /^\d+$/.test(part)),
    );
    if (ambiguous) paths[path.join('.')] = path;
  };
  const walk = (part: Document, prefix: readonly (string | number)[]) => {
    for (const [key, value] of Object.entries(part)) {
      if (part['a'] === true) {
        if (key.startsWith('u')) note([...prefix, Number(key.slice(1))]);
        else if (key.startsWith('s')) walk(value as Document, [...prefix, Number(key.slice(1))]);
      } else if (key === 'u' || key === 'i' || key === 'd') {
        for (const name of Object.keys(value as Document)) note([...prefix, name]);
      } else if (key.startsWith('s')) walk(value as Document, [...prefix, key.slice(1)]);
    }
  };
  walk(diff, []);
  return paths;
}

function afterImage(
  op: Op,
  documentKey: Document,
  options: EventOptions,
  data: DataStore,
): Document | null | undefined {
  switch (options.fullDocument) {
    case 'default':
    case 'off':
      return undefined;
    case 'updateLookup':
      return data.find(op.ns, { filter: { _id: { $eq: documentKey['_id'] } }, limit: 1 })[0] ?? null;
    case 'whenAvailable':
      return postImage(op) ?? null;
    case 'required':
      return postImage(op) ?? missingImage('post-image', op);
  }
}

function postImage(op: Op): Document | undefined {
  return op.preImage === undefined ? undefined : applyDiff(op.preImage, op.o['diff'] as Document);
}

function beforeImage(op: Op, options: EventOptions): Document {
  switch (options.fullDocumentBeforeChange) {
    case 'whenAvailable':
      return { fullDocumentBeforeChange: op.preImage ?? null };
    case 'required':
      return { fullDocumentBeforeChange: op.preImage ?? missingImage('pre-image', op) };
    default:
      return {};
  }
}

function missingImage(what: string, op: Op): never {
  throw fail(
    47,
    `Change stream was configured to require a ${what} for all update, delete and replace events, but the ${what} ` +
      `was not found for event on ${op.ns}`,
  );
}

// ── commands ───────────────────────────────────────────────────────────────────────────────────────────────────────

function commandEvent(op: Op, options: EventOptions): Body | null {
  const { db } = splitNamespace(op.ns);
  const name = Object.keys(op.o)[0] ?? '';
  const ns = `${db}.${String(op.o[name])}`;
  switch (name) {
    case 'drop':
      return watches(options.scope, ns) ? { operationType: 'drop', fields: { ns: nsField(ns) } } : null;
    case 'renameCollection':
      return renameEvent(op, options);
    case 'dropDatabase':
      return droppedDatabase(db, options.scope);
    default:
      return options.expanded && watches(options.scope, ns) ? expandedEvent(name, ns, op) : null;
  }
}

function droppedDatabase(db: string, scope: Scope): Body | null {
  if (scope.kind === 'collection' || (scope.kind === 'database' && scope.db !== db)) return null;
  return { operationType: 'dropDatabase', fields: { ns: { db } } };
}

function renameEvent(op: Op, options: EventOptions): Body | null {
  const from = String(op.o['renameCollection']);
  const to = String(op.o['to']);
  if (!watches(options.scope, from) && !watches(options.scope, to)) return null;
  const { dropTarget } = op.o;
  const description = {
    to: nsField(to),
    ...(dropTarget === undefined || dropTarget === false ? {} : { dropTarget }),
  };
  return {
    operationType: 'rename',
    fields: {
      ns: nsField(from),
      to: nsField(to),
      ...(options.expanded ? { operationDescription: description } : {}),
    },
  };
}

function expandedEvent(name: string, ns: string, { o, o2 }: Op): Body | null {
  const { [name]: _first, ...rest } = o;
  switch (name) {
    case 'create':
      return { operationType: 'create', fields: { ns: nsField(ns), operationDescription: rest } };
    case 'createIndexes': {
      const indexes = Array.isArray(o['indexes']) ? o['indexes'] : [rest];
      return {
        operationType: 'createIndexes',
        fields: { ns: nsField(ns), operationDescription: { indexes } },
      };
    }
    case 'dropIndexes': {
      const indexes = [isDocument(o2) ? o2 : { name: o['index'] }];
      return { operationType: 'dropIndexes', fields: { ns: nsField(ns), operationDescription: { indexes } } };
    }
    case 'collMod':
      return { operationType: 'modify', fields: { ns: nsField(ns), operationDescription: rest } };
    default:
      return null;
  }
}
