/** Reads the command line and the config file into one nested document (1.6). The command line wins. */
import { readFileSync } from 'node:fs';
import type { Document } from 'bson';
import type { ParsedOptions } from '../contracts.ts';
import { atLeast, isPercona } from '../wire/versions.ts';
import { LOG_COMPONENT_PATH, OPTION_TABLE, type OptionRow, type Program } from './option-table.ts';

/** Options that can't be used: the process prints the lines to standard error and ends with the code. */
export class OptionsError extends Error {
  readonly exitCode: number;
  constructor(message: string, exitCode = 2) {
    super(message);
    this.name = 'OptionsError';
    this.exitCode = exitCode;
  }
}

export type CommandLine =
  | { readonly kind: 'help' }
  | { readonly kind: 'version' }
  | { readonly kind: 'run'; readonly options: ParsedOptions };

/** The program of this process, for its messages: there is one in a process's life. */
let program: Program = 'mongod';
const helpHint = (): string => `try '${program} --help' for more information`;
const cliError = (text: string): OptionsError =>
  new OptionsError(`Error parsing command line: ${text}\n${helpHint()}`);
const fileError = (text: string): OptionsError => new OptionsError(`${text}\n${helpHint()}`);

/** What is wrong with options, as the program says it: exit 2. */
export const badOption = (text: string): OptionsError => new OptionsError(`BadValue: ${text}\n${helpHint()}`);

/** The options known to a version of the program. */
function knownRows(version: string): readonly OptionRow[] {
  return OPTION_TABLE.filter(
    (row) =>
      (row.only === undefined || row.only === program) &&
      (row.removedIn === undefined || !atLeast(version, row.removedIn)) &&
      (row.since === undefined || atLeast(version, row.since)) &&
      (row.percona !== true || isPercona(version)),
  );
}

/** Parses arguments and the config file they name. Throws OptionsError; `parseYaml` is loaded only when a file is named. */
export async function parseOptions(
  argv: readonly string[],
  version: string,
  played: Program = 'mongod',
): Promise<CommandLine> {
  program = played;
  const rows = knownRows(version);
  const line = parseCommandLine(argv, rows);
  if (line.has('help')) return { kind: 'help' };
  if (line.has('version')) return { kind: 'version' };
  const options: Document = {};
  const config = line.get('config');
  if (typeof config === 'string') {
    options['config'] = config;
    for (const [path, value] of await parseConfigFile(config, rows)) setPath(options, path, value);
  }
  for (const [path, value] of line) {
    if (path === 'setParameter')
      options['setParameter'] = { ...options['setParameter'], ...(value as Document) };
    else setPath(options, path, value);
  }
  return { kind: 'run', options };
}

// ── command line ───────────────────────────────────────────────────────────────────────────────────────────────────

type Values = Map<string, unknown>;

function parseCommandLine(argv: readonly string[], rows: readonly OptionRow[]): Values {
  const values: Values = new Map();
  const rest = [...argv];
  for (let argument = rest.shift(); argument !== undefined; argument = rest.shift()) {
    if (/^-v+$/.test(argument)) values.set('systemLog.verbosity', argument.length - 1);
    else if (argument === '-h') values.set('help', true);
    else if (argument === '-f') setOnce(values, 'config', takeValue('config', undefined, rest), 'config');
    else if (argument.startsWith('--')) parseLong(argument.slice(2), rest, rows, values);
    else if (argument.startsWith('-')) throw cliError(`unrecognised option '${argument}'`);
    else throw cliError('too many positional options have been specified on the command line');
  }
  return values;
}

function parseLong(argument: string, rest: string[], rows: readonly OptionRow[], values: Values): void {
  const equals = argument.indexOf('=');
  const name = equals < 0 ? argument : argument.slice(0, equals);
  const inline = equals < 0 ? undefined : argument.slice(equals + 1);
  if (name === 'help' || name === 'version') {
    values.set(name, true);
    return;
  }
  const value = (): string => takeValue(name, inline, rest);
  if (name === 'config') setOnce(values, 'config', value(), name);
  else if (name === 'setParameter') addParameter(values, value());
  else if (name === 'verbose') values.set('systemLog.verbosity', verbosity(inline, rest));
  else setFromLine(name, inline, rest, rows, values);
}

/** `--verbose`, `--verbose=vv`, `--verbose vv` or a number. */
function verbosity(inline: string | undefined, rest: string[]): number {
  const level = inline ?? (/^v+$/.test(rest[0] ?? '') ? rest.shift() : undefined);
  if (level === undefined) return 1;
  return /^v+$/.test(level) ? level.length + 1 : Number(level);
}

function setFromLine(
  name: string,
  inline: string | undefined,
  rest: string[],
  rows: readonly OptionRow[],
  values: Values,
): void {
  const row = rows.find((candidate) => candidate.cli === name || candidate.aliases?.includes(name) === true);
  if (row === undefined) throw cliError(`unrecognised option '--${name}'`);
  setOnce(values, row.path, readValue(row, name, inline, rest), name);
}

function readValue(row: OptionRow, name: string, inline: string | undefined, rest: string[]): unknown {
  if (row.given !== undefined) {
    if (inline === undefined) return row.given;
    if (row.type === 'bool' && (inline === 'true' || inline === 'false'))
      return (inline === 'true') === row.given;
    throw cliError(`option '--${name}' does not take any arguments`);
  }
  const raw = takeValue(name, inline, rest);
  const value = convert(row, raw);
  if (value === undefined) throw cliError(`the argument ('${raw}') for option '--${name}' is invalid`);
  return value;
}

function takeValue(name: string, inline: string | undefined, rest: string[]): string {
  const value = inline ?? rest.shift();
  if (value === undefined || (inline === undefined && value.startsWith('--'))) {
    throw cliError(`the required argument for option '--${name}' is missing`);
  }
  return value;
}

function setOnce(values: Values, path: string, value: unknown, name: string): void {
  if (values.has(path) && values.get(path) !== value)
    throw cliError(`Multiple occurrences of option "--${name}"`);
  values.set(path, value);
}

function addParameter(values: Values, assignment: string): void {
  const equals = assignment.indexOf('=');
  if (equals < 1) throw cliError(`Illegal option assignment: "${assignment}"`);
  const parameters = (values.get('setParameter') as Document | undefined) ?? {};
  parameters[assignment.slice(0, equals)] = assignment.slice(equals + 1);
  values.set('setParameter', parameters);
}

/** A text as the option's type; undefined when it is not one. */
function convert(row: OptionRow, raw: string): unknown {
  if (row.choices !== undefined && !row.choices.includes(raw)) throw badChoice(row, raw);
  if (row.type === 'string') return raw;
  if (row.type === 'list') return raw.split(',');
  if (row.type === 'bool') return raw === 'true' ? true : raw === 'false' ? false : undefined;
  const number = Number(raw);
  if (raw.trim() === '' || !Number.isFinite(number) || (row.type === 'int' && !Number.isInteger(number)))
    return undefined;
  assertRange(row, number);
  return number;
}

const badChoice = (row: OptionRow, raw: string): OptionsError =>
  new OptionsError(
    `BadValue: Invalid value for option ${row.path}: "${raw}", expected one of ${row.choices?.join(', ')}\n${helpHint()}`,
  );

function assertRange(row: OptionRow, number: number): void {
  if (number >= (row.min ?? -Infinity) && number <= (row.max ?? Infinity)) return;
  throw new OptionsError(
    `BadValue: ${row.path} must be ${row.max === undefined ? `greater than or equal to ${row.min}` : `between ${row.min} and ${row.max}`}, but attempted to set to: ${number}\n${helpHint()}`,
  );
}

// ── config file ────────────────────────────────────────────────────────────────────────────────────────────────────

async function parseConfigFile(path: string, rows: readonly OptionRow[]): Promise<Map<string, unknown>> {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (failure) {
    const reason =
      (failure as NodeJS.ErrnoException).code === 'ENOENT'
        ? 'No such file or directory'
        : 'Permission denied';
    throw fileError(`Error opening config file: ${reason}`);
  }
  const values = new Map<string, unknown>();
  flatten(await parseYaml(text), '', rows, values);
  return values;
}

async function parseYaml(text: string): Promise<unknown> {
  const { parse, YAMLParseError } = await import('yaml');
  try {
    return parse(text) ?? {};
  } catch (failure) {
    if (!(failure instanceof YAMLParseError)) throw failure;
    const at = failure.linePos?.[0];
    const reason = failure.message.split('\n')[0]?.replace(/ at line .*$/, '');
    throw fileError(
      `Error parsing YAML config file: yaml-cpp: error at line ${at?.line ?? 1}, column ${at?.col ?? 1}: ${reason}`,
    );
  }
}

function flatten(
  node: unknown,
  prefix: string,
  rows: readonly OptionRow[],
  values: Map<string, unknown>,
): void {
  if (typeof node !== 'object' || node === null || Array.isArray(node)) {
    throw fileError('Error parsing YAML config file: the top level must be a map of options');
  }
  for (const [key, value] of Object.entries(node)) {
    const path = prefix === '' ? key : `${prefix}.${key}`;
    if (path === 'setParameter') values.set('setParameter', parameterMap(value));
    else if (LOG_COMPONENT_PATH.test(path) || path === 'systemLog.component') values.set(path, value);
    else setFromFile(path, value, rows, values);
  }
}

function setFromFile(
  path: string,
  value: unknown,
  rows: readonly OptionRow[],
  values: Map<string, unknown>,
): void {
  const row = rows.find(
    (candidate) => candidate.path === path || candidate.oldPaths?.includes(path) === true,
  );
  if (row !== undefined && value === null) return;
  if (row !== undefined) {
    values.set(row.path, fromFile(row, path, value));
    return;
  }
  const isSection = rows.some((candidate) =>
    [candidate.path, ...(candidate.oldPaths ?? [])].some((known) => known.startsWith(`${path}.`)),
  );
  if (isSection && value === null) return;
  if (!isSection || typeof value !== 'object')
    throw fileError(`Unrecognized option: ${firstLeaf(path, value)}`);
  flatten(value, path, rows, values);
}

/** The server names the deepest key of an unknown section. */
function firstLeaf(path: string, value: unknown): string {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return path;
  const [key, inner] = Object.entries(value)[0] ?? [];
  return key === undefined ? path : firstLeaf(`${path}.${key}`, inner);
}

function fromFile(row: OptionRow, path: string, value: unknown): unknown {
  if (row.type === 'list' && Array.isArray(value)) return value.map(String);
  if (row.type === 'bool' && typeof value === 'boolean') return value;
  if (row.type !== 'bool' && (typeof value === 'string' || typeof value === 'number')) {
    const converted = convert(row, String(value));
    if (converted !== undefined) return converted;
  }
  throw fileError(`Invalid value for option ${path}: expected ${row.type}, found ${JSON.stringify(value)}`);
}

function parameterMap(value: unknown): Document {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw fileError('Invalid value for option setParameter: expected a map of names to values');
  }
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [
      name,
      typeof inner === 'object' ? JSON.stringify(inner) : String(inner),
    ]),
  );
}

// ── results ────────────────────────────────────────────────────────────────────────────────────────────────────────

function setPath(target: Document, path: string, value: unknown): void {
  const parts = path.split('.');
  let at = target;
  for (const part of parts.slice(0, -1)) {
    at[part] ??= {};
    at = at[part] as Document;
  }
  at[parts.at(-1)!] = value;
}

/** Reads `a.b.c` out of the nested options. */
export function option<T>(options: ParsedOptions, path: string): T | undefined {
  let at: unknown = options;
  for (const part of path.split('.')) at = (at as Document | undefined)?.[part];
  return at as T | undefined;
}

/** Arguments and options as getCmdLineOpts may show them: values of secret options become `<password>`. */
export function censored(
  argv: readonly string[],
  options: ParsedOptions,
): { argv: string[]; parsed: Document } {
  const parsed = structuredClone(options) as Document;
  const secrets = OPTION_TABLE.filter((row) => row.secret === true);
  for (const row of secrets)
    if (option(parsed, row.path) !== undefined) setPath(parsed, row.path, '<password>');
  const names = secrets
    .flatMap((row) => [row.cli, ...(row.aliases ?? [])])
    .filter((name) => name !== undefined);
  const shown = argv.map((argument, index) => {
    const inline = names.find((name) => argument.startsWith(`--${name}=`));
    if (inline !== undefined) return `--${inline}=<password>`;
    return names.some((name) => argv[index - 1] === `--${name}`) ? '<password>' : argument;
  });
  return { argv: shown, parsed };
}
