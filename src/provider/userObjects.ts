/**
 * MongoDBUser documents: which belong to a cluster, what they ask for, how they stand, and the secret with connection
 * strings that each of them gets (B3). Their passwords are sealed secrets; only a keyed fingerprint leaves here.
 */
import { createHmac } from 'node:crypto';
import { type Secret, secret } from '../base/secret.ts';
import type { Desired, DesiredUser, State } from '../clusters/index.ts';
import { type Informer, keyOf, type ObjectChanged } from '../engine/informer.ts';
import type { ObjectKey, Secrets, StoredObject } from '../engine/ports.ts';
import { EXTERNAL_DB, type MongoDBUser, SYSTEM_USERNAMES } from '../model/index.ts';
import { userConnectionString } from './connection.ts';
import { newPassword } from './credentials.ts';
import { FINGERPRINT_KEY, namedSecret, namedSecretPrefix } from './names.ts';

type UserSpec = MongoDBUser['spec'];

/** Key of the row that says which user a connection-string secret belongs to (B3.4). */
const OWNER_KEY = '.owner';

/** A document and what is known of it besides its own words. */
export interface UserObject {
  readonly object: StoredObject;
  readonly spec: UserSpec;
  readonly desired: DesiredUser;
  /** Why it is not applied at all, in one sentence; null when nothing speaks against it. */
  readonly refused: { readonly reason: string; readonly message: string } | null;
  /** Rows of the sealed store that go with it; known only of one that is being deleted. */
  readonly ownedRows: readonly string[];
}

export const userSpec = (object: StoredObject): UserSpec => object.spec as UserSpec;

/** Key of the MongoDB a user refers to; its own namespace unless it names another (B3.1). */
export function clusterKeyOf(user: StoredObject): ObjectKey {
  const { name, namespace } = userSpec(user).mongodbResourceRef;
  return { kind: 'MongoDB', namespace: namespace ?? user.metadata.namespace, name };
}

/** Where connection strings of a user are kept: the name asked for, or (null) `<cluster>-<user>-<db>` fit for DNS. */
export function connectionSecretName(
  user: StoredObject,
  asked: string | null = userSpec(user).connectionStringSecretName ?? null,
): string {
  const spec = userSpec(user);
  const made = `${spec.mongodbResourceRef.name}-${user.metadata.name}-${spec.db}`;
  return asked ?? made.toLowerCase().replace(/[^a-z0-9-]/g, '');
}

/** Where the user's password is kept; null for users whose identity is kept outside. */
export function passwordSecret(user: StoredObject): string | null {
  const spec = userSpec(user);
  if (spec.db === EXTERNAL_DB) return null;
  const reference = spec.passwordSecretKeyRef;
  return reference === undefined
    ? namedSecret(user.metadata.namespace, connectionSecretName(user), 'password')
    : namedSecret(user.metadata.namespace, reference.name, reference.key);
}

/** Finds the users of a cluster without asking anybody. */
export class UserIndex {
  readonly #byCluster = new Map<string, Map<string, StoredObject>>();

  constructor(informer: Informer) {
    informer.onChange((change) => this.#learn(change));
    for (const object of informer.all('MongoDBUser')) this.#learn({ before: null, after: object });
  }

  of(cluster: { readonly namespace: string; readonly name: string }): readonly StoredObject[] {
    return [...(this.#byCluster.get(`${cluster.namespace}/${cluster.name}`)?.values() ?? [])];
  }

  #learn({ before, after }: ObjectChanged): void {
    if ((after ?? before)?.kind !== 'MongoDBUser') return;
    if (before !== null) this.#byCluster.get(clusterText(before))?.delete(before.metadata.uid);
    if (after === null) return;
    const text = clusterText(after);
    const users = this.#byCluster.get(text) ?? new Map<string, StoredObject>();
    users.set(after.metadata.uid, after);
    this.#byCluster.set(text, users);
  }
}

function clusterText(user: StoredObject): string {
  const { namespace, name } = clusterKeyOf(user);
  return `${namespace}/${name}`;
}

/** Reads and writes what belongs to users in the sealed store. */
export class UserSecrets {
  readonly #secrets: Secrets;
  /** By reference, until somebody tells of a change: reading a password again costs more than the rest of a pass. */
  readonly #fingerprints = new Map<string, string | null>();
  /** Grows with every change, so that what was read while one happened is not kept. */
  #changes = 0;
  /** Users whose connection-string secret is known to be theirs: that never changes. */
  readonly #owners = new Set<string>();
  #key: Promise<Secret<string>> | null = null;

  constructor(secrets: Secrets) {
    this.#secrets = secrets;
  }

  /** A named secret, or all that begin so, was written or removed: look at it again. */
  changed(name: string): void {
    this.#changes++;
    for (const known of this.#fingerprints.keys())
      if (known.startsWith(name)) this.#fingerprints.delete(known);
  }

  /** The fingerprint that `desired` would give without asking anybody; undefined: it would have to ask. */
  known(user: StoredObject): string | null | undefined {
    const reference = passwordSecret(user);
    return reference === null ? null : this.#fingerprints.get(reference);
  }

  /** The user as the planner knows it. Without a reference a password is made here, once. */
  async desired(user: StoredObject, fresh: boolean): Promise<DesiredUser> {
    const spec = userSpec(user);
    const reference = passwordSecret(user);
    const deleting = user.metadata.deletionTimestamp !== null;
    const generated = spec.passwordSecretKeyRef === undefined && !deleting;
    return {
      uid: user.metadata.uid,
      name: user.metadata.name,
      username: spec.username,
      db: spec.db,
      roles: spec.roles.map((role) => ({ role: role.name, db: role.db })),
      passwordRef: reference,
      passwordFingerprint: reference === null ? null : await this.#fingerprint(reference, fresh, generated),
      ...(spec.connectionStringSecretName === undefined
        ? {}
        : { connectionSecret: spec.connectionStringSecretName }),
      deleting,
    };
  }

  password(reference: string): Promise<Secret<string> | null> {
    return this.#secrets.get(reference);
  }

  async #fingerprint(reference: string, fresh: boolean, generated: boolean): Promise<string | null> {
    const known = this.#fingerprints.get(reference);
    if (!fresh && known !== undefined && (known !== null || !generated)) return known;
    const changes = this.#changes;
    const wanted = generated ? this.#secrets.ensure(reference, newPassword) : this.#secrets.get(reference);
    const [value, key] = await Promise.all([wanted, this.#hmacKey()]);
    const print =
      value === null
        ? null
        : createHmac('sha256', key.reveal()).update(value.reveal()).digest('hex').slice(0, 32);
    if (changes === this.#changes) this.#fingerprints.set(reference, print);
    return print;
  }

  #hmacKey(): Promise<Secret<string>> {
    this.#key ??= this.#secrets.ensure(FINGERPRINT_KEY, newPassword).catch((failure: unknown) => {
      // A store that was down for a moment must not be remembered for ever.
      this.#key = null;
      throw failure;
    });
    return this.#key;
  }

  /** Whether the name of a user's connection-string secret is free or its own (B3.4). */
  async ownsConnectionSecret(user: StoredObject, name = connectionSecretName(user)): Promise<boolean> {
    const { uid, namespace } = user.metadata;
    if (this.#owners.has(`${uid}/${name}`)) return true;
    const prefix = namedSecretPrefix(namespace, name);
    const owner = await this.#secrets.get(`${prefix}${OWNER_KEY}`);
    if (owner === null) return (await this.#secrets.get(`${prefix}connectionString.standard`)) === null;
    if (owner.reveal() !== uid) return false;
    this.#owners.add(`${uid}/${name}`);
    return true;
  }

  /** URI-04: written as soon as the user is confirmed usable. Values that are there already are not written again. */
  async publishConnection(user: StoredObject, desired: Desired, state: State): Promise<void> {
    const spec = userSpec(user);
    const reference = passwordSecret(user);
    const password = reference === null ? null : await this.#secrets.get(reference);
    const standard = userConnectionString(state, desired, { username: spec.username, db: spec.db, password });
    if (standard === null) return;
    const prefix = namedSecretPrefix(user.metadata.namespace, connectionSecretName(user));
    const rows: readonly (readonly [string, Secret<string> | null])[] = [
      [OWNER_KEY, secret(user.metadata.uid)],
      ['username', secret(spec.username)],
      ['password', password],
      ['connectionString.standard', standard],
    ];
    for (const [key, value] of rows) {
      if (value === null) continue;
      const stored = await this.#secrets.get(`${prefix}${key}`);
      if (stored?.reveal() !== value.reveal()) await this.#secrets.put(`${prefix}${key}`, value);
    }
  }

  /** DEL-01: rows of the secret that held the connection strings before they moved; only one that says that it is ours. */
  async formerRows(user: StoredObject, asked: string | null): Promise<readonly string[]> {
    const name = connectionSecretName(user, asked);
    if (name === connectionSecretName(user)) return [];
    const owner = await this.#secrets.get(`${namedSecretPrefix(user.metadata.namespace, name)}${OWNER_KEY}`);
    return owner?.reveal() === user.metadata.uid ? this.ownedRows(user, name) : [];
  }

  /** Names of rows that go with a user: those of its own connection-string secret, never a password somebody gave. */
  async ownedRows(user: StoredObject, name = connectionSecretName(user)): Promise<readonly string[]> {
    const prefix = namedSecretPrefix(user.metadata.namespace, name);
    if (!(await this.ownsConnectionSecret(user, name))) return [];
    const given = userSpec(user).passwordSecretKeyRef;
    if (given === undefined || given.name !== name) return [prefix];
    return [OWNER_KEY, 'username', 'connectionString.standard'].map((key) => `${prefix}${key}`);
  }
}

/**
 * The users of a cluster with what speaks against each. Two users must not fight over one name (B3.5): the older one
 * has it. Names of system users are never touched.
 */
export async function userObjects(
  index: UserIndex,
  secrets: UserSecrets,
  cluster: StoredObject,
  state: Pick<State, 'users'>,
  fresh: boolean,
): Promise<readonly UserObject[]> {
  const objects = [...index.of(cluster.metadata)].sort(byAge);
  const seen = new Map<string, StoredObject>();
  const users: UserObject[] = [];
  for (const object of objects) {
    const spec = userSpec(object);
    const name = `${spec.db}.${spec.username}`;
    const other = seen.get(name);
    const refused =
      refusal(spec, other) ?? notDropped(object, state) ?? (await foreignSecret(secrets, object));
    if (other === undefined) seen.set(name, object);
    const desired = await secrets.desired(object, fresh);
    const ownedRows = desired.deleting ? await secrets.ownedRows(object) : [];
    users.push({ object, spec, desired, refused, ownedRows });
  }
  return users;
}

function byAge({ metadata: a }: StoredObject, { metadata: b }: StoredObject): number {
  if (a.creationTimestamp !== b.creationTimestamp) return a.creationTimestamp < b.creationTimestamp ? -1 : 1;
  return a.uid < b.uid ? -1 : a.uid > b.uid ? 1 : 0;
}

function refusal(spec: UserSpec, other: StoredObject | undefined): UserObject['refused'] {
  if (spec.db === 'admin' && (SYSTEM_USERNAMES as readonly string[]).includes(spec.username)) {
    return { reason: 'ReservedName', message: `${spec.username} in admin is one of Belay's own users` };
  }
  if (other === undefined) return null;
  const { namespace, name } = keyOf(other);
  return {
    reason: 'NameTaken',
    message: `${spec.db}.${spec.username} belongs to MongoDBUser ${namespace}/${name}, which is older`,
  };
}

/** A name that another document had before is free only when the database has dropped it. */
function notDropped(user: StoredObject, state: Pick<State, 'users'>): UserObject['refused'] {
  const { username, db } = userSpec(user);
  const holder = state.users.find(
    (u) => u.username === username && u.db === db && u.uid !== user.metadata.uid,
  );
  return holder === undefined
    ? null
    : { reason: 'NameTaken', message: `${db}.${username} is still to be dropped for another MongoDBUser` };
}

async function foreignSecret(secrets: UserSecrets, user: StoredObject): Promise<UserObject['refused']> {
  if (user.metadata.deletionTimestamp !== null || (await secrets.ownsConnectionSecret(user))) return null;
  return {
    reason: 'SecretNotOurs',
    message: `connection string secret ${connectionSecretName(user)} already exists and is not managed by this user`,
  };
}
