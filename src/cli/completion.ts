/** Shell completion: short scripts that ask this program, so that names of real objects complete too. */
import type { Command, Option } from 'commander';
import { BelayError } from '../base/error.ts';
import { type ApiList, type ApiObject, objectPath } from './client.ts';
import { kindOf, makeContext, placeOf } from './context.ts';
import type { Io } from './io.ts';
import { statusOf } from './rows.ts';

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

/** The script of a shell. `Usage` for shells there is none for. */
export function completionScript(shell: string): string {
  const script = SCRIPTS[shell];
  if (script !== undefined) return `${script}\n`;
  throw new BelayError('Usage', `no completion for ${shell}`, {
    retry: 'never',
    fix: `shells: ${Object.keys(SCRIPTS).join(', ')}`,
  });
}

/** Verbs whose first word is a kind and the next ones are names. */
const KIND_VERBS = new Set(['get', 'describe', 'wait', 'delete', 'events']);

/** Verbs whose first word is the name of an object of one kind. */
const NAME_VERBS: Readonly<Record<string, string>> = {
  connect: 'mongodb',
  restart: 'mongodb',
  replace: 'mongodb',
  move: 'mongodb',
  users: 'mongodb',
  tls: 'mongodb',
  'raise-fcv': 'mongodb',
  suspend: 'mongodb',
  resume: 'mongodb',
  on: 'mongodb',
  off: 'mongodb',
  operations: 'mongodb',
  cancel: 'operations',
};
/** Of these, verbs whose second word is a member. */
const MEMBER_VERBS = new Set(['replace', 'move']);

/** What may come next, for the last word; empty when nothing is known. */
export async function candidates(
  program: Command,
  line: readonly string[],
  io: Io,
): Promise<readonly string[]> {
  const words = line[0] === '--' ? line.slice(1) : line;
  const last = words.at(-1) ?? '';
  const fitting = (all: readonly string[]): readonly string[] => all.filter((word) => word.startsWith(last));
  const { command, options, positional } = understand(program, words.slice(0, -1));
  if (command === null) return [];
  const waiting = options.at(-1);
  if (waiting !== undefined && waiting.value === undefined) return fitting(await valuesOf(waiting.option));
  if (last.startsWith('-')) return fitting(optionsOf(command));
  const below = command.commands.filter((c) => c.name() !== 'complete');
  if (below.length > 0) return positional.length === 0 ? fitting(below.map((c) => c.name())) : [];
  if (command.name() === 'completion') return positional.length === 0 ? fitting(Object.keys(SCRIPTS)) : [];
  const given = (name: string): string | undefined =>
    options.find((o) => o.option.attributeName() === name)?.value;
  const from: From = { namespace: given('namespace'), server: given('server'), io };
  const named = NAME_VERBS[command.name()];
  if (named !== undefined)
    return positional.length === 0
      ? fitting(await names(named, from))
      : MEMBER_VERBS.has(command.name()) && positional.length === 1
        ? fitting(await members(positional[0] ?? '', from))
        : [];
  if (!KIND_VERBS.has(command.name())) return [];
  const [kind] = positional;
  if (kind !== undefined) return fitting(await names(kind, from));
  const slash = last.indexOf('/');
  if (slash < 0) return fitting(await kinds());
  const word = last.slice(0, slash);
  return fitting((await names(word, from)).map((name) => `${word}/${name}`));
}

interface Understood {
  readonly command: Command | null;
  readonly options: readonly { readonly option: Option; readonly value: string | undefined }[];
  readonly positional: readonly string[];
}

/** Which verb a line is about, its options with their values, and its other words. */
function understand(program: Command, words: readonly string[]): Understood {
  let command = program;
  const options: { option: Option; value: string | undefined }[] = [];
  const positional: string[] = [];
  for (let at = 0; at < words.length; at++) {
    const word = words[at] ?? '';
    const [flag = '', inline] = word.split('=', 2);
    const option = word.startsWith('-')
      ? command.options.find((o) => o.long === flag || o.short === flag)
      : undefined;
    if (option !== undefined && (option.required || option.optional)) {
      const value = inline ?? words[++at];
      options.push({ option, value });
    } else if (!word.startsWith('-')) {
      const below = command.commands.find((c) => c.name() === word || c.aliases().includes(word));
      if (below !== undefined && positional.length === 0) command = below;
      else if (command === program) return { command: null, options, positional };
      else positional.push(word);
    }
  }
  return { command, options, positional };
}

const optionsOf = (command: Command): readonly string[] =>
  command.options.flatMap((o) => (o.long === undefined || o.long === null ? [] : [o.long])).concat('--help');

/** Goals that `--for` knows and a person is likely to mean. */
const GOALS = ['Ready', 'condition=Ready', 'phase=Suspended', 'delete'];

async function valuesOf(option: Option): Promise<readonly string[]> {
  if (option.argChoices !== undefined) return option.argChoices;
  return option.attributeName() === 'for' ? GOALS : [];
}

async function kinds(): Promise<readonly string[]> {
  const { KINDS } = await import('../model/index.ts');
  return [...KINDS.map((kind) => kind.plural), 'secrets', 'all'];
}

interface From {
  readonly namespace: string | undefined;
  readonly server: string | undefined;
  readonly io: Io;
}

/** A control plane that does not answer at once must not hold up the shell. */
const NAMES_WITHIN_MILLIS = 800;

const names = async (kindName: string, from: From): Promise<readonly string[]> =>
  (await listed(kindName, from)).map((object) => object.metadata.name);

async function members(cluster: string, from: From): Promise<readonly string[]> {
  const object = (await listed('mongodb', from)).find((o) => o.metadata.name === cluster);
  return object === undefined ? [] : (statusOf(object).members ?? []).map((m) => m.name);
}

async function listed(kindName: string, { namespace, server, io }: From): Promise<readonly ApiObject[]> {
  try {
    const options = {
      ...(namespace === undefined ? {} : { namespace }),
      ...(server === undefined ? {} : { server }),
    };
    const context = makeContext(options, io);
    const kind = await kindOf(kindName);
    const list = await context.client.request<ApiList>(
      'GET',
      objectPath(kind.plural, placeOf(context, kind)),
      {
        query: { limit: '200' },
        signal: AbortSignal.timeout(NAMES_WITHIN_MILLIS),
      },
    );
    return list.items;
  } catch {
    return [];
  }
}
