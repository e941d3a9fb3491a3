/** What people ask help about: a verb below another is found, and one that is not there is refused as it is without `help`. */
import type { Command } from 'commander';

const ASKS: ReadonlySet<string> = new Set(['help', '--help', '-h']);

/** The command line to run in place of one that asks for help; any other stays as it is. */
export function helpWords(program: Command, argv: readonly string[]): readonly string[] {
  if (!argv.some((word) => ASKS.has(word))) return argv;
  const path: string[] = [];
  let command = program;
  for (let at = 0; at < argv.length; at++) {
    const word = argv[at] ?? '';
    const option = command.options.find((o) => o.long === word || o.short === word);
    if (option?.required === true) at++;
    if (ASKS.has(word) || word.startsWith('-') || option !== undefined) continue;
    const below = command.commands.find((c) => c.name() === word || c.aliases().includes(word));
    // Commander would tell of the verbs above it.
    if (below === undefined) return [...path, ...argv.slice(at).filter((w) => !ASKS.has(w))];
    path.push(word);
    command = below;
    if (command.commands.length === 0) break;
  }
  return argv[0] === 'help' && path.length > 1 ? [...path, '--help'] : argv;
}
