/** Small readers of command arguments, whose values keep their BSON number types. */
import type { Document } from 'bson';
import { ServerError } from '../contracts.ts';

/** A BSON number of any type as a JS number, or undefined when it is none. */
export function asNumber(value: unknown): number | undefined {
  if (typeof value === 'number') return value;
  if (typeof value === 'bigint') return Number(value);
  if (typeof value !== 'object' || value === null) return undefined;
  switch ((value as { _bsontype?: string })._bsontype) {
    case 'Int32':
    case 'Double':
      return (value as { value: number }).value;
    case 'Long':
      return (value as { toNumber(): number }).toNumber();
    case 'Decimal128':
      return Number(value.toString());
    default:
      return undefined;
  }
}

/** The server's idea of truth for option fields: numbers other than zero and true. */
export function asFlag(value: unknown): boolean {
  if (typeof value === 'boolean') return value;
  const number = asNumber(value);
  return number !== undefined && number !== 0;
}

/** True for a plain embedded document (not an array, date or BSON value). */
export function isDocument(value: unknown): value is Document {
  if (typeof value !== 'object' || value === null || Array.isArray(value) || value instanceof Date)
    return false;
  return (value as { _bsontype?: string })._bsontype === undefined;
}

/** The server's name of a value's type, as its error texts use it. */
export function typeName(value: unknown): string {
  if (value === null) return 'null';
  if (value === undefined) return 'missing';
  if (Array.isArray(value)) return 'array';
  if (value instanceof Date) return 'date';
  if (typeof value === 'string') return 'string';
  if (typeof value === 'boolean') return 'bool';
  if (typeof value === 'number') return Number.isInteger(value) ? 'int' : 'double';
  return BSON_TYPE_NAMES[(value as { _bsontype?: string })._bsontype ?? ''] ?? 'object';
}

const BSON_TYPE_NAMES: Readonly<Record<string, string>> = {
  Int32: 'int',
  Double: 'double',
  Long: 'long',
  Decimal128: 'decimal',
  ObjectId: 'objectId',
  Binary: 'binData',
  UUID: 'binData',
  Timestamp: 'timestamp',
  BSONRegExp: 'regex',
  MinKey: 'minKey',
  MaxKey: 'maxKey',
  Code: 'javascript',
};

/** A required string field of a command: missing gives 40414, another type 14. */
export function stringField(command: Document, commandName: string, field: string): string {
  const value = command[field];
  if (value === undefined) throw missingField(commandName, field);
  if (typeof value !== 'string') throw wrongType(`${commandName}.${field}`, value, 'string');
  return value;
}

/** 40414 of a field that must be there. */
export function missingField(commandName: string, field: string): ServerError {
  return new ServerError(
    40414,
    'IDLFailedToParse',
    `BSON field '${commandName}.${field}' is missing but a required field`,
  );
}

/** 14 of a field with the wrong type. */
export function wrongType(path: string, value: unknown, expected: string): ServerError {
  return new ServerError(
    14,
    'TypeMismatch',
    `BSON field '${path}' is the wrong type '${typeName(value)}', expected type '${expected}'`,
  );
}
