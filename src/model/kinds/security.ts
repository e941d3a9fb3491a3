import { z } from 'zod';
import { checkedText, type DeepReadonly, nameText, someText } from '../fields.ts';
import { isDnsName, isIpLiteral } from '../network.ts';

/** Modes of TLS, from none to only. The safe way from one to another goes through every mode between (A9.3). */
export const TLS_MODES = ['disabled', 'allowTLS', 'preferTLS', 'requireTLS'] as const;
export type TlsMode = (typeof TLS_MODES)[number];

/** Ways in which clients prove who they are. */
export const AUTH_MODES = ['SCRAM-SHA-256', 'SCRAM-SHA-1', 'X509'] as const;
export type AuthMode = (typeof AUTH_MODES)[number];

const certificateDomain = checkedText('db.example.com', (text) => {
  if (isIpLiteral(text))
    return 'must be a DNS name; public addresses are added to certificates by themselves';
  const name = text.startsWith('*.') ? text.slice(2) : text;
  return isDnsName(name.toLowerCase()) ? undefined : 'must be a DNS name such as "db.example.com"';
});

const tlsSchema = z.strictObject({
  mode: z
    .enum(TLS_MODES)
    .default('requireTLS')
    .describe('disabled, allowTLS, preferTLS or requireTLS; a change passes through all modes between.'),
  ca: nameText('orders-ca')
    .optional()
    .describe(
      'Secret or config map with the CA (entry ca-pem) of supplied certificates. By default the CA of this installation.',
    ),
  certsSecretPrefix: nameText('prod')
    .optional()
    .describe(
      'Use supplied certificates from the secrets <prefix>-<name>-cert. By default certificates are issued here.',
    ),
  additionalCertificateDomains: z
    .array(certificateDomain)
    .default([])
    .describe('More DNS names for the certificates that are issued here.'),
});

const authenticationSchema = z.strictObject({
  enabled: z
    .boolean()
    .default(true)
    .describe('Always true: a database without authentication is not offered.'),
  modes: z
    .array(z.enum(AUTH_MODES))
    .min(1, { error: `must name at least one of ${AUTH_MODES.join(', ')}` })
    .default(['SCRAM-SHA-256'])
    .describe('Ways in which clients prove who they are: SCRAM-SHA-256, SCRAM-SHA-1, X509.'),
});

const resourceSchema = z.strictObject({
  db: z.string().optional().describe('Database; empty for all.'),
  collection: z.string().optional().describe('Collection; empty for all.'),
  cluster: z.boolean().optional().describe('The cluster as a whole; excludes db and collection.'),
});

/** A role with its own privileges. */
export const roleSchema = z.strictObject({
  role: someText().describe('Name of the role.'),
  db: someText().describe('Database the role is defined in.'),
  privileges: z
    .array(
      z.strictObject({
        actions: z
          .array(someText())
          .min(1, { error: 'must name at least one action' })
          .describe('Permitted actions.'),
        resource: resourceSchema.describe('What they may be done to.'),
      }),
    )
    .default([])
    .describe('What the role permits.'),
  roles: z
    .array(
      z.strictObject({
        role: someText().describe('Name of the role.'),
        db: someText().describe('Its database.'),
      }),
    )
    .default([])
    .describe('Roles whose privileges it includes.'),
  authenticationRestrictions: z
    .array(
      z.strictObject({
        clientSource: z.array(z.string()).optional().describe('Addresses or ranges clients come from.'),
        serverAddress: z.array(z.string()).optional().describe('Addresses or ranges clients connect to.'),
      }),
    )
    .default([])
    .describe('From where, and to where, holders of the role may connect.'),
});
export type MongoDBRole = DeepReadonly<z.output<typeof roleSchema>>;

/** TLS, authentication and roles of a cluster. */
export const securitySchema = z.strictObject({
  tls: tlsSchema.prefault({}).describe('Encryption of all connections.'),
  authentication: authenticationSchema.prefault({}).describe('Who may connect.'),
  roles: z.array(roleSchema).default([]).describe('Roles that the control plane keeps in the database.'),
});
export type Security = DeepReadonly<z.output<typeof securitySchema>>;
