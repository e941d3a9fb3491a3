/** Reconfiguration and step-down: effects on a set that answers may get lost of. */
import { isDeepStrictEqual } from 'node:util';

import { BSON, type Db, type Document } from 'mongodb';
import type { ReplSetConfig } from '../../clusters/facts.ts';
import type { CommandOutcome, MemberCommand } from '../../clusters/snapshot.ts';
import { codeOf, mayHaveHappened, refusal } from '../mongo.ts';
import { admin, type CommandContext, done, hello } from './context.ts';

type Of<K extends MemberCommand['kind']> = Extract<MemberCommand, { kind: K }>;

/** Driver documents as plain JSON data; ids and dates stay distinguishable (`{$oid}`), so that a config can go back. */
export const plain = <T>(document: Document): T => BSON.EJSON.serialize(document, { relaxed: true }) as T;

/**
 * Installs this very configuration. One that is installed already is done; after a lost or partial answer the stored one
 * decides (a reconfig that "failed to propagate" is installed).
 */
export async function reconfig(context: CommandContext, command: Of<'reconfig'>): Promise<CommandOutcome> {
  const db = admin(context, command.as);
  if (await installed(db, command.config)) return done({ already: true });
  context.signal.throwIfAborted();
  const wanted = BSON.EJSON.deserialize(command.config as Document) as Document;
  try {
    await db.command({ replSetReconfig: wanted, maxTimeMS: command.maxTimeMillis });
    return done({ version: command.config.version });
  } catch (failure) {
    const partly = /failed to propagate/.test(refusal(failure).message);
    if (!partly && !mayHaveHappened(failure)) return refusal(failure);
    try {
      if (await installed(admin(context, command.as), command.config))
        return done({ version: command.config.version });
    } catch {
      // Not answering now; what happened will show later.
    }
    return { kind: 'unknown', message: refusal(failure).message };
  }
}

async function installed(db: Db, wanted: ReplSetConfig): Promise<boolean> {
  const reply = await db.command({ replSetGetConfig: 1 });
  const config = plain<ReplSetConfig>(reply['config'] as Document);
  return config.version === wanted.version && isDeepStrictEqual(essence(config), essence(wanted));
}

/** What we decide about members; the server adds defaults and its own counters to the rest. */
const essence = (config: ReplSetConfig): unknown =>
  config.members.map((member) => ({
    _id: member._id,
    host: member.host,
    priority: member.priority,
    votes: member.votes,
    hidden: member.hidden ?? false,
    secondaryDelaySecs: member.secondaryDelaySecs ?? 0,
    tags: member.tags ?? {},
  }));

/** Hands the primary over. A member that is no primary (any more) is done. Never forced: smart never becomes force (S13). */
export async function stepDown(context: CommandContext, command: Of<'stepDown'>): Promise<CommandOutcome> {
  if ((await hello(context))['isWritablePrimary'] !== true) return done({ already: true });
  try {
    await admin(context, command.as).command({
      replSetStepDown: command.forSeconds,
      secondaryCatchUpPeriodSecs: command.catchUpSeconds,
    });
    return done({});
  } catch (failure) {
    if (codeOf(failure) === 10107) return done({ already: true });
    if (!mayHaveHappened(failure)) return refusal(failure);
    try {
      if ((await hello(context))['isWritablePrimary'] !== true) return done({});
    } catch {
      // Not answering now; what happened will show later.
    }
    return { kind: 'unknown', message: refusal(failure).message };
  }
}
