/** What the record learns of members that take another's place (A13.3). */
import { configOf, isOut, type MemberView, views } from './interpret.ts';
import { forgetMembers, pendingOf, retire, unretire, withMember } from './state.ts';
import { isRouter, memberHost } from './topology.ts';
import type { MemberState, Observed, State } from './types.ts';

/**
 * The old one is seen out of the set's configuration: its place is free, and it holds up nobody any more. The new one is a
 * full member: it has the place. A new one that was given up retires as soon as it is out (A13.7).
 */
export function learnReplacements(before: State, observed: Observed): State {
  const all = views(before, observed);
  const state = forgetWithHost(takenBack(before, all), observed);
  let next = state;
  const out = (member: MemberState): boolean => isOut({ all, state }, member);
  for (const member of state.members) {
    const { replacement, name, stage } = member;
    if (replacement === undefined) continue;
    const old = state.members.find((m) => m.name === replacement.of);
    if (stage === 'removing') {
      // It was given up while the old one was on its way out already: then it is needed, and takes the place after all.
      if (old !== undefined && out(old) && !out(member)) next = withMember(next, name, { stage: 'syncing' });
      else if (pendingOf(state, name) === null && out(member)) next = retire(next, name);
    } else if (old !== undefined) {
      const free = isRouter(member) ? stage === 'active' : !out(member) && out(old);
      if (free) next = retire(next, old.name);
    } else if (stage === 'active') {
      next = { ...next, members: next.members.map((m) => (m.name === name ? arrived(m) : m)) };
    }
  }
  return next;
}

/**
 * A configuration that was seen before a majority had it can be lost with its primary: who was out is in again. Then it
 * leaves once more, by the ordinary way.
 */
function takenBack(state: State, all: readonly MemberView[]): State {
  const back = (state.retired ?? []).filter((member) => {
    const rows = configOf(all.filter((v) => v.member.replicaSet === member.replicaSet))?.members ?? [];
    return rows.some((row) => row.host === memberHost(member));
  });
  return back.reduce((next, { name }) => unretire(next, name), state);
}

function arrived(member: MemberState): MemberState {
  const { replacement: _, ...rest } = member;
  return rest;
}

/**
 * A person who deletes a Host says that it never comes back: what was left there is forgotten. Its folder, should the
 * machine turn up after all, keeps its marker and is touched by nobody (S4).
 */
function forgetWithHost(state: State, observed: Observed): State {
  if (state.retired === undefined || observed.services === null) return state;
  const known = new Set(observed.hosts.map((h) => h.name));
  const gone = state.retired.filter((m) => m.host !== null && !known.has(m.host));
  return gone.length === 0 ? state : forgetMembers(state, new Set(gone.map((m) => m.name)));
}
