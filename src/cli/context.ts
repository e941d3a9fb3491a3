import { BelayError } from '../base/error.ts';
import { ApiClient, serverUrl } from './client.ts';
import type { Io } from './io.ts';
import { type Terminal, terminalOf } from './output.ts';
import { findToken, readProfile } from './profile.ts';

/** Options every verb takes; they may stand before or behind it. */
export interface GlobalOptions {
  readonly namespace?: string;
  readonly output?: string;
  readonly server?: string;
  readonly token?: string;
  readonly caFile?: string;
  readonly color?: boolean;
  readonly quiet?: boolean;
}

export const OUTPUTS = ['table', 'wide', 'json', 'yaml', 'name'] as const;
export type Output = (typeof OUTPUTS)[number];

/** What a verb works with. */
export interface Context {
  readonly client: ApiClient;
  readonly namespace: string;
  readonly terminal: Terminal;
  readonly output: Output;
  readonly quiet: boolean;
  readonly io: Io;
  readonly now: () => number;
}

/** The address `belay up` listens on when nobody says otherwise. */
export const DEFAULT_SERVER = 'http://127.0.0.1:7717';

/** Puts options, environment and profile together, in this order of strength. */
export function makeContext(options: GlobalOptions, io: Io): Context {
  const { env } = io;
  const profile = readProfile(env);
  const server = serverUrl(
    options.server ?? (env['BELAY_SERVER'] || undefined) ?? profile?.server ?? DEFAULT_SERVER,
  );
  // A token goes to the server it was given for and to no other.
  const own = profile !== null && serverUrl(profile.server) === server ? profile : null;
  const caFile = options.caFile ?? (env['BELAY_CA_FILE'] || undefined) ?? own?.caFile;
  return {
    client: new ApiClient(server, () => findToken(options.token, env, own), {
      fetcher: io.fetch,
      ...(caFile === undefined ? {} : { caFile }),
    }),
    namespace: options.namespace ?? (env['BELAY_NAMESPACE'] || undefined) ?? 'default',
    terminal: terminalOf(io, options.color === false),
    output: (options.output ?? 'table') as Output,
    quiet: options.quiet === true,
    io,
    now: io.now,
  };
}

/** `json` or `yaml` when the output is for a program, else null. */
export const structured = (context: Pick<Context, 'output'>): 'json' | 'yaml' | null =>
  context.output === 'json' || context.output === 'yaml' ? context.output : null;

/** A kind as the API has it: those of the language, and secrets. */
export interface ApiKind {
  readonly kind: string;
  readonly plural: string;
  readonly namespaced: boolean;
}

const SECRET: ApiKind = { kind: 'Secret', plural: 'secrets', namespaced: true };

/** The kind a person means: kind, plural, singular or short name in any case. `Usage` with the nearest, or the list. */
export async function kindOf(name: string): Promise<ApiKind> {
  if (/^secrets?$/i.test(name)) return SECRET;
  const { explain, findKind, KINDS } = await import('../model/index.ts');
  const info = findKind(name);
  if (info !== undefined)
    return { kind: info.kind, plural: info.plural, namespaced: info.scope === 'namespace' };
  const said = explain(name.replaceAll('.', ' '));
  throw new BelayError('Usage', said.kind === 'unknown' ? said.message : `${name} is not a kind`, {
    retry: 'never',
    fix: `kinds: ${[...KINDS.map((k) => k.plural), SECRET.plural].join(', ')}`,
  });
}

/** Namespace in the path of a kind's objects; null for kinds that have none. */
export const placeOf = (context: Context, kind: ApiKind): string | null =>
  kind.namespaced ? context.namespace : null;

/** Objects a person named: `KIND NAME…`, or `KIND/NAME…` as verbs print them. */
export async function targetsOf(
  words: readonly string[],
): Promise<{ readonly kind: ApiKind; readonly names: readonly string[] }> {
  const [first = '', ...rest] = words;
  if (!first.includes('/')) {
    if (rest.some((word) => word.includes('/'))) throw mixed();
    return { kind: await kindOf(first), names: rest };
  }
  const pairs = words.map((word) => word.split('/'));
  if (pairs.some((pair) => pair.length !== 2 || pair.includes(''))) throw mixed();
  const kinds = await Promise.all(pairs.map(([kind = '']) => kindOf(kind)));
  const [kind] = kinds;
  if (kind === undefined || kinds.some((k) => k.kind !== kind.kind)) throw mixed();
  return { kind, names: pairs.map(([, name = '']) => name) };
}

/** As targetsOf, for verbs about exactly one object. */
export async function targetOf(
  words: readonly string[],
): Promise<{ readonly kind: ApiKind; readonly name: string }> {
  const { kind, names } = await targetsOf(words);
  const [name, ...more] = names;
  if (name === undefined || more.length > 0)
    throw new BelayError('Usage', name === undefined ? `which ${kind.plural}?` : 'one object at a time', {
      retry: 'never',
      fix: `write KIND NAME or KIND/NAME, ${kind.plural}/NAME for example`,
    });
  return { kind, name };
}

const mixed = (): BelayError =>
  new BelayError('Usage', 'write KIND NAME… or KIND/NAME…, all of one kind', {
    retry: 'never',
    fix: 'for example: belay get mongodb orders   or   belay get mongodb/orders',
  });
