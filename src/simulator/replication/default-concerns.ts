/** Cluster-wide default read and write concern: kept in `config.settings`, so every member has it. */
import { type Document, Int32, type Timestamp } from 'bson';
import type { DataStore, Stamp, WriteConcern } from '../contracts.ts';
import { ServerError } from '../contracts.ts';
import { implicitMajority } from '../member/config.ts';
import type { State } from '../member/types.ts';
import { numberOf, plain } from './values.ts';

const NS = 'config.settings';
const ID = 'ReadWriteConcernDefaults';

/** The stored document, if there ever was a setDefaultRWConcern. */
export function storedDefaults(data: DataStore): Document | undefined {
  return data.find(NS, { filter: { _id: ID }, limit: 1 })[0];
}

/** A default write concern was set by somebody. */
export const hasExplicitDefault = (data: DataStore): boolean =>
  storedDefaults(data)?.['defaultWriteConcern'] !== undefined;

/** The write concern of commands that give none. */
export function defaultWriteConcern(data: DataStore, state: State): WriteConcern {
  const stored = storedDefaults(data)?.['defaultWriteConcern'] as Document | undefined;
  if (stored === undefined) {
    return state.config !== null && implicitMajority(state.config) ? { w: 'majority' } : { w: 1 };
  }
  const wtimeout = numberOf(stored['wtimeout']) ?? 0;
  return {
    w: plain(stored['w']) as number | string,
    ...(stored['j'] === undefined ? {} : { j: stored['j'] === true }),
    ...(wtimeout > 0 ? { wtimeout } : {}),
  };
}

/** The reply of getDefaultRWConcern and setDefaultRWConcern. */
export function describeDefaults(data: DataStore, state: State, now: Date): Document {
  const stored = storedDefaults(data);
  const write = stored?.['defaultWriteConcern'] as Document | undefined;
  const read = stored?.['defaultReadConcern'] as Document | undefined;
  const implicit = state.config !== null && implicitMajority(state.config) ? 'majority' : new Int32(1);
  return {
    defaultReadConcern: read ?? { level: 'local' },
    defaultWriteConcern: write ?? { w: implicit, wtimeout: new Int32(0) },
    ...(stored
      ? { updateOpTime: stored['updateOpTime'], updateWallClockTime: stored['updateWallClockTime'] }
      : {}),
    defaultWriteConcernSource: write ? 'global' : 'implicit',
    defaultReadConcernSource: read ? 'global' : 'implicit',
    localUpdateWallClockTime: now,
  };
}

const READ_LEVELS = new Set(['local', 'available', 'majority']);

function assertWrite(write: Document, existing: Document | undefined, modes: readonly string[]): void {
  const bad = (message: string): never => {
    throw new ServerError(2, 'BadValue', message);
  };
  if (Object.keys(write).length === 0) {
    if (existing?.['defaultWriteConcern'] !== undefined) {
      throw new ServerError(
        20,
        'IllegalOperation',
        'The global default write concern cannot be unset once it is set.',
      );
    }
    return;
  }
  const w = plain(write['w']);
  if (w === undefined) bad('A default write concern must specify a w field');
  if (typeof w === 'string' && w !== 'majority' && !modes.includes(w)) {
    const text = `No write concern mode named '${w}' found in replica set configuration`;
    throw new ServerError(79, 'UnknownReplWriteConcern', text);
  }
  if (typeof w === 'number' && w < 1) bad(`"writeConcern" with w:0 can not be set as the default`);
}

/** Names of the write concern modes of the configuration. */
export const modesOf = (state: State): readonly string[] =>
  Object.keys(state.config?.settings.getLastErrorModes ?? {});

/** Stores new defaults. Throws 2 for concerns that cannot be a default, 79 for unknown modes, 20 for unsetting a write concern. */
export function storeDefaults(
  data: DataStore,
  concerns: { readonly write?: Document; readonly read?: Document },
  context: {
    readonly stamp: Stamp;
    readonly now: Date;
    readonly clusterTime: Timestamp;
    readonly modes: readonly string[];
  },
): void {
  const existing = storedDefaults(data);
  const { write, read } = concerns;
  if (write === undefined && read === undefined) {
    throw new ServerError(
      2,
      'BadValue',
      'At least one of the "defaultReadConcern" or "defaultWriteConcern" fields must be present',
    );
  }
  if (write !== undefined) assertWrite(write, existing, context.modes);
  const level = read?.['level'];
  if (level !== undefined && !READ_LEVELS.has(String(level))) {
    throw new ServerError(2, 'BadValue', `level: "${level}" is not suitable for the default read concern`);
  }
  const chosenWrite =
    write === undefined || Object.keys(write).length === 0
      ? existing?.['defaultWriteConcern']
      : {
          w: write['w'],
          ...(write['j'] === undefined ? {} : { j: write['j'] }),
          wtimeout: new Int32(numberOf(write['wtimeout']) ?? 0),
        };
  const chosenRead =
    read === undefined ? existing?.['defaultReadConcern'] : Object.keys(read).length === 0 ? undefined : read;
  const document: Document = {
    _id: ID,
    ...(chosenRead === undefined ? {} : { defaultReadConcern: chosenRead }),
    ...(chosenWrite === undefined ? {} : { defaultWriteConcern: chosenWrite }),
    updateOpTime: context.clusterTime,
    updateWallClockTime: context.now,
  };
  data.update(
    NS,
    { filter: { _id: ID }, update: document, multi: false, upsert: true },
    { stamp: context.stamp, wall: context.now },
  );
}
