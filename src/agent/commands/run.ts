/** Runs one command within its time limit. */
import type { Millis } from '../../base/units.ts';
import type { CommandOutcome, MemberCommand } from '../../clusters/snapshot.ts';
import type { Clock } from '../../engine/ports.ts';
import { mayHaveHappened, refusal } from '../mongo.ts';
import { rotateCertificates } from './certificates.ts';
import { type CommandContext, tryLogin } from './context.ts';
import { initiate } from './initiate.ts';
import { reconfig, setFcv, stepDown } from './members.ts';
import { addShard, setBalancer } from './sharding.ts';
import { createFirstUser, reconcileUsers } from './users.ts';

/**
 * The outcome, always: failures of server and driver become `refused` with their class (A5.4), no answer in time or an
 * abort in between becomes `unknown`. Commands are idempotent, so an unknown one is asked again after a look. After an
 * abort (a newer epoch, S9) what was sent already is still waited for, so that it cannot land behind a newer effect.
 */
export async function runCommand(
  context: Omit<CommandContext, 'signal'>,
  command: MemberCommand,
  options: { readonly timeoutMillis: Millis; readonly signal: AbortSignal; readonly clock: Clock },
): Promise<CommandOutcome> {
  const { clock, timeoutMillis } = options;
  const limit = new AbortController();
  const signal = AbortSignal.any([options.signal, limit.signal]);
  let cancel = (): void => {};
  const late = new Promise<CommandOutcome>((resolve) => {
    cancel = clock.at(clock.now() + timeoutMillis, () => {
      limit.abort(new Error('time is up'));
      resolve({ kind: 'unknown', message: `${command.kind} did not end within ${timeoutMillis} ms` });
    });
  });
  try {
    const outcome = await Promise.race([attempt({ ...context, signal }, command), late]);
    // A client whose first try found nobody never works again: where the server did not answer the next try has a new one.
    const answered = outcome.kind === 'done' || (outcome.kind === 'refused' && outcome.code !== null);
    if (!answered) context.clients.clear();
    return outcome;
  } finally {
    cancel();
  }
}

async function attempt(context: CommandContext, command: MemberCommand): Promise<CommandOutcome> {
  try {
    // S6: nothing is said to a stranger on the port, who could take it for anything.
    if (!context.ownsPort()) {
      const message = `port ${context.snapshot.port} is not listened on by this member's process`;
      return { kind: 'refused', code: null, codeName: 'PortTaken', message, class: 'transient' };
    }
    return await dispatch(context, command);
  } catch (failure) {
    if (context.signal.aborted) return { kind: 'unknown', message: 'it was cut off' };
    const refused = refusal(failure);
    // Looks and logins can be refused without doubt; a write that got no answer cannot.
    return mayHaveHappened(failure) && writes(command)
      ? { kind: 'unknown', message: refused.message }
      : refused;
  }
}

const writes = (command: MemberCommand): boolean => command.kind === 'reconcileUsers';

function dispatch(context: CommandContext, command: MemberCommand): Promise<CommandOutcome> {
  switch (command.kind) {
    case 'initiate':
      return initiate(context, command.config);
    case 'createFirstUser':
      return createFirstUser(context, command.user);
    case 'reconcileUsers':
      return reconcileUsers(context, command);
    case 'verifyLogin':
      return tryLogin(context, command.as);
    case 'reconfig':
      return reconfig(context, command);
    case 'rotateCertificates':
      return rotateCertificates(context, command);
    case 'setFcv':
      return setFcv(context, command);
    case 'stepDown':
      return stepDown(context, command);
    case 'addShard':
      return addShard(context, command);
    case 'setBalancer':
      return setBalancer(context, command);
  }
}
