/** A control plane's end and agents on real sockets, for tests. */
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { OperationFacts } from '../../clusters/facts.ts';
import type { Clock } from '../../engine/ports.ts';
import { type AgentConnection, type AgentHandlers, type ConnectOptions, connectAgent } from '../client.ts';
import type { MemberItem } from '../facts.ts';
import { FenceGate } from '../fence.ts';
import { type AgentServer, type AgentServerOptions, createAgentServer } from '../server.ts';
import { realClock } from './clock.ts';
import { hostFacts, quiet } from './facts.ts';
import type { TestCa } from './pki.ts';

export interface ControlPlane {
  readonly agents: AgentServer;
  readonly https: Server;
  readonly url: string;
  close(): Promise<void>;
}

export async function startControlPlane(
  ca: TestCa,
  options: Partial<AgentServerOptions> & { readonly port?: number } = {},
): Promise<ControlPlane> {
  const { keyPem, certificatePem } = await ca.issue('control');
  const https = createServer({
    key: keyPem,
    cert: certificatePem,
    ca: ca.caPem,
    requestCert: true,
    rejectUnauthorized: false,
  });
  const agents = createAgentServer({
    verifyHost: (peer) => peer.commonName,
    clock: realClock,
    log: quiet,
    ...options,
  });
  agents.attachTo(https);
  await new Promise<void>((resolve) => https.listen(options.port ?? 0, '127.0.0.1', resolve));
  return {
    agents,
    https,
    url: `https://localhost:${(https.address() as AddressInfo).port}`,
    close: async () => {
      await agents.close();
      https.closeAllConnections();
      await new Promise((resolve) => https.close(resolve));
    },
  };
}

export interface TestAgent {
  readonly connection: AgentConnection;
  readonly members: Map<string, MemberItem>;
  /** Puts facts and reports them. */
  report(item: MemberItem): void;
}

export const noHandlers: AgentHandlers = {
  publish: async () => {},
  run: async () => ({ kind: 'done', result: {} }),
  startOperation: async () => {},
  operation: (): OperationFacts => ({ kind: 'unknown' }),
  services: () => [],
  renewIdentity: async () => {},
};

export async function startAgent(
  ca: TestCa,
  name: string,
  urls: readonly string[],
  options: Partial<ConnectOptions> & { readonly clock?: Clock } = {},
): Promise<TestAgent> {
  const { keyPem, certificatePem } = await ca.issue(name);
  const members = new Map<string, MemberItem>();
  const connection = connectAgent({
    urls,
    identity: () => ({ host: name, keyPem, certificatePem, caPem: ca.caPem }),
    handlers: noHandlers,
    state: {
      host: () => hostFacts(name),
      members: () => [...members.values()],
      member: (id) => members.get(id) ?? null,
    },
    fences: new FenceGate({ load: () => ({}), save: () => {} }),
    clock: realClock,
    log: quiet,
    ...options,
  });
  return {
    connection,
    members,
    report: (item) => {
      members.set(item.facts.serviceId, item);
      connection.memberChanged(item.facts.serviceId);
    },
  };
}
