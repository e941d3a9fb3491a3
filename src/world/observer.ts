/** What an agent reads of its member's database: the facts of the true process, as the real observer would word them. */
import { type LagMemory, settleLag } from '../agent/lag.ts';
import { type Millis, SECOND } from '../base/units.ts';
import type {
  DatabaseFacts,
  Login,
  MemberSnapshot,
  MemberStateName,
  PeerFacts,
  ReplSetConfig,
} from '../clusters/index.ts';
import type { ReplicaSetConfig } from '../simulator/member/config.ts';
import type { OpTime } from '../simulator/member/optime.ts';
import { peerOf } from '../simulator/member/turn.ts';
import { STATES } from '../simulator/member/types.ts';
import type { Mongod } from './mongod.ts';

/** What is remembered from look to look, so that the noise of an idle set is no news. */
export type Lags = Map<number, LagMemory>;

/** One look at a process that listens. */
export function readDatabase(
  mongod: Mongod,
  snapshot: MemberSnapshot,
  lags: Lags,
  now: Millis,
): Extract<DatabaseFacts, { kind: 'reachable' }> {
  const { machine, data } = mongod;
  const { config } = machine;
  const usersExist = data.users.size > 0;
  const logins = [snapshot.monitor, ...(snapshot.nextMonitor === null ? [] : [snapshot.nextMonitor])];
  const fits = ({ user, db, password }: Login): boolean =>
    data.users.get(`${db}.${user}`)?.password === password.reveal();
  const authenticated = usersExist ? logins.some(fits) : null;
  const initiated = config !== null;
  const mayRead = authenticated ?? true;
  return {
    kind: 'reachable',
    binaryVersion: mongod.options.version,
    featureCompatibilityVersion: authenticated ? data.fcv : null,
    initiated,
    setName: config?.setName ?? null,
    replicaSetId: authenticated ? (config?.settings.replicaSetId ?? null) : null,
    state: stateFact(mongod, mayRead),
    term: mayRead && initiated ? machine.term : null,
    writablePrimary: mongod.writable,
    primary: primaryHost(mongod),
    peers: mayRead && config !== null ? peers(mongod, config, lags, now) : [],
    config: authenticated && config !== null ? plainConfig(config) : null,
    initialSyncPercent: machine.initialSync === null ? null : 50,
    authenticated,
    usersExist,
  };
}

/** A hello alone cannot tell recovering, syncing or rolling back. */
function stateFact(mongod: Mongod, mayRead: boolean): MemberStateName | null {
  const { state } = mongod;
  if (mayRead || state === 'SECONDARY' || state === 'REMOVED' || state === 'STARTUP') return state;
  return state === 'PRIMARY' && mongod.writable ? state : null;
}

function primaryHost({ machine, host }: Mongod): string | null {
  if (machine.leader !== null) return host;
  return peerOf(machine, machine.primaryId)?.host ?? null;
}

function peers(mongod: Mongod, config: ReplicaSetConfig, lags: Lags, now: Millis): readonly PeerFacts[] {
  const { machine } = mongod;
  const rows = config.members.map((member, index) => {
    if (index === machine.self)
      return { member, state: mongod.state as MemberStateName, healthy: true, op: machine.applied.op };
    const peer = peerOf(machine, member.id);
    const healthy = peer?.up === true;
    const state = healthy ? stateName(peer.state) : peer?.up === false ? 'DOWN' : 'UNKNOWN';
    return { member, state, healthy, op: peer?.position.op ?? null };
  });
  const ahead = rows.find((row) => row.state === 'PRIMARY')?.op ?? null;
  return rows.map(({ member, state, healthy, op }): PeerFacts => {
    const memory = settleLag(lags.get(member.id) ?? { shown: null, doubtSince: null }, lag(ahead, op), now);
    lags.set(member.id, memory);
    return { id: member.id, host: member.host, state, healthy, lagMillis: memory.shown, message: null };
  });
}

const lag = (ahead: OpTime | null, own: OpTime | null): Millis | null =>
  ahead === null || own === null ? null : Math.max(0, ahead.s - own.s) * SECOND;

/** Whether a lag is in doubt, so that the next look comes soon. */
export const inDoubt = (lags: Lags): boolean => [...lags.values()].some((l) => l.doubtSince !== null);

/** All of the set is up and seen, or there is no set yet. */
export function isQuiet(facts: Extract<DatabaseFacts, { kind: 'reachable' }>): boolean {
  if (facts.initiated === false) return true;
  if (facts.authenticated !== true || facts.primary === null) return false;
  return facts.peers.every(({ healthy, state }) => healthy && /^(PRIMARY|SECONDARY|ARBITER)$/.test(state));
}

const NAMES = new Map<number, MemberStateName>(
  Object.entries(STATES).map(([name, number]) => [number, name as MemberStateName]),
);
const stateName = (number: number): MemberStateName => NAMES.get(number) ?? 'UNKNOWN';

// ── configurations ─────────────────────────────────────────────────────────────────────────────────────────────────

const PLAIN = new WeakMap<ReplicaSetConfig, ReplSetConfig>();

/** The configuration as replSetGetConfig gives it, in plain JSON. */
export function plainConfig(config: ReplicaSetConfig): ReplSetConfig {
  const known = PLAIN.get(config);
  if (known !== undefined) return known;
  const { setName, version, term, members, settings } = config;
  const plain: ReplSetConfig = {
    _id: setName,
    version,
    term,
    // The server does not show `newlyAdded`.
    members: members.map(({ id, newlyAdded: _, horizons, votes, tags, ...rest }) => ({
      _id: id,
      ...rest,
      tags,
      votes: votes > 0 ? 1 : 0,
      ...(horizons === null ? {} : { horizons }),
    })),
    ...(config.configsvr ? { configsvr: true } : {}),
    protocolVersion: 1,
    writeConcernMajorityJournalDefault: config.writeConcernMajorityJournalDefault,
    settings: { ...settings, replicaSetId: { $oid: settings.replicaSetId } },
  };
  PLAIN.set(config, plain);
  return plain;
}

/** The other way: what a command carries, as the machine reads it. */
export function machineConfig(config: ReplSetConfig): Readonly<Record<string, unknown>> {
  const { settings } = config;
  if (settings === undefined) return config;
  const id = settings['replicaSetId'] as { readonly $oid?: unknown } | undefined;
  return { ...config, settings: { ...settings, ...(id === undefined ? {} : { replicaSetId: id.$oid }) } };
}

/** Members as two configurations may be compared: what we decide about them. */
export const essence = (config: ReplSetConfig): string =>
  JSON.stringify(
    config.members.map((m) => [
      m._id,
      m.host,
      m.priority,
      m.votes,
      m.hidden ?? false,
      m.secondaryDelaySecs ?? 0,
      m.tags ?? {},
    ]),
  );
