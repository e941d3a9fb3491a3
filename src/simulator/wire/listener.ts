/**
 * The sockets of a process: TCP addresses and the unix socket, plain and TLS on one port. The first byte of a connection
 * tells TLS (0x16) from plain; what is allowed follows the TLS mode of that moment.
 */
import { chmodSync, rmSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import type { TLSSocket, Server as TlsServer } from 'node:tls';
import type { Peer } from './connection.ts';

export type TlsMode = 'disabled' | 'allowTLS' | 'preferTLS' | 'requireTLS';

/** How TLS connections are taken; provided by the process part, which owns certificates. */
export interface TlsAcceptor {
  mode(): TlsMode;
  /** A server that is never listening itself: accepted sockets are handed to it. */
  server(
    onSecure: (socket: TLSSocket) => void,
    onError: (failure: Error, socket: TLSSocket) => void,
  ): TlsServer;
  /** Null when the peer is acceptable, else why not. */
  refuses(socket: TLSSocket): string | null;
  subjectOf(socket: TLSSocket): string | undefined;
}

export interface ListenerEvents {
  /** A connection was accepted, after its TLS handshake. False: too many, it is closed. */
  onAccepted(socket: Socket, peer: Omit<Peer, 'id'>): void;
  /** A connection ended before its first message. */
  onRefused(remote: string, code: number, codeName: string, reason: string): void;
}

const TLS_HANDSHAKE = 0x16;

/** Listening sockets with a life: `listen`, then `close`. */
export class Listener {
  readonly #events: ListenerEvents;
  readonly #tls: TlsAcceptor;
  readonly #servers: Server[] = [];
  readonly #pending = new Set<Socket>();
  #tlsServer: TlsServer | null = null;
  #socketPath: string | null = null;

  constructor(tls: TlsAcceptor, events: ListenerEvents) {
    this.#tls = tls;
    this.#events = events;
  }

  /** Binds one address; port 0 takes a free one. Gives the port. Throws the system's error. */
  async listen(host: string, port: number): Promise<number> {
    const server = createServer((socket) => this.#accept(socket, remoteOf(socket)));
    await bind(server, { host, port, ...(host === '::' ? { ipv6Only: true } : {}) });
    this.#servers.push(server);
    const address = server.address();
    return typeof address === 'object' && address !== null ? address.port : port;
  }

  /** Binds the unix socket, taking over a dead one. */
  async listenUnix(path: string, mode: number): Promise<void> {
    rmSync(path, { force: true });
    const server = createServer((socket) => this.#accept(socket, 'anonymous unix socket:27017'));
    await bind(server, { path });
    chmodSync(path, mode);
    this.#servers.push(server);
    this.#socketPath = path;
  }

  /** Stops accepting; connections that are served go on. */
  close(): void {
    for (const server of this.#servers) server.close();
    for (const socket of this.#pending) socket.destroy();
    if (this.#socketPath !== null) rmSync(this.#socketPath, { force: true });
  }

  #accept(socket: Socket, remote: string): void {
    this.#pending.add(socket);
    socket.setNoDelay(true);
    socket.on('error', () => socket.destroy());
    socket.on('close', () => this.#pending.delete(socket));
    socket.once('data', (chunk: Buffer) => {
      socket.pause();
      socket.unshift(chunk);
      this.#pending.delete(socket);
      if (chunk[0] === TLS_HANDSHAKE) this.#acceptTls(socket, remote);
      else this.#acceptPlain(socket, remote);
    });
  }

  #acceptPlain(socket: Socket, remote: string): void {
    if (this.#tls.mode() === 'requireTLS' && !isLocal(socket)) {
      this.#refuse(
        socket,
        remote,
        141,
        'SSLHandshakeFailed',
        'The server is configured to only allow SSL connections',
      );
      return;
    }
    this.#events.onAccepted(socket, {
      remote,
      local: socket.localAddress ?? '',
      loopback: isLoopback(socket),
      tls: false,
      sni: undefined,
      peerSubject: undefined,
    });
    socket.resume();
  }

  #acceptTls(socket: Socket, remote: string): void {
    if (this.#tls.mode() === 'disabled') {
      this.#refuse(
        socket,
        remote,
        141,
        'SSLHandshakeFailed',
        'SSL handshake received but server is started without SSL support',
      );
      return;
    }
    this.#tlsServer ??= this.#tls.server(
      (secure) => this.#secured(secure),
      (failure, secure) =>
        this.#events.onRefused(remoteOf(secure), 141, 'SSLHandshakeFailed', failure.message),
    );
    this.#tlsServer.emit('connection', socket);
  }

  #secured(socket: TLSSocket): void {
    const remote = remoteOf(socket);
    socket.on('error', () => socket.destroy());
    const reason = this.#tls.refuses(socket);
    if (reason !== null) {
      this.#refuse(socket, remote, 141, 'SSLHandshakeFailed', reason);
      return;
    }
    const sni = (socket as TLSSocket & { servername?: string | false }).servername;
    this.#events.onAccepted(socket, {
      remote,
      local: socket.localAddress ?? '',
      loopback: isLoopback(socket),
      tls: true,
      sni: typeof sni === 'string' ? sni : undefined,
      peerSubject: this.#tls.subjectOf(socket),
    });
  }

  #refuse(socket: Socket, remote: string, code: number, codeName: string, reason: string): void {
    this.#events.onRefused(remote, code, codeName, reason);
    socket.destroy();
  }
}

function bind(
  server: Server,
  options: { host?: string; port?: number; path?: string; ipv6Only?: boolean },
): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(options, () => {
      server.off('error', reject);
      resolve();
    });
  });
}

/** Unix sockets are never TLS, and always local. */
const isLocal = (socket: Socket): boolean =>
  socket.remoteAddress === undefined && socket.localAddress === undefined;

function remoteOf(socket: Socket): string {
  const address = socket.remoteAddress ?? 'anonymous unix socket';
  const plain = address.startsWith('::ffff:') ? address.slice(7) : address;
  return `${plain.includes(':') ? `[${plain}]` : plain}:${socket.remotePort ?? 27017}`;
}

function isLoopback(socket: Socket): boolean {
  const address = socket.remoteAddress;
  if (address === undefined) return true;
  return address === '::1' || /^(::ffff:)?127\./.test(address);
}
