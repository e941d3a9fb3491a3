import type { Connection } from '../contracts.ts';

/** The connection on which the process runs its own commands. */
export function internalConnection(): Connection {
  const abort = new AbortController();
  return {
    id: 0,
    remote: '',
    loopback: true,
    sni: undefined,
    peerSubject: undefined,
    users: [{ user: '__system', db: 'local' }],
    internal: true,
    clientMetadata: undefined,
    appName: undefined,
    signal: abort.signal,
    close: () => undefined,
  };
}
