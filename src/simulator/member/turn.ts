import { hash, makeRng } from '../../base/rng.ts';
import type { Millis } from '../../base/units.ts';
import { DEFAULT_SETTINGS, type MemberConfig } from './config.ts';
import { NOWHERE, type Position } from './optime.ts';
import type { LogView, Output, Peer, Refusal, Severity, State, StateName } from './types.ts';

/** A state while one input is worked on: the top level may be assigned, everything below is replaced, never changed. */
export type Draft = { -readonly [K in keyof State]: State[K] };

/** One input's work: the draft of the next state and what is to be done, in order. */
export interface Turn {
  readonly s: Draft;
  readonly now: Millis;
  readonly log: LogView;
  readonly out: Output[];
}

export const emit = (turn: Turn, output: Output): void => {
  turn.out.push(output);
};

/** A log line with one of the server's ids. */
export function note(
  turn: Turn,
  severity: Severity,
  component: string,
  id: number,
  message: string,
  attr?: Readonly<Record<string, unknown>>,
): void {
  turn.out.push({ kind: 'log', severity, component, id, message, ...(attr ? { attr } : {}) });
}

export const refusal = (
  code: number,
  codeName: string,
  message: string,
  extra?: Readonly<Record<string, unknown>>,
): Refusal => ({ code, codeName, message, ...(extra ? { extra } : {}) });

/** Refuses a command. */
export function refuse(turn: Turn, id: number, reason: Refusal): void {
  turn.out.push({ kind: 'answer', id, refusal: reason });
}

/** A command's success. */
export function answer(turn: Turn, id: number, fields?: Readonly<Record<string, unknown>>): void {
  turn.out.push({ kind: 'answer', id, refusal: null, ...(fields ? { fields } : {}) });
}

/** A number in [0, 1) from the member's own seed; equal histories draw equal numbers. */
export function draw(turn: Turn): number {
  turn.s.draws++;
  return makeRng(hash(`${turn.s.seed}/${turn.s.draws}`)).next();
}

export function nextToken(turn: Turn): number {
  return turn.s.nextToken++;
}

/** This member's part of the configuration; null when it is not in it or there is none. */
export const selfConfig = (s: State): MemberConfig | null => s.config?.members[s.self] ?? null;

export const selfId = (s: State): number => selfConfig(s)?.id ?? -1;

/** The name this member has in the configuration, else its own address. */
export const selfHost = (s: State): string => selfConfig(s)?.host ?? s.address;

export const memberById = (s: State, id: number): MemberConfig | undefined =>
  s.config?.members.find((member) => member.id === id);

/** The state this member shows to others. */
export function stateOf(s: State): StateName {
  if (s.config === null) return 'STARTUP';
  const self = selfConfig(s);
  if (self === null) return s.pending?.kind === 'start' ? 'STARTUP' : 'REMOVED';
  if (s.role === 'leader') return 'PRIMARY';
  if (self.arbiterOnly) return 'ARBITER';
  if (s.follower === 'SECONDARY' && (s.maintenance > 0 || isShutOut(s))) return 'RECOVERING';
  return s.follower;
}

/** Every member that answers at all refuses this one's credentials. */
function isShutOut(s: State): boolean {
  let refused = false;
  for (const peer of s.peers) {
    if (peer.up === true) return false;
    if (!peer.authenticated) refused = true;
  }
  return refused;
}

/** Writes are accepted. */
export const isWritable = (s: State): boolean =>
  s.leader !== null && s.leader.mode === 'writable' && s.leader.steppingDown === null;

/** What others may count on: nothing while an initial sync is under way, nothing of an arbiter. */
export function shownPosition(s: State): Position {
  const state = stateOf(s);
  return state === 'STARTUP2' || state === 'ARBITER' || state === 'REMOVED' ? NOWHERE : s.applied;
}

/** Time without a primary after which a member stands for election, jitter not included. */
export function electionTimeout(s: State): Millis {
  const configured = s.config?.settings.electionTimeoutMillis ?? DEFAULT_SETTINGS.electionTimeoutMillis;
  return configured === DEFAULT_SETTINGS.electionTimeoutMillis
    ? (s.clocks.electionTimeoutMillis ?? configured)
    : configured;
}

export function heartbeatInterval(s: State): Millis {
  const configured = s.config?.settings.heartbeatIntervalMillis ?? DEFAULT_SETTINGS.heartbeatIntervalMillis;
  return configured === DEFAULT_SETTINGS.heartbeatIntervalMillis
    ? (s.clocks.heartbeatIntervalMillis ?? configured)
    : configured;
}

export const heartbeatTimeout = (s: State): Millis =>
  1000 * (s.config?.settings.heartbeatTimeoutSecs ?? DEFAULT_SETTINGS.heartbeatTimeoutSecs);

/** What this member knows of another; undefined: nothing, or it is itself. There are few: looking through them is fastest. */
export const peerOf = ({ peers }: Pick<State, 'peers'>, id: number): Peer | undefined =>
  peers.find((peer) => peer.id === id);

export function setPeer(turn: Turn, id: number, change: Partial<Peer>): void {
  const { peers } = turn.s;
  const place = peers.findIndex((peer) => peer.id === id);
  if (place >= 0) turn.s.peers = peers.with(place, { ...(peers[place] as Peer), ...change });
}

/** Moves a follower to another mode and says so. */
export function setFollower(turn: Turn, follower: State['follower']): void {
  if (turn.s.follower === follower) return;
  turn.s.follower = follower;
  showState(turn);
}

/** Tells of a changed state, and moves the topology counter when clients must hear of something. */
export function showState(turn: Turn): void {
  const { s } = turn;
  const state = stateOf(s);
  if (state !== s.shownState) {
    note(turn, 'I', 'REPL', 21358, 'Replica set state transition', {
      newState: state,
      oldState: s.shownState,
    });
    turn.out.push({ kind: 'stateChanged', from: s.shownState, to: state });
    if (state === 'ROLLBACK' || state === 'REMOVED') turn.out.push({ kind: 'closeConnections' });
    s.shownState = state;
  }
  const { config } = s;
  const stepping = s.leader?.steppingDown ? 1 : 0;
  const version = `${config?.version ?? ''}/${config?.term ?? ''}`;
  const shown = `${state}/${isWritable(s)}/${stepping}/${s.primaryId}/${version}/${s.quiescing !== null}`;
  if (shown === s.shown) return;
  s.shown = shown;
  s.topologyCounter++;
  turn.out.push({ kind: 'topology', counter: s.topologyCounter });
}
