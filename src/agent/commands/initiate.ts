/** `replSetInitiate`, once in a set's life (S6). */
import { connect } from 'node:net';

import { BSON, type Document } from 'mongodb';
import type { ReplSetConfig } from '../../clusters/facts.ts';
import type { CommandOutcome } from '../../clusters/snapshot.ts';
import { PEER_TIMEOUT } from '../limits.ts';
import { codeOf, mayHaveHappened, refusal } from '../mongo.ts';
import { admin, type CommandContext, done, hello } from './context.ts';
import { type Refusal, refused } from './refusals.ts';

/**
 * Initiates the set with all its members at once (A5.1). A set that exists with these members is done (INI-07), one with
 * others is reported and left alone. Before anything is sent every member must be reachable by its name (INI-04): the
 * server itself would wait half a minute for its own name and then leave it unclear who was missing.
 */
export async function initiate(context: CommandContext, config: ReplSetConfig): Promise<CommandOutcome> {
  const existing = judge(await hello(context), config);
  if (existing) return existing;
  const unreachable = await firstUnreachable(config);
  if (unreachable !== null) return refused(74, 'NodeNotFound', unreachable);
  try {
    const wanted = BSON.EJSON.deserialize(config as Document) as Document;
    await admin(context, null).command({ replSetInitiate: wanted });
    return done({ initiated: true });
  } catch (failure) {
    return afterFailure(context, config, failure);
  }
}

/** 23 also means "somebody is at it right now": then no configuration shows yet, and it passes. */
async function afterFailure(
  context: CommandContext,
  config: ReplSetConfig,
  failure: unknown,
): Promise<CommandOutcome> {
  const code = codeOf(failure);
  if (code !== 23 && !mayHaveHappened(failure)) return refusal(failure);
  try {
    const seen = judge(await hello(context), config);
    if (seen) return seen;
  } catch {
    // Not answering now; what happened will show later.
  }
  if (code === 23) return refused(109, 'ConfigurationInProgress', 'another initiation is under way');
  return { kind: 'unknown', message: refusal(failure).message };
}

/** Null: not a member of any set yet. */
function judge(reply: Document, config: ReplSetConfig): CommandOutcome | null {
  const setName = reply['setName'];
  if (typeof setName !== 'string') return null;
  const shown = hostsOf(reply);
  const wanted = new Set(config.members.filter((member) => !member.hidden).map((member) => member.host));
  const same =
    setName === config._id && [...wanted].every((host) => shown.has(host)) && shown.size === wanted.size;
  if (same) return done({ initiated: false, already: true });
  return otherSet(setName, [...shown].sort());
}

function otherSet(setName: string, hosts: readonly string[]): Refusal {
  const message = `already initialized as ${setName} with ${hosts.join(', ')}`;
  return { kind: 'refused', code: 23, codeName: 'AlreadyInitialized', message, class: 'permanent' };
}

/** Members a hello lists: hidden and delayed ones are in none of these. */
function hostsOf(reply: Document): ReadonlySet<string> {
  const lists = [reply['hosts'], reply['passives'], reply['arbiters']];
  return new Set(lists.flatMap((list) => (Array.isArray(list) ? list.map(String) : [])));
}

/** The first member whose name and port nobody answers, with the reason. */
async function firstUnreachable(config: ReplSetConfig): Promise<string | null> {
  const answers = await Promise.all(config.members.map(({ host }) => probe(host)));
  return answers.find((answer) => answer !== null) ?? null;
}

function probe(address: string): Promise<string | null> {
  const at = address.lastIndexOf(':');
  const host = address.slice(0, at).replace(/^\[|\]$/g, '');
  return new Promise((resolve) => {
    const socket = connect({ host, port: Number(address.slice(at + 1)), timeout: PEER_TIMEOUT });
    const end = (reason: string | null): void => {
      socket.destroy();
      resolve(reason === null ? null : `${address} cannot be reached from here: ${reason}`);
    };
    socket.once('connect', () => end(null));
    socket.once('timeout', () => end('no answer'));
    socket.once('error', (error) => end(error.message));
  });
}
