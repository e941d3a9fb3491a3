import { BelayError } from '../../base/error.ts';
import { formatBytes, formatCount, formatDuration } from '../../base/units.ts';
import { type Context, kindOf, structured } from '../context.ts';
import { readSources } from '../documents.ts';
import { EXIT, Exit } from '../exit.ts';
import { asText, inLine } from '../output.ts';
import {
  clashingNames,
  isDocumentRefusal,
  type Report,
  repeatedNames,
  report,
  syntaxReports,
  titleOf,
} from '../reports.ts';

/** The server's answer to a plan. */
export interface PlanAnswer {
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  /** Of an operation: what it does to what. */
  readonly about?: string;
  readonly generation: { readonly from: number | null; readonly to: number | null };
  readonly changes: readonly { readonly path: string; readonly from: unknown; readonly to: unknown }[];
  readonly steps: readonly {
    readonly number: number;
    readonly verb: string;
    readonly targets: readonly string[];
    readonly detail: string;
    readonly impact: string;
    readonly reason: string;
    /** Votes of the set before and while it is done. */
    readonly votes?: { readonly before: VotesRow; readonly after: VotesRow } | null;
    /** The median of earlier steps here; null: there is none. Not given for what only stores something. */
    readonly expected?: { readonly millis: number; readonly of: number; readonly bytes?: number } | null;
  }[];
  readonly refusals: readonly { readonly by: string; readonly detail: string; readonly fix: string }[];
  readonly warnings: readonly { readonly path: string; readonly message: string }[];
  readonly waits?: readonly { readonly on: string; readonly detail: string }[];
  readonly converges: boolean;
}
interface VotesRow {
  readonly voters: number;
  readonly healthyVoters: number;
  readonly needed: number;
}

/** `belay plan -f FILE`: every step, before anything is touched. Exit 0 nothing to do, 10 changes, 4 refused. */
export async function plan(context: Context, files: readonly string[]): Promise<void> {
  const { documents, problems } = await readSources(files, context.io.stdin);
  const reports: Report[] = [...syntaxReports(problems)];
  const answers: PlanAnswer[] = [];
  for (const document of documents) {
    try {
      const answer = await context.client.request<PlanAnswer>('POST', '/api/v1/apply', {
        body: document.value,
        query: { namespace: context.namespace, dryRun: 'plan' },
      });
      answers.push(answer);
    } catch (error) {
      if (!(error instanceof BelayError) || !isDocumentRefusal(error)) throw error;
      reports.push({
        document,
        title: titleOf(document, context.namespace),
        what: 'cannot be planned',
        error,
      });
    }
  }
  reports.push(...repeatedNames(documents, context.namespace));
  reports.push(...clashingNames(documents, context.namespace, reports));
  await report(context, reports);
  const all = structured(context) === null ? answers : [...answers, ...reports.map(refusedAnswer)];
  await showPlans(context, all, reports.length > 0);
}

/** A document that cannot be planned, in the shape of a plan: a program finds everything in one place. */
function refusedAnswer({ document, error }: Report): PlanAnswer {
  const value = (document as { value?: unknown }).value as
    | { kind?: unknown; metadata?: { name?: unknown; namespace?: unknown } | null }
    | undefined;
  const text = (given: unknown): string => (typeof given === 'string' ? given : '');
  const problems = error.problems.length > 0 ? error.problems : [{ path: '', message: error.message }];
  const place = (path: string): string => {
    const { line, column } = document.locate(path);
    return `${document.file}:${line}:${column}`;
  };
  return {
    kind: text(value?.kind),
    namespace: text(value?.metadata?.namespace),
    name: text(value?.metadata?.name),
    generation: { from: null, to: null },
    changes: [],
    steps: [],
    refusals: problems.map(({ path, message }) => ({
      by: error.code,
      detail: [place(path), path, message].filter((part) => part !== '').join(' '),
      fix: error.fix ?? 'correct the document',
    })),
    warnings: [],
    converges: false,
  };
}

/** Prints plans and ends with their exit code. */
export async function showPlans(
  context: Context,
  answers: readonly PlanAnswer[],
  refused = false,
): Promise<void> {
  await print(context, answers);
  if (refused || answers.some((a) => a.refusals.length > 0)) throw new Exit(EXIT.refused);
  if (answers.some((a) => a.steps.length + a.changes.length + (a.waits ?? []).length > 0))
    throw new Exit(EXIT.changes);
}

async function print(context: Context, answers: readonly PlanAnswer[]): Promise<void> {
  if (answers.length === 0) return;
  const format = structured(context);
  if (context.output === 'name') {
    for (const { kind, name } of answers.filter((a) => a.name !== ''))
      context.terminal.out(`${(await kindOf(kind)).plural}/${name}`);
    return;
  }
  const text =
    format === null
      ? answers.map((answer) => planText(answer, context.quiet)).join('\n\n')
      : await asText(answers.length === 1 ? answers[0] : answers, format);
  context.terminal.out(text);
}

const shown = (value: unknown): string =>
  value === undefined || value === null ? '–' : typeof value === 'string' ? value : JSON.stringify(value);

/** Wider lists of members do not push everything to the right. */
const TARGETS_WIDTH = 40;

/** A plan as text. */
export function planText(answer: PlanAnswer, quiet = false): string {
  const { from, to } = answer.generation;
  if (answer.name === '') return 'nothing to do: this document has no meaning here';
  const generation = from === null ? 'new' : from === to ? `generation ${to}` : `generation ${from} → ${to}`;
  const lines = [answer.about ?? `${answer.kind} ${answer.namespace}/${answer.name}   ${generation}`];
  const widest = Math.max(0, ...answer.changes.map((c) => c.path.length));
  for (const { path, from, to } of answer.changes)
    lines.push(`  ${path.padEnd(widest)}   ${shown(from)} → ${shown(to)}`);
  if (!quiet) for (const { path, message } of answer.warnings) lines.push(`  warning  ${path}  ${message}`);
  const steps = answer.steps.map((s) => ({ ...s, at: s.targets.join(', ') }));
  const verb = Math.max(0, ...steps.map((s) => s.verb.length));
  const targets = Math.min(TARGETS_WIDTH, Math.max(0, ...steps.map((s) => s.at.length)));
  if (steps.length > 0) lines.push('');
  for (const s of steps)
    lines.push(
      `${String(s.number).padStart(2)}  ${s.verb.padEnd(verb)}  ${s.at.padEnd(targets)}   ${[s.detail, ...votesText(s), s.impact, ...expectedText(s)].join('   ')}`,
    );
  lines.push(...ending(answer));
  return lines.map(inLine).join('\n');
}

function ending(answer: PlanAnswer): readonly string[] {
  const { steps, refusals, changes, waits = [] } = answer;
  const lines: string[] = [];
  for (const refusal of refusals)
    lines.push('', `refused  ${refusal.by}: ${refusal.detail}`, `         ${refusal.fix}`);
  if (steps.length === 0 && refusals.length === 0 && waits.length === 0)
    return [changes.length === 0 ? 'nothing to do' : 'nothing to do but to remember the change'];
  if (steps.length > 0)
    lines.push('', `${formatCount(steps.length, 'step')}, ${effectOf(steps)}.`, ...durationLines(steps));
  if (waits.length > 0) lines.push('');
  for (const { on, detail } of waits) lines.push(`waits    ${on}: ${detail}`);
  return lines;
}

type StepRow = PlanAnswer['steps'][number];

/** `healthy voters 3 → 2 of 3, needs 2`. Where votes change the step's own words say it. */
function votesText({ votes }: StepRow): readonly string[] {
  if (votes === undefined || votes === null) return [];
  const { before, after } = votes;
  if (before.voters !== after.voters) return [];
  return [
    `healthy voters ${before.healthyVoters} → ${after.healthyVoters} of ${after.voters}, needs ${after.needed}`,
  ];
}

const expectedText = ({ expected }: StepRow): readonly string[] =>
  expected === undefined || expected === null
    ? []
    : [
        `~${formatDuration(expected.millis)}${sizeText(expected)} (${formatCount(expected.of, 'earlier one')})`,
      ];

/** A first copy is judged by its size. */
const sizeText = ({ bytes }: { readonly bytes?: number }): string =>
  bytes === undefined ? '' : ` for ${formatBytes(bytes)}`;

/** What all of it takes, as far as there is something to judge by; of what there is none. */
function durationLines(steps: readonly StepRow[]): readonly string[] {
  const judged = steps.filter((s) => s.expected !== undefined);
  if (judged.length === 0) return [];
  const unknown = [...new Set(judged.filter((s) => s.expected === null).map((s) => s.verb))];
  const known = judged.flatMap((s) => s.expected?.millis ?? []);
  const total = formatDuration(known.reduce((sum, millis) => sum + millis, 0));
  if (known.length === 0) return ['How long it takes is not known: nothing like it was done here before.'];
  return unknown.length === 0
    ? [`About ${total}, by earlier steps here.`]
    : [`About ${total} by earlier steps here; of ${unknown.join(', ')} there is none to judge by.`];
}

/** What somebody who uses the database would notice of all of it. */
function effectOf(steps: PlanAnswer['steps']): string {
  const count = (word: string): number => steps.filter((s) => s.impact.includes(word)).length;
  const [down, restarts, elections] = [count('go down'), count('restarts'), count('election')];
  const deletions = count('cannot be undone');
  const effects = [
    ...(down === 0 ? [] : [`members go down in ${down} of them`]),
    ...(restarts === 0 ? [] : [`${formatCount(restarts, 'restart')}, at most one member down at a time`]),
    ...(elections === 0 ? [] : [formatCount(elections, 'election')]),
    ...(deletions === 0 ? [] : [`${formatCount(deletions, 'volume')} deleted for good`]),
  ];
  return effects.length === 0 ? 'nothing goes down' : effects.join(', ');
}
