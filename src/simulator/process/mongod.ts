/** Entry of the `mongod` stand-in: arguments in, exit code out. Everything heavy is loaded after the arguments were found good. */
import { OptionsError, parseOptions } from './options.ts';
import { playedVersion } from './version.ts';

const argv = process.argv.slice(2);
const version = playedVersion(process.env);

try {
  const line = await parseOptions(argv, version);
  if (line.kind === 'run') {
    const { startMongod } = await import('./start.ts');
    await startMongod({ argv, options: line.options, version });
  } else {
    const { helpText, versionText } = await import('./texts.ts');
    process.stdout.write(line.kind === 'help' ? helpText('mongod') : versionText(version, 'mongod'));
  }
} catch (failure) {
  if (!(failure instanceof OptionsError)) throw failure;
  process.stderr.write(`${failure.message}\n`);
  process.exitCode = failure.exitCode;
}
