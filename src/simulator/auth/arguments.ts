/** Reading the arguments of user and role commands. */
import { BSON, type Document } from 'bson';
import { ServerError } from '../contracts.ts';
import { isDocument, typeName, wrongType } from '../wire/bson.ts';
import { argumentErrorName } from '../wire/versions.ts';
import type { RoleName } from './accounts.ts';
import { type Grant, grantOf } from './grants.ts';

export const badValue = (message: string): ServerError => new ServerError(2, 'BadValue', message);

/** 40414 with the name this version gives the code. */
export function required(command: Document, name: string, field: string, version: string): unknown {
  const value: unknown = command[field];
  if (value !== undefined) return value;
  throw new ServerError(
    40414,
    argumentErrorName(version, 40414),
    `BSON field '${name}.${field}' is missing but a required field`,
  );
}

/** The user or role a command names in its first field. */
export function accountName(command: Document, name: string, kind: 'User' | 'Role'): string {
  const value: unknown = command[name];
  if (typeof value !== 'string') throw wrongType(`${name}.${name}`, value, 'string');
  if (value === '') throw badValue(`${kind} document needs '${kind.toLowerCase()}' field to be non-empty`);
  return value;
}

/** A list of roles, each a name in the command's database or `{role, db}`. */
export function roleList(value: unknown, path: string, db: string): readonly RoleName[] {
  if (!Array.isArray(value)) throw wrongType(path, value, 'array');
  return value.map((item: unknown) => roleName(item, db));
}

/** One role by name or document. */
export function roleName(item: unknown, db: string): RoleName {
  if (typeof item === 'string') {
    if (item === '') throw badValue('Role name must not be empty');
    return { role: item, db };
  }
  if (!isDocument(item)) throw badValue('Role names must be either strings or objects');
  const { role, db: roleDb } = item;
  if (typeof role !== 'string' || role === '')
    throw badValue('RoleName must contain a string field named: role');
  if (typeof roleDb !== 'string' || roleDb === '')
    throw badValue('RoleName must contain a string field named: db');
  return { role, db: roleDb };
}

/** A list of privileges as given; 9 for an unknown shape. */
export function privilegeList(value: unknown, path: string): readonly Grant[] {
  if (!Array.isArray(value)) throw wrongType(path, value, 'array');
  return value.map((item: unknown) => {
    if (!isDocument(item))
      throw new ServerError(14, 'TypeMismatch', `privilege is a ${typeName(item)}, expected an object`);
    const grant = grantOf(item);
    if (grant === undefined || grant.actions.size === 0) {
      throw new ServerError(
        9,
        'FailedToParse',
        `invalid privilege ${JSON.stringify(BSON.EJSON.serialize(item))}`,
      );
    }
    return grant;
  });
}
