import { z } from 'zod';
import { checkedText, type DeepReadonly, timestampText, wholeNumber } from '../fields.ts';
import { commonStatus, envelope } from '../meta.ts';
import { advertisedHostProblem } from '../network.ts';

const hostSpec = z.strictObject({
  address: checkedText('db1.example.com', advertisedHostProblem)
    .optional()
    .describe(
      'DNS name under which members on this machine are advertised; by default the name of the object. Never an IP address.',
    ),
  unschedulable: z
    .boolean()
    .default(false)
    .describe('Place no further members here; those that are here stay.'),
  firstPort: wholeNumber(1, 65_535)
    .optional()
    .describe('First port for members here, instead of that of the MongoDB.'),
  failureDomains: z
    .record(z.string(), z.string())
    .default({})
    .describe('What this machine shares with others, such as rack: r1, zone: a.'),
});

const hostStatus = z.strictObject({
  ...commonStatus,
  address: z.string().optional().describe('Name under which members here are advertised.'),
  agentVersion: z.string().optional().describe('Version of the agent.'),
  lastSeen: timestampText().optional().describe('When the agent last reported.'),
  connected: z.boolean().optional().describe('Whether the agent’s channel is open.'),
  os: z.string().optional().describe('Operating system.'),
  cpus: z.number().optional().describe('Processors.'),
  memoryBytes: z.number().optional().describe('Memory, in bytes.'),
  diskTotalBytes: z.number().optional().describe('Size of the data disk, in bytes.'),
  diskFreeBytes: z.number().optional().describe('Free space of the data disk, in bytes.'),
  fingerprint: z.string().optional().describe('Identity of the physical machine, as far as it is known.'),
  executables: z
    .record(z.string(), z.array(z.string()))
    .optional()
    .describe('Executables found there, by product: their versions.'),
  members: z.array(z.string()).default([]).describe('Members it carries, as namespace/name.'),
  maintenance: z
    .strictObject({
      task: z.string().describe('Name of the task.'),
      owner: z.string().describe('Whose it is.'),
      until: timestampText().optional().describe('When its lock ends; absent: when it is given back.'),
    })
    .optional()
    .describe('Which maintenance task holds it as a whole.'),
});

/** A machine with an agent. */
export const hostSchema = envelope('Host', hostSpec, hostStatus);
export type Host = DeepReadonly<z.output<typeof hostSchema>>;
