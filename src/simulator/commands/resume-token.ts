/**
 * Resume tokens of change streams. Like the server's they are hex texts that start with `82` and the cluster time, and order
 * like the events they stand for: time, place inside a transaction, invalidation, fragment.
 */
import type { Document } from 'bson';
import { Timestamp } from 'bson';
import { isDocument, typeName } from './arguments.ts';
import { fail } from './errors.ts';

/** A place in a change stream. */
export interface Position {
  readonly ts: Timestamp;
  /** Number of the event among those of one oplog entry. */
  readonly index: number;
  /** `mark`: everything before this time was seen. `event`: this event was seen. */
  readonly kind: 'mark' | 'event';
  /** The place after an event that ended its stream. */
  readonly invalidate: boolean;
  /** Fragments of a split event that were seen; 0 for a whole one. */
  readonly fragment: number;
}

const PATTERN = /^82([0-9A-F]{16})2B([0-9A-F]{8})29(00|80)6E(00|01)46([0-9A-F]{4})04$/;

const hex = (value: number, digits: number): string => value.toString(16).toUpperCase().padStart(digits, '0');

/** The token of a place. */
export function encodeToken(position: Position): Document {
  const { ts, index, kind, invalidate, fragment } = position;
  const type = kind === 'event' ? '80' : '00';
  return {
    _data: `82${hex(ts.t, 8)}${hex(ts.i, 8)}2B${hex(index, 8)}29${type}6E0${invalidate ? 1 : 0}46${hex(fragment, 4)}04`,
  };
}

/** The place of a client's token; 14, 40647 or 260 for anything else. */
export function decodeToken(option: string, token: unknown): Position {
  if (!isDocument(token)) {
    throw fail(
      14,
      `BSON field '$changeStream.${option}' is the wrong type '${typeName(token)}', expected type 'object'`,
    );
  }
  const data: unknown = token['_data'];
  if (typeof data !== 'string') {
    throw fail(40647, `Bad resume token: _data of missing or of wrong type. Token: ${JSON.stringify(token)}`);
  }
  const parts = PATTERN.exec(data.toUpperCase());
  if (parts === null) throw fail(260, `Invalid resume token: ${data}`);
  const [, time, index, kind, invalidate, fragment] = parts as unknown as [
    string,
    string,
    string,
    string,
    string,
    string,
  ];
  return {
    ts: new Timestamp({ t: Number.parseInt(time.slice(0, 8), 16), i: Number.parseInt(time.slice(8), 16) }),
    index: Number.parseInt(index, 16),
    kind: kind === '80' ? 'event' : 'mark',
    invalidate: invalidate === '01',
    fragment: Number.parseInt(fragment, 16),
  };
}

/** A mark: all events before this time were seen, none at it. */
export function mark(ts: Timestamp): Position {
  return { ts, index: 0, kind: 'mark', invalidate: false, fragment: 0 };
}
