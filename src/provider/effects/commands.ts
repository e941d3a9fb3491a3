/** Commands to a member, and what their answers mean. */
import { unreachable } from '../../base/error.ts';
import type { CommandOutcome, Login, MemberCommand, StepOutcome } from '../../clusters/index.ts';
import type { Effect } from '../../engine/provider.ts';
import type { SystemUsername } from '../users.ts';
import { COMMAND_LIMIT } from '../within.ts';
import { member, ref, type Work } from './work.ts';

export async function command(
  work: Work,
  via: string,
  what: MemberCommand,
  result: Extract<StepOutcome, { kind: 'done' }>['result'] = {},
): Promise<Effect> {
  return { outcome: outcomeOf(await run(work, via, what), result) };
}

export function run(work: Work, via: string, what: MemberCommand): Promise<CommandOutcome> {
  const { agents, stepId, fence } = work;
  return agents.run(ref(member(work, via)), what, { timeoutMillis: COMMAND_LIMIT, stepId, fence });
}

/** Under a system user's login; while its password changes, whichever of the old and the new one works (A13.4). */
export async function runAs(
  work: Work,
  via: string,
  user: SystemUsername,
  what: (as: Login) => MemberCommand,
): Promise<CommandOutcome> {
  const { credentials, state } = work;
  const answer = await run(work, via, what(await credentials.login(state.uid, user)));
  if (answer.kind !== 'refused' || answer.class !== 'credentials') return answer;
  const next = await credentials.stagedLogin(state.uid, user);
  return next === null ? answer : run(work, via, what(next));
}

export async function commandAs(
  work: Work,
  via: string,
  user: SystemUsername,
  what: (as: Login) => MemberCommand,
): Promise<Effect> {
  return { outcome: outcomeOf(await runAs(work, via, user, what), {}) };
}

/** A5.4: credentials need a person, everything else heals by itself or is tried again with growing waits. */
export function outcomeOf(
  answer: CommandOutcome,
  result: Extract<StepOutcome, { kind: 'done' }>['result'],
): StepOutcome {
  switch (answer.kind) {
    case 'done':
      return { kind: 'done', result };
    case 'unknown':
      return { kind: 'unknown', message: answer.message };
    case 'refused': {
      const credentials = answer.class === 'credentials';
      const code = credentials ? 'CredentialRepairRequired' : answer.codeName;
      const retry = answer.class === 'transient' ? 'later' : 'never';
      return { kind: 'failed', code, message: answer.message, retry };
    }
    default:
      return unreachable(answer);
  }
}

/** A user's own login that fails is that user's trouble: tried again, never a case for the cluster's repair. */
export const notConfirmed = (outcome: StepOutcome): StepOutcome =>
  outcome.kind === 'failed' ? { ...outcome, code: 'LoginNotConfirmed', retry: 'later' } : outcome;
