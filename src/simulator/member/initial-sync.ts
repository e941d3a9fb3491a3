/** From nothing to a full copy: choose a source, clone, then follow its log to where it was when the copy was complete. */
import { NO_SYNC } from './install.ts';
import { NOWHERE, type OpTime, type Position } from './optime.ts';
import { chooseSource, DENY_MILLIS, dropSource, setSource } from './source.ts';
import { emit, nextToken, note, type Turn } from './turn.ts';

const MAX_INITIAL_SYNC_ATTEMPTS = 10;
const INITIAL_SYNC_RETRY = 1_000;

export function initialSync(turn: Turn): void {
  const { s, now } = turn;
  const current = s.initialSync!;
  if (current.phase !== 'choosing' || now < current.retryAt) return;
  const peer = chooseSource(turn);
  if (peer === null) return;
  const token = nextToken(turn);
  note(turn, 'I', 'INITSYNC', 21164, 'Starting initial sync attempt', {
    initialSyncAttempt: current.attempt,
    initialSyncMaxAttempts: MAX_INITIAL_SYNC_ATTEMPTS,
    syncSource: peer.host,
  });
  s.initialSync = { ...current, phase: 'cloning', token, source: peer.host };
  setSource(turn, peer, `syncing from: ${peer.host}`);
  emit(turn, { kind: 'leftPrimary', reason: 'initialSync' });
  emit(turn, { kind: 'clone', token, from: peer.host, attempt: current.attempt });
}

/** Data are there as they were at `begin`; the log follows up to `stopAt`. */
export function onCloned(
  turn: Turn,
  token: number,
  begin: Position,
  stopAt: OpTime,
  sourceRbid: number,
): void {
  const { s } = turn;
  if (s.initialSync === null || s.initialSync.token !== token) return;
  s.applied = begin;
  s.initialSync = { ...s.initialSync, phase: 'applying', token: null, stopAt, sourceRbid };
}

export function onCloneFailed(turn: Turn, token: number, message: string): void {
  if (turn.s.initialSync?.token === token) failInitialSync(turn, message);
}

export function failInitialSync(turn: Turn, message: string) {
  const { s, now } = turn;
  const current = s.initialSync!;
  note(turn, 'E', 'INITSYNC', 21200, 'Initial sync attempt failed', {
    attempt: current.attempt,
    error: message,
  });
  if (current.attempt >= MAX_INITIAL_SYNC_ATTEMPTS) {
    return emit(turn, {
      kind: 'fatal',
      message: 'The maximum number of initial sync attempts has been exhausted',
    });
  }
  dropSource(turn, message, DENY_MILLIS);
  s.applied = NOWHERE;
  s.initialSync = {
    ...current,
    phase: 'choosing',
    token: null,
    source: null,
    attempt: current.attempt + 1,
    retryAt: now + INITIAL_SYNC_RETRY,
    stopAt: null,
  };
}

export function restartInitialSync(turn: Turn): void {
  const { s } = turn;
  emit(turn, { kind: 'abortClone' });
  s.applied = NOWHERE;
  s.initialSync = {
    ...s.initialSync!,
    phase: 'choosing',
    token: null,
    source: null,
    retryAt: turn.now,
    stopAt: null,
  };
  s.sync = { ...NO_SYNC, forced: s.sync.forced, applying: s.sync.applying };
}
