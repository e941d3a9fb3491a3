/** Names and places of a cluster's parts. */
import type { ConfigMember, ReplSetConfig } from './facts.ts';
import type { Desired, MemberState, State } from './types.ts';

/** The replica set's name is the resource's name, as users of the Kubernetes resource expect (B1.3). */
export const replicaSetName = (desired: Desired): string => desired.name;

/** `orders-0`: the member's name. The index is monotonic and never used twice (A2.2). */
export const memberName = (cluster: string, index: number): string => `${cluster}-${index}`;

/**
 * The service's name on the platform. Other namespaces than `default` are put in front, so that two clusters of one
 * name live side by side; ownership is proven by the marker, never by this name (S4).
 */
export const serviceHostname = (desired: Pick<Desired, 'namespace'>, member: string): string =>
  desired.namespace === 'default' ? member : `${desired.namespace}--${member}`;

/** `host:port`, IPv6 hosts bracketed (A7.4). */
export function hostPort(address: string, port: number): string {
  return address.includes(':') && !address.startsWith('[') ? `[${address}]:${port}` : `${address}:${port}`;
}

/** The member's place in the set, once the platform has placed it. */
export function memberHost(member: MemberState): string | null {
  return member.address === null || member.port === null ? null : hostPort(member.address, member.port);
}

/** The configuration a new set is initiated with: all configured members at once (A5.1). */
export function initialConfig(state: State, desired: Desired): ReplSetConfig | null {
  const members: ConfigMember[] = [];
  for (const member of state.members) {
    const host = memberHost(member);
    if (host === null) return null;
    const wanted = desired.members[state.members.indexOf(member)];
    members.push({
      _id: member.index,
      host,
      priority: wanted?.priority ?? 1,
      votes: wanted?.votes ?? 1,
      ...(wanted?.hidden ? { hidden: true } : {}),
      ...(wanted && wanted.secondaryDelaySecs > 0 ? { secondaryDelaySecs: wanted.secondaryDelaySecs } : {}),
      ...(wanted && Object.keys(wanted.tags).length > 0 ? { tags: wanted.tags } : {}),
    });
  }
  return { _id: replicaSetName(desired), version: 1, members };
}

/** The connection string without a user; null until every member has its place. */
export function connectionString(state: State, desired: Desired): string | null {
  const hosts = state.members.filter((m) => m.stage !== 'removing').map(memberHost);
  if (hosts.length === 0 || hosts.includes(null)) return null;
  const tls = desired.tlsMode === 'requireTLS' || desired.tlsMode === 'preferTLS';
  const options = [`replicaSet=${encodeURIComponent(replicaSetName(desired))}`, ...(tls ? ['tls=true'] : [])];
  return `mongodb://${hosts.join(',')}/?${options.join('&')}`;
}
