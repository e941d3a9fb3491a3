/** What `--help` and `--version` print. */
import { buildInfoForLog } from './build-info.ts';
import { OPTION_TABLE } from './option-table.ts';

/** Text of `mongod --version`. */
export function versionText(version: string): string {
  return `db version v${version}\nBuild Info: ${JSON.stringify(buildInfoForLog(version), null, 4)}\n`;
}

/** Text of `mongod --help`: every option, one line each. */
export function helpText(): string {
  const rows = OPTION_TABLE.filter((row) => row.cli !== undefined).map((row) => {
    const left = `  --${row.cli}${row.given === undefined ? ' arg' : ''}`;
    return `${left.padEnd(44)} ${row.path}${row.choices === undefined ? '' : ` (${row.choices.join(' | ')})`}`;
  });
  return [
    'Stand-in for mongod: a simulator for demos, previews and tests. It takes the options of the real server.',
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
