/** The replica-set part of `hello` and `isMaster`, in the server's field order. */
import { type Document, Int32, type Long, ObjectId } from 'bson';
import type { Millis } from '../../base/units.ts';
import { ServerError } from '../contracts.ts';
import { type MemberConfig, priorityOf, type ReplicaSetConfig } from '../member/config.ts';
import { isWritable, memberById, selfConfig, stateOf } from '../member/turn.ts';
import type { State } from '../member/types.ts';
import { long, toBson } from './values.ts';

export interface HelloInput {
  readonly state: State;
  readonly processId: ObjectId;
  readonly now: Millis;
  readonly legacyNames: boolean;
  readonly sni: string | undefined;
}

export const topologyVersion = (
  state: State,
  processId: ObjectId,
): { processId: ObjectId; counter: Long } => ({
  processId,
  counter: long(state.topologyCounter),
});

/** `7fffffff` and the term: grows with every election, also across members. */
export function electionIdOf(state: State): ObjectId | null {
  if (state.leader === null) return null;
  return ObjectId.createFromHexString(`7fffffff${state.leader.term.toString(16).padStart(16, '0')}`);
}

/** The name of the horizon a client reached this member by (its TLS server name), null for the plain names. */
function horizonOf(config: ReplicaSetConfig, state: State, sni: string | undefined): string | null {
  if (sni === undefined) return null;
  const horizons = selfConfig(state)?.horizons ?? config.members[0]?.horizons ?? {};
  const found = Object.entries(horizons).find(([, host]) => host.replace(/:\d+$/, '') === sni);
  return found?.[0] ?? null;
}

const isPassive = (member: MemberConfig): boolean => priorityOf(member) === 0 && !member.arbiterOnly;
const isListed = (member: MemberConfig): boolean => !member.hidden && member.secondaryDelaySecs === 0;

function listFields(config: ReplicaSetConfig, nameOf: (member: MemberConfig) => string): Document {
  const listed = config.members.filter(isListed);
  const passives = listed.filter(isPassive).map(nameOf);
  const arbiters = listed.filter((member) => member.arbiterOnly).map(nameOf);
  const hosts = listed.filter((member) => !isPassive(member) && !member.arbiterOnly).map(nameOf);
  return {
    hosts,
    ...(passives.length > 0 ? { passives } : {}),
    ...(arbiters.length > 0 ? { arbiters } : {}),
  };
}

function selfFields(self: MemberConfig, legacyNames: boolean): Document {
  const delay = legacyNames ? 'slaveDelay' : 'secondaryDelaySecs';
  return {
    ...(self.arbiterOnly ? { arbiterOnly: true } : {}),
    ...(isPassive(self) ? { passive: true } : {}),
    ...(self.hidden ? { hidden: true } : {}),
    ...(self.buildIndexes ? {} : { buildIndexes: false }),
    ...(self.secondaryDelaySecs > 0
      ? { [delay]: legacyNames ? new Int32(self.secondaryDelaySecs) : long(self.secondaryDelaySecs) }
      : {}),
    ...(Object.keys(self.tags).length > 0 ? { tags: { ...self.tags } } : {}),
  };
}

function lastWrite(state: State): Document {
  const { applied, committed } = state;
  const date = (wall: Millis, op: { readonly s: number } | null): Date =>
    new Date(wall || (op?.s ?? 0) * 1000);
  return {
    opTime: toBson(applied.op),
    lastWriteDate: new Date((applied.op?.s ?? 0) * 1000),
    ...(committed.op === null
      ? {}
      : {
          majorityOpTime: toBson(committed.op),
          majorityWriteDate: date(committed.op.s * 1000, committed.op),
        }),
  };
}

/** Throws 91 with the time left while the member quiesces. */
export function helloFields({ state, processId, now, legacyNames, sni }: HelloInput): Document {
  const version = topologyVersion(state, processId);
  const writable = legacyNames ? 'ismaster' : 'isWritablePrimary';
  if (state.quiescing !== null) {
    throw new ServerError(91, 'ShutdownInProgress', 'The server is in quiesce mode and will shut down', {
      topologyVersion: version,
      remainingQuiesceTimeMillis: long(Math.max(0, state.quiescing.until - now)),
    });
  }
  const { config } = state;
  const self = selfConfig(state);
  if (config === null || self === null) {
    const removed = config !== null && state.pending?.kind !== 'start';
    return {
      topologyVersion: version,
      ...(removed ? { setName: config.setName } : {}),
      [writable]: false,
      secondary: false,
      info: 'Does not have a valid replica set config',
      isreplicaset: true,
    };
  }
  const horizon = horizonOf(config, state, sni);
  const nameOf = (member: MemberConfig): string =>
    horizon === null ? member.host : (member.horizons?.[horizon] ?? member.host);
  const shown = stateOf(state);
  const isPrimary = isWritable(state);
  const primary = memberById(state, state.primaryId);
  const election = electionIdOf(state);
  const draining = shown === 'PRIMARY' && state.leader?.mode !== 'writable';
  return {
    topologyVersion: version,
    ...listFields(config, nameOf),
    setName: config.setName,
    setVersion: new Int32(config.version),
    [writable]: isPrimary,
    secondary: shown === 'SECONDARY' || draining,
    ...(primary ? { primary: nameOf(primary) } : {}),
    ...selfFields(self, legacyNames),
    me: nameOf(self),
    ...(election !== null && isPrimary ? { electionId: election } : {}),
    lastWrite: lastWrite(state),
  };
}
