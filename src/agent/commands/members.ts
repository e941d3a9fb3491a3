/** Reconfiguration and step-down: effects on a set that answers may get lost of. */
import { isDeepStrictEqual } from 'node:util';

import { BSON, type Db, type Document } from 'mongodb';
import type { ReplSetConfig } from '../../clusters/facts.ts';
import type { CommandOutcome, MemberCommand } from '../../clusters/snapshot.ts';
import { codeOf, mayHaveHappened, refusal } from '../mongo.ts';
import { admin, type CommandContext, done, hello, unless } from './context.ts';
import { whenStale } from './refusals.ts';

type Of<K extends MemberCommand['kind']> = Extract<MemberCommand, { kind: K }>;

/** Driver documents as plain JSON data; ids and dates stay distinguishable (`{$oid}`), so that a config can go back. */
export const plain = <T>(document: Document): T => BSON.EJSON.serialize(document, { relaxed: true }) as T;

/**
 * Installs this very configuration. One that is installed already is done; after a lost or partial answer the stored one
 * decides (a reconfig that "failed to propagate" is installed). Brings back the term the server gave it: a new primary writes
 * the configuration it had under its own.
 */
export async function reconfig(context: CommandContext, command: Of<'reconfig'>): Promise<CommandOutcome> {
  const stored = (): Promise<ReplSetConfig | null> =>
    installed(admin(context, command.as), command.config, command.force === true);
  const before = await stored();
  if (before !== null) return done({ already: true, ...termOf(before) });
  context.signal.throwIfAborted();
  const wanted = BSON.EJSON.deserialize(command.config as Document) as Document;
  const { version } = command.config;
  try {
    const force = command.force === true ? { force: true } : {};
    await admin(context, command.as).command({
      replSetReconfig: wanted,
      ...force,
      maxTimeMS: command.maxTimeMillis,
    });
  } catch (failure) {
    const partly = /failed to propagate/.test(refusal(failure).message);
    if (!partly && !mayHaveHappened(failure)) return whenStale(refusal(failure));
    // Where it does not answer now, what happened will show later.
    const after = await stored().catch(() => null);
    return after === null
      ? { kind: 'unknown', message: refusal(failure).message }
      : done({ version, ...termOf(after) });
  }
  return done({ version, ...termOf(await stored().catch(() => null)) });
}

const termOf = (config: ReplSetConfig | null): { readonly term?: number } =>
  config?.term === undefined ? {} : { term: config.term };

/** The stored one, if it is the wanted one; a forced one gets a version of the server's choice, far above. */
async function installed(db: Db, wanted: ReplSetConfig, forced: boolean): Promise<ReplSetConfig | null> {
  const reply = await db.command({ replSetGetConfig: 1 });
  const config = plain<ReplSetConfig>(reply['config'] as Document);
  const version = forced ? config.version >= wanted.version : config.version === wanted.version;
  return version && isDeepStrictEqual(essence(config), essence(wanted)) ? config : null;
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

/** Null: it does not say. */
export async function leads(context: Omit<CommandContext, 'ownsPort'>): Promise<boolean | null> {
  const { isWritablePrimary } = await hello(context);
  return typeof isWritablePrimary === 'boolean' ? isWritablePrimary : null;
}

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

/**
 * Raises the feature compatibility version. One that is there already is done; after a lost answer the stored one decides.
 * From 7.0 on the server wants to hear that it is meant (A8.5).
 */
export async function setFcv(context: CommandContext, command: Of<'setFcv'>): Promise<CommandOutcome> {
  const { version, as } = command;
  const db = admin(context, as);
  if (await hasFcv(db, version)) return done({ already: true });
  const { versionArray } = await db.command({ buildInfo: 1 });
  const confirm = Number((versionArray as readonly number[] | undefined)?.[0]) >= 7 ? { confirm: true } : {};
  context.signal.throwIfAborted();
  try {
    await db.command({
      setFeatureCompatibilityVersion: version,
      ...confirm,
      writeConcern: { w: 'majority' },
    });
    return done({ version });
  } catch (failure) {
    if (!mayHaveHappened(failure)) return refusal(failure);
    try {
      if (await hasFcv(admin(context, as), version)) return done({ version });
    } catch {
      // Not answering now; what happened will show later.
    }
    return { kind: 'unknown', message: refusal(failure).message };
  }
}

/** Half-raised it has a target besides, and is to be raised again. A router has no such parameter and simply asks again. */
async function hasFcv(db: Db, version: string): Promise<boolean> {
  const reply = await unless([72], db.command({ getParameter: 1, featureCompatibilityVersion: 1 }));
  const stored = reply?.['featureCompatibilityVersion'] as
    | { readonly version?: unknown; readonly targetVersion?: unknown }
    | undefined;
  return stored?.version === version && stored.targetVersion === undefined;
}
