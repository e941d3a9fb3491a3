import { z } from 'zod';
import {
  type DeepReadonly,
  nameText,
  objectReference,
  secretKeyReference,
  someText,
  timestampText,
} from '../fields.ts';
import { commonStatus, envelope } from '../meta.ts';

/** Database of users whose identity is kept outside, such as X.509 subjects. */
export const EXTERNAL_DB = '$external';

/** Role of a user. */
const userRoleSchema = z.strictObject({
  name: someText().describe('Name of the role, such as readWrite.'),
  db: someText().describe('Database the role is granted on.'),
});

/** Spec of a MongoDBUser. */
export const userSpecSchema = z.strictObject({
  username: someText().describe('Name in the database; any text, it need not be fit for DNS.'),
  db: someText()
    .default('admin')
    .describe(`Database the user is defined in, admin by default; ${EXTERNAL_DB} for X.509 users.`),
  mongodbResourceRef: objectReference('MongoDB').describe('The MongoDB the user belongs to.'),
  passwordSecretKeyRef: secretKeyReference('password')
    .optional()
    .describe(
      'Where the password is kept. Without it one is generated and kept in the connection-string secret.',
    ),
  roles: z.array(userRoleSchema).default([]).describe('What the user may do.'),
  connectionStringSecretName: nameText('orders-app')
    .optional()
    .describe('Secret to write connection strings, user name and password to.'),
});

const userStatusSchema = z.strictObject({
  ...commonStatus,
  username: z.string().optional().describe('Name last applied; after a change the old one is removed.'),
  db: z.string().optional().describe('Database last applied.'),
  roles: z.array(userRoleSchema).default([]).describe('Roles last applied.'),
  connectionStringSecretName: z.string().optional().describe('Secret that holds the connection strings.'),
  lastApplied: timestampText().optional().describe('When the database last confirmed the user.'),
});

/** A user of a database. */
export const mongodbUserSchema = envelope('MongoDBUser', userSpecSchema, userStatusSchema);
export type MongoDBUser = DeepReadonly<z.output<typeof mongodbUserSchema>>;
export type MongoDBUserStatus = DeepReadonly<z.output<typeof userStatusSchema>>;

/** The five users the control plane keeps in every database; documents may not define them in `admin`. */
export const SYSTEM_USERNAMES = [
  'userAdmin',
  'clusterAdmin',
  'clusterMonitor',
  'backup',
  'databaseAdmin',
] as const;
