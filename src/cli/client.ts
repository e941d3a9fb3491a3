import { BelayError, type Problem } from '../base/error.ts';
import type { Secret } from '../base/secret.ts';

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
export interface WatchEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
  readonly object: ApiObject;
}

/** The API as the verbs use it. Failures are BelayErrors with the server's code, detail, problems and fix. */
export class ApiClient {
  readonly url: string;
  readonly #token: Secret<string> | null;
  readonly #fetch: typeof fetch;

  constructor(url: string, token: Secret<string> | null, fetcher: typeof fetch = fetch) {
    this.url = url.replace(/\/+$/, '');
    this.#token = token;
    this.#fetch = fetcher;
  }

  /** One request with a JSON answer. */
  async request<T>(
    method: string,
    path: string,
    options: {
      body?: unknown;
      query?: Readonly<Record<string, string | undefined>>;
      signal?: AbortSignal;
    } = {},
  ): Promise<T> {
    const response = await this.#send(method, path, options);
    if (response.status === 204) return undefined as T;
    const text = await response.text();
    return (text === '' ? undefined : JSON.parse(text)) as T;
  }

  get<T = ApiObject>(path: string, query: Readonly<Record<string, string | undefined>> = {}): Promise<T> {
    return this.request<T>('GET', path, { query });
  }

  /** Changes from a resourceVersion on (or everything that is, then changes); reconnects and resumes until the signal. */
  async *watch(
    path: string,
    query: Readonly<Record<string, string | undefined>>,
    signal: AbortSignal,
  ): AsyncGenerator<WatchEvent> {
    let since = query['resourceVersion'];
    let failures = 0;
    while (!signal.aborted) {
      try {
        const response = await this.#send('GET', path, {
          query: { ...query, watch: 'true', resourceVersion: since },
          signal,
        });
        failures = 0;
        for await (const event of readEvents(response)) {
          since = event.object.metadata.resourceVersion;
          yield event;
        }
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof BelayError && error.code === 'Gone') since = undefined;
        else if (error instanceof BelayError && error.code !== 'ServerUnreachable') throw error;
        failures++;
        if (failures > RECONNECTS) throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, Math.min(2_000, 100 * 2 ** failures)));
    }
  }

  async #send(
    method: string,
    path: string,
    options: { body?: unknown; query?: Readonly<Record<string, string | undefined>>; signal?: AbortSignal },
  ): Promise<Response> {
    const url = new URL(this.url + path);
    for (const [name, value] of Object.entries(options.query ?? {}))
      if (value !== undefined) url.searchParams.set(name, value);
    const headers: Record<string, string> = { accept: 'application/json' };
    if (this.#token !== null) headers['authorization'] = `Bearer ${this.#token.reveal()}`;
    if (options.body !== undefined) headers['content-type'] = 'application/json';
    let response: Response;
    try {
      response = await this.#fetch(url, {
        method,
        headers,
        ...(options.body === undefined ? {} : { body: JSON.stringify(options.body) }),
        ...(options.signal ? { signal: options.signal } : {}),
      });
    } catch (cause) {
      throw unreachable(this.url, cause);
    }
    if (!response.ok) throw await problemOf(response);
    return response;
  }
}

/** A watch gives up after this many failed connections in a row. */
const RECONNECTS = 8;

function unreachable(url: string, cause: unknown): BelayError {
  const inner =
    cause instanceof Error && cause.cause instanceof Error
      ? cause.cause.message
      : String((cause as Error)?.message ?? cause);
  return new BelayError('ServerUnreachable', `no answer from ${url}: ${inner}`, {
    fix: 'start it with: belay up   or name another with --server URL (or BELAY_SERVER)',
    cause,
  });
}

async function problemOf(response: Response): Promise<BelayError> {
  const text = await response.text();
  try {
    const body = JSON.parse(text) as { code?: string; detail?: string; fix?: string; errors?: Problem[] };
    return new BelayError(body.code ?? `Http${response.status}`, body.detail ?? text, {
      retry: response.status >= 500 ? 'later' : 'never',
      ...(body.fix === undefined ? {} : { fix: body.fix }),
      problems: body.errors ?? [],
    });
  } catch {
    return new BelayError(`Http${response.status}`, `${response.status} ${response.statusText}`, {
      retry: 'later',
    });
  }
}

/** Server-sent events with a JSON `data` line each. */
async function* readEvents(response: Response): AsyncGenerator<WatchEvent> {
  if (response.body === null) return;
  let rest = '';
  for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
    rest += chunk;
    for (let end = rest.indexOf('\n\n'); end >= 0; end = rest.indexOf('\n\n')) {
      const block = rest.slice(0, end);
      rest = rest.slice(end + 2);
      const lines = block.split('\n');
      const type = lines.find((l) => l.startsWith('event: '))?.slice(7);
      const data = lines.find((l) => l.startsWith('data: '))?.slice(6);
      if (type === undefined || data === undefined) continue;
      yield { type: type as WatchEvent['type'], object: JSON.parse(data) as ApiObject };
    }
  }
}

/** Path of a kind's objects. */
export const objectPath = (plural: string, namespace: string | null, name?: string): string => {
  const base =
    namespace === null
      ? `/api/v1/${plural}`
      : `/api/v1/namespaces/${encodeURIComponent(namespace)}/${plural}`;
  return name === undefined ? base : `${base}/${encodeURIComponent(name)}`;
};
