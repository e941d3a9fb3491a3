/** Routes about the certificate authority: the bundle to trust, and its replacement. */
import { z } from 'zod';
import type { ApiDeps } from './deps.ts';
import type { Call, Json, Route } from './routes.ts';

const STEP = z.strictObject({
  step: z
    .enum(['introduce', 'switch'])
    .describe(
      'introduce: make a new authority that is trusted besides · switch: it issues from now on; clients have the bundle',
    ),
});

/** Routes of this file. */
export function authorityRoutes(deps: ApiDeps, caPem: () => string): readonly Route[] {
  const tag = 'access';
  return [
    {
      method: 'GET',
      path: '/api/v1/ca',
      id: 'readCertificateAuthority',
      tag,
      summary: 'Certificate authority of this installation, as PEM; two while it is being replaced',
      role: 'viewer',
      answers: { 200: { description: 'caPem' } },
      handle: () => ({ caPem: caPem() }),
    },
    {
      method: 'GET',
      path: '/api/v1/ca/rotation',
      id: 'readCertificateAuthorityRotation',
      tag,
      summary: 'How far the replacement of the certificate authority is, and who is waited for',
      role: 'viewer',
      answers: { 200: { description: 'phase, waitsFor, ready' } },
      handle: () => deps.caRotation.status(),
    },
    {
      method: 'POST',
      path: '/api/v1/ca/rotation',
      id: 'rotateCertificateAuthority',
      tag,
      summary: 'Begin the replacement of the certificate authority, or let the new one issue',
      role: 'admin',
      body: {
        check: STEP,
        required: true,
        types: ['application/json'],
        schema: z.toJSONSchema(STEP, { io: 'input' }) as Json,
      },
      answers: { 200: { description: 'phase, waitsFor, ready' } },
      handle: (call: Call) =>
        (call.body as z.infer<typeof STEP>).step === 'introduce'
          ? deps.caRotation.introduce()
          : deps.caRotation.switchOver(),
    },
  ];
}
