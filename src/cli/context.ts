import { BelayError } from '../base/error.ts';
import { findKind, KINDS, type KindInfo } from '../model/index.ts';
import { ApiClient } from './client.ts';
import { realTerminal, type Terminal } from './output.ts';
import { findToken, readProfile } from './profile.ts';

/** Options every verb takes. */
export interface GlobalOptions {
  readonly namespace?: string;
  readonly output?: string;
  readonly server?: string;
  readonly token?: string;
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
  readonly now: () => number;
}

/** The address `belay up` listens on when nobody says otherwise. */
export const DEFAULT_SERVER = 'http://127.0.0.1:7717';

/** Puts options, environment and profile together, in this order of strength. */
export function makeContext(options: GlobalOptions): Context {
  const profile = readProfile();
  const server = options.server ?? process.env['BELAY_SERVER'] ?? profile?.server ?? DEFAULT_SERVER;
  const own = profile !== null && profile.server === server ? profile : null;
  return {
    client: new ApiClient(server, findToken(options.token, own)),
    namespace: options.namespace ?? 'default',
    terminal: realTerminal(options.color === false),
    output: (options.output ?? 'table') as Output,
    quiet: options.quiet === true,
    now: () => Date.now(),
  };
}

/** Extra kinds of the API that are not kinds of the language. */
const EXTRA = new Map([
  ['secret', 'secrets'],
  ['secrets', 'secrets'],
]);

/** The kind a person means, or a usage error with the list. */
export function kindOf(name: string): KindInfo {
  const info = findKind(name);
  if (info !== undefined) return info;
  const known = KINDS.map((k) => k.plural).join(', ');
  throw new BelayError('Usage', `unknown kind ${name}`, { retry: 'never', fix: `kinds: ${known}` });
}

/** Plural in paths for a kind, `secrets` included. */
export const pluralOf = (
  name: string,
): { readonly plural: string; readonly kind: string; readonly namespaced: boolean } => {
  const extra = EXTRA.get(name.toLowerCase());
  if (extra !== undefined) return { plural: extra, kind: 'Secret', namespaced: true };
  const info = kindOf(name);
  return { plural: info.plural, kind: info.kind, namespaced: info.scope === 'namespace' };
};
