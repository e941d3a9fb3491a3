import { readFileSync } from 'node:fs';
import type { Context } from '../context.ts';

/** Version of this package. */
export function ownVersion(): string {
  const file = new URL('../../../package.json', import.meta.url);
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
}

/** `belay version`: this program, and the control plane when one answers. */
export async function version(context: Context): Promise<void> {
  context.terminal.out(`belay ${ownVersion()}   node ${process.versions.node}`);
  try {
    const document = await context.client.get<{ info: { version: string } }>('/openapi.json');
    context.terminal.out(`control plane ${document.info.version} at ${context.client.url}`);
  } catch {
    context.terminal.err(`no control plane answers at ${context.client.url}`);
  }
}
