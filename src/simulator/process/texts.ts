/** What `--help` and `--version` print. */
import { buildInfoForLog } from './build-info.ts';
import { OPTION_TABLE, type Program } from './option-table.ts';

/** Text of `--version`. */
export function versionText(version: string, program: Program): string {
  return `${program === 'mongos' ? 'mongos' : 'db'} version v${version}\nBuild Info: ${JSON.stringify(buildInfoForLog(version), null, 4)}\n`;
}

/** Text of `--help`: every option, one line each. */
export function helpText(program: Program): string {
  const known = OPTION_TABLE.filter(({ cli, only }) => cli !== undefined && (only ?? program) === program);
  const rows = known.map((row) => {
    const left = `  --${row.cli}${row.given === undefined ? ' arg' : ''}`;
    return `${left.padEnd(44)} ${row.path}${row.choices === undefined ? '' : ` (${row.choices.join(' | ')})`}`;
  });
  return [
    `Stand-in for ${program}: a simulator for demos, previews and tests. It takes the options of the real server.`,
    '',
    'Options:',
    '  -h [ --help ]                                Show this usage information',
    '  --version                                    Show version information',
    '  -f [ --config ] arg                          Configuration file specifying additional options',
    '  -v [ --verbose ] [=arg(=v)]                  Be more verbose',
    '  --setParameter arg                           Set a configurable parameter',
    ...rows,
    '',
  ].join('\n');
}
