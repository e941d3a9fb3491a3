/** Reading and checking read and write concerns (3.5). */
import type { Timestamp } from 'bson';
import type { Replication } from '../contracts.ts';
import { isDocument, isNumber, toNumber, typeName } from './arguments.ts';
import { fail } from './errors.ts';

const LEVELS: ReadonlySet<string> = new Set(['local', 'available', 'majority', 'linearizable', 'snapshot']);
const READ_FIELDS: ReadonlySet<string> = new Set([
  'level',
  'afterClusterTime',
  'afterOpTime',
  'atClusterTime',
  'provenance',
  '$waitLastStableRecoveryTimestamp',
]);

/** The parts of a readConcern that matter here. */
export interface ReadLevel {
  readonly level?: string;
  readonly afterClusterTime?: Timestamp;
  readonly atClusterTime?: Timestamp;
}

/** A readConcern document; 9, 14 or 40415 for a malformed one. */
export function readLevel(given: unknown): ReadLevel {
  if (given === undefined || given === null) return {};
  if (!isDocument(given)) {
    throw fail(14, `"readConcern" had the wrong type. Expected object, found ${typeName(given)}`);
  }
  for (const key of Object.keys(given)) {
    if (!READ_FIELDS.has(key)) throw fail(40415, `BSON field 'readConcern.${key}' is an unknown field.`);
  }
  const level: unknown = given['level'];
  if (level !== undefined && typeof level !== 'string') {
    throw fail(
      14,
      `BSON field 'readConcern.level' is the wrong type '${typeName(level)}', expected type 'string'`,
    );
  }
  if (level !== undefined && !LEVELS.has(level)) {
    throw fail(2, `Enumeration value '${level}' for field 'readConcern.level' is not a valid value.`);
  }
  return given as ReadLevel;
}

const WRITE_FIELDS: ReadonlySet<string> = new Set([
  'w',
  'j',
  'wtimeout',
  'fsync',
  'provenance',
  'getLastError',
  'wOpTime',
  'wElectionId',
]);

/** Refuses a malformed write concern, and what a standalone can't keep (2). */
export function checkWriteConcern(given: unknown, replication: Replication | null): void {
  if (given === undefined || given === null) return;
  if (!isDocument(given)) {
    throw fail(14, `"writeConcern" had the wrong type. Expected object, found ${typeName(given)}`);
  }
  for (const key of Object.keys(given)) {
    if (!WRITE_FIELDS.has(key)) throw fail(40415, `BSON field 'writeConcern.${key}' is an unknown field.`);
  }
  checkW(given['w'], replication);
  const wtimeout: unknown = given['wtimeout'];
  if (wtimeout !== undefined && !isNumber(wtimeout)) {
    throw fail(9, 'wtimeout must be a number');
  }
  const j: unknown = given['j'];
  if (j !== undefined && typeof j !== 'boolean' && !isNumber(j))
    throw fail(9, 'j must be numeric or boolean');
}

function checkW(w: unknown, replication: Replication | null): void {
  if (w === undefined || isDocument(w)) return;
  const number = toNumber(w);
  if (number === undefined && typeof w !== 'string') {
    throw fail(9, `w has to be a number, string, or object; found: ${typeName(w)}`);
  }
  if (number !== undefined && (number < 0 || number > 50)) {
    throw fail(9, `w has to be a non-negative number and not greater than 50; found: ${number}`);
  }
  if (replication !== null) return;
  if (number !== undefined && number > 1) {
    throw fail(2, "cannot use 'w' > 1 when a host is not replicated");
  }
  if (typeof w === 'string' && w !== 'majority') {
    throw fail(2, `cannot use non-majority 'w' mode ${w} when a host is not a member of a replica set`);
  }
}
