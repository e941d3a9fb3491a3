/** Connection strings of replica sets as the cluster's metadata has them: `rs0/h1:p,h2:p`. Pure. */

/** A set by name and some of its members. */
export interface SetAddress {
  readonly name: string;
  readonly hosts: readonly string[];
}

/** Reads `set/h1:p,h2:p`; ports default. Null when it is not of that form. */
export function parseSet(text: string, defaultPort: number): SetAddress | null {
  const slash = text.indexOf('/');
  if (slash < 1) return null;
  const hosts = text
    .slice(slash + 1)
    .split(',')
    .map((host) => host.trim())
    .filter((host) => host !== '')
    .map((host) => (/:\d+$/.test(host) ? host : `${host}:${defaultPort}`));
  return hosts.length === 0 ? null : { name: text.slice(0, slash), hosts };
}

/** The same in writing, members in order of their names. */
export const setString = ({ name, hosts }: SetAddress): string => `${name}/${[...hosts].sort().join(',')}`;
