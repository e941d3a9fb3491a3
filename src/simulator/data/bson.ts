/**
 * How BSON values look inside the simulator: one canonical form, so that types survive storage, comparison and arithmetic.
 * Numbers are `Int32`, `Double`, `Long` or `Decimal128`; regular expressions are `BSONRegExp`; binary data is `Binary` (or
 * `UUID`); DBRefs are plain documents; strings, booleans, null and `Date` are themselves; documents are plain objects.
 */
import {
  Binary,
  BSON,
  BSONRegExp,
  type DeserializeOptions,
  type Document,
  Double,
  Int32,
  Long,
  type Timestamp,
} from 'bson';

/** The options every reader of bytes in the simulator uses; what they give is (after {@link canonical}) the canonical form. */
export const BSON_OPTIONS = {
  promoteValues: false,
  promoteLongs: false,
  promoteBuffers: false,
  useBigInt64: false,
  bsonRegExp: true,
  fieldsAsRaw: {},
} as const satisfies DeserializeOptions;

/** The server's type numbers, as `$type` takes them. */
export type BsonType =
  | -1
  | 1
  | 2
  | 3
  | 4
  | 5
  | 6
  | 7
  | 8
  | 9
  | 10
  | 11
  | 12
  | 13
  | 14
  | 15
  | 16
  | 17
  | 18
  | 19
  | 127;

/** The server's type aliases. */
export const TYPE_ALIASES: Readonly<Record<BsonType, string>> = {
  [-1]: 'minKey',
  1: 'double',
  2: 'string',
  3: 'object',
  4: 'array',
  5: 'binData',
  6: 'undefined',
  7: 'objectId',
  8: 'bool',
  9: 'date',
  10: 'null',
  11: 'regex',
  12: 'dbPointer',
  13: 'javascript',
  14: 'symbol',
  15: 'javascriptWithScope',
  16: 'int',
  17: 'timestamp',
  18: 'long',
  19: 'decimal',
  127: 'maxKey',
};

const TYPES_BY_CLASS: Readonly<Record<string, BsonType>> = {
  Int32: 16,
  Double: 1,
  Long: 18,
  Decimal128: 19,
  ObjectId: 7,
  Timestamp: 17,
  Binary: 5,
  BSONRegExp: 11,
  BSONSymbol: 14,
  Code: 13,
  DBRef: 3,
  MinKey: -1,
  MaxKey: 127,
};

const isInt32 = (value: number): boolean => value === (value | 0) && !Object.is(value, -0);

/** The class name bson gives its values, undefined for anything else. */
export function bsonClass(value: unknown): string | undefined {
  return typeof value === 'object' && value !== null
    ? (value as { _bsontype?: string })._bsontype
    : undefined;
}

/** The BSON type of any value the simulator may meet; plain integers in range count as int, other plain numbers as double. */
export function typeOf(value: unknown): BsonType {
  switch (typeof value) {
    case 'string':
      return 2;
    case 'boolean':
      return 8;
    case 'number':
      return isInt32(value) ? 16 : 1;
    case 'bigint':
      return 18;
    case 'object':
      return typeOfObject(value);
    default:
      return 6;
  }
}

function typeOfObject(value: object | null): BsonType {
  if (value === null) return 10;
  if (Array.isArray(value)) return 4;
  const name = (value as { _bsontype?: unknown })._bsontype;
  if (typeof name === 'string') {
    if (name === 'Code' && (value as { scope?: unknown }).scope) return 15;
    const type = TYPES_BY_CLASS[name];
    if (type !== undefined) return type;
  }
  if (value instanceof Date) return 9;
  if (value instanceof RegExp) return 11;
  if (value instanceof Uint8Array) return 5;
  return 3;
}

/** The alias of a value's type (`int`, `string`, …); `missing` for undefined, as `$type` in expressions says. */
export function typeName(value: unknown): string {
  return value === undefined ? 'missing' : TYPE_ALIASES[typeOf(value)];
}

/** True for embedded documents: not arrays, not BSON values. */
export function isDocument(value: unknown): value is Document {
  return typeof value === 'object' && value !== null && typeOfObject(value) === 3;
}

/** True for the four numeric types and plain numbers. */
export function isNumeric(value: unknown): boolean {
  const type = typeOf(value);
  return type === 16 || type === 1 || type === 18 || type === 19;
}

/**
 * The value in canonical form. Gives the same reference back when nothing had to change, so values from the wire cost a
 * walk and no copy. Undefined fields are dropped, undefined array elements become null.
 */
export function canonical(value: unknown): unknown {
  switch (typeof value) {
    case 'number':
      return isInt32(value) ? new Int32(value) : new Double(value);
    case 'bigint':
      return Long.fromBigInt(value);
    case 'object':
      return value === null ? null : canonicalObject(value);
    case 'undefined':
      return null;
    default:
      return value;
  }
}

function canonicalObject(value: object): unknown {
  if (Array.isArray(value)) return canonicalArray(value);
  const name = (value as { _bsontype?: unknown })._bsontype;
  if (typeof name === 'string') return name === 'DBRef' ? fromDbRef(value) : value;
  if (value instanceof Date) return value;
  if (value instanceof RegExp) return new BSONRegExp(value.source, value.flags.replace(/[^imsux]/g, ''));
  if (value instanceof Uint8Array) return new Binary(value);
  if (value instanceof Map) return canonicalFields(Object.fromEntries(value));
  return canonicalFields(value as Document);
}

// Both walk once and begin a copy at the first change: walking changed parts twice would double with every level.
function canonicalArray(value: readonly unknown[]): unknown {
  let copy: unknown[] | undefined;
  for (let index = 0; index < value.length; index++) {
    const element = canonical(value[index]);
    if (copy) copy.push(element);
    else if (element !== value[index]) copy = [...value.slice(0, index), element];
  }
  return copy ?? value;
}

function canonicalFields(value: Document): Document {
  let copy: [string, unknown][] | undefined;
  const names = Object.keys(value);
  for (let index = 0; index < names.length; index++) {
    const name = names[index]!;
    const given: unknown = value[name];
    const field = given === undefined ? undefined : canonical(given);
    if (!copy && (given === undefined || field !== given)) {
      copy = names.slice(0, index).map((earlier) => [earlier, value[earlier]]);
    }
    if (copy && given !== undefined) copy.push([name, field]);
  }
  return copy ? Object.fromEntries(copy) : value;
}

function fromDbRef(value: unknown): Document {
  const ref = value as { collection: string; oid: unknown; db?: string; fields?: Document };
  const database = ref.db === undefined ? {} : { $db: ref.db };
  return canonicalFields({ $ref: ref.collection, $id: ref.oid, ...database, ...ref.fields });
}

/** {@link canonical} for a whole document. */
export function canonicalDocument(document: Document): Document {
  return canonical(document) as Document;
}

/**
 * The value as plain JavaScript where that loses nothing the simulator's own code needs: Int32, Double and Long become
 * numbers, symbols strings, arrays and documents are walked; everything else stays. For configurations and command arguments.
 */
export function plain(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(plain);
  switch (typeOfObject(value)) {
    case 16:
    case 1:
      return (value as Int32 | Double).valueOf();
    case 18:
      return Number((value as Long).toString());
    case 14:
      return String(value);
    case 3:
      return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, plain(field)]));
    default:
      return value;
  }
}

/** A BSON number as a plain number (Decimal128 and Long are rounded); undefined for anything else. */
export function toNumber(value: unknown): number | undefined {
  switch (typeOf(value)) {
    case 16:
    case 1:
      return Number((value as number | Int32 | Double).valueOf());
    case 18:
      return Number(String(value));
    case 19:
      return Number(String(value));
    default:
      return undefined;
  }
}

/** An integral BSON number as a plain number, undefined when it isn't one. */
export function toInteger(value: unknown): number | undefined {
  const number = toNumber(value);
  return number !== undefined && Number.isInteger(number) ? number : undefined;
}

/** The server's idea of truth: everything but false, null, undefined, missing and zero. */
export function isTruthy(value: unknown): boolean {
  if (value === null || value === undefined || value === false) return false;
  if (typeof value === 'number') return value !== 0;
  return !isNumeric(value) || toNumber(value) !== 0;
}

/**
 * What is serialised at once: an oplog entry with a pre-image or a transaction is longer than any document, and the serialiser
 * cuts silently what doesn't fit into its buffer. The pages are only taken when they are written to.
 */
BSON.setInternalBufferSize(64 * 1024 * 1024);

/** Serialises one document. */
export function encode(document: Document): Uint8Array {
  return BSON.serialize(document, { ignoreUndefined: true });
}

/** Reads one document into the canonical form. */
export function decode(bytes: Uint8Array): Document {
  return canonicalDocument(BSON.deserialize(bytes, BSON_OPTIONS));
}

/** Size of a document in BSON, in bytes. */
export function sizeOf(document: Document): number {
  return BSON.calculateObjectSize(document);
}

/** The value as the server prints it in messages: `{ _id: 1, a: "x" }`. */
export function render(value: unknown): string {
  switch (typeOf(value)) {
    case 1:
      return renderDouble(toNumber(value)!);
    case 2:
      return `"${value as string}"`;
    case 3:
      return renderDocument(value as Document);
    case 4:
      return (value as unknown[]).length === 0 ? '[]' : `[ ${(value as unknown[]).map(render).join(', ')} ]`;
    case 5:
      return renderBinary(value as Binary);
    case 7:
      return `ObjectId('${String(value)}')`;
    case 9:
      return `new Date(${(value as Date).getTime()})`;
    case 11:
      return renderRegex(value);
    case 17:
      return `Timestamp(${(value as Timestamp).t}, ${(value as Timestamp).i})`;
    case -1:
      return 'MinKey';
    case 127:
      return 'MaxKey';
    case 6:
      return 'undefined';
    default:
      return String(value);
  }
}

function renderDocument(document: Document): string {
  const fields = Object.entries(document).map(([name, field]) => `${name}: ${render(field)}`);
  return fields.length === 0 ? '{}' : `{ ${fields.join(', ')} }`;
}

function renderDouble(value: number): string {
  if (Number.isNaN(value)) return 'nan.0';
  if (!Number.isFinite(value)) return value > 0 ? 'inf' : '-inf';
  return Number.isInteger(value) && Math.abs(value) < 1e16 ? value.toFixed(1) : String(value);
}

function renderBinary(value: Binary | Uint8Array): string {
  if (value instanceof Binary && value.sub_type === Binary.SUBTYPE_UUID)
    return `UUID("${value.toUUID().toString()}")`;
  const bytes = value instanceof Binary ? value.value() : value;
  const subtype = value instanceof Binary ? value.sub_type : 0;
  return `BinData(${subtype}, ${Buffer.from(bytes).toString('hex').toUpperCase()})`;
}

function renderRegex(value: unknown): string {
  if (value instanceof RegExp) return `/${value.source}/${value.flags}`;
  const regex = value as BSONRegExp;
  return `/${regex.pattern}/${regex.options}`;
}
