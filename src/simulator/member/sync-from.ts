import { isVoter } from './config.ts';
import { restartInitialSync } from './initial-sync.ts';
import { answer, peerOf, refusal, refuse, selfConfig, selfHost, stateOf, type Turn } from './turn.ts';

/** replSetSyncFrom. */
export function syncFrom(turn: Turn, id: number, host: string) {
  const { s } = turn;
  const state = stateOf(s);
  const notSecondary = (message: string): void => refuse(turn, id, refusal(95, 'NotSecondary', message));
  const invalid = (message: string): void => refuse(turn, id, refusal(72, 'InvalidOptions', message));
  const member = s.config?.members.find((candidate) => candidate.host === host);
  if (state === 'ARBITER') return notSecondary("arbiters don't sync");
  if (state === 'PRIMARY') return notSecondary("primaries don't sync");
  if (state === 'REMOVED' || state === 'STARTUP') {
    return notSecondary('Removed and uninitialized nodes do not sync');
  }
  if (host === selfHost(s)) return invalid('I cannot sync from myself');
  if (!member) {
    return refuse(turn, id, refusal(74, 'NodeNotFound', `Could not find member "${host}" in replica set`));
  }
  if (member.arbiterOnly) return invalid(`Cannot sync from "${host}" because it is an arbiter`);
  if (!member.buildIndexes && selfConfig(s)?.buildIndexes) {
    return invalid(`Cannot sync from "${host}" because it does not build indexes`);
  }
  if (isVoter(selfConfig(s)!) && !isVoter(member)) {
    return invalid(`Cannot sync from "${host}" because it is not a voter`);
  }
  const peer = peerOf(s, member.id);
  if (peer && !peer.authenticated) {
    return refuse(turn, id, refusal(13, 'Unauthorized', `not authorized to communicate with ${host}`));
  }
  if (peer?.up !== true) {
    return refuse(turn, id, refusal(6, 'HostUnreachable', `I cannot reach the requested member: ${host}`));
  }
  const behind = (s.applied.op?.s ?? 0) - (peer.position.op?.s ?? 0);
  const warning =
    behind > 10 ? { warning: `requested member "${host}" is more than 10 seconds behind us` } : {};
  const previous = s.sync.source === null ? {} : { prevSyncTarget: s.sync.source };
  s.sync = { ...s.sync, forced: host, retryAt: turn.now };
  if (s.initialSync !== null) restartInitialSync(turn);
  answer(turn, id, { syncFromRequested: host, ...previous, ...warning });
}
