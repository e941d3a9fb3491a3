import { setTimeout as pause } from 'node:timers/promises';
import { ObjectId } from 'bson';
import type { Millis } from '../../base/units.ts';
import type { ReplicaSetConfig } from '../member/config.ts';
import { PeerError, PeerUnreachable } from './peer-connection.ts';
import type { PeerPool } from './peer-pool.ts';

const CALL_TIMEOUT: Millis = 5_000;
/** A name that cannot be resolved or reached may become reachable; the server tries this long. */
const PATIENCE: Millis = 30_000;
const RETRY: Millis = 1_000;

interface Search {
  readonly config: ReplicaSetConfig;
  readonly address: string;
  readonly instanceId: ObjectId;
  readonly pool: PeerPool;
  readonly signal: AbortSignal;
}

/**
 * Indexes of the members that are this process: by the own address, else by asking each host for its instance id. Hosts
 * that refuse connections are surely somebody else, since this process listens; unclear ones are asked again for a while.
 */
export async function findSelf(search: Search): Promise<readonly number[]> {
  const { config, address, signal } = search;
  const direct = config.members.flatMap((member, index) => (member.host === address ? [index] : []));
  if (direct.length > 0) return direct;
  for (let waited = 0; ; waited += RETRY) {
    const answers = await Promise.all(config.members.map((member) => ask(search, member.host)));
    const indexes = answers.flatMap((answer, index) => (answer === 'self' ? [index] : []));
    const unclear = answers.some((answer) => answer === 'unclear');
    if (indexes.length > 0 || !unclear || waited >= PATIENCE || signal.aborted) return indexes;
    await pause(RETRY, undefined, { signal }).catch(() => {});
  }
}

async function ask({ pool, instanceId }: Search, host: string): Promise<'self' | 'other' | 'unclear'> {
  try {
    const reply = await pool.call(host, 'admin', { _isSelf: 1 }, CALL_TIMEOUT);
    return reply['id'] instanceof ObjectId && reply['id'].equals(instanceId) ? 'self' : 'other';
  } catch (failure) {
    if (failure instanceof PeerError) return 'other';
    return failure instanceof PeerUnreachable && failure.definite ? 'other' : 'unclear';
  }
}
