/** Warnings of the status about where members are, and about what is left of those that were replaced. */
import { REMOVE_BY_HAND, strangeVolume } from './planners/ownership.ts';
import { groupsOf, isSubstitute } from './topology.ts';
import type { Desired, Observed, State } from './types.ts';

interface Scene {
  readonly observed: Observed;
  readonly desired: Desired;
  readonly state: State;
}

/** Hosts whose loss takes more than one member of one set. */
function sharedHosts({ state, desired }: Scene): string[] {
  return groupsOf(desired).flatMap((group) => {
    const hosts = state.members.flatMap((m) =>
      m.replicaSet === group.name && m.host !== null ? [m.host] : [],
    );
    const shared = [...new Set(hosts.filter((h, i) => hosts.indexOf(h) !== i))].sort();
    const what = desired.sharded === null ? 'this set' : group.name;
    return shared.map((h) => `host ${h} carries more than one member of ${what}`);
  });
}

/** A15.1: co-location and unknown failure domains are said, never silently accepted. */
export function placementWarnings(input: Scene): string[] {
  const members = input.state.members.filter((m) => !isSubstitute(input.state, m));
  const hosts = members.flatMap((m) => (m.host === null ? [] : [m.host]));
  if (hosts.length < 2) return [];
  if (new Set(hosts).size === 1)
    return [`all ${hosts.length} members are on host ${hosts[0]}: losing it loses the set`];
  const warnings = sharedHosts(input);
  const prints = [...new Set(hosts)].map(
    (h) => input.observed.hosts.find((o) => o.name === h)?.fingerprint ?? null,
  );
  if (prints.includes(null))
    warnings.push('failure domains of some hosts are unknown: no separation is claimed');
  else if (new Set(prints).size < prints.length) warnings.push('some hosts seem to be the same machine');
  return warnings;
}

/** What is left of members that were replaced, where it cannot be removed now (A13.3). */
export function leftBehind({ state, observed }: Scene): readonly string[] {
  return (state.retired ?? []).flatMap((m) => {
    if (!observed.hosts.some((h) => h.name === m.host && h.connected))
      return [
        `${m.name} is out of the set; what is left of it on host ${m.host} is removed when that host is back, or forgotten with it: belay delete host ${m.host}`,
      ];
    const strange = m.serviceId === null ? strangeVolume({ state, observed }, m) : null;
    return strange === null ? [] : [`${strange}; ${REMOVE_BY_HAND}`];
  });
}
