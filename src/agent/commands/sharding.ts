/** Commands that only a router knows. */
import type { CommandOutcome, MemberCommand } from '../../clusters/snapshot.ts';
import { mayHaveHappened, refusal } from '../mongo.ts';
import { type Ask, readAutoMerge, writeAutoMerge } from '../router.ts';
import { admin, type CommandContext, done } from './context.ts';

type Of<K extends MemberCommand['kind']> = Extract<MemberCommand, { kind: K }>;

/** Registers a set as a shard under its own name. The server answers the same for one that is registered already. */
export async function addShard(context: CommandContext, command: Of<'addShard'>): Promise<CommandOutcome> {
  const db = admin(context, command.as);
  const name = command.shard.split('/')[0] as string;
  const listed = await db.command({ listShards: 1 });
  const shards = (listed['shards'] ?? []) as readonly { readonly _id?: string }[];
  if (shards.some((shard) => shard._id === name)) return done({ already: true });
  context.signal.throwIfAborted();
  try {
    await db.command({ addShard: command.shard, name });
    return done({ shard: name });
  } catch (failure) {
    const refused = refusal(failure);
    return mayHaveHappened(failure) ? { kind: 'unknown', message: refused.message } : refused;
  }
}

/**
 * Turns the balancer on or off and says what it was; off ends when the migration under way has ended, or the time is up. From
 * 7.0 on the server switches the AutoMerger along: what that was is told too, and it is put back where that is asked for.
 */
export async function setBalancer(
  context: CommandContext,
  command: Of<'setBalancer'>,
): Promise<CommandOutcome> {
  const db = admin(context, command.as);
  const ask: Ask = (name, asked) => db.client.db(name).command(asked);
  const wasEnabled = (await db.command({ balancerStatus: 1 }))['mode'] !== 'off';
  const autoMergeWas = await readAutoMerge(ask);
  context.signal.throwIfAborted();
  try {
    if (command.enabled) await db.command({ balancerStart: 1 });
    else await db.command({ balancerStop: 1, maxTimeMS: command.maxTimeMillis });
    if (command.autoMerge !== undefined) await writeAutoMerge(ask, command.autoMerge);
    return done({ wasEnabled, ...(autoMergeWas === undefined ? {} : { autoMergeWas }) });
  } catch (failure) {
    const refused = refusal(failure);
    return mayHaveHappened(failure) ? { kind: 'unknown', message: refused.message } : refused;
  }
}
