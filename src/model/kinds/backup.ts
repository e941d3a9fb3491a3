import { z } from 'zod';
import {
  checkedText,
  type DeepReadonly,
  durationText,
  nameText,
  objectReference,
  someText,
  timestampText,
} from '../fields.ts';
import { commonStatus, envelope } from '../meta.ts';
import { BACKUP_TYPES, COMPRESSIONS } from './mongodbParts.ts';

const bucket = checkedText('belay-backups', (text) =>
  /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(text)
    ? undefined
    : 'must be 3 to 63 lower-case letters, digits, dots or dashes',
);
const url = checkedText('https://s3.example.com', (text) => {
  if (!/^https?:\/\/[^/?#@\s]+(\/[^?#\s]*)?$/i.test(text)) {
    return 'must be an http or https address without user, query or fragment, such as "https://s3.example.com"';
  }
  return undefined;
});
const absolutePath = checkedText('/mnt/backups', (text) =>
  text.startsWith('/') && !text.split('/').includes('..') && !text.includes('\0')
    ? undefined
    : 'must be an absolute path without "..", such as "/mnt/backups"',
);
const prefix = checkedText('team/db', (text) =>
  text.startsWith('/') || text.split('/').includes('..') ? 'must be relative and without ".."' : undefined,
);

const STORAGE_TYPE =
  'S3 (or anything that speaks its protocol) or Filesystem (a folder mounted on every host of the cluster).';

const s3Schema = z.strictObject({
  type: z.literal('S3').describe(STORAGE_TYPE),
  bucket: bucket.describe('Bucket.'),
  region: z.string().default('us-east-1').describe('Region of the bucket.'),
  endpointUrl: url.optional().describe('Address of an S3-compatible service; by default that of Amazon.'),
  prefix: prefix.default('').describe('Folder in the bucket; each cluster has its own below it.'),
  forcePathStyle: z
    .boolean()
    .default(true)
    .describe('Put the bucket into the path, as most compatible services want.'),
  insecureSkipTLSVerify: z.boolean().default(false).describe('Do not check the certificate of the service.'),
  credentialsSecretRef: z
    .strictObject({
      name: nameText('minio-keys').describe('Name of the secret.'),
      accessKeyIdKey: someText().default('accessKeyId').describe('Entry with the access key id.'),
      secretAccessKeyKey: someText().default('secretAccessKey').describe('Entry with the secret access key.'),
    })
    .optional()
    .describe('Where the credentials are kept; without it the identity of the machine is used.'),
  serverSideEncryption: z
    .strictObject({
      algorithm: z.enum(['AES256', 'aws:kms']).describe('AES256 or aws:kms.'),
      kmsKeyId: z.string().optional().describe('Key for aws:kms.'),
    })
    .optional()
    .describe('Encryption by the service.'),
});
const filesystemSchema = z.strictObject({
  type: z.literal('Filesystem').describe(STORAGE_TYPE),
  path: absolutePath.describe('The folder, the same on every host.'),
});

const storageStatus = z.strictObject({
  ...commonStatus,
  lastChecked: timestampText().optional().describe('When access was last tried.'),
  backups: z.int().optional().describe('Backups known on it.'),
});

/** Where backups are kept. */
export const backupStorageSchema = envelope(
  'BackupStorage',
  z.discriminatedUnion('type', [s3Schema, filesystemSchema]),
  storageStatus,
);
export type BackupStorage = DeepReadonly<z.output<typeof backupStorageSchema>>;

const backupSpec = z.strictObject({
  mongodbResourceRef: objectReference('MongoDB').describe('The MongoDB to back up.'),
  storage: nameText('minio').optional().describe('BackupStorage; by default the main one of the MongoDB.'),
  type: z.enum(BACKUP_TYPES).default('logical').describe('logical or physical.'),
  compression: z.enum(COMPRESSIONS).optional().describe('How it is packed; by default as the MongoDB says.'),
  schedule: z.string().optional().describe('Schedule that made it; absent when a person asked for it.'),
  expireAfter: durationText()
    .optional()
    .describe('Delete it this long after it was finished, such as "30d".'),
});

const backupStatus = z.strictObject({
  ...commonStatus,
  state: z
    .enum(['Waiting', 'Running', 'Succeeded', 'Failed', 'Cancelled', 'Deleting'])
    .optional()
    .describe('How far it has come.'),
  pbmName: z.string().optional().describe('Its name in Percona Backup for MongoDB.'),
  destination: z.string().optional().describe('Where it really is; survives the source cluster (A11.8).'),
  sizeBytes: z.number().optional().describe('Size on the storage, in bytes.'),
  startedAt: timestampText().optional().describe('When it started.'),
  finishedAt: timestampText().optional().describe('When it ended.'),
  restoreTo: timestampText().optional().describe('Moment the data is of.'),
  mongodbVersion: z.string().optional().describe('Version of the source.'),
  featureCompatibilityVersion: z.string().optional().describe('FCV of the source.'),
  replicaSets: z.array(z.string()).optional().describe('Sets it contains.'),
});

/** One backup. */
export const backupObjectSchema = envelope('Backup', backupSpec, backupStatus);
export type Backup = DeepReadonly<z.output<typeof backupObjectSchema>>;

const restoreSpec = z.strictObject({
  mongodbResourceRef: objectReference('MongoDB').describe('The MongoDB whose data is replaced.'),
  backup: nameText('orders-nightly-1').describe('Name of the Backup.'),
  backupNamespace: z.string().optional().describe('Its namespace; by default that of this object.'),
  pointInTime: timestampText().optional().describe('Moment to restore to, when the oplog was kept.'),
  namespaces: z
    .array(someText())
    .default([])
    .describe(
      'Restore only these collections, "db.collection" or "db.*"; everything when empty. Logical backups only.',
    ),
});

const restoreStatus = z.strictObject({
  ...commonStatus,
  state: z
    .enum(['Waiting', 'Running', 'Succeeded', 'Failed', 'Unknown'])
    .optional()
    .describe('How it stands. Unknown: the outcome could not be observed, the data needs a look.'),
  pbmName: z.string().optional().describe('Its name in Percona Backup for MongoDB.'),
  startedAt: timestampText().optional().describe('When it started.'),
  finishedAt: timestampText().optional().describe('When it ended.'),
});

/** Replacing the data of a database by a backup. */
export const restoreSchema = envelope('Restore', restoreSpec, restoreStatus);
export type Restore = DeepReadonly<z.output<typeof restoreSchema>>;
