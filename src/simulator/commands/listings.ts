/** listCollections and listDatabases. */
import type { Document } from 'bson';
import { Long } from 'bson';
import type { CollectionInfo } from '../contracts.ts';
import { rule, toBoolean, toNumber } from './arguments.ts';
import { type Call, command, loginOnly, mayDo, privilege } from './call.ts';
import { FIRST_BATCH, staticSource } from './cursors.ts';
import { fail } from './errors.ts';
import { cursorOptions } from './find.ts';
import { checkDbName } from './namespaces.ts';
import { pipe } from './pipe.ts';

function collectionEntry(call: Call, name: string, nameOnly: boolean): Document {
  const ns = `${call.db}.${name}`;
  const info = call.data.info(ns)!;
  const entry: Document = { name, type: info.type };
  if (nameOnly) return entry;
  const { idIndex: _idIndex, ...options } = info.options;
  entry['options'] = options;
  entry['info'] = info.type === 'view' ? { readOnly: true } : { readOnly: false, uuid: info.uuid };
  const idIndex =
    info.type === 'view' ? undefined : call.data.indexes(ns).find((index) => index['name'] === '_id_');
  if (idIndex) entry['idIndex'] = idIndex;
  return entry;
}

/** Without the privilege to list, only what the caller may read; the dispatcher lets such a caller in for names only. */
function visibleCollections(call: Call): readonly CollectionInfo[] {
  const infos = call.data.collections(call.db);
  if (mayDo(call, privilege(call.db, '', 'listCollections'))) return infos;
  return infos.filter((info) => mayDo(call, privilege(call.db, info.name, 'find')));
}

function runListCollections(call: Call): Document {
  const { command: given, db } = call;
  checkDbName(db);
  const nameOnly = toBoolean(given['nameOnly']);
  const filter: Document = given['filter'] ?? {};
  const all = visibleCollections(call).map((info) =>
    collectionEntry(call, info.name, nameOnly && !reaches(filter)),
  );
  const views = all.some((entry) => entry['type'] === 'view') ? [viewsEntry()] : [];
  const entries = [...all, ...views].sort((left, right) => (left['name'] < right['name'] ? -1 : 1));
  const matched = Object.keys(filter).length === 0 ? entries : pipe(call, entries, [{ $match: filter }]);
  const shown = nameOnly ? matched.map(({ name, type }) => ({ name, type })) : matched;
  return call.services.cursors.first(
    call.context,
    `${db}.$cmd.listCollections`,
    staticSource(shown, true),
    toNumber(given['cursor']?.batchSize) ?? Math.max(FIRST_BATCH, shown.length),
    cursorOptions(call),
  );
}

const reaches = (filter: Document): boolean =>
  Object.keys(filter).some((key) => key !== 'name' && key !== 'type');

/** Where a database keeps its views; not a collection of the store here, but clients expect to see it. */
function viewsEntry(): Document {
  return { name: 'system.views', type: 'collection', options: {}, info: { readOnly: false } };
}

const listCollections = command({
  name: 'listCollections',
  auth: (context) => {
    const { nameOnly, authorizedCollections } = context.command;
    if (toBoolean(nameOnly) && toBoolean(authorizedCollections)) return loginOnly(context);
    return [privilege(context.db, '', 'listCollections')];
  },
  access: 'read',
  shape: {
    listCollections: rule.any,
    cursor: rule.object,
    filter: rule.object,
    nameOnly: rule.flag,
    authorizedCollections: rule.flag,
    rawData: rule.flag,
  },
  run: runListCollections,
});

/** All databases, or those the caller may look into; 13 when all are wanted and not allowed. */
function visibleDatabases(call: Call): readonly string[] {
  const names = call.data.databases();
  const wanted: unknown = call.command['authorizedDatabases'];
  const mayList = mayDo(call, { resource: { cluster: true }, actions: ['listDatabases'] });
  if (mayList && wanted !== true) return names;
  if (wanted === false) throw fail(13, 'Insufficient permissions to list all databases');
  return names.filter((name) => mayDo(call, privilege(name, '', 'find')));
}

function runListDatabases(call: Call): Document {
  const { command: given, data } = call;
  const nameOnly = toBoolean(given['nameOnly']);
  const entries = visibleDatabases(call).map((name) => {
    const stored = data.collections(name).filter((info) => info.type !== 'view');
    const bytes = stored.reduce((total, info) => total + 4096 + data.sizeBytes(`${name}.${info.name}`), 0);
    return { name, sizeOnDisk: Long.fromNumber(bytes), empty: stored.length === 0 };
  });
  const filter: Document = given['filter'] ?? {};
  const matched = Object.keys(filter).length === 0 ? entries : pipe(call, entries, [{ $match: filter }]);
  if (nameOnly) return { databases: matched.map(({ name }) => ({ name })) };
  const total = matched.reduce((sum, entry) => sum + (toNumber(entry['sizeOnDisk']) ?? 0), 0);
  return {
    databases: matched,
    totalSize: Long.fromNumber(total),
    totalSizeMb: Long.fromNumber(Math.floor(total / 1_048_576)),
  };
}

const listDatabases = command({
  name: 'listDatabases',
  adminOnly: true,
  auth: 'login',
  access: 'read',
  shape: {
    listDatabases: rule.any,
    nameOnly: rule.flag,
    filter: rule.object,
    authorizedDatabases: rule.flag,
  },
  run: runListDatabases,
});

/** The commands of this file. */
export const LISTING_COMMANDS = [listCollections, listDatabases];
