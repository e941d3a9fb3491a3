/** Users and roles as they are stored, with what follows from them. One cache, dropped whenever the documents change. */
import type { Document } from 'bson';
import type { DataStore } from '../contracts.ts';
import { builtinGrants } from './builtin-roles.ts';
import { type Grant, grantOf, mergeGrants } from './grants.ts';

export const USERS = 'admin.system.users';
export const ROLES = 'admin.system.roles';

export interface RoleName {
  readonly role: string;
  readonly db: string;
}

/** What a user or role has in the end: its own and inherited roles, privileges and restrictions. */
export interface Effective {
  readonly roles: readonly RoleName[];
  readonly grants: readonly Grant[];
  /** Restriction lists that must all be met. */
  readonly restrictions: readonly Document[][];
}

/** `db.name`, the `_id` of user and role documents. */
export const accountId = (db: string, name: string): string => `${db}.${name}`;

/** Users and roles of one process. */
export class Accounts {
  readonly #data: DataStore;
  #users = new Map<string, Document>();
  #effective = new Map<string, Effective>();
  #seenAny = false;

  constructor(data: DataStore) {
    this.#data = data;
    data.onApplied((entry) => {
      if (entry.ns.startsWith('admin.') || entry.op === 'c') this.invalidate();
    });
  }

  /** Forgets what was read; the next question reads the documents again. */
  invalidate(): void {
    this.#users = new Map();
    this.#effective = new Map();
  }

  /** The stored document of a user. Only those that exist are remembered. */
  user(db: string, name: string): Document | undefined {
    const id = accountId(db, name);
    const cached = this.#users.get(id);
    if (cached !== undefined) return cached;
    const [found] = this.#data.find(USERS, { filter: { _id: id } });
    if (found !== undefined) this.#users.set(id, found);
    return found;
  }

  /** The stored document of a role someone made. */
  role(db: string, name: string): Document | undefined {
    return this.#data.find(ROLES, { filter: { _id: accountId(db, name) } })[0];
  }

  exists({ role, db }: RoleName): boolean {
    return builtinGrants(role, db) !== undefined || this.role(db, role) !== undefined;
  }

  /** True once there was any user or role here; the answer stays true for the life of the process. */
  hasAny(): boolean {
    this.#seenAny ||= [USERS, ROLES].some((ns) => this.#data.count(ns) > 0);
    return this.#seenAny;
  }

  /** Everything a user may do. */
  ofUser(db: string, name: string): Effective {
    const id = accountId(db, name);
    const cached = this.#effective.get(id);
    if (cached !== undefined) return cached;
    const document = this.user(db, name);
    if (document === undefined) return NOTHING;
    const effective = this.resolve(rolesOf(document), restrictionsOf(document));
    this.#effective.set(id, effective);
    return effective;
  }

  /** What roles give together, with all they inherit. Cycles do no harm. */
  resolve(direct: readonly RoleName[], own: readonly Document[] = []): Effective {
    const seen = new Map<string, RoleName>();
    const grants: Grant[] = [];
    const restrictions: Document[][] = own.length > 0 ? [[...own]] : [];
    const open = [...direct];
    for (let next = open.shift(); next !== undefined; next = open.shift()) {
      const id = accountId(next.db, next.role);
      if (seen.has(id)) continue;
      seen.set(id, next);
      const builtin = builtinGrants(next.role, next.db);
      if (builtin !== undefined) {
        grants.push(...builtin);
        continue;
      }
      const document = this.role(next.db, next.role);
      if (document === undefined) continue;
      grants.push(...privilegesOf(document));
      const limits = restrictionsOf(document);
      if (limits.length > 0) restrictions.push([...limits]);
      open.push(...rolesOf(document));
    }
    return { roles: [...seen.values()], grants: mergeGrants(grants), restrictions };
  }
}

const NOTHING: Effective = { roles: [], grants: [], restrictions: [] };

/** The roles a user or role document names. */
export function rolesOf(document: Document): readonly RoleName[] {
  const roles = (document['roles'] ?? []) as Document[];
  return roles.map((role) => ({ role: String(role['role']), db: String(role['db']) }));
}

/** The privileges a role document names itself. */
export function privilegesOf(document: Document): readonly Grant[] {
  const privileges = (document['privileges'] ?? []) as Document[];
  return privileges.map(grantOf).filter((grant) => grant !== undefined);
}

/** The authentication restrictions a document names itself. */
export const restrictionsOf = (document: Document): readonly Document[] =>
  (document['authenticationRestrictions'] ?? []) as Document[];
