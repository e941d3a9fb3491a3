import { BelayError, type Problem } from '../../base/error.ts';
import { MINUTE, type Millis } from '../../base/units.ts';
import type { SourceDocument } from '../../model/index.ts';
import type { ApiObject } from '../client.ts';
import { type Context, kindOf, structured } from '../context.ts';
import { readSources } from '../documents.ts';
import { EXIT, Exit } from '../exit.ts';
import { asText } from '../output.ts';
import { follow } from '../progress.ts';
import {
  clashingNames,
  isDocumentRefusal,
  noteText,
  type Report,
  repeatedNames,
  report,
  syntaxReports,
  titleOf,
} from '../reports.ts';
import { goalTest } from './wait.ts';

/** What the server says of one applied document. */
export interface ApplyAnswer {
  readonly outcome: 'created' | 'configured' | 'unchanged';
  /** Null for documents that were passed over. */
  readonly name: { readonly kind: string; readonly namespace: string; readonly name: string } | null;
  readonly objects: readonly ApiObject[];
  readonly warnings: readonly Problem[];
}

export interface ApplyOptions {
  readonly files: readonly string[];
  readonly dryRun: boolean;
  /** Follow every database and user to Ready, and every maintenance task until all of it is granted, for at most this long. */
  readonly waitMillis: Millis | null;
}

/** Documents checked at a time: enough to hide the way to the server, few enough not to be a burden. */
const AT_ONCE = 8;
/** Longest wait of `--wait` when nobody says. */
export const WAIT_DEFAULT: Millis = 5 * MINUTE;

/**
 * `belay apply`: all documents are checked on the server first; nothing is changed unless all of them are good, so that
 * a wrong second document leaves nothing half-done.
 */
export async function apply(context: Context, options: ApplyOptions): Promise<readonly ApiObject[]> {
  const { documents, problems } = await readSources(options.files, context.io.stdin);
  const tried = await inChunks(documents, (document) => attempt(context, document, true));
  const refused = tried.flatMap((result) => ('report' in result ? [result.report] : []));
  if (refused.length > 0 && !options.dryRun) await refuseViewer(context);
  const reports = [
    ...syntaxReports(problems),
    ...refused,
    ...repeatedNames(documents, context.namespace),
    ...clashingNames(documents, context.namespace, refused),
  ];
  if (reports.length > 0) {
    await report(context, reports);
    throw new Exit(EXIT.refused);
  }
  const answers: ApplyAnswer[] = [];
  for (const [index, document] of documents.entries()) {
    const result = options.dryRun ? tried[index] : await attempt(context, document, false);
    if (result === undefined) continue;
    if ('report' in result) {
      await report(context, [result.report]);
      throw new Exit(EXIT.refused);
    }
    answers.push(result.answer);
    await say(context, document, result.answer, options.dryRun ? ' (dry run)' : '');
  }
  const objects = answers.flatMap((answer) => answer.objects);
  const format = structured(context);
  if (format !== null) context.terminal.out(await asText(one(objects), format));
  if (options.waitMillis !== null && !options.dryRun) await untilReady(context, objects, options.waitMillis);
  return objects;
}

/**
 * Viewers may try documents out, so the check above lets them: who may not change anything is told that, and not what is wrong
 * with a change. `Forbidden`.
 */
async function refuseViewer({ client }: Context): Promise<void> {
  const { name, role } = await client.get<{ name: string; role: string }>('/api/v1/whoami');
  if (role !== 'viewer') return;
  throw new BelayError('Forbidden', `token ${name} has role viewer, but operator is needed to apply`, {
    retry: 'never',
    fix: 'use a token with role operator, which an admin makes with: belay token create NAME --role operator; or only look what is wrong with it: --dry-run',
  });
}

/** One object as it is, several as a list. */
const one = (objects: readonly ApiObject[]): unknown =>
  objects.length === 1 ? objects[0] : { apiVersion: 'v1', kind: 'List', items: objects };

type Attempt = { readonly answer: ApplyAnswer } | { readonly report: Report };

async function attempt(context: Context, document: SourceDocument, dryRun: boolean): Promise<Attempt> {
  try {
    const answer = await context.client.request<ApplyAnswer>('POST', '/api/v1/apply', {
      body: document.value,
      query: { namespace: context.namespace, dryRun: dryRun ? 'validate' : undefined },
    });
    return { answer };
  } catch (error) {
    if (!(error instanceof BelayError) || !isDocumentRefusal(error)) throw error;
    return {
      report: { document, title: titleOf(document, context.namespace), what: 'was not applied', error },
    };
  }
}

async function inChunks<A, B>(items: readonly A[], work: (item: A) => Promise<B>): Promise<readonly B[]> {
  const results: B[] = [];
  for (let at = 0; at < items.length; at += AT_ONCE)
    results.push(...(await Promise.all(items.slice(at, at + AT_ONCE).map(work))));
  return results;
}

async function say(
  context: Context,
  document: SourceDocument,
  answer: ApplyAnswer,
  suffix: string,
): Promise<void> {
  const { terminal, output, quiet } = context;
  if (answer.name !== null && structured(context) === null) {
    const { plural } = await kindOf(answer.name.kind);
    const what = `${plural}/${answer.name.name}`;
    terminal.out(output === 'name' ? what : `${what} ${answer.outcome}${suffix}`);
  }
  if (quiet) return;
  for (const warning of answer.warnings) terminal.err(noteText(document, 'warning', warning));
}

async function untilReady(
  context: Context,
  objects: readonly ApiObject[],
  timeoutMillis: Millis,
): Promise<void> {
  for (const { kind, metadata, spec } of objects) {
    const { namespace, name } = metadata;
    if (kind === 'MaintenanceTask') {
      const { untilGranted } = await import('./maintenance.ts');
      await untilGranted(context, typeof spec['uid'] === 'string' ? spec['uid'] : name, timeoutMillis);
    }
    if (kind !== 'MongoDB' && kind !== 'MongoDBUser') continue;
    const goal = `Ready of ${name}`;
    await follow(context, {
      kind: await kindOf(kind),
      namespace,
      name,
      timeoutMillis,
      reached: goalTest('Ready'),
      goal,
    });
  }
}
