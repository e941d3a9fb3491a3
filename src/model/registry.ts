import type { z } from 'zod';
import type { Problem } from '../base/error.ts';
import {
  type Backup,
  type BackupStorage,
  backupObjectSchema,
  backupStorageSchema,
  type Restore,
  restoreSchema,
} from './kinds/backup.ts';
import { type BelayEvent, eventSchema } from './kinds/event.ts';
import { type Host, hostSchema } from './kinds/host.ts';
import {
  type MaintenanceTask,
  maintenanceTaskSchema,
  type Topology,
  topologySchema,
} from './kinds/maintenance.ts';
import { anyMongodbSpecSchema, type MongoDB, mongodbSchema } from './kinds/mongodb.ts';
import { changeProblems as mongodbChanges } from './kinds/mongodbChange.ts';
import { newFcvProblems } from './kinds/mongodbFcv.ts';
import { explainMongodbField, mongodbInputSchema, mongodbRules } from './kinds/mongodbRules.ts';
import { type Operation, operationSchema } from './kinds/operation.ts';
import { backupStorageRules, fixedSpec, hostRules, taskRules, userChanges } from './kinds/otherRules.ts';
import { topologyRules } from './kinds/topologyRules.ts';
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
  /** Rules about a new object, which say nothing about one that is there. */
  readonly creation?: (document: Loose) => readonly Problem[];
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
    creation: newFcvProblems,
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
    changes: userChanges,
  },
  {
    kind: 'BackupStorage',
    plural: 'backupstorages',
    singular: 'backupstorage',
    shortNames: ['bs'],
    scope: 'namespace',
    readOnly: false,
    description: 'A place where backups are kept.',
    schema: backupStorageSchema,
    rules: backupStorageRules,
  },
  {
    kind: 'Backup',
    plural: 'backups',
    singular: 'backup',
    shortNames: ['bak'],
    scope: 'namespace',
    readOnly: false,
    description: 'One backup of a database.',
    schema: backupObjectSchema,
    changes: fixedSpec,
  },
  {
    kind: 'Restore',
    plural: 'restores',
    singular: 'restore',
    shortNames: [],
    scope: 'namespace',
    readOnly: false,
    description: 'A request to replace the data of a database by a backup.',
    schema: restoreSchema,
    changes: fixedSpec,
  },
  {
    kind: 'MaintenanceTask',
    plural: 'maintenancetasks',
    singular: 'maintenancetask',
    shortNames: ['task', 'tasks', 'mt'],
    scope: 'cluster',
    readOnly: false,
    description: 'A request to take hosts, nodes or disks out of service for a while.',
    schema: maintenanceTaskSchema,
    rules: taskRules,
    changes: fixedSpec,
  },
  {
    kind: 'Topology',
    plural: 'topologies',
    singular: 'topology',
    shortNames: ['topo'],
    scope: 'cluster',
    readOnly: false,
    description: 'An outside cluster that maintenance takes care of.',
    schema: topologySchema,
    rules: topologyRules,
  },
  {
    kind: 'Host',
    plural: 'hosts',
    singular: 'host',
    shortNames: [],
    scope: 'cluster',
    readOnly: false,
    description: 'A machine with an agent.',
    schema: hostSchema,
    rules: hostRules,
  },
  {
    kind: 'Operation',
    plural: 'operations',
    singular: 'operation',
    shortNames: ['op', 'ops'],
    scope: 'namespace',
    readOnly: true,
    description: 'A record of something that was asked for, such as a restart, and how it stands.',
    schema: operationSchema,
  },
  {
    kind: 'Event',
    plural: 'events',
    singular: 'event',
    shortNames: ['ev'],
    scope: 'namespace',
    readOnly: true,
    description: 'Something that happened.',
    schema: eventSchema,
  },
];

/** Any object of this API. */
export type BelayObject =
  | MongoDB
  | MongoDBUser
  | BackupStorage
  | Backup
  | Restore
  | MaintenanceTask
  | Topology
  | Host
  | Operation
  | BelayEvent;

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
