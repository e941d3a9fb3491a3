/**
 * `belay-ready SERVICE_DIR` (or `--member NAME [--data DIR]`): is this member ready (exit 0) or not (exit 1, with the
 * reason)? `--live` asks instead whether its process must be restarted. Rules: percona.md 1.14.
 */
import { readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import type { Document } from 'mongodb';
import { asBelayError, BelayError } from '../base/error.ts';
import { hideSnapshot } from '../channel/index.ts';
import type { MemberStateName } from '../clusters/facts.ts';
import type { MemberSnapshot } from '../clusters/snapshot.ts';
import { readJson } from './files.ts';
import type { ServiceRecord, VolumeRecord } from './inventory.ts';
import { layoutOf, servicePaths } from './layout.ts';
import { OBSERVE_TIMEOUT } from './limits.ts';
import { codeOf, dropClient, endpointOf, listens, openClient } from './mongo.ts';
import { readHello } from './reading.ts';

export interface Verdict {
  readonly ok: boolean;
  readonly reason: string;
}
const yes = (reason: string): Verdict => ({ ok: true, reason });
const no = (reason: string): Verdict => ({ ok: false, reason });

/** Ready are PRIMARY, SECONDARY and ARBITER; before a set was ever initiated there is nothing to be ready for. */
export function judgeReadiness(state: MemberStateName | null, initiatedOnce: boolean): Verdict {
  if (state === 'PRIMARY' || state === 'SECONDARY' || state === 'ARBITER') return yes(state);
  if (!initiatedOnce) return yes('not initiated yet');
  return no(state ?? 'no state');
}

/** Seconds a member without initial sync may stay in a start state, and how many more for each GB of oplog. */
const START_SECONDS = 30;
const START_SECONDS_PER_GB = 60;

/** Whether the process does its work; one that syncs may take as long as it needs. */
export function judgeLiveness(seen: {
  readonly state: MemberStateName | null;
  readonly syncing: boolean;
  readonly uptimeSeconds: number;
  readonly oplogGb: number;
}): Verdict {
  switch (seen.state) {
    case 'PRIMARY':
    case 'SECONDARY':
    case 'ARBITER':
    case 'RECOVERING':
    case 'ROLLBACK':
      return yes(seen.state);
    case 'STARTUP':
    case 'STARTUP2': {
      const limit = START_SECONDS + START_SECONDS_PER_GB * seen.oplogGb;
      if (seen.syncing || seen.uptimeSeconds <= limit) return yes(seen.state);
      return no(`${seen.state} for ${seen.uptimeSeconds} s without an initial sync`);
    }
    default:
      return no(seen.state ?? 'not a member');
  }
}

// ── asking ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** The verdict about the member whose service folder this is. */
export async function checkMember(folder: string, live: boolean): Promise<Verdict> {
  const cached = readJson(servicePaths(folder).snapshot);
  if (cached === null) return yes('no snapshot yet');
  const snapshot = hideSnapshot(cached);
  if (snapshot.run === 'stopped') return yes('stopped as asked');
  const initiated = wasInitiated(folder);
  if (!(await listens(snapshot.port))) return initiated ? no('it does not listen') : yes('not initiated yet');
  try {
    return await (live ? askLiveness(snapshot, initiated) : askReadiness(snapshot, initiated));
  } catch (failure) {
    return initiated ? no(asBelayError(failure).message) : yes('not initiated yet');
  }
}

/** The volume remembers the set its data belongs to. */
function wasInitiated(folder: string): boolean {
  const record = readJson(servicePaths(folder).record) as ServiceRecord | null;
  if (!record) return false;
  const layout = layoutOf(dirname(dirname(folder)));
  const volume = readJson(layout.volume(record.volumeId).owner) as VolumeRecord | null;
  return (volume?.replicaSetId ?? null) !== null;
}

async function askReadiness(snapshot: MemberSnapshot, initiated: boolean): Promise<Verdict> {
  const client = openClient(endpointOf(snapshot), null);
  try {
    const reply = readHello(await client.db('admin').command({ hello: 1 }));
    return judgeReadiness(reply.state, initiated);
  } finally {
    dropClient(client);
  }
}

async function askLiveness(snapshot: MemberSnapshot, initiated: boolean): Promise<Verdict> {
  const client = openClient(endpointOf(snapshot), snapshot.monitor);
  try {
    const status = await client.db('admin').command({ replSetGetStatus: 1 });
    const self = ((status['members'] ?? []) as Document[]).find((member) => member['self'] === true);
    const oplog = await client.db('local').command({ collStats: 'oplog.rs' });
    return judgeLiveness({
      state: (self?.['stateStr'] ?? null) as MemberStateName | null,
      syncing: status['initialSyncStatus'] !== undefined,
      uptimeSeconds: Number(self?.['uptime'] ?? 0),
      oplogGb: Number(oplog['maxSize'] ?? 0) / 2 ** 30,
    });
  } catch (failure) {
    // 93: a removed member must not be restarted for that. Without its users it cannot be asked, which is no illness.
    if ([13, 18, 93, 94].includes(codeOf(failure) ?? 0)) return yes('cannot be asked');
    if (!initiated) return yes('not initiated yet');
    throw failure;
  } finally {
    dropClient(client);
  }
}

// ── command line ───────────────────────────────────────────────────────────────────────────────────────────────────

const DEFAULT_DATA = '/var/lib/belay/agent';

function folderOf(args: readonly string[]): { readonly folder: string; readonly live: boolean } {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: { member: { type: 'string' }, data: { type: 'string' }, live: { type: 'boolean' } },
  });
  const live = values.live === true;
  if (positionals[0] !== undefined) return { folder: positionals[0], live };
  const { services } = layoutOf(values.data ?? DEFAULT_DATA);
  const folder = readdirSync(services)
    .map((id) => join(services, id))
    .find(
      (path) => (readJson(servicePaths(path).record) as ServiceRecord | null)?.owner.member === values.member,
    );
  if (folder !== undefined) return { folder, live };
  throw new BelayError('NotFound', `no member ${values.member ?? ''} in ${services}`, { retry: 'never' });
}

/** Prints the reason and gives the exit code. */
export async function main(args: readonly string[]): Promise<number> {
  try {
    const { folder, live } = folderOf(args);
    const late = new Promise<Verdict>((resolve) => {
      setTimeout(() => resolve(no('no answer in time')), OBSERVE_TIMEOUT).unref();
    });
    const verdict = await Promise.race([checkMember(folder, live), late]);
    process.stdout.write(`${verdict.ok ? 'ready' : 'not ready'}: ${verdict.reason}\n`);
    return verdict.ok ? 0 : 1;
  } catch (failure) {
    process.stderr.write(`${asBelayError(failure).message}\n`);
    return 1;
  }
}

if (process.argv[1] !== undefined && fileURLToPath(import.meta.url) === process.argv[1]) {
  process.exit(await main(process.argv.slice(2)));
}
