/** The command line in this process against a control plane in memory that listens for real. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ApiRig, makeApi } from '../../server/testing/rig.ts';
import { type Io, sleep } from '../io.ts';
import { run } from '../main.ts';

export interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}
export interface RunOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly stdin?: string;
  /** Both outputs are terminals. */
  readonly tty?: boolean;
  readonly ask?: (question: string) => Promise<boolean>;
  readonly signal?: AbortSignal;
  /** A second Ctrl-C. */
  readonly insist?: AbortSignal;
  /** In place of real waiting. */
  readonly sleep?: Io['sleep'];
  readonly fetch?: typeof fetch;
  readonly now?: () => number;
  /** Told of every piece of output as it comes. */
  readonly onText?: (text: string) => void;
}

/** Runs one command line with nothing but what a test gives it. */
export async function belay(args: readonly string[], options: RunOptions = {}): Promise<Ran> {
  let out = '';
  let err = '';
  const never = new AbortController().signal;
  const io: Io = {
    env: options.env ?? {},
    out: (text) => {
      out += text;
      options.onText?.(text);
    },
    err: (text) => {
      err += text;
      options.onText?.(text);
    },
    outIsTty: options.tty === true,
    errIsTty: options.tty === true,
    columns: 120,
    rows: 40,
    stdin: async () => options.stdin ?? '',
    ask: options.ask ?? null,
    interrupted: () => options.signal ?? never,
    insisted: () => options.insist ?? never,
    sleep: options.sleep ?? sleep,
    now: options.now ?? (() => Date.now()),
    fetch: options.fetch ?? ((...given) => fetch(...given)),
  };
  const code = await run(args, io);
  return { code, out, err };
}

export interface CliRig {
  readonly api: ApiRig;
  readonly url: string;
  readonly dir: string;
  /** Runs a verb as an admin. */
  readonly belay: (args: readonly string[], options?: RunOptions) => Promise<Ran>;
  /** Writes a file into the scratch folder and gives its path. */
  readonly file: (name: string, text: string) => string;
  readonly close: () => Promise<void>;
}

export async function makeCli(...args: Parameters<typeof makeApi>): Promise<CliRig> {
  const api = await makeApi(...args);
  const url = await api.app.listen({ host: '127.0.0.1', port: 0 });
  const dir = mkdtempSync(join(tmpdir(), 'belay-cli-'));
  const env = {
    BELAY_SERVER: url,
    BELAY_TOKEN: api.token.admin,
    XDG_CONFIG_HOME: join(dir, 'config'),
    XDG_CACHE_HOME: join(dir, 'cache'),
  };
  return {
    api,
    url,
    dir,
    belay: (words, options = {}) =>
      belay(words, { now: () => api.clock.now(), ...options, env: { ...env, ...options.env } }),
    file: (name, text) => {
      const path = join(dir, name);
      writeFileSync(path, text);
      return path;
    },
    close: async () => {
      await api.close();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

export const ORDERS_YAML = `apiVersion: belay.dev/v1
kind: MongoDB
metadata:
  name: orders
spec:
  type: ReplicaSet
  version: 8.0.32-14
  members: 3
`;

export const USER_YAML = `apiVersion: belay.dev/v1
kind: MongoDBUser
metadata:
  name: orders-app
spec:
  username: app
  db: admin
  mongodbResourceRef: { name: orders }
  roles: [{ name: readWrite, db: shop }]
`;
