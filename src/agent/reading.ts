/** From the server's replies to facts. Pure. */
import type { Document } from 'mongodb';
import type { Millis } from '../base/units.ts';
import type { MemberStateName, PeerFacts, ReplSetConfig } from '../clusters/facts.ts';

const STATES: readonly (MemberStateName | undefined)[] = [
  'STARTUP',
  'PRIMARY',
  'SECONDARY',
  'RECOVERING',
  undefined,
  'STARTUP2',
  'UNKNOWN',
  'ARBITER',
  'DOWN',
  'ROLLBACK',
  'REMOVED',
];

/** What a hello says of the member; `state` null: one that only the status can tell (recovering, syncing, rolling back). */
export interface HelloReading {
  readonly initiated: boolean | null;
  readonly setName: string | null;
  readonly state: MemberStateName | null;
  readonly writablePrimary: boolean;
  readonly primary: string | null;
  readonly setVersion: number | null;
}

/** A standalone answers without any replica-set part: `initiated` null. A removed member names its set but lists no hosts. */
export function readHello(reply: Document): HelloReading {
  const setName = textOf(reply['setName']);
  return {
    initiated: setName !== null ? true : reply['isreplicaset'] === true ? false : null,
    setName,
    state: stateFromHello(reply, setName),
    writablePrimary: reply['isWritablePrimary'] === true,
    primary: textOf(reply['primary']),
    setVersion: typeof reply['setVersion'] === 'number' ? reply['setVersion'] : null,
  };
}

function stateFromHello(reply: Document, setName: string | null): MemberStateName | null {
  if (setName === null) return reply['isreplicaset'] === true ? 'STARTUP' : null;
  if (reply['arbiterOnly'] === true) return 'ARBITER';
  if (reply['isWritablePrimary'] === true) return 'PRIMARY';
  if (reply['secondary'] === true) return 'SECONDARY';
  return Array.isArray(reply['hosts']) ? null : 'REMOVED';
}

export interface StatusReading {
  readonly state: MemberStateName | null;
  readonly term: number | null;
  readonly peers: readonly PeerFacts[];
  readonly initialSyncPercent: number | null;
  readonly configVersion: number | null;
  /** Time of its newest write, while it sees no primary. */
  readonly lastAppliedAt: Millis | null;
}

export function readStatus(reply: Document): StatusReading {
  const members = Array.isArray(reply['members']) ? (reply['members'] as Document[]) : [];
  const primary = members.find((member) => member['state'] === 1);
  const ahead = primary ? optimeMillis(primary) : null;
  const self = members.find((member) => member['self'] === true);
  return {
    state: STATES[Number(reply['myState'])] ?? null,
    term: typeof reply['term'] === 'number' ? reply['term'] : null,
    peers: members.map((member) => readPeer(member, ahead)),
    initialSyncPercent: percentOf(reply['initialSyncStatus']),
    configVersion: typeof self?.['configVersion'] === 'number' ? self['configVersion'] : null,
    lastAppliedAt: primary === undefined && self !== undefined ? optimeMillis(self) : null,
  };
}

function readPeer(member: Document, ahead: Millis | null): PeerFacts {
  const own = optimeMillis(member);
  const message = textOf(member['lastHeartbeatMessage']) || textOf(member['infoMessage']) || null;
  return {
    id: Number(member['_id']),
    host: String(member['name']),
    state: STATES[Number(member['state'])] ?? 'UNKNOWN',
    healthy: member['health'] === 1,
    lagMillis: ahead === null || own === null ? null : wholeSeconds(Math.max(0, ahead - own)),
    message,
  };
}

/** Null for a member whose optime is not known: epoch dates would be a lag of fifty years. */
function optimeMillis(member: Document): Millis | null {
  const date = member['optimeDate'];
  const millis = date instanceof Date ? date.getTime() : 0;
  return millis > 0 ? millis : null;
}

const wholeSeconds = (millis: Millis): Millis => Math.floor(millis / 1_000) * 1_000;

function percentOf(status: unknown): number | null {
  if (typeof status !== 'object' || status === null) return null;
  const { approxTotalDataSize: total, approxTotalBytesCopied: copied } = status as Document;
  if (typeof total !== 'number' || typeof copied !== 'number' || total <= 0) return 0;
  return Math.min(100, Math.floor((copied / total) * 100));
}

const textOf = (value: unknown): string | null => (typeof value === 'string' && value !== '' ? value : null);

/** Id of the set, as hex, from a configuration in plain form. */
export function replicaSetIdOf(config: ReplSetConfig): string | null {
  const id = config.settings?.['replicaSetId'] as { $oid?: unknown } | undefined;
  return typeof id?.$oid === 'string' ? id.$oid : null;
}
