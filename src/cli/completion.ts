/** Shell completion: short scripts that ask this program, so that names of real objects complete too. */
import type { Command } from 'commander';
import { BelayError } from '../base/error.ts';
import { KINDS } from '../model/index.ts';
import { type ApiList, objectPath } from './client.ts';
import { makeContext, OUTPUTS, pluralOf } from './context.ts';

const SCRIPTS: Readonly<Record<string, string>> = {
  bash: `_belay() {
  local IFS=$'\\n'
  COMPREPLY=($(compgen -W "$(belay complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _belay belay`,
  zsh: `#compdef belay
_belay() {
  local -a found
  found=(\${(f)"$(belay complete -- "\${words[@]:1:$((CURRENT-1))}" 2>/dev/null)"})
  compadd -a found
}
compdef _belay belay`,
  fish: `complete -c belay -f -a '(belay complete -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'`,
};

/** Prints the script of a shell. */
export function printCompletion(shell: string): void {
  const script = SCRIPTS[shell];
  if (script === undefined)
    throw new BelayError('Usage', `no completion for ${shell}`, {
      retry: 'never',
      fix: `shells: ${Object.keys(SCRIPTS).join(', ')}`,
    });
  process.stdout.write(`${script}\n`);
}

/** Prints what may come next, one a line. Silent when nothing is known. */
export async function complete(program: Command, words: readonly string[]): Promise<void> {
  const found = await candidates(program, words[0] === '--' ? words.slice(1) : words);
  if (found.length > 0) process.stdout.write(`${found.join('\n')}\n`);
}

const KIND_VERBS = new Set(['get', 'describe', 'wait', 'delete']);

/** Candidates for the last word. */
export async function candidates(program: Command, words: readonly string[]): Promise<readonly string[]> {
  const last = words.at(-1) ?? '';
  const before = words.slice(0, -1);
  const verbs = program.commands.filter((c) => c.name() !== 'complete');
  if (before.length === 0) return verbs.map((c) => c.name()).filter((n) => n.startsWith(last));
  const command = verbs.find((c) => c.name() === before[0]);
  if (command === undefined) return [];
  if (last.startsWith('-'))
    return command.options.flatMap((o) => [o.long ?? '']).filter((o) => o.startsWith(last));
  if (before.at(-1) === '-o' || before.at(-1) === '--output')
    return OUTPUTS.filter((o) => o.startsWith(last));
  const positional = before.slice(1).filter((w) => !w.startsWith('-'));
  if (command.commands.length > 0 && positional.length === 0)
    return command.commands.map((c) => c.name()).filter((n) => n.startsWith(last));
  if (KIND_VERBS.has(command.name()) && positional.length === 0)
    return KINDS.map((k) => k.plural).filter((p) => p.startsWith(last));
  if (KIND_VERBS.has(command.name()) && positional.length === 1) return names(positional[0] ?? '', last);
  return command.name() === 'connect' && positional.length === 0 ? names('mongodb', last) : [];
}

/** A control plane that does not answer at once must not hold up the shell. */
const NAMES_WITHIN_MILLIS = 800;

async function names(kind: string, last: string): Promise<readonly string[]> {
  try {
    const { client, namespace } = makeContext({});
    const list = await client.request<ApiList>('GET', objectPath(pluralOf(kind).plural, namespace), {
      query: { limit: '200' },
      signal: AbortSignal.timeout(NAMES_WITHIN_MILLIS),
    });
    return list.items.map((o) => o.metadata.name).filter((n) => n.startsWith(last));
  } catch {
    return [];
  }
}
