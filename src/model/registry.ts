import type { z } from 'zod';
import type { Problem } from '../base/error.ts';
import { anyMongodbSpecSchema, type MongoDB, mongodbSchema } from './kinds/mongodb.ts';
import { changeProblems as mongodbChanges } from './kinds/mongodbChange.ts';
import { explainMongodbField, mongodbInputSchema, mongodbRules } from './kinds/mongodbRules.ts';
import { type MongoDBUser, mongodbUserSchema } from './kinds/user.ts';
import { userRules } from './kinds/userRules.ts';
import { envelope } from './meta.ts';
import type { Loose } from './paths.ts';
import type { Warning } from './problems.ts';

/** What rules about several fields found. */
export interface Findings {
  readonly problems: readonly Problem[];
  readonly warnings: readonly Warning[];
}

/** One column of a table of objects; `path` leads into the object. */
export interface Column {
  readonly title: string;
  readonly path: string;
}

/** A kind of object: names, schema and rules. The one table behind REST paths, CLI arguments and documents. */
export interface KindInfo {
  readonly kind: string;
  readonly plural: string;
  readonly singular: string;
  readonly shortNames: readonly string[];
  /** Cluster-wide kinds are kept in the default namespace and unique by name alone. */
  readonly scope: 'namespace' | 'cluster';
  /** Written by the server only; documents of this kind are refused by apply. */
  readonly readOnly: boolean;
  readonly description: string;
  readonly schema: z.ZodType;
  /** Schema for checking a document, when it depends on the document (`spec.type`). */
  readonly inputSchema?: (document: Loose) => z.ZodType;
  /** Rules about several fields; must cope with documents whose single fields are wrong. */
  readonly rules?: (document: Loose) => Findings;
  /** Rules about a change of an existing object. */
  readonly changes?: (before: Loose, after: Loose) => Findings;
  readonly explainUnknown?: (
    path: readonly PropertyKey[],
    name: string,
    document: Loose,
  ) => string | undefined;
}

/** All kinds, the important ones first. */
export const KINDS: readonly KindInfo[] = [
  {
    kind: 'MongoDB',
    plural: 'mongodb',
    singular: 'mongodb',
    shortNames: ['mdb'],
    scope: 'namespace',
    readOnly: false,
    description: 'A database: standalone, replica set or sharded cluster.',
    schema: mongodbSchema,
    inputSchema: mongodbInputSchema,
    rules: mongodbRules,
    changes: mongodbChanges,
    explainUnknown: explainMongodbField,
  },
  {
    kind: 'MongoDBUser',
    plural: 'mongodbusers',
    singular: 'mongodbuser',
    shortNames: ['mdbu'],
    scope: 'namespace',
    readOnly: false,
    description: 'A user of a database.',
    schema: mongodbUserSchema,
    rules: userRules,
  },
];

/** Any object of this API. */
export type BelayObject = MongoDB | MongoDBUser;

/** MongoDB with all fields of all types, for places that cannot have alternatives (CRDs). */
export const flatMongodbSchema = envelope('MongoDB', anyMongodbSpecSchema, mongodbSchema.shape.status);

/** The kind a person means: kind, plural, singular or short name, in any case. */
export function findKind(name: string): KindInfo | undefined {
  const wanted = name.toLowerCase();
  return KINDS.find(
    (info) =>
      info.kind.toLowerCase() === wanted ||
      info.plural === wanted ||
      info.singular === wanted ||
      info.shortNames.includes(wanted),
  );
}
