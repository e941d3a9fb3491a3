/** Arguments every command takes, and the checks on them that come before any command runs. */
import type { Document } from 'bson';
import { ServerError } from '../contracts.ts';
import { asNumber, isDocument } from './bson.ts';

/** Top-level fields allowed with every command. */
export const GENERIC_ARGUMENTS: ReadonlySet<string> = new Set([
  '$db',
  '$readPreference',
  'lsid',
  'txnNumber',
  'autocommit',
  'startTransaction',
  'readConcern',
  'writeConcern',
  'maxTimeMS',
  'comment',
  '$clusterTime',
  'apiVersion',
  'apiStrict',
  'apiDeprecationErrors',
  '$audit',
  '$client',
  '$configTime',
  '$topologyTime',
  'databaseVersion',
  'shardVersion',
  '$replData',
  '$oplogQueryData',
  '$configServerState',
  '$impersonatedUsers',
  'mayBypassWriteBlocking',
  'rawData',
  'help',
]);

/** The `$db` of a command; 40571 without, 73 when it can't be a database name. */
export function databaseOf(command: Document): string {
  const db = command['$db'];
  if (typeof db !== 'string')
    throw new ServerError(40571, 'Location40571', 'OP_MSG requests require a $db argument');
  if (db === '' || /[/\\. "\0]/.test(db) || Buffer.byteLength(db) > 63) {
    throw new ServerError(73, 'InvalidNamespace', `Invalid database name: '${db}'`);
  }
  return db;
}

const MAX_TIME_LIMIT = 2_147_483_647;

/** `maxTimeMS` in milliseconds, or 0 for none. */
export function maxTimeOf(command: Document): number {
  const value = command['maxTimeMS'];
  if (value === undefined) return 0;
  const number = asNumber(value);
  if (number === undefined) throw new ServerError(2, 'BadValue', 'maxTimeMS must be a number');
  if (!Number.isInteger(number)) throw new ServerError(2, 'BadValue', 'maxTimeMS has non-integral value');
  if (number < 0 || number > MAX_TIME_LIMIT) {
    throw new ServerError(
      2,
      'BadValue',
      `${number} value for maxTimeMS is out of range [0, ${MAX_TIME_LIMIT}]`,
    );
  }
  return number;
}

/** True when the client lets a secondary serve this read. */
export function allowsSecondary(command: Document): boolean {
  const preference = command['$readPreference'];
  if (!isDocument(preference)) return false;
  const mode = preference['mode'];
  return typeof mode === 'string' && mode !== 'primary';
}

/** 40415 for a field that neither the command nor every command knows. */
export function assertKnownFields(
  command: Document,
  name: string,
  fields: readonly string[],
  codeName: string,
): void {
  let first = true;
  for (const field of Object.keys(command)) {
    if (first) {
      first = false;
      continue;
    }
    if (GENERIC_ARGUMENTS.has(field) || fields.includes(field)) continue;
    throw new ServerError(40415, codeName, `BSON field '${name}.${field}' is an unknown field.`);
  }
}

const YEAR_SECONDS = 365 * 24 * 3600;

/** 205 for a cluster time more than a year ahead of this machine's clock. */
export function assertPlausibleClusterTime(seconds: number, now: Date): void {
  if (seconds <= now.getTime() / 1000 + YEAR_SECONDS) return;
  throw new ServerError(
    205,
    'ClusterTimeFailsRateLimiter',
    "New cluster time is too far from this node's wall clock time",
  );
}
