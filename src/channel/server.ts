/** The control plane's end of the agent channel: it keeps the last reports in memory and asks agents to act. */
import type { IncomingMessage } from 'node:http';
import type { Server } from 'node:https';
import type { Duplex } from 'node:stream';
import type { TLSSocket } from 'node:tls';
import { type WebSocket, WebSocketServer } from 'ws';
import { asBelayError, BelayError } from '../base/error.ts';
import type { Millis } from '../base/units.ts';
import type { OperationFacts, ServiceFacts } from '../clusters/facts.ts';
import type { CommandOutcome, MemberCommand, MemberSnapshot } from '../clusters/snapshot.ts';
import type {
  AgentChange,
  Agents,
  Clock,
  Fence,
  HostOperation,
  HostReport,
  Log,
  MemberRef,
  MemberReport,
  Proviso,
} from '../engine/ports.ts';
import { readOperationFacts, readOutcome, readServices } from './facts.ts';
import {
  ANSWER_GRACE,
  CLOSE,
  EFFECT_TIMEOUT,
  HELLO_TIMEOUT,
  LOOK_TIMEOUT,
  MAX_MESSAGE,
  PING_GROUPS,
  PING_INTERVAL,
} from './limits.ts';
import { type AgentAsk, encodeAsk } from './protocol.ts';
import { disconnected } from './requests.ts';
import { AgentLink } from './serverLink.ts';
import { type FullState, HostEntry } from './serverState.ts';

/** What the client certificate says; `authorized` was checked before: it comes from the installation's own authority. */
export interface PeerIdentity {
  readonly commonName: string;
  /** `sha256:` and lower-case hex. */
  readonly fingerprint: string;
  readonly address: string;
}

export interface AgentServerOptions {
  /** The host this certificate stands for, or null to refuse it. */
  readonly verifyHost: (peer: PeerIdentity) => string | null | Promise<string | null>;
  /** Signs a connected host's new key; absent: this control plane renews no certificates. */
  readonly renew?: (host: string, csrPem: string) => Promise<RenewedIdentity>;
  readonly clock: Clock;
  readonly log: Log;
  /** Name of this control plane, for the agents' logs. */
  readonly name?: string;
}
export interface RenewedIdentity {
  readonly certificatePem: string;
  readonly caPem: string;
}

export interface AgentServer extends Agents {
  /** Answers WebSocket upgrades on this path of a server that asks for client certificates (`requestCert`). */
  attachTo(server: Server, path?: string): void;
  /** Asks an agent to get another certificate and bundle; resolves when it has them (S12). */
  renewIdentity(host: string): Promise<void>;
  /** Closes a host's connection and forgets it, after its Host object was deleted. */
  forget(host: string): void;
  close(): Promise<void>;
}

/** Makes the control plane's end. It serves nothing until attached to an HTTPS server. */
export function createAgentServer(options: AgentServerOptions): AgentServer {
  return new ChannelServer(options);
}

class ChannelServer implements AgentServer {
  readonly #options: AgentServerOptions;
  readonly #sockets = new WebSocketServer({
    noServer: true,
    perMessageDeflate: false,
    maxPayload: MAX_MESSAGE,
    clientTracking: false,
  });
  readonly #entries = new Map<string, HostEntry>();
  readonly #links = new Set<AgentLink>();
  readonly #listeners = new Set<(change: AgentChange) => void>();
  readonly #detach: (() => void)[] = [];
  #hosts: readonly HostReport[] | null = null;
  #pingGroup = 0;
  #cancelTick: () => void = () => {};
  #closed = false;

  constructor(options: AgentServerOptions) {
    this.#options = options;
    this.#tick();
  }

  attachTo(server: Server, path = '/agent/v1'): void {
    const upgrade = (request: IncomingMessage, socket: Duplex, head: Buffer): void => {
      if (new URL(request.url ?? '/', 'https://host').pathname !== path) return;
      void this.#upgrade(request, socket, head);
    };
    server.on('upgrade', upgrade);
    this.#detach.push(() => server.off('upgrade', upgrade));
  }

  // ── reports ────────────────────────────────────────────────────────────────────────────────────────────────────

  hosts(): readonly HostReport[] {
    this.#hosts ??= [...this.#entries.values()]
      .map((entry) => entry.report)
      .sort((a, b) => (a.facts.name < b.facts.name ? -1 : 1));
    return this.#hosts;
  }

  host(name: string): HostReport | null {
    return this.#entries.get(name)?.report ?? null;
  }

  member(ref: MemberRef): MemberReport | null {
    return this.#entries.get(ref.host)?.member(ref.serviceId) ?? null;
  }

  onChange(listener: (change: AgentChange) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  // ── requests ───────────────────────────────────────────────────────────────────────────────────────────────────

  async publish(
    ref: MemberRef,
    snapshot: MemberSnapshot,
    fence: Fence,
    proviso: Proviso = {},
  ): Promise<void> {
    const { host, serviceId } = ref;
    await this.#effect(host, { method: 'publish', serviceId, snapshot, fence, proviso });
  }

  async run(
    ref: MemberRef,
    command: MemberCommand,
    options: { readonly timeoutMillis: Millis; readonly stepId: string; readonly fence: Fence },
  ): Promise<CommandOutcome> {
    const ask: AgentAsk = { method: 'run', serviceId: ref.serviceId, command, ...options };
    try {
      return readOutcome(await this.#effect(ref.host, ask, options.timeoutMillis + ANSWER_GRACE));
    } catch (failure) {
      const error = asBelayError(failure);
      if (error.retry === 'unknown-outcome') return { kind: 'unknown', message: error.message };
      throw error;
    }
  }

  async startOperation(host: string, operation: HostOperation, fence: Fence): Promise<void> {
    await this.#effect(host, { method: 'startOperation', operation, fence });
  }

  async operation(host: string, operationId: string, fence?: Fence): Promise<OperationFacts> {
    const ask = { method: 'operation', id: operationId } as const;
    return readOperationFacts(await this.#look(host, fence === undefined ? ask : { ...ask, fence }));
  }

  async services(host: string): Promise<readonly ServiceFacts[]> {
    return readServices(await this.#look(host, { method: 'services' }));
  }

  async renewIdentity(host: string): Promise<void> {
    await this.#ask(
      host,
      { method: 'renewIdentity' },
      { timeoutMillis: EFFECT_TIMEOUT, unanswered: 'later' },
    );
  }

  #effect(host: string, ask: AgentAsk, timeoutMillis: Millis = EFFECT_TIMEOUT): Promise<unknown> {
    return this.#ask(host, ask, { timeoutMillis, unanswered: 'unknown-outcome' });
  }

  #look(host: string, ask: AgentAsk): Promise<unknown> {
    return this.#ask(host, ask, { timeoutMillis: LOOK_TIMEOUT, unanswered: 'later' });
  }

  #ask(
    host: string,
    ask: AgentAsk,
    options: { readonly timeoutMillis: Millis; readonly unanswered: 'later' | 'unknown-outcome' },
  ): Promise<unknown> {
    const link = this.#entries.get(host)?.link;
    if (!link) return Promise.reject(disconnected(host));
    const { method, params } = encodeAsk(ask);
    return link.ask(method, params, options);
  }

  // ── connections ────────────────────────────────────────────────────────────────────────────────────────────────

  async #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    // Without a listener an error of a socket that nobody owns yet would end the process.
    const ignore = (): void => {};
    socket.on('error', ignore);
    const host = await this.#identify(request.socket as TLSSocket);
    if (host === null || this.#closed) {
      socket.end('HTTP/1.1 401 Unauthorized\r\nConnection: close\r\nContent-Length: 0\r\n\r\n');
      return;
    }
    this.#sockets.handleUpgrade(request, socket, head, (ws) => {
      socket.off('error', ignore);
      this.#welcome(host, ws);
    });
  }

  async #identify(socket: TLSSocket): Promise<string | null> {
    if (!socket.authorized) return null;
    const certificate = socket.getPeerX509Certificate();
    if (certificate === undefined) return null;
    const commonName = /^CN=(.+)$/m.exec(certificate.subject)?.[1] ?? '';
    const fingerprint = `sha256:${certificate.fingerprint256.replaceAll(':', '').toLowerCase()}`;
    try {
      return await this.#options.verifyHost({ commonName, fingerprint, address: socket.remoteAddress ?? '' });
    } catch (failure) {
      this.#options.log.warn('agent refused', { commonName, error: asBelayError(failure).message });
      return null;
    }
  }

  #welcome(host: string, ws: WebSocket): void {
    const { clock, log, name = 'belay', renew } = this.#options;
    const link: AgentLink = new AgentLink({
      host,
      ws,
      clock,
      log,
      controlPlane: name,
      hello: (state) => this.#join(host, link, state),
      entry: () => this.#current(host, link),
      changed: (changes) => this.#emit(changes),
      renew: (csrPem) => {
        if (!renew)
          throw new BelayError('Unsupported', 'this control plane renews no certificates', {
            retry: 'never',
          });
        return renew(host, csrPem);
      },
      closed: () => this.#leave(host, link),
    });
    this.#links.add(link);
    link.expectHello(HELLO_TIMEOUT);
  }

  /** The newest connection of a host is the one that counts; an older one is told that it was replaced. */
  #join(host: string, link: AgentLink, state: FullState): readonly AgentChange[] {
    let entry = this.#entries.get(host);
    if (!entry) {
      entry = new HostEntry(state.host);
      this.#entries.set(host, entry);
      this.#hosts = null;
    }
    const older = entry.link;
    const other = older !== null && entry.session !== state.session;
    if (other) this.#options.log.warn('a second agent took over a host', { host });
    const changes = entry.hello(state, link, this.#options.clock.now());
    older?.end(CLOSE.replaced, 'another connection of this host took over');
    return changes;
  }

  #current(host: string, link: AgentLink): HostEntry | null {
    const entry = this.#entries.get(host);
    return entry?.link === link ? entry : null;
  }

  #leave(host: string, link: AgentLink): void {
    this.#links.delete(link);
    const entry = this.#current(host, link);
    if (!entry) return;
    entry.detach();
    this.#emit([{ kind: 'host', host }, ...entry.memberChanges()]);
  }

  forget(host: string): void {
    const entry = this.#entries.get(host);
    if (!entry) return;
    this.#entries.delete(host);
    this.#hosts = null;
    entry.link?.end(CLOSE.refused, 'the host was removed');
    this.#emit([{ kind: 'host', host }]);
  }

  #emit(changes: readonly AgentChange[]): void {
    if (this.#closed) return;
    for (const change of changes) {
      for (const listener of this.#listeners) {
        try {
          listener(change);
        } catch (failure) {
          this.#options.log.error('a listener of agent changes failed', {
            error: asBelayError(failure).message,
          });
        }
      }
    }
  }

  #tick(): void {
    const { clock } = this.#options;
    this.#cancelTick = clock.at(clock.now() + PING_INTERVAL / PING_GROUPS, () => {
      this.#pingGroup = (this.#pingGroup + 1) % PING_GROUPS;
      for (const link of this.#links) if (link.pingGroup === this.#pingGroup) link.ping();
      this.#tick();
    });
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#cancelTick();
    for (const detach of this.#detach) detach();
    for (const link of this.#links) link.end(CLOSE.shutdown, 'the control plane stops');
    this.#links.clear();
    this.#sockets.close();
  }
}
