/**
 * `v1` Secret documents: every value is sealed under its own name, nothing of it is kept as an object, and nothing reads
 * it back (S8). What the API shows of a secret are its name and its keys.
 */
import { BelayError, type Problem } from '../base/error.ts';
import { isDnsLabel, type SecretDocument } from '../model/index.ts';
import { namedSecret, namedSecretPrefix } from '../provider/names.ts';
import { userSpec } from '../provider/userObjects.ts';
import type { ApiDeps } from './deps.ts';
import type { Json } from './routes.ts';

type SecretDeps = Pick<ApiDeps, 'secrets' | 'store'>;

/** Below this prefix lie the named secrets of all namespaces. */
const ALL = 'users/';
/** Row that names the MongoDBUser a secret with connection strings belongs to; never shown. */
const OWNER_KEY = '.owner';
/** What Belay itself writes into such a secret. */
const PUBLISHED_KEYS: readonly string[] = [OWNER_KEY, 'username', 'connectionString.standard'];

/** What is wrong with a Secret beyond what its schema says: names become paths, so they must not break out of theirs. */
export function secretProblems(secret: SecretDocument): readonly Problem[] {
  const problems: Problem[] = [];
  if (!isDnsLabel(secret.namespace))
    problems.push({
      path: 'metadata.namespace',
      message: 'must be lower-case letters, digits and dashes, at most 63',
    });
  const keys = Object.keys(secret.values);
  if (keys.length === 0) problems.push({ path: 'stringData', message: 'is required: at least one value' });
  for (const key of keys)
    if (!/^[A-Za-z0-9_-][A-Za-z0-9._-]*$/.test(key))
      problems.push({
        path: `stringData.${key}`,
        message: 'a key has letters, digits, dots, dashes and underscores, and begins with no dot',
      });
  return problems;
}

/** Seals what changed and drops keys the document does not have any more. `Refused` for a secret that Belay keeps itself. */
export async function applySecret(
  deps: SecretDeps,
  secret: SecretDocument,
  dry: boolean,
): Promise<'created' | 'configured' | 'unchanged'> {
  const { namespace, name, values } = secret;
  const known = await keysOf(deps, namespace, name);
  await refuseOwned(deps, namespace, name, known, 'written');
  const changed = await changedKeys(deps, secret);
  const published = known.includes(OWNER_KEY) ? PUBLISHED_KEYS : [];
  const dropped = known.filter((key) => !Object.hasOwn(values, key) && !published.includes(key));
  const outcome =
    known.length === 0 ? 'created' : changed.length + dropped.length > 0 ? 'configured' : 'unchanged';
  if (dry || outcome === 'unchanged') return outcome;
  // Deletion goes by prefix: it may take a longer key along, so what stays is looked at again afterwards.
  for (const key of dropped) await deps.secrets.delete(namedSecret(namespace, name, key));
  for (const key of dropped.length === 0 ? changed : await changedKeys(deps, secret)) {
    const value = values[key];
    if (value !== undefined) await deps.secrets.put(namedSecret(namespace, name, key), value);
  }
  return outcome;
}

async function changedKeys(deps: SecretDeps, secret: SecretDocument): Promise<readonly string[]> {
  const changed: string[] = [];
  for (const [key, value] of Object.entries(secret.values)) {
    const before = await deps.secrets.get(namedSecret(secret.namespace, secret.name, key));
    if (before === null || before.reveal() !== value.reveal()) changed.push(key);
  }
  return changed;
}

/** Names and keys of the secrets of a namespace, or of all. */
export async function listSecrets(deps: SecretDeps, namespace: string | undefined): Promise<readonly Json[]> {
  const paths = await deps.secrets.list(namespace === undefined ? ALL : `${ALL}${namespace}/`);
  const found = new Map<string, { namespace: string; name: string; keys: string[] }>();
  for (const path of paths) {
    const [, place = '', name = '', key = ''] = path.split('/');
    const entry = found.get(`${place}/${name}`) ?? { namespace: place, name, keys: [] };
    if (key !== OWNER_KEY) entry.keys.push(key);
    found.set(`${place}/${name}`, entry);
  }
  return [...found.values()].map(view);
}

/** One secret's keys. `NotFound`. */
export async function readSecret(deps: SecretDeps, namespace: string, name: string): Promise<Json> {
  const keys = await keysOf(deps, namespace, name);
  if (keys.length === 0)
    throw new BelayError('NotFound', `secrets ${namespace}/${name} does not exist`, { retry: 'never' });
  return view({ namespace, name, keys: keys.filter((key) => key !== OWNER_KEY) });
}

/** Removes a secret. `NotFound`, `Refused` for one that goes with a MongoDBUser. */
export async function removeSecret(deps: SecretDeps, namespace: string, name: string): Promise<void> {
  await readSecret(deps, namespace, name);
  await refuseOwned(deps, namespace, name, await keysOf(deps, namespace, name), 'deleted');
  await deps.secrets.delete(namedSecretPrefix(namespace, name));
}

async function keysOf(deps: SecretDeps, namespace: string, name: string): Promise<readonly string[]> {
  const prefix = namedSecretPrefix(namespace, name);
  return (await deps.secrets.list(prefix)).map((path) => path.slice(prefix.length));
}

/**
 * Secrets with connection strings are kept by Belay: a lost password in one would lock its applications out. Unless the
 * user's own password was asked to be taken from that very secret.
 */
async function refuseOwned(
  deps: SecretDeps,
  namespace: string,
  name: string,
  keys: readonly string[],
  what: string,
): Promise<void> {
  if (!keys.includes(OWNER_KEY)) return;
  const uid = (await deps.secrets.get(namedSecret(namespace, name, OWNER_KEY)))?.reveal();
  const { items } = await deps.store.list({ kind: 'MongoDBUser', namespace });
  const owner = items.find((user) => user.metadata.uid === uid);
  if (owner === undefined || userSpec(owner).passwordSecretKeyRef?.name === name) return;
  throw new BelayError(
    'Refused',
    `secret ${namespace}/${name} is kept for MongoDBUser ${owner.metadata.name} and cannot be ${what} by hand`,
    {
      retry: 'never',
      fix: 'put a password of your own into another secret and name it in spec.passwordSecretKeyRef of the user',
    },
  );
}

const view = (secret: { namespace: string; name: string; keys: readonly string[] }): Json => ({
  apiVersion: 'v1',
  kind: 'Secret',
  metadata: { namespace: secret.namespace, name: secret.name },
  spec: { keys: secret.keys },
});
