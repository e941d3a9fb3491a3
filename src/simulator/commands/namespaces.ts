/** Names of databases and collections: reading them from commands and the server's rules for them (73). */
import type { Document } from 'bson';
import { typeName } from './arguments.ts';
import { fail } from './errors.ts';

const BAD_DB_CHARACTER = /[/\\. "$\0]/;

/** Refuses a bad database name. */
export function checkDbName(db: string): void {
  if (db.length > 63) throw fail(73, `db name must be at most 63 characters, found: ${db.length}`);
  const bad = BAD_DB_CHARACTER.exec(db);
  if (bad) throw fail(73, `'${bad[0]}' is an invalid character in a db name: ${db}`);
  if (db === '') throw fail(73, "Invalid namespace specified ''");
}

/** Refuses a bad collection name. `creating` also refuses `$`, which only reads may name. */
export function checkCollectionName(db: string, collection: string, creating = false): void {
  if (collection === '') throw fail(73, `Invalid namespace specified '${db}.'`);
  if (collection.startsWith('.')) throw fail(73, `Collection names cannot start with '.': ${collection}`);
  if (collection.includes('\0')) throw fail(73, 'namespaces cannot have embedded null characters');
  if (creating && (collection.includes('$') || collection.endsWith('.'))) {
    throw fail(73, `Invalid collection name: ${collection}`);
  }
}

/** The namespace a command names in its first field. */
export function namespaceOf(command: Document, db: string, creating = false, field?: string): string {
  const key = field ?? Object.keys(command)[0]!;
  const name: unknown = command[key];
  if (typeof name !== 'string') throw fail(73, `collection name has invalid type ${typeName(name)}`);
  checkDbName(db);
  checkCollectionName(db, name, creating);
  return `${db}.${name}`;
}

/** Database and collection of a namespace; the first dot divides. */
export function splitNamespace(ns: string): { readonly db: string; readonly collection: string } {
  const dot = ns.indexOf('.');
  return dot < 0 ? { db: ns, collection: '' } : { db: ns.slice(0, dot), collection: ns.slice(dot + 1) };
}

/** The collection name in a command's first field for privilege checks; '' when it is none. */
export function collectionNamed(command: Document): string {
  const name: unknown = command[Object.keys(command)[0]!];
  return typeof name === 'string' ? name : '';
}

/** The namespace a command seems to work on, for lists of operations. */
export function commandNamespace(command: Document, db: string): string {
  const first: unknown = command[Object.keys(command)[0]!];
  const name: unknown = typeof first === 'string' ? first : command['collection'];
  return typeof name === 'string' ? `${db}.${name}` : `${db}.$cmd`;
}
