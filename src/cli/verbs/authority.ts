/** `belay rotate ca`: replaces the installation's certificate authority, and says what people have to do for it. */
import { setTimeout as pause } from 'node:timers/promises';
import { BelayError } from '../../base/error.ts';
import { type Millis, SECOND } from '../../base/units.ts';
import { type Context, structured } from '../context.ts';
import { asText } from '../output.ts';

interface Rotation {
  readonly phase: 'stable' | 'introduced' | 'switched';
  readonly waitsFor: readonly string[];
  readonly waiting: number;
  readonly ready: boolean;
  readonly notAfter: string;
  readonly fingerprint: string;
}

export interface RotateCaOptions {
  /** Clients have the bundle with both authorities: the new one may issue. */
  readonly clientsUpdated: boolean;
  readonly wait: boolean;
  readonly timeoutMillis: Millis;
}

const PATH = '/api/v1/ca/rotation';
/** How often it is asked how far it is. */
const LOOK: Millis = SECOND;

/**
 * The first call introduces a new authority and waits until everybody trusts both; with `--clients-updated` the new one
 * issues, and it waits until the old one is gone. Each can be repeated at any time: it goes on where it is.
 */
export async function rotateCa(context: Context, options: RotateCaOptions): Promise<void> {
  const begun = await context.client.request<Rotation>('GET', PATH);
  if (options.clientsUpdated && begun.phase === 'stable') {
    const fix = 'begin with: belay rotate ca';
    throw new BelayError('Refused', 'no new certificate authority was introduced', { retry: 'never', fix });
  }
  if (begun.phase === 'stable') await step(context, 'introduce');
  const introduced = await until(context, options, (now) => now.phase !== 'introduced' || now.ready);
  if (introduced.phase !== 'introduced' || !options.clientsUpdated || !introduced.ready) {
    const end = introduced.phase === 'switched' ? await finish(context, options) : introduced;
    return show(context, end);
  }
  await step(context, 'switch');
  return show(context, await finish(context, options));
}

const step = (context: Context, what: 'introduce' | 'switch'): Promise<Rotation> =>
  context.client.request<Rotation>('POST', PATH, { body: { step: what } });

const finish = (context: Context, options: RotateCaOptions): Promise<Rotation> =>
  until(context, options, (now) => now.phase === 'stable' && now.ready);

async function until(
  context: Context,
  { wait, timeoutMillis }: RotateCaOptions,
  reached: (now: Rotation) => boolean,
): Promise<Rotation> {
  const end = context.now() + timeoutMillis;
  let said = '';
  for (;;) {
    const now = await context.client.request<Rotation>('GET', PATH);
    if (!wait || reached(now)) return now;
    const line = progress(now);
    if (line !== said && !context.quiet) context.terminal.err(line);
    said = line;
    if (context.now() > end) {
      throw new BelayError('WaitTimedOut', `the certificate authority is not replaced yet: ${line}`, {
        retry: 'later',
        fix: 'it goes on by itself; the same command waits for it again',
      });
    }
    await pause(LOOK);
  }
}

function progress({ phase, waitsFor, waiting }: Rotation): string {
  const more = waiting > waitsFor.length ? ` and ${waiting - waitsFor.length} more` : '';
  const who = waiting === 0 ? 'every control plane to have read it' : `${waitsFor.join(', ')}${more}`;
  return `${phase}: waits for ${who}`;
}

async function show(context: Context, now: Rotation): Promise<void> {
  const format = structured(context);
  if (format !== null) {
    context.terminal.out(await asText(now, format));
    return;
  }
  context.terminal.out(said(now));
}

function said(now: Rotation): string {
  if (!now.ready) return progress(now);
  if (now.phase === 'introduced')
    return 'members and agents trust the old and the new authority. Give clients the new bundle (GET /api/v1/ca, or ca.pem in the data folder), then run: belay rotate ca --clients-updated';
  return `one certificate authority is trusted, ${now.fingerprint}, until ${now.notAfter.slice(0, 10)}`;
}
