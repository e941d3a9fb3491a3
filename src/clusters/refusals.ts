/**
 * What was refused for good is not asked again and again: it stands as a block, in the refuser's words, until the spec or
 * the world looks different. Not every cure can be seen from here (a password set back in the database), so it is also
 * asked again at the slowest pace of A3.2.
 */
import { hash } from '../base/rng.ts';
import type { DatabaseFacts } from './facts.ts';
import { stable } from './snapshotInputs.ts';
import type { Desired, Observed, ObservedMember, RetryState, State } from './types.ts';

/** The record with refusals bound to what is seen now, or freed because it is seen to have changed. */
export function learnRefusals(state: State, desired: Desired, observed: Observed): State {
  if (!state.retries.some((r) => r.refused !== undefined)) return state;
  const now = markOf(desired, observed);
  const retries = state.retries.map((retry) => bound(retry, now));
  return retries.every((retry, i) => retry === state.retries[i]) ? state : { ...state, retries };
}

function bound(retry: RetryState, now: number): RetryState {
  const { refused, ...rest } = retry;
  if (refused === undefined || refused.on === now) return retry;
  return refused.on === null ? { ...rest, refused: { on: now } } : { ...rest, nextTryAt: 0 };
}

/** What a refusal may have been about: the spec, the documents of users, and each member's place and mind. */
const markOf = ({ generation, deleting }: Desired, { members, users }: Observed): number =>
  hash(stable([generation, deleting, users, members.map(memberMark)]));

function memberMark({ name, connected, facts }: ObservedMember): unknown {
  if (!connected || facts === null) return [name, connected];
  const { configVersion, configError, process, database } = facts;
  return [name, configVersion, configError, process.kind, databaseMark(database)];
}

function databaseMark(database: DatabaseFacts | null): unknown {
  if (database?.kind !== 'reachable') return database?.kind ?? null;
  const { peers: _, initialSyncPercent: __, ...rest } = database;
  return rest;
}
