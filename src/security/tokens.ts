import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { BelayError } from '../base/error.ts';
import { type Secret, secret } from '../base/secret.ts';
import type { Millis } from '../base/units.ts';
import type { Clock, Store, TokenRow } from '../engine/ports.ts';

/** What a bearer of an API token may do; each role includes those after it. */
export type Role = 'admin' | 'operator' | 'viewer';
export const ROLES: readonly Role[] = ['admin', 'operator', 'viewer'];

/** The part of the store that this room needs. */
export type TokenRows = Pick<Store, 'putToken' | 'getToken' | 'listTokens' | 'useToken' | 'deleteToken'>;

/** Shown once, when the token is made. */
interface NewToken {
  readonly id: string;
  /** `belay_<kind>_<id>.<secret>`: the prefix tells people and secret scanners what it is. */
  readonly token: Secret<string>;
  readonly expiresAt: Millis | null;
}
/** Who stands behind a token that was accepted. */
interface TokenIdentity {
  readonly id: string;
  readonly name: string;
  readonly role: Role;
}

const ID_BYTES = 8;
const SECRET_BYTES = 32;
const FORM = /^belay_(api|join)_([0-9a-f]{16})\.([A-Za-z0-9_-]{43})$/;

/**
 * API tokens and one-time join tokens. Only a SHA-256 of the secret part is stored. A slow password hash
 * (argon2id) would add nothing: it makes guessing of low-entropy secrets costly, while these are 256 random bits;
 * and it would let anybody burn our CPU with wrong tokens.
 */
export interface Tokens {
  createApiToken(request: {
    readonly name: string;
    readonly role: Role;
    readonly validFor: Millis | null;
  }): Promise<NewToken>;
  /** For a host of this name, or `*` for any. */
  createJoinToken(request: { readonly host: string; readonly validFor: Millis }): Promise<NewToken>;
  /** `TokenUnknown`, `TokenExpired` (never). */
  verifyApiToken(token: string): Promise<TokenIdentity>;
  /** Uses it up: true success for exactly one caller, ever. `TokenUnknown`, `TokenExpired`, `TokenUsed`, `TokenForOtherHost` (never). */
  useJoinToken(token: string, host: string): Promise<{ readonly id: string }>;
  list(kind: TokenRow['kind']): Promise<readonly TokenRow[]>;
  revoke(id: string): Promise<void>;
}

/** Tokens over the rows of a store. */
export function openTokens(store: TokenRows, clock: Clock): Tokens {
  return {
    createApiToken: ({ name, role, validFor }) => create(store, clock, { kind: 'api', name, role, validFor }),
    createJoinToken: ({ host, validFor }) =>
      create(store, clock, { kind: 'join', name: `join ${host}`, role: host, validFor }),
    verifyApiToken: (token) => verify(store, clock, token),
    useJoinToken: (token, host) => join(store, clock, token, host),
    list: (kind) => store.listTokens(kind),
    revoke: (id) => store.deleteToken(id),
  };
}

async function create(
  store: TokenRows,
  clock: Clock,
  request: Pick<TokenRow, 'kind' | 'name' | 'role'> & { readonly validFor: Millis | null },
): Promise<NewToken> {
  const { kind, name, role, validFor } = request;
  const id = randomBytes(ID_BYTES).toString('hex');
  const part = randomBytes(SECRET_BYTES).toString('base64url');
  const createdAt = clock.now();
  const expiresAt = validFor === null ? null : createdAt + validFor;
  await store.putToken({ id, kind, role, name, hash: hashOf(part), createdAt, expiresAt, usedAt: null });
  return { id, token: secret(`belay_${kind}_${id}.${part}`), expiresAt };
}

async function verify(store: TokenRows, clock: Clock, token: string): Promise<TokenIdentity> {
  const row = await find(store, token, 'api');
  if (isExpired(row, clock)) throw expired('api');
  const role = ROLES.find((known) => known === row.role);
  if (role === undefined) throw unknown('api');
  return { id: row.id, name: row.name, role };
}

async function join(
  store: TokenRows,
  clock: Clock,
  token: string,
  host: string,
): Promise<{ readonly id: string }> {
  const row = await find(store, token, 'join');
  if (row.usedAt !== null) throw used();
  if (isExpired(row, clock)) throw expired('join');
  if (row.role !== '*' && row.role !== host) {
    throw new BelayError('TokenForOtherHost', `this join token is for host ${row.role}, not for ${host}`, {
      retry: 'never',
      fix: `Make one for this host: belay host token ${host}`,
    });
  }
  if (!(await store.useToken(row.id, clock.now()))) throw used();
  return { id: row.id };
}

async function find(store: TokenRows, token: string, kind: TokenRow['kind']): Promise<TokenRow> {
  const [, formKind, id, part] = FORM.exec(token.trim()) ?? [];
  if (formKind !== kind || id === undefined || part === undefined) throw unknown(kind);
  const row = await store.getToken(id);
  if (row === null || row.kind !== kind || !equalHashes(row.hash, hashOf(part))) throw unknown(kind);
  return row;
}

const hashOf = (part: string): string => createHash('sha256').update(part).digest('hex');

function equalHashes(a: string, b: string): boolean {
  const left = Buffer.from(a, 'hex');
  const right = Buffer.from(b, 'hex');
  return left.length === right.length && timingSafeEqual(left, right);
}

const isExpired = (row: TokenRow, clock: Clock): boolean =>
  row.expiresAt !== null && row.expiresAt <= clock.now();

const MAKE_NEW: Readonly<Record<TokenRow['kind'], string>> = {
  api: 'Make a new one on the control plane: belay token create',
  join: 'Make a new one on the control plane: belay host token',
};

const unknown = (kind: TokenRow['kind']): BelayError =>
  new BelayError(
    'TokenUnknown',
    'this token is not known here (mistyped, revoked, or from another installation)',
    {
      retry: 'never',
      fix: MAKE_NEW[kind],
    },
  );

const expired = (kind: TokenRow['kind']): BelayError =>
  new BelayError('TokenExpired', 'this token has expired', { retry: 'never', fix: MAKE_NEW[kind] });

const used = (): BelayError =>
  new BelayError('TokenUsed', 'this join token was used already; each lets one host join once', {
    retry: 'never',
    fix: MAKE_NEW.join,
  });
