import { BelayError } from '../../base/error.ts';
import type { Context } from '../context.ts';
import { readSources } from '../documents.ts';
import { EXIT, Exit } from '../exit.ts';
import { asText } from '../output.ts';
import { problemText, syntaxText, titleOf } from './apply.ts';

/** The server's answer to a plan. */
export interface PlanAnswer {
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  readonly generation: { readonly from: number | null; readonly to: number };
  readonly changes: readonly { readonly path: string; readonly from: unknown; readonly to: unknown }[];
  readonly steps: readonly {
    readonly number: number;
    readonly verb: string;
    readonly targets: readonly string[];
    readonly detail: string;
    readonly impact: string;
    readonly reason: string;
  }[];
  readonly refusals: readonly { readonly by: string; readonly detail: string; readonly fix: string }[];
  readonly warnings: readonly { readonly path: string; readonly message: string }[];
  readonly converges: boolean;
}

/** `belay plan -f FILE`: every step, before anything is touched. Exit 0 nothing to do, 10 changes, 4 refused. */
export async function plan(context: Context, files: readonly string[]): Promise<void> {
  const { documents, problems } = await readSources(files);
  for (const problem of problems) context.terminal.err(syntaxText(problem));
  let refused = problems.length > 0;
  let changes = false;
  const answers: PlanAnswer[] = [];
  for (const document of documents) {
    try {
      const answer = await context.client.request<PlanAnswer>('POST', '/api/v1/apply', {
        body: document.value,
        query: { namespace: context.namespace, dryRun: 'plan' },
      });
      answers.push(answer);
      refused ||= answer.refusals.length > 0;
      changes ||= answer.steps.length > 0 || answer.changes.length > 0;
    } catch (error) {
      if (!(error instanceof BelayError) || error.problems.length === 0) throw error;
      context.terminal.err(
        problemText(document, titleOf(document, context.namespace), 'cannot be planned', error.problems),
      );
      refused = true;
    }
  }
  if (context.output === 'json' || context.output === 'yaml')
    context.terminal.out(asText(answers.length === 1 ? answers[0] : answers, context.output));
  else for (const answer of answers) context.terminal.out(planText(answer));
  if (refused) throw new Exit(EXIT.refused);
  if (changes) throw new Exit(EXIT.changes);
}

const shown = (value: unknown): string =>
  value === undefined || value === null ? '–' : typeof value === 'string' ? value : JSON.stringify(value);

/** A plan as text. */
export function planText(answer: PlanAnswer): string {
  const { from, to } = answer.generation;
  const generation = from === null ? 'new' : from === to ? `generation ${to}` : `generation ${from} → ${to}`;
  const lines = [`${answer.kind} ${answer.namespace}/${answer.name}   ${generation}`];
  for (const change of answer.changes)
    lines.push(`  ${change.path}   ${shown(change.from)} → ${shown(change.to)}`);
  for (const warning of answer.warnings) lines.push(`  warning  ${warning.path}  ${warning.message}`);
  lines.push('');
  const verb = Math.max(0, ...answer.steps.map((s) => s.verb.length));
  const targets = Math.min(40, Math.max(0, ...answer.steps.map((s) => s.targets.join(', ').length)));
  for (const step of answer.steps) {
    lines.push(
      `${String(step.number).padStart(2)}  ${step.verb.padEnd(verb)}  ${step.targets.join(', ').padEnd(targets)}   ${step.detail}   ${step.impact}`,
    );
  }
  lines.push(...ending(answer));
  return lines.join('\n');
}

function ending(answer: PlanAnswer): readonly string[] {
  const lines: string[] = [];
  for (const refusal of answer.refusals)
    lines.push('', `refused  ${refusal.by}: ${refusal.detail}`, `         ${refusal.fix}`);
  if (answer.steps.length === 0 && answer.refusals.length === 0) return ['nothing to do'];
  if (answer.steps.length > 0) {
    const down = answer.steps.filter((s) => s.impact.includes('go down')).length;
    const effect = down === 0 ? 'nothing goes down' : `members go down in ${down} of them`;
    lines.push('', `${answer.steps.length} step${answer.steps.length === 1 ? '' : 's'}, ${effect}.`);
  }
  return lines;
}
