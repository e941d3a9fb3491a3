import { type Context, structured } from '../context.ts';
import { age, asText, table } from '../output.ts';

interface Invitation {
  readonly token: string;
  readonly expiresAt: string;
  readonly urls: readonly string[];
  readonly caFingerprint: string;
}

/** `belay host token`: what to run on the new host. The token is good once. */
export async function hostToken(
  context: Context,
  host: string | undefined,
  ttlMillis: number,
): Promise<void> {
  const invitation = await context.client.request<Invitation>('POST', '/api/v1/join-tokens', {
    body: { ...(host === undefined ? {} : { host }), ttlSeconds: Math.round(ttlMillis / 1000) },
  });
  const format = structured(context);
  if (format !== null) {
    context.terminal.out(await asText(invitation, format));
    return;
  }
  const name = host === undefined ? '' : ` --name ${host}`;
  context.terminal.err(`good once, until ${invitation.expiresAt}; on the host run:`);
  context.terminal.out(
    `BELAY_JOIN_TOKEN=${invitation.token} belay agent --data /var/lib/belay/agent --server ${invitation.urls.join(' ')} --ca-fingerprint ${invitation.caFingerprint}${name}`,
  );
}

interface TokenRow {
  readonly id: string;
  readonly name: string;
  readonly role: string;
  readonly createdAt: string;
  readonly expiresAt: string | null;
}

/** `belay token create`: printed once, on stdout alone, so that it can be piped into a file. */
export async function createToken(
  context: Context,
  name: string,
  role: string,
  ttlMillis: number | undefined,
): Promise<void> {
  const made = await context.client.request<{ id: string; token: string }>('POST', '/api/v1/tokens', {
    body: { name, role, ...(ttlMillis === undefined ? {} : { ttlSeconds: Math.round(ttlMillis / 1000) }) },
  });
  const format = structured(context);
  if (format !== null) {
    context.terminal.out(await asText(made, format));
    return;
  }
  context.terminal.err(`token ${made.id} (${role}); it is not shown again`);
  context.terminal.out(made.token);
}

/** `belay token list`. */
export async function listTokens(context: Context): Promise<void> {
  const { items } = await context.client.get<{ items: readonly TokenRow[] }>('/api/v1/tokens');
  const format = structured(context);
  if (format !== null) context.terminal.out(await asText(items, format));
  else if (context.output === 'name') for (const { id } of items) context.terminal.out(id);
  else
    context.terminal.out(
      table(
        ['ID', 'NAME', 'ROLE', 'EXPIRES', 'AGE'],
        items.map((t) => [t.id, t.name, t.role, t.expiresAt ?? 'never', age(t.createdAt, context.now())]),
      ),
    );
}

/** `belay token revoke`. */
export async function revokeToken(context: Context, id: string): Promise<void> {
  await context.client.request('DELETE', `/api/v1/tokens/${encodeURIComponent(id)}`);
  context.terminal.out(context.output === 'name' ? id : `token ${id} revoked`);
}
