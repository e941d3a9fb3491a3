/** A process without sockets, for tests of the dispatcher and of single commands. */
import type { Connection, DataStore, Replication, ServerNode } from '../contracts.ts';

/** A connection nobody reads from. */
export function fakeConnection(
  overrides: Partial<Connection> = {},
): Connection & { readonly abort: AbortController } {
  const abort = new AbortController();
  return {
    id: 1,
    remote: '127.0.0.1:5000',
    loopback: true,
    sni: undefined,
    peerSubject: undefined,
    users: [],
    internal: false,
    clientMetadata: undefined,
    appName: undefined,
    signal: abort.signal,
    close: () => abort.abort(),
    ...overrides,
    abort,
  };
}

/** A node with the given parts; everything else is empty. */
export function fakeNode(
  overrides: { version?: string; replication?: Replication; data?: DataStore } = {},
): ServerNode {
  return {
    options: {},
    version: overrides.version ?? '8.0.32-14',
    data:
      overrides.data ??
      ({
        lastApplied: () => null,
        find: () => [],
        count: () => 0,
        onApplied: () => () => undefined,
      } as unknown as DataStore),
    replication: overrides.replication ?? null,
    logger: { log: () => undefined },
    startedAt: new Date(0),
    address: 'localhost:27017',
    testCommandsEnabled: false,
    parameters: new Map(),
    now: () => new Date(0),
    runInternal: () => Promise.reject(new Error('not in this test')),
    shutdown: () => undefined,
  };
}
