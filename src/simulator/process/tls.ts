/** Certificates and TLS of a process: contexts for both directions, the mode, rotation (7). */

import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import {
  createSecureContext,
  createServer,
  type PeerCertificate,
  type SecureContextOptions,
  type TLSSocket,
  type Server as TlsServer,
} from 'node:tls';
import { subjectOf } from '../auth/subject.ts';
import type { ParsedOptions } from '../contracts.ts';
import type { TlsAcceptor, TlsMode } from '../wire/listener.ts';
import { OptionsError, option } from './options.ts';

/** A certificate file that can't be used: error 140, exit 1 at start. */
export class TlsFileError extends Error {
  readonly code = 140;
  readonly codeName = 'InvalidSSLConfiguration';
}

interface Files {
  readonly certificateKeyFile: string;
  readonly certificateKeyFilePassword: string | undefined;
  readonly clusterFile: string | undefined;
  readonly clusterPassword: string | undefined;
  readonly CAFile: string | undefined;
  readonly clusterCAFile: string | undefined;
  readonly CRLFile: string | undefined;
}

interface Loaded {
  readonly inbound: SecureContextOptions;
  readonly outbound: SecureContextOptions;
  readonly certificate: X509Certificate;
}

/** Options for a connection this process opens to another member. */
export interface OutboundTls {
  readonly context: SecureContextOptions;
  readonly verifyHost: boolean;
  readonly rejectUnauthorized: boolean;
}

const SSL_NAMES: Readonly<Record<string, TlsMode>> = {
  allowSSL: 'allowTLS',
  preferSSL: 'preferTLS',
  requireSSL: 'requireTLS',
};

/** The mode in today's words. */
export const tlsModeOf = (word: string | undefined): TlsMode =>
  SSL_NAMES[word ?? ''] ?? ((word ?? 'disabled') as TlsMode);

/** The TLS side of one process, with a life: settings at start, rotation, mode changes. */
export class TlsSettings implements TlsAcceptor {
  readonly #options: ParsedOptions;
  #mode: TlsMode;
  #loaded: Loaded | null = null;
  #servers: TlsServer[] = [];

  /** Holds the options against each other; a conflict is exit 2. Files are read by `load`. */
  constructor(options: ParsedOptions) {
    this.#options = options;
    this.#mode = tlsModeOf(option<string>(options, 'net.tls.mode'));
    assertOptions(options, this.#mode);
  }

  mode(): TlsMode {
    return this.#mode;
  }

  setMode(mode: TlsMode): void {
    this.#mode = mode;
  }

  get enabled(): boolean {
    return this.#mode !== 'disabled';
  }

  /** The served certificate; null without TLS. */
  get certificate(): X509Certificate | null {
    return this.#loaded?.certificate ?? null;
  }

  get hasCa(): boolean {
    return this.#setting('CAFile') !== undefined;
  }

  /** Reads all files; what was served before stays when one of them is bad. Throws TlsFileError. */
  load(): void {
    if (!this.enabled) return;
    const loaded = loadFiles(this.#files(), versionsOf(this.#setting('disabledProtocols')));
    this.#loaded = loaded;
    for (const server of this.#servers) server.setSecureContext(loaded.inbound);
  }

  /** How to open a connection to another member: null means plain. */
  outbound(): OutboundTls | null {
    if (this.#loaded === null || (this.#mode !== 'preferTLS' && this.#mode !== 'requireTLS')) return null;
    return {
      context: this.#loaded.outbound,
      verifyHost: this.#setting('allowInvalidHostnames') !== true,
      rejectUnauthorized: this.#setting('allowInvalidCertificates') !== true,
    };
  }

  /** Own subject, when certificates are used. */
  ownSubject(): string | undefined {
    return this.#loaded === null ? undefined : subjectOf(this.#loaded.certificate.raw);
  }

  server(
    onSecure: (socket: TLSSocket) => void,
    onError: (failure: Error, socket: TLSSocket) => void,
  ): TlsServer {
    const server = createServer({
      ...this.#loaded?.inbound,
      requestCert: this.hasCa,
      rejectUnauthorized: false,
    });
    server.on('secureConnection', onSecure);
    server.on('tlsClientError', onError);
    this.#servers.push(server);
    return server;
  }

  refuses(socket: TLSSocket): string | null {
    if (!this.hasCa) return null;
    if (peerOf(socket) === undefined) {
      return this.#setting('allowConnectionsWithoutCertificates') === true ||
        this.#setting('allowInvalidCertificates') === true
        ? null
        : 'No SSL certificate provided by peer; connection rejected';
    }
    if (socket.authorized || this.#setting('allowInvalidCertificates') === true) return null;
    return `SSL peer certificate validation failed: ${String(socket.authorizationError)}`;
  }

  /** Only of a verified certificate: one that is merely tolerated can't log in. */
  subjectOf(socket: TLSSocket): string | undefined {
    const peer = peerOf(socket);
    return peer === undefined || !socket.authorized ? undefined : subjectOf(peer.raw);
  }

  #setting(name: string): unknown {
    return option(this.#options, `net.tls.${name}`);
  }

  #files(): Files {
    const file = (name: string): string | undefined => this.#setting(name) as string | undefined;
    return {
      certificateKeyFile: file('certificateKeyFile') ?? '',
      certificateKeyFilePassword: file('certificateKeyFilePassword'),
      clusterFile: file('clusterFile'),
      clusterPassword: file('clusterPassword'),
      CAFile: file('CAFile'),
      clusterCAFile: file('clusterCAFile'),
      CRLFile: file('CRLFile'),
    };
  }
}

function peerOf(socket: TLSSocket): PeerCertificate | undefined {
  const peer = socket.getPeerCertificate();
  return peer?.raw === undefined ? undefined : peer;
}

function assertOptions(options: ParsedOptions, mode: TlsMode): void {
  const tls = option<Record<string, unknown>>(options, 'net.tls') ?? {};
  const files = ['certificateKeyFile', 'clusterFile', 'CAFile', 'clusterCAFile', 'CRLFile'].filter(
    (name) => tls[name] !== undefined,
  );
  if (mode === 'disabled' && files.length > 0) {
    throw new OptionsError(
      'BadValue: need to enable TLS via the sslMode/tlsMode flag when using TLS configuration parameters',
    );
  }
  if (mode !== 'disabled' && tls['certificateKeyFile'] === undefined) {
    throw new OptionsError('BadValue: need tlsCertificateKeyFile or certificateSelector when TLS is enabled');
  }
}

type Versions = Pick<SecureContextOptions, 'minVersion' | 'maxVersion'>;

/** `TLS1_0,TLS1_1` and so on as the range that is left; 1.0 is off unless someone says `none`. */
function versionsOf(disabled: unknown): Versions {
  if (typeof disabled !== 'string') return {};
  const off = disabled.split(',').map((name) => name.trim());
  if (off.includes('TLS1_3')) return { maxVersion: 'TLSv1.2' };
  return off.includes('TLS1_2') ? { minVersion: 'TLSv1.3' } : {};
}

function loadFiles(files: Files, versions: Versions): Loaded {
  const served = readPem(files.certificateKeyFile, files.certificateKeyFilePassword);
  const member = files.clusterFile === undefined ? served : readPem(files.clusterFile, files.clusterPassword);
  const ca = files.CAFile === undefined ? undefined : readCa(files.CAFile);
  const memberCa = files.clusterCAFile === undefined ? ca : readCa(files.clusterCAFile);
  const crl = files.CRLFile === undefined ? {} : { crl: readText(files.CRLFile) };
  const inboundCa = [ca, files.clusterCAFile === undefined ? undefined : memberCa].filter(
    (text) => text !== undefined,
  );
  const inbound = { ...served, ...versions, ...(inboundCa.length > 0 ? { ca: inboundCa } : {}), ...crl };
  const outbound = { ...member, ...versions, ...(ca === undefined ? {} : { ca }), ...crl };
  assertUsable(inbound);
  assertUsable(outbound);
  const certificate = new X509Certificate(served.cert);
  const now = Date.now();
  if (Date.parse(certificate.validTo) < now || Date.parse(certificate.validFrom) > now) {
    throw new TlsFileError('The provided SSL certificate is expired or not yet valid.');
  }
  return { inbound, outbound, certificate };
}

/** Key and certificate chain from one file. */
function readPem(
  path: string,
  passphrase: string | undefined,
): { key: string; cert: string; passphrase?: string } {
  const text = readText(path);
  return { key: text, cert: text, ...(passphrase === undefined ? {} : { passphrase }) };
}

function readCa(path: string): string {
  const text = readText(path);
  if (!text.includes('-----BEGIN CERTIFICATE-----'))
    throw new TlsFileError(`Can not set up CA file ${path}.`);
  return text;
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    throw new TlsFileError(`Can not set up PEM key file.`);
  }
}

function assertUsable(options: SecureContextOptions): void {
  try {
    createSecureContext(options);
  } catch {
    throw new TlsFileError('Can not set up PEM key file.');
  }
}
