import { z } from 'zod';
import { DAY, MINUTE } from '../../base/units.ts';
import {
  type DeepReadonly,
  durationWithin,
  lineText,
  nameText,
  objectReference,
  someText,
  timestampText,
} from '../fields.ts';
import { commonStatus, envelope } from '../meta.ts';

const target = { mongodbResourceRef: objectReference('MongoDB').describe('What it is done to.') } as const;
const member = someText().describe('Name of the member, such as orders-1.');

/** How long windows can be overridden. */
const OVERRIDE = { least: MINUTE, most: 30 * DAY, text: 'must be from 1m to 30d' } as const;

const TYPE_TEXT = 'What is to be done.';

/** Imperative operations (A13.1), told apart by `type`. */
export const operationSpecSchema = z.discriminatedUnion('type', [
  z.strictObject({
    type: z.literal('Restart').describe(TYPE_TEXT),
    ...target,
    members: z.array(someText()).default([]).describe('Only these; all when empty.'),
  }),
  z.strictObject({
    type: z.literal('Replace').describe(TYPE_TEXT),
    ...target,
    member,
  }),
  z.strictObject({
    type: z.literal('RotateUsers').describe(TYPE_TEXT),
    ...target,
    users: z.array(someText()).default([]).describe('Only these system users; all when empty.'),
  }),
  z.strictObject({
    type: z.literal('RotateTLS').describe(TYPE_TEXT),
    ...target,
  }),
  z.strictObject({
    type: z.literal('RaiseFCV').describe(TYPE_TEXT),
    ...target,
    version: z.string().optional().describe('Wanted version "X.Y"; by default that of the running binaries.'),
  }),
  z.strictObject({
    type: z.literal('ForceReconfig').describe(TYPE_TEXT),
    ...target,
    acknowledge: z
      .literal('LoseUnreplicatedWrites', {
        error: 'must be LoseUnreplicatedWrites: that is what it may cost',
      })
      .describe(
        'Writes that only the lost members hold are lost; say that you know: LoseUnreplicatedWrites.',
      ),
  }),
  z.strictObject({
    type: z.literal('Backup').describe(TYPE_TEXT),
    ...target,
    backup: nameText('orders-1').describe('Name of the Backup object.'),
  }),
  z.strictObject({
    type: z.literal('DeleteBackup').describe(TYPE_TEXT),
    ...target,
    backup: nameText('orders-1').describe('Name of the Backup object.'),
  }),
  z.strictObject({
    type: z.literal('Restore').describe(TYPE_TEXT),
    ...target,
    restore: nameText('orders-1').describe('Name of the Restore object.'),
  }),
  z.strictObject({
    type: z.literal('Suspend').describe(TYPE_TEXT),
    ...target,
  }),
  z.strictObject({
    type: z.literal('Resume').describe(TYPE_TEXT),
    ...target,
  }),
  z
    .strictObject({
      type: z.literal('OverrideWindows').describe(TYPE_TEXT),
      ...target,
      reason: lineText()
        .min(1, { error: 'must not be empty' })
        .optional()
        .describe('Why changes may not wait for the maintenance window; only with end it may be left out.'),
      duration: durationWithin(OVERRIDE)
        .default('2h')
        .describe('How long they may go on outside the windows, from 1m to 30d.'),
      end: z
        .boolean()
        .optional()
        .describe('Ends what is active instead: changes wait for the windows again.'),
    })
    .refine(({ end, reason }) => end === true || reason !== undefined, {
      path: ['reason'],
      error: 'is required: say why changes may not wait for the maintenance window',
    }),
  z.strictObject({ type: z.literal('StartBalancer').describe(TYPE_TEXT), ...target }),
  z.strictObject({
    type: z.literal('StopBalancer').describe(TYPE_TEXT),
    ...target,
  }),
  z.strictObject({
    type: z.literal('Move').describe(TYPE_TEXT),
    ...target,
    member,
    host: nameText('db4').optional().describe('Host to move it to; by default the platform chooses.'),
    avoidHosts: z.array(nameText('db3')).default([]).describe('Hosts it must not come to.'),
  }),
]);
export type OperationSpec = DeepReadonly<z.output<typeof operationSpecSchema>>;
export type OperationType = OperationSpec['type'];

/** How an operation stands. */
export const OPERATION_STATES = [
  'Waiting',
  'Running',
  'Succeeded',
  'Failed',
  'Cancelled',
  'Superseded',
] as const;
export type OperationState = (typeof OPERATION_STATES)[number];

/** Whether an operation is over, by how it stands. */
export const isOperationOver = (state: unknown): boolean =>
  state === 'Succeeded' || state === 'Failed' || state === 'Cancelled' || state === 'Superseded';

const operationStatus = z.strictObject({
  ...commonStatus,
  state: z.enum(OPERATION_STATES).optional().describe('How far it has come.'),
  completedMembers: z.array(z.string()).default([]).describe('Members it is done with.'),
  currentMember: z.string().optional().describe('Member it works on.'),
  progressPercent: z.number().optional().describe('Progress, 0 to 100.'),
  cancellable: z.boolean().optional().describe('Whether it can be stopped safely now.'),
  cancelRequested: z.boolean().optional().describe('Whether someone asked to stop it.'),
  requestedBy: z.string().optional().describe('Who asked for it.'),
  attempts: z.int().optional().describe('Consecutive failures of its present step.'),
  nextTryAt: timestampText().optional().describe('When its present step is tried again.'),
  startedAt: timestampText().optional().describe('When it started.'),
  finishedAt: timestampText().optional().describe('When it ended.'),
});

/** A durable record of something that was asked for. */
export const operationSchema = envelope('Operation', operationSpecSchema, operationStatus);
export type Operation = DeepReadonly<z.output<typeof operationSchema>>;
