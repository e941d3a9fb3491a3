/** Connection strings with a user in them. One encoder for all of them (URI-02, CRD-03). */
import { type Secret, secret } from '../base/secret.ts';
import { connectionString, type Desired, type State } from '../clusters/index.ts';
import { EXTERNAL_DB } from '../model/index.ts';

export interface ConnectionUser {
  readonly username: string;
  readonly db: string;
  readonly password: Secret<string> | null;
}

/** RFC 3986: everything but unreserved characters is encoded, once; a blank is %20, never +. */
export const encodeUserInfo = (text: string): string =>
  encodeURIComponent(text).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);

/** Null until every member has its place. Users kept outside log in by their certificate. */
export function userConnectionString(
  state: State,
  desired: Desired,
  user: ConnectionUser,
): Secret<string> | null {
  const plain = connectionString(state, desired);
  if (plain === null) return null;
  const name = encodeUserInfo(user.username);
  const login = user.password === null ? name : `${name}:${encodeUserInfo(user.password.reveal())}`;
  const source =
    user.db === EXTERNAL_DB
      ? 'authSource=%24external&authMechanism=MONGODB-X509'
      : `authSource=${encodeUserInfo(user.db)}`;
  const uri = plain.replace('mongodb://', `mongodb://${login}@`);
  const joined = uri.endsWith('/') ? `${uri}?` : `${uri}&`;
  return secret(`${joined}${source}`);
}
