import { z } from 'zod';
import { type DeepReadonly, timestampText } from '../fields.ts';
import { commonStatus, envelope } from '../meta.ts';

const eventSpec = z.strictObject({
  regarding: z
    .strictObject({
      kind: z.string().describe('Kind of the object.'),
      namespace: z.string().optional().describe('Its namespace.'),
      name: z.string().describe('Its name.'),
      uid: z.string().optional().describe('Its identity.'),
    })
    .describe('What it is about.'),
  type: z.enum(['Normal', 'Warning']).describe('Normal or Warning.'),
  reason: z.string().describe('Stable name of what happened, in CamelCase.'),
  message: z.string().describe('One sentence with values and units.'),
  count: z.int().min(1).default(1).describe('How often it happened.'),
  firstTimestamp: timestampText().optional().describe('When it first happened.'),
  lastTimestamp: timestampText().optional().describe('When it last happened.'),
});

/** Something that happened. Equal events are one with a count. */
export const eventSchema = envelope('Event', eventSpec, z.strictObject({ ...commonStatus }));
export type BelayEvent = DeepReadonly<z.output<typeof eventSchema>>;
