/** Entry of the `mongos` stand-in: arguments in, exit code out. Everything heavy is loaded after the arguments were found good. */
import { OptionsError, parseOptions } from './options.ts';
import { playedVersion } from './version.ts';

const argv = process.argv.slice(2);
const version = playedVersion(process.env);

try {
  const line = await parseOptions(argv, version, 'mongos');
  if (line.kind === 'run') {
    const { startMongos } = await import('./start-router.ts');
    await startMongos({ argv, options: line.options, version });
  } else {
    const { helpText, versionText } = await import('./texts.ts');
    process.stdout.write(line.kind === 'help' ? helpText('mongos') : versionText(version, 'mongos'));
  }
} catch (failure) {
  if (!(failure instanceof OptionsError)) throw failure;
  process.stderr.write(`${failure.message}\n`);
  process.exitCode = failure.exitCode;
}
