/**
 * How a host joins: it makes its own key, asks with a one-time token for a certificate, and gets the authority and the
 * control planes' addresses with it. The token travels only over a connection that was verified against the pinned authority.
 */
import { createHash, X509Certificate } from 'node:crypto';
import { request as httpsRequest } from 'node:https';
import { asBelayError, BelayError } from '../base/error.ts';
import type { Secret } from '../base/secret.ts';
import type { AgentIdentity } from './client.ts';
import { makeSigningRequest } from './csr.ts';
import { JOIN_TIMEOUT, MAX_JOIN_BODY } from './limits.ts';
import * as is from './shape.ts';

export interface JoinRequest {
  readonly token: string;
  readonly hostName: string;
  /** PKCS#10, PEM; holds only the public key. */
  readonly csrPem: string;
}
export interface JoinAnswer {
  readonly certificatePem: string;
  readonly caPem: string;
  /** All control planes the agent should stay connected to. */
  readonly urls: readonly string[];
}

// ── control plane ──────────────────────────────────────────────────────────────────────────────────────────────────

export interface JoinOptions {
  /** Uses the token up for this host; BelayErrors `TokenInvalid`, `TokenExpired`, `TokenUsed` (never) refuse. */
  readonly redeem: (token: string, hostName: string) => Promise<void>;
  /** Signs the host's key; called only after the token was redeemed. */
  readonly sign: (hostName: string, csrPem: string) => Promise<{ readonly certificatePem: string }>;
  readonly caPem: () => string;
  readonly urls: () => readonly string[];
}

const joinShape = is.object({ token: is.text, hostName: is.text, csrPem: is.text });
/** Host names are certificate subjects, label values and file names. */
const HOST_NAME = /^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$/;

/**
 * The answer to `POST /agent/v1/join`; the face mounts it (and `GET /agent/v1/ca`, which gives `caPem` as text).
 * Everything that can be wrong with the request itself is found before the token is used up.
 */
export function createJoinHandler(options: JoinOptions): (body: unknown) => Promise<JoinAnswer> {
  return async (body) => {
    joinShape(body, 'join');
    const { token, hostName, csrPem } = body as JoinRequest;
    if (!HOST_NAME.test(hostName)) {
      throw new BelayError('Invalid', `"${hostName.slice(0, 80)}" is not a host name`, {
        retry: 'never',
        fix: 'Use --name with up to 63 lower-case letters, digits, dots and dashes.',
      });
    }
    if (!csrPem.includes('-----BEGIN CERTIFICATE REQUEST-----'))
      is.misfit('join.csrPem', 'a certificate request');
    await options.redeem(token, hostName);
    const { certificatePem } = await options.sign(hostName, csrPem);
    return { certificatePem, caPem: options.caPem(), urls: options.urls() };
  };
}

// ── host ───────────────────────────────────────────────────────────────────────────────────────────────────────────

export interface JoinHostOptions {
  /** Any control plane. */
  readonly url: string;
  readonly token: Secret<string>;
  /** `sha256:<hex>` of the authority's certificate; null: the server must have a certificate this machine trusts already. */
  readonly caFingerprint: string | null;
  readonly hostName: string;
}

/** Joins and gives what the agent must keep. The key is made here and never leaves. Errors: `CaMismatch`, `JoinRefused` (never); network (later). */
export async function joinHost(
  options: JoinHostOptions,
): Promise<{ readonly identity: AgentIdentity; readonly urls: readonly string[] }> {
  const ca = options.caFingerprint === null ? undefined : await fetchCa(options.url, options.caFingerprint);
  const { keyPem, csrPem } = await makeSigningRequest(options.hostName);
  const body: JoinRequest = { token: options.token.reveal(), hostName: options.hostName, csrPem };
  const answer = await call(new URL('/agent/v1/join', options.url), { body, ...(ca ? { ca } : {}) });
  joinAnswer(answer, 'answer');
  const { certificatePem, caPem, urls } = answer as JoinAnswer;
  const identity = { host: options.hostName, keyPem, certificatePem, caPem };
  return { identity, urls: urls.length > 0 ? urls : [options.url] };
}

const joinAnswer = is.object({ certificatePem: is.text, caPem: is.text, urls: is.list(is.text) });

/** The authority over an unverified connection: only a certificate with the pinned fingerprint is believed. */
async function fetchCa(url: string, fingerprint: string): Promise<string> {
  const answer = await call(new URL('/agent/v1/ca', url), { insecure: true });
  const pems = String(answer).match(/-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g) ?? [];
  const pinned = pems.find((pem) => caFingerprint(pem) === normalise(fingerprint));
  if (pinned !== undefined) return `${pinned}\n`;
  throw new BelayError(
    'CaMismatch',
    `${new URL(url).host} has another certificate authority than the one given`,
    {
      retry: 'never',
      fix: 'Compare --ca-fingerprint with what `belay host token` printed; somebody may be in between.',
    },
  );
}

/** `sha256:<hex>` of a certificate, as printed with a join token. */
export function caFingerprint(pem: string): string {
  return `sha256:${createHash('sha256').update(new X509Certificate(pem).raw).digest('hex')}`;
}

function normalise(fingerprint: string): string {
  return `sha256:${fingerprint
    .toLowerCase()
    .replace(/^sha256:/, '')
    .replaceAll(':', '')}`;
}

interface CallOptions {
  readonly body?: unknown;
  readonly ca?: string;
  readonly insecure?: boolean;
}

function call(url: URL, options: CallOptions): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const body = options.body === undefined ? undefined : JSON.stringify(options.body);
    const request = httpsRequest(url, {
      method: body === undefined ? 'GET' : 'POST',
      agent: false,
      timeout: JOIN_TIMEOUT,
      rejectUnauthorized: !options.insecure,
      ...(options.ca ? { ca: options.ca } : {}),
      headers:
        body === undefined
          ? {}
          : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) },
    });
    request.on('timeout', () => request.destroy(new Error('no answer in time')));
    request.on('error', (error) =>
      reject(new BelayError('ControlPlaneUnreachable', `${url.host}: ${error.message}`)),
    );
    request.on('response', (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => {
        text += chunk;
        if (text.length > MAX_JOIN_BODY) request.destroy(new Error('the answer is too long'));
      });
      response.on('end', () => {
        if (response.statusCode === 200) return resolve(body === undefined ? text : parse(text));
        reject(refusal(response.statusCode ?? 0, text));
      });
    });
    request.end(body);
  });
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (failure) {
    throw new BelayError('ProtocolError', `the answer is not JSON: ${asBelayError(failure).message}`, {
      retry: 'never',
    });
  }
}

/** A 4xx is an answer about this token or name and will not change by itself; anything else may. */
function refusal(status: number, text: string): BelayError {
  let problem: { code?: unknown; detail?: unknown; fix?: unknown } = {};
  try {
    problem = JSON.parse(text);
  } catch {
    // The status says enough.
  }
  const code = typeof problem.code === 'string' ? problem.code : 'JoinRefused';
  const detail = typeof problem.detail === 'string' ? problem.detail : `the control plane answered ${status}`;
  const final = status >= 400 && status < 500 && status !== 429;
  return new BelayError(code, detail, {
    retry: final ? 'never' : 'later',
    fix: typeof problem.fix === 'string' ? problem.fix : 'Make a new join token on the control plane.',
  });
}
