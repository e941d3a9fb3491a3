/** Connection strings. The one place where the API answers with a password, and only when it is asked for by name. */
import { BelayError } from '../base/error.ts';
import type { Secret } from '../base/secret.ts';
import { connectionString, desiredFrom, knownStatus, recordOf, type State } from '../clusters/index.ts';
import type { StoredObject } from '../engine/ports.ts';
import { type MongoDBSpec, SYSTEM_USERNAMES } from '../model/index.ts';
import { userConnectionString } from '../provider/connection.ts';
import { systemPasswordSecret } from '../provider/names.ts';
import { clusterKeyOf, passwordSecret, userSpec } from '../provider/userObjects.ts';
import type { ApiDeps } from './deps.ts';

export interface Connection {
  readonly connectionString: string;
  readonly tls: boolean;
  readonly caPem: string;
  /** Present when a user was asked for. */
  readonly username?: string;
  readonly password?: string;
}

/** How to reach a cluster; with `user` including that user's password. NotReady until every member has its place. */
export async function connectionOf(
  deps: ApiDeps,
  object: StoredObject,
  caPem: string,
  user: string | undefined,
): Promise<Connection> {
  const desired = desiredFrom({ metadata: object.metadata, spec: object.spec as MongoDBSpec });
  const stored = await deps.store.loadState(object.metadata.uid);
  const state = stored === null ? undefined : withoutStrays(recordOf(stored.value), object.status);
  const plain = state === undefined ? null : connectionString(state, desired);
  if (state === undefined || plain === null) {
    throw new BelayError('NotReady', `${object.metadata.name} has no address yet`, {
      retry: 'later',
      fix: `wait for it: belay wait mongodb ${object.metadata.name} --for Ready`,
    });
  }
  const tls = desired.tlsMode !== 'disabled';
  if (user === undefined) return { connectionString: plain, tls, caPem };
  const login = await findLogin(deps, object, user);
  const uri = userConnectionString(state, desired, login);
  return {
    connectionString: uri?.reveal() ?? plain,
    tls,
    caPem,
    username: login.username,
    ...(login.password === null ? {} : { password: login.password.reveal() }),
  };
}

/** INI-06: members that show another set's id are listed for nobody, as the last reading told. */
function withoutStrays(state: State, status: unknown): State {
  const { conditions = [], endpoints = [] } = knownStatus(status) ?? {};
  const split = conditions.some(({ type, reason }) => type === 'Blocked' && reason === 'SplitIdentity');
  if (!split) return state;
  const listed = new Set(endpoints.map((endpoint) => endpoint.member));
  return { ...state, members: state.members.filter((m) => listed.has(m.name)) };
}

interface FoundLogin {
  readonly username: string;
  readonly db: string;
  readonly password: Secret<string> | null;
}

/** A MongoDBUser of this cluster by its object name or user name, else one of the system users. */
async function findLogin(deps: ApiDeps, cluster: StoredObject, user: string): Promise<FoundLogin> {
  const { namespace, name, uid } = cluster.metadata;
  const { items } = await deps.store.list({ kind: 'MongoDBUser', namespace });
  const own = items.filter((o) => {
    const key = clusterKeyOf(o);
    return key.namespace === namespace && key.name === name;
  });
  const found = own.find((o) => o.metadata.name === user) ?? own.find((o) => userSpec(o).username === user);
  if (found !== undefined) {
    const path = passwordSecret(found);
    return {
      username: userSpec(found).username,
      db: userSpec(found).db,
      password: path === null ? null : await deps.secrets.get(path),
    };
  }
  if ((SYSTEM_USERNAMES as readonly string[]).includes(user)) {
    return { username: user, db: 'admin', password: await deps.secrets.get(systemPasswordSecret(uid, user)) };
  }
  const known = [...own.map((o) => o.metadata.name), ...SYSTEM_USERNAMES].join(', ');
  throw new BelayError('NotFound', `${name} has no user ${user}`, { retry: 'never', fix: `users: ${known}` });
}
