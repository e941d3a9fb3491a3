import { BelayError } from '../../base/error.ts';
import { type Context, structured } from '../context.ts';
import { asText } from '../output.ts';
import { ownVersion } from '../version.ts';

/** `belay version`: this program, and the control plane when one answers. */
export async function version(context: Context): Promise<void> {
  const { client, terminal } = context;
  const server = await serverVersion(context);
  const found = { belay: ownVersion(), node: process.versions.node, server: server.version, url: client.url };
  const format = structured(context);
  if (format !== null) {
    terminal.out(await asText(found, format));
    return;
  }
  terminal.out(`belay ${found.belay}   node ${found.node}`);
  if (server.version !== null) terminal.out(`control plane ${server.version} at ${client.url}`);
  else terminal.err(server.why);
}

async function serverVersion({
  client,
}: Context): Promise<{ readonly version: string | null; readonly why: string }> {
  try {
    const document = await client.get<{ info: { version: string } }>('/openapi.json');
    return { version: document.info.version, why: '' };
  } catch (error) {
    const why = error instanceof BelayError ? error.message : `no control plane answers at ${client.url}`;
    return { version: null, why };
  }
}
