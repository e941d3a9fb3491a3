/** Being a sync source: fetches of others are held open until there is something for them. */

import type { SyncMetadata } from './messages.ts';
import { compareOpTimes, sameOpTime } from './optime.ts';
import { emit, selfId, stateOf, type Turn } from './turn.ts';
import type { State } from './types.ts';

/** What this member says of itself with every batch it serves. */
export const syncMetadata = (s: State): SyncMetadata => ({
  term: s.term,
  primaryId: s.primaryId,
  selfId: selfId(s),
  committed: s.committed.op,
  committedWall: s.committed.wall,
  lastApplied: s.applied.op,
  rbid: s.rbid,
  syncSource: s.sync.source ?? '',
  configVersion: s.config?.version ?? -2,
});

/** Answers fetches that have waited long enough or for which there is news. */
export function servePollers(turn: Turn) {
  const { s, now } = turn;
  if (s.pollers.length === 0) return;
  const state = stateOf(s);
  const canServe = state === 'PRIMARY' || state === 'SECONDARY';
  const left = s.pollers.filter((poller) => {
    const { request, id, deadline } = poller;
    if (!canServe) {
      const message = `not primary or secondary; cannot currently read from this replSet member`;
      const reply = {
        kind: 'failed',
        code: 13436,
        codeName: 'NotPrimaryOrSecondary',
        message,
        network: false,
      } as const;
      emit(turn, { kind: 'answerPeer', id, reply });
      return false;
    }
    const newPrimary =
      s.primaryId >= 0 && s.primaryId !== request.knownPrimary && s.primaryId !== request.fromId;
    const news =
      !sameOpTime(request.after, s.applied.op) ||
      compareOpTimes(s.committed.op, request.knownCommitted) > 0 ||
      newPrimary ||
      request.term !== s.term;
    if (!news && now < deadline) return true;
    emit(turn, { kind: 'serveLog', id, after: request.after, metadata: syncMetadata(s) });
    return false;
  });
  if (left.length !== s.pollers.length) s.pollers = left;
}
