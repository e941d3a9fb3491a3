import { z } from 'zod';
import {
  cidrText,
  cronText,
  type DeepReadonly,
  durationText,
  labelText,
  nameText,
  someText,
  timestampText,
  timeZoneText,
  wholeNumber,
} from '../fields.ts';
import { isTimeOfDay, WEEKDAYS } from '../schedule.ts';

/** Kinds of backup that can be scheduled. */
export const BACKUP_TYPES = ['logical', 'physical'] as const;
/** How backups may be packed. */
export const COMPRESSIONS = ['none', 'gzip', 'snappy', 'lz4', 's2', 'pgzip', 'zstd'] as const;

/** Reaching the database from outside (A10.1). */
export const exposureSchema = z.strictObject({
  enabled: z.boolean().default(true).describe('Set to false to close the access and keep its settings.'),
  cidrs: z
    .array(cidrText())
    .default([])
    .describe('Address ranges that may connect, such as "203.0.113.0/24"; at least one is required.'),
});
export type Exposure = DeepReadonly<z.output<typeof exposureSchema>>;

/** Which hosts may carry members (A15). */
export const placementSchema = z.strictObject({
  hosts: z
    .array(nameText('db1'))
    .optional()
    .describe('Names of the Host objects that may carry members; all when absent.'),
  hostSelector: z
    .strictObject({
      matchLabels: z
        .record(z.string(), z.string())
        .default({})
        .describe('Labels a host must have, all of them.'),
    })
    .optional()
    .describe('Select hosts by their labels.'),
  spread: z
    .enum(['preferred', 'required', 'none'])
    .default('preferred')
    .describe(
      'Members of one set on different hosts: as far as possible (preferred), always (required), or not cared for (none).',
    ),
  spreadLabel: z
    .string()
    .optional()
    .describe(
      'Label whose values are failure domains, such as rack or zone; members spread over its values first.',
    ),
});
export type Placement = DeepReadonly<z.output<typeof placementSchema>>;

const windowSchema = z.strictObject({
  days: z
    .array(z.enum(WEEKDAYS))
    .optional()
    .describe('Days of the week on which the window opens: Mon … Sun.'),
  start: z
    .string()
    .refine(isTimeOfDay, { error: 'must be a time of day such as "02:00"' })
    .optional()
    .describe('Time of day at which it opens, "02:00"; used with days.'),
  cron: cronText().optional().describe('When it opens as a cron line, instead of days and start.'),
  timeZone: timeZoneText().default('UTC').describe('Time zone of start and cron, such as "Europe/Prague".'),
  duration: durationText().describe('How long it stays open, such as "2h".'),
});
export type MaintenanceWindow = DeepReadonly<z.output<typeof windowSchema>>;

/** When and how the database may be disturbed (C7.1, S1). */
export const maintenanceSchema = z.strictObject({
  windows: z
    .array(windowSchema)
    .default([])
    .describe('When voluntary restarts and changes may happen; always when empty. Repairs do not wait.'),
  interruption: z
    .enum(['Never', 'Allowed'])
    .default('Never')
    .describe(
      'Allowed lets maintenance take the database below its majority for a moment; with a single member nothing can be restarted otherwise.',
    ),
});
export type Maintenance = DeepReadonly<z.output<typeof maintenanceSchema>>;

const scheduleSchema = z.strictObject({
  name: labelText('nightly').describe('Name of the schedule; it becomes part of the backups’ names.'),
  cron: cronText().describe('When it runs, in UTC, as a cron line.'),
  type: z.enum(BACKUP_TYPES).default('logical').describe('logical or physical.'),
  keep: wholeNumber(1, 10_000).default(7).describe('Number of finished backups of this schedule to keep.'),
  storage: nameText('minio').optional().describe('BackupStorage for this schedule, if not the main one.'),
});

/** Scheduled backups and point-in-time recovery (A11). */
export const backupSchema = z.strictObject({
  enabled: z.boolean().default(true).describe('Set to false to stop schedules and keep their settings.'),
  storage: nameText('minio').describe('Name of the main BackupStorage of this namespace.'),
  schedules: z.array(scheduleSchema).default([]).describe('What runs when and how much of it is kept.'),
  compression: z.enum(COMPRESSIONS).default('s2').describe('How backups are packed.'),
  pitr: z
    .strictObject({
      enabled: z.boolean().default(false).describe('Keep the oplog, to restore to any moment.'),
      oplogSpan: durationText().default('10m').describe('Length of one piece of the oplog.'),
    })
    .prefault({})
    .describe('Point-in-time recovery.'),
});
export type BackupPolicy = DeepReadonly<z.output<typeof backupSchema>>;

/** The backup a new cluster is filled from (A11.5). */
export const dataSourceSchema = z.strictObject({
  backup: nameText('orders-nightly-1').describe('Name of the Backup.'),
  namespace: labelText('default').optional().describe('Its namespace; by default that of this object.'),
  pointInTime: timestampText().optional().describe('Moment to restore to, when the oplog was kept.'),
});
export type DataSource = DeepReadonly<z.output<typeof dataSourceSchema>>;

/** Access of assistants (A16). */
export const dataAccessSchema = z.strictObject({
  enabled: z.boolean().default(true).describe('Set to false to drop the users of the companion.'),
  databases: z
    .array(someText())
    .default([])
    .describe('Application databases in scope; all of them when empty. System databases are never in scope.'),
  readWrite: z.boolean().default(false).describe('Add a user that may write, beside the one that reads.'),
});
export type DataAccess = DeepReadonly<z.output<typeof dataAccessSchema>>;
