import { setTimeout as after } from 'node:timers/promises';
import { BelayError, type Problem } from '../base/error.ts';
import type { Secret } from '../base/secret.ts';
import { type Millis, SECOND } from '../base/units.ts';

/** An object as the API gives it. */
export interface ApiObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly uid: string;
    readonly generation: number;
    readonly resourceVersion: string;
    readonly creationTimestamp: string;
    readonly deletionTimestamp?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly spec: Readonly<Record<string, unknown>>;
  readonly status?: Readonly<Record<string, unknown>>;
}
export interface ApiList {
  readonly items: readonly ApiObject[];
  readonly metadata: { readonly resourceVersion: string; readonly continue?: string };
}
/** `LISTED` comes once, when everything that is there was given as ADDED. */
export type WatchEvent =
  | { readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'; readonly object: ApiObject }
  | { readonly type: 'LISTED' };

type Query = Readonly<Record<string, string | undefined>>;

/** Longest wait for an answer that is no stream. */
const ANSWER_WITHIN: Millis = 60 * SECOND;
/** A watch that worked before gives up after this many failed connections in a row. */
const RECONNECTS = 8;
/** A lost connection is tried again after this, doubling up to the second. */
const RECONNECT_AFTER: Millis = 100;
const RECONNECT_LIMIT: Millis = 2 * SECOND;

export interface ClientOptions {
  readonly fetcher?: typeof fetch;
  /** File with the certificate authority to trust besides the usual ones. */
  readonly caFile?: string;
}

/** The API as the verbs use it. Failures are BelayErrors with the server's code, detail, problems and fix. */
export class ApiClient {
  readonly url: string;
  readonly #token: () => Secret<string> | null;
  readonly #fetch: typeof fetch;
  readonly #caFile: string | undefined;
  #trusted = false;

  constructor(
    url: string,
    token: Secret<string> | null | (() => Secret<string> | null),
    options: ClientOptions = {},
  ) {
    this.url = serverUrl(url);
    this.#token = typeof token === 'function' ? token : () => token;
    this.#fetch = options.fetcher ?? fetch;
    this.#caFile = options.caFile;
  }

  /** One request with a JSON answer; undefined for an answer without content. */
  async request<T>(
    method: string,
    path: string,
    options: { body?: unknown; query?: Query; signal?: AbortSignal } = {},
  ): Promise<T> {
    const signal = options.signal ?? AbortSignal.timeout(ANSWER_WITHIN);
    const response = await this.#send(method, path, { ...options, signal });
    const text = await response.text().catch((cause: unknown) => {
      throw unreachable(this.url, cause);
    });
    if (text === '') return undefined as T;
    try {
      return JSON.parse(text) as T;
    } catch (cause) {
      throw new BelayError('NotBelay', `${this.url} answers, but not as a control plane of Belay`, {
        retry: 'never',
        fix: 'check the address: --server URL or BELAY_SERVER',
        cause,
      });
    }
  }

  get<T = ApiObject>(path: string, query: Query = {}): Promise<T> {
    return this.request<T>('GET', path, { query });
  }

  /**
   * What is, then every change, until the signal. Lost connections are resumed; after a `Gone` everything is read again
   * and what vanished meanwhile is told as DELETED.
   */
  async *watch(path: string, query: Query, signal: AbortSignal): AsyncGenerator<WatchEvent> {
    const known = new Map<string, ApiObject>();
    let since: string | undefined;
    let worked = false;
    let failures = 0;
    while (!signal.aborted) {
      const listed = new Set<string>();
      try {
        const response = await this.#send('GET', path, {
          query: { ...query, watch: 'true', resourceVersion: since },
          signal,
        });
        worked = true;
        failures = 0;
        for await (const { type, id, data } of readEvents(response)) {
          if (type === 'ERROR') throw errorOf(data, 200);
          since = id ?? since;
          if (type === 'BOOKMARK') {
            for (const [key, object] of known)
              if (!listed.has(key) && known.delete(key)) yield { type: 'DELETED', object };
            yield { type: 'LISTED' };
            continue;
          }
          const event = { type, object: data as ApiObject } as Exclude<WatchEvent, { type: 'LISTED' }>;
          const key = `${event.object.metadata.namespace}/${event.object.metadata.name}`;
          listed.add(key);
          if (event.type === 'DELETED') known.delete(key);
          else known.set(key, event.object);
          yield event;
        }
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof BelayError && error.code === 'Gone') since = undefined;
        else if (!worked || (error instanceof BelayError && error.retry === 'never')) throw error;
        if (++failures > RECONNECTS) throw error;
      }
      await pause(Math.min(RECONNECT_LIMIT, RECONNECT_AFTER * 2 ** failures), signal);
    }
  }

  async #send(
    method: string,
    path: string,
    options: { body?: unknown; query?: Query; signal?: AbortSignal },
  ): Promise<Response> {
    if (!this.#trusted && this.#caFile !== undefined) await trust(this.#caFile);
    this.#trusted = true;
    const url = new URL(this.url + path);
    for (const [name, value] of Object.entries(options.query ?? {}))
      if (value !== undefined) url.searchParams.set(name, value);
    const token = this.#token();
    const headers: Record<string, string> = { accept: 'application/json' };
    if (token !== null) headers['authorization'] = `Bearer ${token.reveal()}`;
    if (options.body !== undefined) headers['content-type'] = 'application/json';
    let response: Response;
    try {
      response = await this.#fetch(url, {
        method,
        headers,
        redirect: 'error',
        ...(options.body === undefined ? {} : { body: JSON.stringify(options.body) }),
        ...(options.signal ? { signal: options.signal } : {}),
      });
    } catch (cause) {
      throw unreachable(this.url, cause);
    }
    if (!response.ok) throw await problemOf(response, this.url);
    return response;
  }
}

/** A server's address in one form: with a scheme, without a slash at the end. `Usage` for what is none. */
export function serverUrl(text: string): string {
  const whole = /^[a-z]+:\/\//i.test(text) ? text : `http://${text}`;
  try {
    const { protocol, host, pathname, username } = new URL(whole);
    if (/^https?:$/.test(protocol) && username === '')
      return `${protocol}//${host}${pathname.replace(/\/+$/, '')}`;
  } catch {
    // said below
  }
  throw new BelayError('Usage', `${text} is not the address of a control plane`, {
    retry: 'never',
    fix: 'write it like http://127.0.0.1:7717 or https://control:7717',
  });
}

/** Adds a CA to those this process trusts. The platform's own list stays. */
async function trust(file: string): Promise<void> {
  const [{ readFileSync }, tls] = await Promise.all([import('node:fs'), import('node:tls')]);
  try {
    tls.setDefaultCACertificates([...tls.getCACertificates('default'), readFileSync(file, 'utf8')]);
  } catch (cause) {
    const why = (cause as Error).message;
    throw new BelayError('Usage', `${file} cannot be read as a certificate authority: ${why}`, {
      retry: 'never',
      fix: 'name the ca.pem in the data folder of the control plane, or a copy of it',
      cause,
    });
  }
}

/** Codes by which the runtime says that a certificate is not trusted. */
const UNTRUSTED = /CERT|SELF_SIGNED|UNABLE_TO_VERIFY|ALTNAME/;

function unreachable(url: string, failure: unknown): BelayError {
  const cause = (failure as { cause?: { code?: string; message?: string; errors?: { message: string }[] } })
    .cause;
  if (failure instanceof Error && failure.name === 'TimeoutError') {
    return new BelayError('ServerUnreachable', `no answer from ${url} within ${ANSWER_WITHIN / SECOND} s`, {
      fix: 'look at its log; it may be overloaded or hang',
      cause: failure,
    });
  }
  if (UNTRUSTED.test(cause?.code ?? '')) {
    // Behind the semicolon stands advice about the runtime, which is not the reader's.
    const [why = ''] = (cause?.message ?? '').split(';');
    return new BelayError('ServerUntrusted', `the certificate of ${url} is not trusted: ${why}`, {
      retry: 'never',
      fix: 'copy ca.pem from the data folder of the control plane, and name it with --ca-file or BELAY_CA_FILE',
      cause: failure,
    });
  }
  // A name with several addresses fails with one error each.
  const why = cause?.errors?.[0]?.message ?? cause?.message ?? (failure as Error)?.message ?? String(failure);
  return new BelayError('ServerUnreachable', `no answer from ${url}: ${why}`, {
    fix: 'start it with: belay up   or name another with --server URL (or BELAY_SERVER)',
    cause: failure,
  });
}

async function problemOf(response: Response, url: string): Promise<BelayError> {
  const text = await response.text().catch(() => '');
  try {
    return errorOf(JSON.parse(text), response.status);
  } catch {
    return new BelayError(
      'NotBelay',
      `${url} answers ${response.status} ${response.statusText}, but not as Belay does`,
      {
        retry: response.status >= 500 ? 'later' : 'never',
        fix: 'check the address: --server URL or BELAY_SERVER',
      },
    );
  }
}

/** A problem document as an error. Throws for anything else. */
function errorOf(data: unknown, status: number): BelayError {
  const body = data as { code?: string; detail?: string; fix?: string; status?: number; errors?: Problem[] };
  if (typeof body.code !== 'string') throw new TypeError('not a problem document');
  return new BelayError(body.code, body.detail ?? body.code, {
    retry: (body.status ?? status) >= 500 ? 'later' : 'never',
    ...(body.fix === undefined ? {} : { fix: body.fix }),
    problems: body.errors ?? [],
  });
}

interface ServerSentEvent {
  readonly type: string;
  readonly id: string | undefined;
  readonly data: unknown;
}

/** Server-sent events with a JSON `data` line each. */
async function* readEvents(response: Response): AsyncGenerator<ServerSentEvent> {
  if (response.body === null) return;
  let rest = '';
  for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
    rest += chunk;
    for (let end = rest.indexOf('\n\n'); end >= 0; end = rest.indexOf('\n\n')) {
      const lines = rest.slice(0, end).split('\n');
      rest = rest.slice(end + 2);
      const field = (name: string) => lines.find((l) => l.startsWith(`${name}: `))?.slice(name.length + 2);
      const [type, data] = [field('event'), field('data')];
      if (type !== undefined && data !== undefined) yield { type, id: field('id'), data: JSON.parse(data) };
    }
  }
}

const pause = (millis: Millis, signal: AbortSignal): Promise<void> =>
  after(millis, undefined, { signal }).catch(() => {});

/** Path of a kind's objects; without a namespace those of all, or of a kind that has none. */
export const objectPath = (plural: string, namespace: string | null, name?: string): string => {
  const base =
    namespace === null
      ? `/api/v1/${plural}`
      : `/api/v1/namespaces/${encodeURIComponent(namespace)}/${plural}`;
  return name === undefined ? base : `${base}/${encodeURIComponent(name)}`;
};

/** All pages of a list. */
export async function listAll(
  client: ApiClient,
  path: string,
  labelSelector?: string,
): Promise<readonly ApiObject[]> {
  const items: ApiObject[] = [];
  let next: string | undefined;
  do {
    const page: ApiList = await client.get<ApiList>(path, { limit: '500', continue: next, labelSelector });
    items.push(...page.items);
    next = page.metadata.continue;
  } while (next !== undefined);
  return items;
}
