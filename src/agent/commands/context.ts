/** What every command of a member gets. */
import type { Db, Document, MongoClient } from 'mongodb';
import type { CommandOutcome, Login, MemberSnapshot } from '../../clusters/snapshot.ts';
import { type ClientPool, codeOf, dropClient, endpointOf, openClient, refusal } from '../mongo.ts';
import { type Refusal, refused } from './refusals.ts';

export interface CommandContext {
  /** The snapshot the process runs with. */
  readonly snapshot: MemberSnapshot;
  readonly clients: ClientPool;
  /** False when the port is somebody else's: nothing may be said to a stranger (S6). */
  readonly ownsPort: () => boolean;
  /** Aborts when a newer epoch comes or time is up; checked between effects. */
  readonly signal: AbortSignal;
}

export type Done = Extract<CommandOutcome, { kind: 'done' }>;
export const done = (result: Readonly<Record<string, unknown>> = {}): Done => ({ kind: 'done', result });

type Asking = Omit<CommandContext, 'ownsPort'>;

/** The admin database under a login; null: the localhost exception. */
export function admin(context: Asking, login: Login | null): Db {
  context.signal.throwIfAborted();
  return context.clients.get(endpointOf(context.snapshot), login).db('admin');
}

/** The member's hello; needs no login. */
export const hello = (context: Asking): Promise<Document> => admin(context, null).command({ hello: 1 });

/** Only a writable primary takes writes; asked first, so that a secondary's answer is never mistaken (INI-02). */
export async function notPrimary(context: CommandContext): Promise<Refusal | null> {
  const { isWritablePrimary, primary } = await hello(context);
  if (isWritablePrimary === true) return null;
  const where = typeof primary === 'string' ? `; the primary is ${primary}` : '';
  return refused(10107, 'NotWritablePrimary', `this member is not the primary${where}`);
}

/** Tries a login on a connection of its own: a pooled one would not ask again. */
export async function tryLogin(context: CommandContext, login: Login): Promise<Done | Refusal> {
  const client: MongoClient = openClient(endpointOf(context.snapshot), login);
  try {
    context.signal.throwIfAborted();
    await client.db('admin').command({ connectionStatus: 1 });
    return done();
  } catch (failure) {
    return refusal(failure);
  } finally {
    dropClient(client);
  }
}

/** The command's reply, or null when the server refused with one of these codes. */
export async function unless(codes: readonly number[], call: Promise<Document>): Promise<Document | null> {
  try {
    return await call;
  } catch (failure) {
    const code = codeOf(failure);
    if (code !== null && codes.includes(code)) return null;
    throw failure;
  }
}
