/** Privileges as users hold them, and whether they cover what a command needs. */
import type { Document } from 'bson';
import type { Privilege } from '../contracts.ts';

/** What a grant is for. Empty strings are wildcards: any database, any ordinary collection. */
export type GrantResource =
  | { readonly kind: 'collection'; readonly db: string; readonly collection: string }
  | { readonly kind: 'cluster' }
  | { readonly kind: 'any' };

export interface Grant {
  readonly resource: GrantResource;
  /** `anyAction` stands for all. */
  readonly actions: ReadonlySet<string>;
}

/** Databases that "any database" does not mean. */
const SET_APART: ReadonlySet<string> = new Set(['local', 'config']);
const ANY_ACTION = 'anyAction';

/** True when the grants together allow every action on every resource that is needed. */
export function covers(grants: readonly Grant[], needed: readonly Privilege[]): boolean {
  return needed.every(({ resource, actions }) => {
    const fitting = grants.filter((grant) => fits(grant.resource, resource));
    return actions.every((action) =>
      fitting.some((grant) => grant.actions.has(action) || grant.actions.has(ANY_ACTION)),
    );
  });
}

function fits(held: GrantResource, needed: Privilege['resource']): boolean {
  if (held.kind === 'any') return true;
  if ('cluster' in needed) return held.kind === 'cluster';
  if ('anyResource' in needed || held.kind === 'cluster') return false;
  return fitsCollection(held, needed.db, needed.collection);
}

/** System collections are only meant when a grant names them. */
function fitsCollection(held: { db: string; collection: string }, db: string, collection: string): boolean {
  if (held.collection !== '') return held.collection === collection && (held.db === '' || held.db === db);
  if (collection.startsWith('system.')) return false;
  return held.db === db || (held.db === '' && !SET_APART.has(db));
}

/** A grant as role documents and rolesInfo write it. */
export function grantDocument(grant: Grant): Document {
  return { resource: resourceDocument(grant.resource), actions: [...grant.actions].sort() };
}

function resourceDocument(resource: GrantResource): Document {
  if (resource.kind === 'cluster') return { cluster: true };
  if (resource.kind === 'any') return { anyResource: true };
  return { db: resource.db, collection: resource.collection };
}

/** Reads a stored or given privilege; undefined when its resource is none. */
export function grantOf(privilege: Document): Grant | undefined {
  const resource = resourceOf(privilege['resource']);
  if (resource === undefined || !Array.isArray(privilege['actions'])) return undefined;
  return { resource, actions: new Set(privilege['actions'].map(String)) };
}

function resourceOf(document: Document | undefined): GrantResource | undefined {
  if (typeof document !== 'object' || document === null) return undefined;
  if (document['cluster'] === true) return { kind: 'cluster' };
  if (document['anyResource'] === true) return { kind: 'any' };
  const { db, collection } = document;
  return typeof db === 'string' && typeof collection === 'string'
    ? { kind: 'collection', db, collection }
    : undefined;
}

/** Grants of one resource as one, in order of first appearance. */
export function mergeGrants(grants: readonly Grant[]): readonly Grant[] {
  const byResource = new Map<string, { resource: GrantResource; actions: Set<string> }>();
  for (const { resource, actions } of grants) {
    const key = JSON.stringify(resourceDocument(resource));
    const present = byResource.get(key) ?? { resource, actions: new Set<string>() };
    for (const action of actions) present.actions.add(action);
    byResource.set(key, present);
  }
  return [...byResource.values()];
}
