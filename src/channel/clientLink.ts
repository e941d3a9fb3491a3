/** One control plane as the agent holds it: connect, report, answer, reconnect. */
import { WebSocket } from 'ws';
import { asBelayError } from '../base/error.ts';
import type { Millis } from '../base/units.ts';
import type { AgentIdentity, ConnectOptions } from './client.ts';
import {
  BACKPRESSURE,
  BACKPRESSURE_RETRY,
  CLOSE,
  LOOK_TIMEOUT,
  MAX_MESSAGE,
  PING_INTERVAL,
  PINGS_MISSED,
  PROTOCOL_VERSION,
  RECONNECT_CAP,
  RECONNECT_FIRST,
  REPLACED_WAIT,
  REPORT_DELAY,
} from './limits.ts';
import {
  type AgentAsk,
  type AgentMessage,
  decodeAsk,
  decodeMessage,
  type ServerMessage,
} from './protocol.ts';
import { disconnected, Requests } from './requests.ts';
import { misfit } from './shape.ts';

export class ControlPlaneLink {
  readonly url: string;
  readonly #session: string;
  readonly #options: ConnectOptions;
  readonly #dirty = new Set<string>();
  #hostDirty = false;
  #ws: WebSocket | null = null;
  #requests: Requests | null = null;
  #ready = false;
  #attempts = 0;
  #heard = false;
  #silent = 0;
  #closed = false;
  #flushing = false;
  #cancelReconnect: () => void = () => {};
  #cancelWatch: () => void = () => {};
  #cancelFlush: () => void = () => {};

  constructor(url: string, session: string, options: ConnectOptions) {
    this.url = url;
    this.#session = session;
    this.#options = options;
  }

  get ready(): boolean {
    return this.#ready;
  }

  open(): void {
    if (this.#closed) return;
    const ws = new WebSocket(channelUrl(this.url), tlsOptions(this.#options.identity()));
    this.#ws = ws;
    this.#requests = new Requests({
      send: (message) => this.#write(message),
      answer: (method, params) => this.#answer(decodeAsk(method, params)),
      clock: this.#options.clock,
    });
    ws.on('open', () => this.#greet());
    ws.on('message', (data) => this.#take(String(data)));
    ws.on('ping', () => this.#alive());
    ws.on('pong', () => this.#alive());
    ws.on('error', (error) =>
      this.#options.log.debug('control plane', { url: this.url, error: error.message }),
    );
    ws.on('close', (code, reason) => this.#lost(ws, code, String(reason)));
  }

  memberChanged(serviceId: string): void {
    if (!this.#ready) return;
    this.#dirty.add(serviceId);
    this.#flushSoon(REPORT_DELAY);
  }

  hostChanged(): void {
    if (!this.#ready) return;
    this.#hostDirty = true;
    this.#flushSoon(REPORT_DELAY);
  }

  /** Sends when connected; operations and members are complete in the next hello or answer otherwise. */
  send(message: AgentMessage): void {
    if (this.#ready) this.#write(message);
  }

  async renew(csrPem: string): Promise<{ readonly certificatePem: string; readonly caPem: string }> {
    if (!this.#ready || !this.#requests) throw disconnected();
    const answer = await this.#requests.ask(
      'renew',
      { csrPem },
      { timeoutMillis: LOOK_TIMEOUT, unanswered: 'later' },
    );
    const { certificatePem, caPem } = (answer ?? {}) as Record<string, unknown>;
    if (typeof certificatePem !== 'string' || typeof caPem !== 'string')
      return misfit('renewal', 'a certificate');
    return { certificatePem, caPem };
  }

  close(): void {
    this.#closed = true;
    this.#reset();
    this.#ws?.close(1000, 'the agent stops');
    // A peer that is gone does not answer the close; the process must not wait for it.
    this.#ws?.terminate();
  }

  // ── connection ─────────────────────────────────────────────────────────────────────────────────────────────────

  #greet(): void {
    const { state } = this.#options;
    this.#dirty.clear();
    this.#hostDirty = false;
    this.#ready = true;
    this.#write({
      t: 'hello',
      v: PROTOCOL_VERSION,
      session: this.#session,
      host: state.host(),
      members: state.members(),
    });
    this.#watch();
  }

  #lost(ws: WebSocket, code: number, reason: string): void {
    if (ws !== this.#ws || this.#closed) return;
    if (this.#ready) this.#options.log.warn('control plane lost', { url: this.url, code, reason });
    this.#reset();
    const wait = this.#backoff(code);
    const { clock } = this.#options;
    this.#cancelReconnect = clock.at(clock.now() + wait, () => this.open());
  }

  #backoff(code: number): Millis {
    const random = this.#options.random ?? Math.random;
    if (code === CLOSE.replaced || code === CLOSE.refused) return REPLACED_WAIT;
    const wait = Math.min(RECONNECT_CAP, RECONNECT_FIRST * 2 ** this.#attempts);
    this.#attempts = Math.min(this.#attempts + 1, 16);
    return wait * (0.5 + random() / 2);
  }

  #reset(): void {
    this.#ready = false;
    this.#flushing = false;
    this.#cancelReconnect();
    this.#cancelWatch();
    this.#cancelFlush();
    this.#requests?.close();
    this.#requests = null;
  }

  /** The control plane pings; the agent pings only when it heard nothing, and gives up after two intervals of silence. */
  #watch(): void {
    this.#silent = 0;
    this.#heard = true;
    const look = (): void => {
      this.#silent = this.#heard ? 0 : this.#silent + 1;
      this.#heard = false;
      if (this.#silent > PINGS_MISSED) this.#ws?.terminate();
      else if (this.#silent > 0) this.#ws?.ping();
      later();
    };
    const later = (): void => {
      const { clock } = this.#options;
      this.#cancelWatch = clock.at(clock.now() + PING_INTERVAL, look);
    };
    later();
  }

  #alive(): void {
    this.#heard = true;
  }

  // ── messages ───────────────────────────────────────────────────────────────────────────────────────────────────

  #take(data: string): void {
    this.#alive();
    try {
      const message = decodeMessage(data) as ServerMessage;
      if (message.t === 'welcome') {
        this.#attempts = 0;
        this.#options.log.info('connected', { url: this.url, controlPlane: message.controlPlane });
        this.#options.onConnected?.(this.url);
      } else this.#requests?.take(message);
    } catch (failure) {
      this.#options.log.warn('control plane message refused', { error: asBelayError(failure).message });
      this.#ws?.close(CLOSE.protocol, 'message not understood');
    }
  }

  async #answer(ask: AgentAsk): Promise<unknown> {
    const { handlers, fences } = this.#options;
    switch (ask.method) {
      case 'publish':
        return fences.pass(ask.fence, () => handlers.publish(ask.serviceId, ask.snapshot, ask.proviso ?? {}));
      case 'run':
        return fences.pass(ask.fence, (signal) =>
          handlers.run(ask.serviceId, ask.command, {
            timeoutMillis: ask.timeoutMillis,
            stepId: ask.stepId,
            signal,
          }),
        );
      case 'startOperation':
        return fences.pass(ask.fence, () => handlers.startOperation(ask.operation));
      case 'operation':
        return ask.fence === undefined
          ? handlers.operation(ask.id)
          : fences.pass(ask.fence, async () => handlers.operation(ask.id));
      case 'services':
        return handlers.services();
      case 'renewIdentity':
        return handlers.renewIdentity();
    }
  }

  #flushSoon(delay: Millis): void {
    if (this.#flushing) return;
    this.#flushing = true;
    const { clock } = this.#options;
    this.#cancelFlush = clock.at(clock.now() + delay, () => this.#flush());
  }

  #flush(): void {
    this.#flushing = false;
    if (!this.#ready || !this.#ws) return;
    if (this.#ws.bufferedAmount > BACKPRESSURE) {
      this.#flushSoon(BACKPRESSURE_RETRY);
      return;
    }
    const { state } = this.#options;
    const items = [...this.#dirty].map((id) => [id, state.member(id)] as const);
    const members = items.flatMap(([, item]) => (item ? [item] : []));
    const gone = items.flatMap(([id, item]) => (item ? [] : [id]));
    const host = this.#hostDirty ? { host: state.host() } : {};
    this.#dirty.clear();
    this.#hostDirty = false;
    this.#write({ t: 'report', ...host, members, gone });
  }

  #write(message: AgentMessage): void {
    if (this.#ws?.readyState === WebSocket.OPEN) this.#ws.send(JSON.stringify(message));
  }
}

function channelUrl(url: string): string {
  const target = new URL('/agent/v1', url);
  target.protocol = 'wss:';
  return target.href;
}

function tlsOptions(identity: AgentIdentity): WebSocket.ClientOptions & Record<string, unknown> {
  return {
    ca: identity.caPem,
    cert: identity.certificatePem,
    key: identity.keyPem,
    minVersion: 'TLSv1.2',
    perMessageDeflate: false,
    maxPayload: MAX_MESSAGE,
    handshakeTimeout: 10_000,
  };
}
