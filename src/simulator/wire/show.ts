/** Values as the server prints them in error texts: `{ find: "c", lsid: { id: UUID("…") } }`. */
import { isDocument } from './bson.ts';

/** One value in the server's notation. Fields named in `hidden` print as "xxx", at any depth. */
export function show(value: unknown, hidden: readonly string[] = []): string {
  if (value === null || value === undefined) return 'null';
  if (typeof value === 'string') return JSON.stringify(value);
  if (Array.isArray(value))
    return value.length === 0 ? '[]' : `[ ${value.map((item) => show(item, hidden)).join(', ')} ]`;
  if (value instanceof Date) return `new Date(${value.getTime()})`;
  if (isDocument(value)) return showDocument(value, hidden);
  return showBson(value);
}

function showDocument(document: Record<string, unknown>, hidden: readonly string[]): string {
  const fields = Object.entries(document).map(
    ([key, value]) => `${key}: ${hidden.includes(key) ? '"xxx"' : show(value, hidden)}`,
  );
  return fields.length === 0 ? '{}' : `{ ${fields.join(', ')} }`;
}

function showBson(value: unknown): string {
  const bson = value as { _bsontype?: string; toString(): string };
  switch (bson._bsontype) {
    case 'ObjectId':
      return `ObjectId('${bson.toString()}')`;
    case 'UUID':
      return `UUID("${bson.toString()}")`;
    case 'Binary':
      return showBinary(value as { sub_type: number; toString(encoding: string): string });
    case 'Timestamp': {
      const timestamp = value as { t: number; i: number };
      return `Timestamp(${timestamp.t}, ${timestamp.i})`;
    }
    case 'Double':
      return showDouble((value as { value: number }).value);
    default:
      return bson.toString();
  }
}

const showDouble = (value: number): string => (Number.isInteger(value) ? value.toFixed(1) : String(value));

function showBinary(value: { sub_type: number; toString(encoding: string): string }): string {
  const hex = value.toString('hex');
  if (value.sub_type !== 4 || hex.length !== 32) return `BinData(${value.sub_type}, ${hex.toUpperCase()})`;
  return `UUID("${hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')}")`;
}
