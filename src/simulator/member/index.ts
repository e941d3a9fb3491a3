/**
 * One member of a replica set as a pure machine: `member(state, input, now, log) → [state, outputs]`. It decides everything the
 * protocol decides and does nothing itself; drivers (the stand-in `mongod`, the deterministic world) carry the outputs out, in
 * order, and feed back what happens. A driver owes the machine: durable `saveConfig` and `saveVote` before the next output, a
 * `tick` at `state.dueAt`, and `applied` after every growth of the log. Everything else may be late, lost or doubled.
 */
export { type MemberOptions, member, newMember } from './member.ts';
export { isWritable, stateOf } from './turn.ts';
export type { Command, Input, LogView, Output, State, StateName, Waiter } from './types.ts';
