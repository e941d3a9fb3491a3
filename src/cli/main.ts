/** The command line: verbs, their options and the one place where errors become words and exit codes. */
import { Command, InvalidArgumentError, Option } from 'commander';
import { asBelayError, BelayError } from '../base/error.ts';
import { type Context, type GlobalOptions, makeContext, OUTPUTS } from './context.ts';
import { EXIT, Exit, exitCodeFor } from './exit.ts';

/** `90`, `90s`, `2m`, `1h`, `500ms` as milliseconds. */
export function parseTimeout(text: string): number {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h)?$/.exec(text);
  if (match === null) throw new InvalidArgumentError('a duration such as 90s, 2m or 1h');
  const unit = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 }[match[2] ?? 's'] ?? 1000;
  return Number(match[1]) * unit;
}

const collect = (value: string, previous: string[]): string[] => [...previous, value];
const fileOption = (): Option =>
  new Option('-f, --filename <file>', 'file, folder or - for standard input; may be given several times')
    .argParser(collect)
    .default([], 'none');

function withGlobals(command: Command): Command {
  return command
    .option('-n, --namespace <name>', 'namespace', 'default')
    .addOption(new Option('-o, --output <format>', 'how to print').choices([...OUTPUTS]))
    .option('--server <url>', 'control plane (BELAY_SERVER)')
    .option('--token <token>', 'API token (better: BELAY_TOKEN)')
    .option('--no-color', 'no colours')
    .option('-q, --quiet', 'no progress and no remarks');
}

type Action = (
  context: Context,
  options: Record<string, unknown>,
  args: readonly string[],
) => Promise<void> | void;

/** A verb that talks to a control plane. */
function verb(program: Command, spec: string, description: string, action: Action): Command {
  const command = withGlobals(program.command(spec).description(description));
  command.action(async (...received: unknown[]) => {
    const options = command.opts() as Record<string, unknown>;
    const args = received.slice(0, -2).flat() as string[];
    await action(makeContext(options as GlobalOptions), options, args);
  });
  return command;
}

/** All verbs. Their code is loaded when they run, so that every start is quick. */
export function buildProgram(version: string): Command {
  const program = new Command('belay');
  program
    .description('Declares MongoDB databases and keeps them as declared. Nobody falls.')
    .version(version, '-V, --version')
    .showSuggestionAfterError(true)
    .showHelpAfterError('(belay --help lists the verbs)')
    .enablePositionalOptions()
    .exitOverride();
  lookVerbs(program);
  changeVerbs(program);
  localVerbs(program);
  processVerbs(program);
  return program;
}

function lookVerbs(program: Command): void {
  verb(program, 'get <kind> [name]', 'list objects or get one', async (c, o, [kind, name]) =>
    (await import('./verbs/get.ts')).get(c, {
      kind: kind ?? '',
      name,
      watch: o['watch'] === true,
      allNamespaces: o['allNamespaces'] === true,
      selector: o['selector'] as string | undefined,
    }),
  )
    .option('-w, --watch', 'print changes as they come')
    .option('-A, --all-namespaces', 'objects of all namespaces')
    .option('-l, --selector <labels>', 'label selector');
  verb(program, 'describe <kind> <name>', 'everything about one object', async (c, _, [kind, name]) =>
    (await import('./verbs/describe.ts')).describe(c, kind ?? '', name ?? ''),
  );
  verb(program, 'events', 'what happened', async (c, o) =>
    (await import('./verbs/small.ts')).events(c, Number(o['limit'])),
  ).option('--limit <number>', 'most events to print', '100');
  verb(program, 'wait <kind> <name>', 'wait for a condition', async (c, o, [kind, name]) =>
    (await import('./verbs/small.ts')).waitFor(
      c,
      kind ?? '',
      name ?? '',
      String(o['for']),
      Number(o['timeout']),
    ),
  )
    .requiredOption('--for <condition>', 'Ready, condition=NAME, phase=NAME or delete')
    .option('--timeout <duration>', 'how long', parseTimeout, 120_000);
  verb(program, 'connect <name>', 'connection string, or start mongosh', async (c, o, [name]) =>
    (await import('./verbs/connect.ts')).connect(c, name ?? '', {
      print: o['print'] === true,
      user: o['user'] as string | undefined,
    }),
  )
    .option('--print', 'print the connection string only')
    .option('--user <name>', 'MongoDBUser, or a system user; its password is part of what is printed');
  verb(program, 'doctor', 'look for what could be wrong', async (c, o) =>
    (await import('./verbs/doctor.ts')).doctor(c, { binDir: o['binDir'] as string | undefined }),
  ).option('--bin-dir <dir>', 'where MongoDB executables are');
}

function changeVerbs(program: Command): void {
  verb(program, 'apply', 'create or change what documents ask for', async (c, o) => {
    const { apply } = await import('./verbs/apply.ts');
    await apply(c, { files: files(o), dryRun: o['dryRun'] === true });
  })
    .addOption(fileOption())
    .option('--dry-run', 'check on the server, change nothing');
  verb(program, 'plan', 'every step a document would take, before anything is touched', async (c, o) =>
    (await import('./verbs/plan.ts')).plan(c, files(o)),
  ).addOption(fileOption());
  verb(program, 'delete <kind> <name>', 'delete an object', async (c, o, [kind, name]) => {
    const { remove } = await import('./verbs/small.ts');
    const { askOnTerminal } = await import('./ask.ts');
    await remove(c, kind ?? '', name ?? '', {
      keepVolumes: o['keepVolumes'] === true,
      yes: o['yes'] === true,
      wait: o['wait'] !== false,
      timeoutMillis: Number(o['timeout']),
      confirm: askOnTerminal(),
    });
  })
    .option('--keep-volumes', 'remove runtimes only; data and credentials stay')
    .option('-y, --yes', 'do not ask')
    .option('--no-wait', 'do not wait until it is gone')
    .option('--timeout <duration>', 'how long to wait', parseTimeout, 300_000);
  const host = program.command('host').description('machines');
  verb(host, 'token [name]', 'a one-time token for an agent to join with', async (c, o, [name]) =>
    (await import('./verbs/tokens.ts')).hostToken(c, name, Number(o['ttl'])),
  ).option('--ttl <duration>', 'how long it is good for', parseTimeout, 3_600_000);
  const token = program.command('token').description('API tokens');
  verb(token, 'create <name>', 'a new API token', async (c, o, [name]) =>
    (await import('./verbs/tokens.ts')).createToken(
      c,
      name ?? '',
      String(o['role']),
      o['ttl'] as number | undefined,
    ),
  )
    .addOption(
      new Option('--role <role>', 'what it may do')
        .choices(['admin', 'operator', 'viewer'])
        .default('viewer'),
    )
    .option('--ttl <duration>', 'how long it is good for', parseTimeout);
  verb(token, 'list', 'API tokens without their secrets', async (c) =>
    (await import('./verbs/tokens.ts')).listTokens(c),
  );
  verb(token, 'revoke <id>', 'take an API token back', async (c, _, [id]) =>
    (await import('./verbs/tokens.ts')).revokeToken(c, id ?? ''),
  );
}

function localVerbs(program: Command): void {
  verb(
    program,
    'explain <what>',
    'what a kind or a field means: mongodb.spec.members',
    async (c, _, [what]) => (await import('./verbs/small.ts')).explainKind(c, what ?? ''),
  );
  verb(program, 'catalog', 'builds of Percona Server for MongoDB on offer', async (c) =>
    (await import('./verbs/small.ts')).catalog(c),
  );
  verb(program, 'convert', 'a document of mongodb.com/v1 in the words of belay.dev/v1', async (c, o) =>
    (await import('./verbs/small.ts')).convert(c, files(o)),
  ).addOption(fileOption());
  verb(program, 'version', 'versions of this program and of the control plane', async (c) =>
    (await import('./verbs/version.ts')).version(c),
  );
  program
    .command('completion <shell>')
    .description('completion script for bash, zsh or fish')
    .action(async (shell: string) => (await import('./completion.ts')).printCompletion(shell));
  program
    .command('complete', { hidden: true })
    .allowUnknownOption()
    .argument('[words...]')
    .action(async (words: string[]) => (await import('./completion.ts')).complete(program, words));
  const key = program.command('key').description('the master key');
  key
    .command('rotate')
    .description('seal all secrets with a new master key (the control plane must be stopped)')
    .requiredOption('--data <dir>', 'data folder of the control plane')
    .option('--store <url>', 'store, if not in the data folder')
    .action(async (o: { data: string; store?: string }) => (await import('./verbs/key.ts')).rotateKey(o));
}

const listen = (command: Command): Command =>
  command
    .option('--listen <host:port>', 'where the API listens', '127.0.0.1:7717')
    .option('--agent-listen <host:port>', 'where agents connect to (mutual TLS)', '127.0.0.1:7718')
    .option('--store <url>', 'sqlite:PATH or postgres://…; by default SQLite in the data folder');

function processVerbs(program: Command): void {
  listen(program.command('up').description('control plane and a local agent in one go'))
    .option('--data <dir>', 'where everything is kept')
    .option('--bin-dir <dir>', 'MongoDB executables: VERSION/bin/mongod, or mongod')
    .option('--simulate', 'run the simulator instead of MongoDB')
    .option('--address <name>', 'name under which members on this machine are reached', 'localhost')
    .option('--no-color', 'no colours')
    .action(async (o) => (await import('./up.ts')).up(o));
  program
    .command('demo')
    .description('a control plane, the simulator and a replica set in a scratch folder; removed on exit')
    .option('-f, --filename <file>', 'document to apply')
    .option('--once', 'show that it works, then stop everything')
    .option('--no-color', 'no colours')
    .action(async (o) => (await import('./demo.ts')).demo(o));
  listen(program.command('server').description('the control plane on its own'))
    .requiredOption('--data <dir>', 'where store, CA and master key are kept')
    .option('--master-key-file <file>', 'master key; by default DATA/master.key, made at the first start')
    .option('--tls', 'serve the API over TLS with a certificate of the installation’s CA')
    .option(
      '--public-url <url...>',
      'addresses agents reach this control plane at, if not the one it listens on',
    )
    .action(async (o) => (await import('./processes.ts')).server(o));
  program
    .command('agent')
    .description('the agent on a host')
    .requiredOption('--data <dir>', 'where members, volumes and the identity are kept')
    .option('--server <url...>', 'agent addresses of the control planes, for the first start')
    .option('--join-token <token>', 'one-time token of the first start (better: BELAY_JOIN_TOKEN)')
    .option('--ca-fingerprint <sha256>', 'the control plane’s CA, as printed with the token')
    .option('--name <name>', 'name of this host; by default its host name')
    .option('--address <name>', 'name under which members here are reached; by default the host name')
    .option('--bin-dir <dir>', 'MongoDB executables: VERSION/bin/mongod, or mongod')
    .option('--label <key=value>', 'label of this host', collect, [])
    .action(async (o) => (await import('./processes.ts')).agent(o));
}

function files(options: Record<string, unknown>): readonly string[] {
  const given = options['filename'] as readonly string[];
  if (given.length === 0)
    throw new BelayError('Usage', 'which document?', {
      retry: 'never',
      fix: 'name a file, a folder or - with -f',
    });
  return given;
}

/** Runs a command line and gives its exit code. Never throws. */
export async function run(
  argv: readonly string[],
  version: string,
  err: (text: string) => void,
): Promise<number> {
  const program = buildProgram(version);
  try {
    await program.parseAsync(argv as string[], { from: 'user' });
    return EXIT.done;
  } catch (failure) {
    if (failure instanceof Exit) return failure.code;
    const code = (failure as { code?: unknown }).code;
    if (typeof code === 'string' && code.startsWith('commander.'))
      return (failure as { exitCode?: number }).exitCode === 0 ? EXIT.done : EXIT.usage;
    const error = asBelayError(failure);
    err(`error ${error.code}: ${error.message}`);
    for (const problem of error.problems) err(`  ${problem.path}  ${problem.message}`);
    if (error.fix !== undefined) err(`fix: ${error.fix}`);
    if (process.env['BELAY_DEBUG'] !== undefined)
      err((error.cause instanceof Error ? error.cause : error).stack ?? '');
    return exitCodeFor(error.code);
  }
}

if (import.meta.main) {
  const { ownVersion } = await import('./verbs/version.ts');
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit(0);
  });
  process.exitCode = await run(process.argv.slice(2), ownVersion(), (text) =>
    process.stderr.write(`${text}\n`),
  );
}
