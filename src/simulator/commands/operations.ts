/** What runs now: for currentOp, killOp and the interruption of sessions. */
import type { CommandContext, ServerError } from '../contracts.ts';

/** One running command. */
export interface Operation {
  readonly opId: number;
  readonly context: CommandContext;
  readonly startedAt: Date;
  /** Key of its session, when it has one. */
  sessionKey: string | null;
  readonly abort: (reason: ServerError) => void;
}

/** The running commands of one process. */
export class Operations {
  private readonly running = new Map<number, Operation>();

  /** Enters a command; the returned function takes it out again. */
  begin(context: CommandContext, abort: (reason: ServerError) => void): () => void {
    const startedAt = context.node.now();
    this.running.set(context.opId, { opId: context.opId, context, startedAt, sessionKey: null, abort });
    return () => this.running.delete(context.opId);
  }

  /** The entry of a command, if its dispatcher registered it. */
  of(context: CommandContext): Operation | undefined {
    return this.running.get(context.opId);
  }

  list(): readonly Operation[] {
    return [...this.running.values()];
  }

  /** Interrupts the operation; false when there is none with that number. */
  kill(opId: number, reason: ServerError): boolean {
    const operation = this.running.get(opId);
    operation?.abort(reason);
    return operation !== undefined;
  }

  /** Interrupts all operations that are meant. */
  killWhere(meant: (operation: Operation) => boolean, reason: ServerError): void {
    for (const operation of this.running.values()) if (meant(operation)) operation.abort(reason);
  }
}
