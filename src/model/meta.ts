import { z } from 'zod';
import { type DeepReadonly, labelText, nameText, timestampText } from './fields.ts';

/** The API version of all kinds of this project. */
export const API_VERSION = 'belay.dev/v1';

/** Where an object stands as a whole. */
export const PHASES = [
  'Pending',
  'Reconciling',
  'Ready',
  'Degraded',
  'Suspended',
  'Deleting',
  'Failed',
] as const;
export type Phase = (typeof PHASES)[number];

/** Condition types of a MongoDB; more may be added, these are always there. */
export const CONDITION_TYPES = [
  'Ready',
  'Progressing',
  'Blocked',
  'ManagedSystemUsers',
  'TLSCertificate',
  'DiskSpace',
  'BackupReady',
  'Exposed',
] as const;
export type ConditionType = (typeof CONDITION_TYPES)[number];

/** Condition types of every kind that has some. */
export const CONDITIONS_BY_KIND: Readonly<Record<string, readonly string[]>> = {
  MongoDB: CONDITION_TYPES,
  MongoDBUser: ['Ready'],
  Topology: ['Accepted', 'HealthReported', 'Stale', 'Ready'],
};

/** Namespace of objects that name none. */
export const DEFAULT_NAMESPACE = 'default';

/** Metadata in Kubernetes' form. */
export const metadataSchema = z.strictObject({
  name: nameText('orders').describe('Name, unique within kind and namespace; it cannot be changed.'),
  namespace: labelText('default').default(DEFAULT_NAMESPACE).describe('Namespace the object lives in.'),
  uid: z
    .string()
    .optional()
    .describe('Identity given by the server; a new object of the same name gets another.'),
  generation: z.int().min(0).optional().describe('Raised by the server with every change of spec.'),
  resourceVersion: z
    .string()
    .optional()
    .describe('Changes with every write; sent back, it guards against overwriting a change not seen.'),
  labels: z.record(z.string(), z.string()).default({}).describe('Labels to select objects by.'),
  annotations: z.record(z.string(), z.string()).default({}).describe('Notes of people and tools.'),
  creationTimestamp: timestampText().optional().describe('When the server first stored the object.'),
  deletionTimestamp: timestampText().optional().describe('When deletion was asked for; set by the server.'),
  finalizers: z.array(z.string()).optional().describe('Who must finish before the object may vanish.'),
  generateName: z.string().optional().describe('Not used; accepted because tools write it.'),
  selfLink: z.string().optional().describe('Not used; accepted because tools write it.'),
  ownerReferences: z
    .array(z.unknown())
    .optional()
    .describe('Not used here; accepted because tools write it.'),
  managedFields: z.array(z.unknown()).optional().describe('Not used here; accepted because tools write it.'),
});
export type Metadata = DeepReadonly<z.output<typeof metadataSchema>>;

/** One aspect of an object's state, with a reason that is the same in logs, events and metrics. */
export const conditionSchema = z.strictObject({
  type: z.string().describe('Which aspect, such as Ready or Blocked.'),
  status: z.enum(['True', 'False', 'Unknown']).describe('Whether it holds.'),
  reason: z.string().describe('Stable name of the reason, in CamelCase.'),
  message: z.string().describe('One sentence with values and units.'),
  lastTransitionTime: timestampText().describe('When status last changed.'),
  observedGeneration: z.int().optional().describe('Generation the condition was computed for.'),
});
export type Condition = DeepReadonly<z.output<typeof conditionSchema>>;

/** What every status has. */
export const commonStatus = {
  observedGeneration: z.int().optional().describe('Generation of spec that was last acted on.'),
  phase: z.enum(PHASES).optional().describe('Where the object stands as a whole.'),
  message: z.string().optional().describe('One sentence about the phase.'),
  conditions: z.array(conditionSchema).default([]).describe('Aspects of the state, each with its reason.'),
  warnings: z.array(z.string()).default([]).describe('What was accepted but should be looked at.'),
} as const;

/** The envelope of a kind: apiVersion, kind, metadata, spec and status. */
export function envelope<Kind extends string, Spec extends z.ZodType, Status extends z.ZodType>(
  kind: Kind,
  spec: Spec,
  status: Status,
) {
  return z.strictObject({
    apiVersion: z.literal(API_VERSION).describe(`Always ${API_VERSION}.`),
    kind: z.literal(kind).describe(`Always ${kind}.`),
    metadata: metadataSchema.describe('Name, namespace, labels and what the server keeps about the object.'),
    spec: spec.describe('What is wanted.'),
    status: status.optional().describe('What is; written by the server only.'),
  });
}
