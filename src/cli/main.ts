/** The command line: the one place where errors become words and exit codes. */
import type { BelayError } from '../base/error.ts';
import { EXIT, Exit, exitCodeFor } from './exit.ts';
import { asFailure } from './failures.ts';
import { helpWords } from './helpWords.ts';
import { type Io, realIo } from './io.ts';
import { inBlock, inLine } from './output.ts';
import { buildProgram } from './program.ts';
import { ownVersion } from './version.ts';

export { buildProgram };

/** Runs a command line and gives its exit code. Never throws. */
export async function run(argv: readonly string[], io: Io): Promise<number> {
  const program = buildProgram(ownVersion(), io);
  if (argv.length === 0) {
    program.outputHelp();
    return EXIT.done;
  }
  try {
    await program.parseAsync(helpWords(program, argv) as string[], { from: 'user' });
    return EXIT.done;
  } catch (failure) {
    if (failure instanceof Exit) return failure.code;
    const { code, exitCode } = failure as { readonly code?: unknown; readonly exitCode?: number };
    if (typeof code === 'string' && code.startsWith('commander.'))
      return exitCode === 0 ? EXIT.done : EXIT.usage;
    const error = asFailure(failure);
    say(error, argv, io);
    return exitCodeFor(error.code);
  }
}

/** Code, what happened and the way out; for a program that asked for JSON the same under stable names. */
function say(error: BelayError, argv: readonly string[], io: Io): void {
  const { code, message, fix, problems } = error;
  const json = argv.some(
    (word, at) =>
      /^(-o|--output)=?json$/.test(word) || (/^(-o|--output)$/.test(word) && argv[at + 1] === 'json'),
  );
  if (json) {
    io.err(`${inBlock(JSON.stringify({ code, detail: message, fix, errors: problems }))}\n`);
    return;
  }
  io.err(`error ${code}: ${inBlock(message)}\n`);
  for (const problem of problems) io.err(`  ${inLine(problem.path)}  ${inBlock(problem.message)}\n`);
  if (fix !== undefined) io.err(`fix: ${inBlock(fix)}\n`);
  else if (code === 'Internal') io.err('fix: this should not happen; BELAY_DEBUG=1 shows where it did\n');
  if (io.env['BELAY_DEBUG']) io.err(`${(error.cause instanceof Error ? error.cause : error).stack ?? ''}\n`);
}

if (import.meta.main) process.exitCode = await run(process.argv.slice(2), realIo());
