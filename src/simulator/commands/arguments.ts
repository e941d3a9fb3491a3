/** Command arguments: BSON types by name, numbers, and the checks the server's generated parsers make (5.1). */
import type { Document, Long } from 'bson';
import { fail } from './errors.ts';

/** The server's name of a value's BSON type, as its messages print it. */
export function typeName(value: unknown): string {
  if (value === null) return 'null';
  if (value === undefined) return 'missing';
  if (typeof value === 'string') return 'string';
  if (typeof value === 'boolean') return 'bool';
  if (typeof value === 'number') return Number.isInteger(value) ? 'int' : 'double';
  if (typeof value === 'bigint') return 'long';
  if (Array.isArray(value)) return 'array';
  if (value instanceof Date) return 'date';
  if (value instanceof RegExp) return 'regex';
  return TYPE_NAMES[(value as { _bsontype?: string })._bsontype ?? ''] ?? 'object';
}

const TYPE_NAMES: Readonly<Record<string, string>> = {
  Int32: 'int',
  Double: 'double',
  Long: 'long',
  Decimal128: 'decimal',
  ObjectId: 'objectId',
  Binary: 'binData',
  UUID: 'binData',
  Timestamp: 'timestamp',
  BSONRegExp: 'regex',
  Code: 'javascript',
  BSONSymbol: 'symbol',
  MinKey: 'minKey',
  MaxKey: 'maxKey',
};

const NUMBERS = ['long', 'int', 'decimal', 'double'] as const;

/** True for a plain (sub)document. */
export function isDocument(value: unknown): value is Document {
  return typeName(value) === 'object';
}

/** True for any of the four numeric types. */
export function isNumber(value: unknown): boolean {
  return (NUMBERS as readonly string[]).includes(typeName(value));
}

/** A BSON number as a JavaScript number; undefined for anything else. */
export function toNumber(value: unknown): number | undefined {
  switch (typeof value) {
    case 'number':
      return value;
    case 'bigint':
      return Number(value);
    default:
  }
  switch ((value as { _bsontype?: string } | null | undefined)?._bsontype) {
    case 'Int32':
    case 'Double':
      return Number(value);
    case 'Long':
      return (value as Long).toNumber();
    case 'Decimal128':
      return Number(String(value));
    default:
      return undefined;
  }
}

/** A BSON integer as a bigint, for cursor ids and transaction numbers. */
export function toBigInt(value: unknown): bigint {
  if (typeof value === 'bigint') return value;
  if ((value as { _bsontype?: string } | null)?._bsontype === 'Long') return (value as Long).toBigInt();
  return BigInt(Math.trunc(toNumber(value) ?? 0));
}

/** The truth of a flag as the server reads it: bool, or any number but zero. */
export function toBoolean(value: unknown): boolean {
  if (typeof value === 'boolean') return value;
  const number = toNumber(value);
  return number !== undefined && number !== 0;
}

/** What one field may hold. `min` and `max` bound numbers (51024). */
export interface FieldRule {
  readonly types: readonly string[];
  readonly required?: boolean;
  readonly min?: number;
}
/** Field names with their rules; `strict` shapes refuse unknown names (40415). */
export type Shape = Readonly<Record<string, FieldRule>>;

/** Rules by type, to write shapes with. */
export const rule = {
  string: { types: ['string'] },
  object: { types: ['object'] },
  array: { types: ['array'] },
  bool: { types: ['bool'] },
  flag: { types: ['bool', ...NUMBERS] },
  number: { types: NUMBERS },
  natural: { types: NUMBERS, min: 0 },
  long: { types: ['long'] },
  timestamp: { types: ['timestamp'] },
  hint: { types: ['string', 'object'] },
  any: { types: [] },
} satisfies Record<string, FieldRule>;

/** The same rule for a field that must be there (40414). */
export function required(of: FieldRule): FieldRule {
  return { ...of, required: true };
}

/** Arguments every command takes (2.1); the values that matter are read where they are used. */
const GENERIC: ReadonlySet<string> = new Set([
  '$db',
  '$readPreference',
  '$clusterTime',
  '$audit',
  '$client',
  '$configTime',
  '$topologyTime',
  '$replData',
  '$configServerState',
  '$configServerTime',
  'lsid',
  'txnNumber',
  'txnRetryCounter',
  'autocommit',
  'startTransaction',
  'coordinator',
  'readConcern',
  'writeConcern',
  'maxTimeMS',
  'maxTimeMSOpOnly',
  'comment',
  'apiVersion',
  'apiStrict',
  'apiDeprecationErrors',
  'databaseVersion',
  'shardVersion',
  'mayBypassWriteBlocking',
  'rawData',
  'help',
  'tracking_info',
  'requestGossipRoutingCache',
  'impersonation',
  'isClusterQueryWithoutShardKeyCmd',
]);

/** Holds a document against a shape: 40415 for unknown fields, 14 for types, 51024 for bounds, 40414 for what is missing. */
export function checkShape(struct: string, document: Document, shape: Shape, topLevel = false): void {
  for (const key of Object.keys(document)) {
    const wanted = shape[key];
    if (wanted !== undefined) checkField(`${struct}.${key}`, key, document[key], wanted);
    else if (!topLevel || !GENERIC.has(key)) {
      throw fail(40415, `BSON field '${struct}.${key}' is an unknown field.`);
    }
  }
  for (const [key, wanted] of Object.entries(shape)) {
    if (wanted.required && document[key] === undefined) {
      throw fail(40414, `BSON field '${struct}.${key}' is missing but a required field`);
    }
  }
}

function checkField(path: string, key: string, value: unknown, wanted: FieldRule): void {
  if ((value === null || value === undefined) && !wanted.required) return;
  const type = typeName(value);
  if (wanted.types.length > 0 && !wanted.types.includes(type)) throw wrongType(path, type, wanted.types);
  const number = wanted.min === undefined ? undefined : toNumber(value);
  if (number !== undefined && number < wanted.min!) {
    throw fail(51024, `BSON field '${key}' value must be >= ${wanted.min}, actual value '${number}'`);
  }
}

/** 14 TypeMismatch in the server's words; the odd quote of the list is the server's. */
export function wrongType(path: string, type: string, expected: readonly string[]): Error {
  const list = expected.length === 1 ? `type '${expected[0]}'` : `types '[${expected.join(', ')}']`;
  return fail(14, `BSON field '${path}' is the wrong type '${type}', expected ${list}`);
}

/** maxTimeMS as the server reads it: 2 BadValue for what is no integer in 0..2147483647. Undefined when absent. */
export function maxTimeMillis(value: unknown): number | undefined {
  if (value === undefined || value === null) return undefined;
  const number = toNumber(value);
  if (number === undefined) throw fail(2, 'maxTimeMS must be a number');
  if (!Number.isInteger(number)) throw fail(2, 'maxTimeMS has non-integral value');
  if (number < 0 || number > 2_147_483_647) {
    throw fail(2, `${number} value for maxTimeMS is out of range [0, 2147483647]`);
  }
  return number;
}
