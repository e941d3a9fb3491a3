/** The agent's end of the channel: one connection to every control plane, kept up for ever. */
import type { BelayError } from '../base/error.ts';
import type { Millis } from '../base/units.ts';
import type { HostFacts, OperationFacts, ServiceFacts } from '../clusters/facts.ts';
import type { CommandOutcome, MemberCommand, MemberSnapshot } from '../clusters/snapshot.ts';
import type { Clock, HostOperation, Log, Proviso } from '../engine/ports.ts';
import { ControlPlaneLink } from './clientLink.ts';
import type { MemberItem } from './facts.ts';
import type { FenceGate } from './fence.ts';

/** What the agent does when asked. Failures are BelayErrors and go back with their code. */
export interface AgentHandlers {
  /** Resolves when the snapshot is safely on disk. */
  publish(serviceId: string, snapshot: MemberSnapshot, proviso: Proviso): Promise<void>;
  run(
    serviceId: string,
    command: MemberCommand,
    options: { readonly timeoutMillis: Millis; readonly stepId: string; readonly signal: AbortSignal },
  ): Promise<CommandOutcome>;
  /** Resolves when the operation is journalled; it then goes on by itself. */
  startOperation(operation: HostOperation): Promise<void>;
  operation(id: string): OperationFacts;
  /** Gets a new certificate and bundle now; resolves when they are kept. */
  renewIdentity(): Promise<void>;
  services(): readonly ServiceFacts[];
}

/** Where reports come from: always the newest facts, asked when there is room to send them. */
export interface AgentState {
  host(): HostFacts;
  members(): readonly MemberItem[];
  /** Null: the service is gone. */
  member(serviceId: string): MemberItem | null;
}

/** The agent's place in the installation; keys as PEM texts that never leave this process but into the identity file. */
export interface AgentIdentity {
  readonly host: string;
  readonly keyPem: string;
  readonly certificatePem: string;
  readonly caPem: string;
}

export interface ConnectOptions {
  /** Base addresses of the control planes, `https://control:8443`; the agent is connected to all of them at once. */
  readonly urls: readonly string[];
  /** Asked before every connection, so that a renewed certificate is used. */
  readonly identity: () => AgentIdentity;
  readonly handlers: AgentHandlers;
  readonly state: AgentState;
  readonly fences: FenceGate;
  readonly clock: Clock;
  readonly log: Log;
  /** For the spread of reconnects; tests give their own. */
  readonly random?: () => number;
  readonly onConnected?: (url: string) => void;
}

export interface AgentConnection {
  /** The member's facts changed (or it is gone): reported once, however often they change before there is room. */
  memberChanged(serviceId: string): void;
  hostChanged(): void;
  operationChanged(id: string, clusterUid: string | null, facts: OperationFacts): void;
  /** Addresses of the control planes that are connected now. */
  connected(): readonly string[];
  /** Has the first control plane that can sign a new certificate; BelayError when none can. */
  renew(csrPem: string): Promise<{ readonly certificatePem: string; readonly caPem: string }>;
  close(): void;
}

/** Opens the connections and keeps them. Unreachable control planes are tried for ever; nothing here stops an agent's work. */
export function connectAgent(options: ConnectOptions): AgentConnection {
  const session = `${process.pid}-${Math.trunc((options.random ?? Math.random)() * 2 ** 48).toString(36)}`;
  const links = options.urls.map((url) => new ControlPlaneLink(url, session, options));
  for (const link of links) link.open();
  const each = (call: (link: ControlPlaneLink) => void): void => {
    for (const link of links) call(link);
  };
  return {
    memberChanged: (serviceId) => each((link) => link.memberChanged(serviceId)),
    hostChanged: () => each((link) => link.hostChanged()),
    operationChanged: (id, clusterUid, facts) =>
      each((link) => link.send({ t: 'operation', id, clusterUid, facts })),
    connected: () => links.filter((link) => link.ready).map((link) => link.url),
    renew: (csrPem) => renewWithAny(links, csrPem),
    close: () => each((link) => link.close()),
  };
}

async function renewWithAny(
  links: readonly ControlPlaneLink[],
  csrPem: string,
): Promise<{ readonly certificatePem: string; readonly caPem: string }> {
  let last: unknown;
  for (const link of links) {
    try {
      return await link.renew(csrPem);
    } catch (failure) {
      last = failure;
    }
  }
  throw last as BelayError;
}
