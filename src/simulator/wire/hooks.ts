import type { Document } from 'bson';
import type { CommandContext } from '../contracts.ts';

/** What the command part does around every command: fail points, error labels, the list of running operations. */
export interface CommandHooks {
  /** After authorisation, before the command. Throws to refuse; may wait; may close the connection. */
  beforeCommand(context: CommandContext): Promise<void>;
  /** With every reply, good or bad (`ok` is 0 then). Gives the reply to send. */
  afterCommand(context: CommandContext, reply: Document): Document;
  /** Enters the command into the running operations; the returned function takes it out. */
  beginOperation(context: CommandContext, abort: (reason: Error) => void): () => void;
}

/** Hooks that do nothing. */
export const NO_HOOKS: CommandHooks = {
  beforeCommand: () => Promise.resolve(),
  afterCommand: (_context, reply) => reply,
  beginOperation: () => () => undefined,
};
