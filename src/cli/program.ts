/** The verbs and their options. Their code is loaded when they run, so that every start is quick. */
import { Command, Help, Option } from 'commander';
import { BelayError } from '../base/error.ts';
import { type GlobalOptions, makeContext, OUTPUTS } from './context.ts';
import { type Io, realIo } from './io.ts';
import { maintenanceVerbs } from './maintenanceVerbs.ts';
import { operationVerbs } from './operationVerbs.ts';
import {
  collect,
  examples,
  flag,
  type MakeVerb,
  type Options,
  parseCount,
  parsePriority,
  parseTimeout,
  text,
  timeOption,
} from './verbKit.ts';

const fileOption = (): Option =>
  new Option('-f, --filename <file>', 'file, folder or - for standard input; may be given several times')
    .argParser(collect)
    .default([], 'none');

const COMMON = 'Common options:';

/** Given before the verb they count for it too, as kubectl's users expect. */
function withGlobals(command: Command): Command {
  return command
    .optionsGroup(COMMON)
    .option('-n, --namespace <name>', 'namespace (BELAY_NAMESPACE; else default)')
    .addOption(new Option('-o, --output <format>', 'how to print').choices([...OUTPUTS]))
    .option('--server <url>', 'control plane (BELAY_SERVER; else the one belay up started)')
    .option('--token <token>', 'API token (better: BELAY_TOKEN, which no process list shows)')
    .option('--ca-file <file>', 'certificate authority of a control plane with TLS (BELAY_CA_FILE)')
    .option('--no-color', 'no colours (NO_COLOR)')
    .option('-q, --quiet', 'no progress and no remarks')
    .optionsGroup('Options:');
}

/** Options of a verb over those given before it. `--no-color` counts wherever it stands. */
function optionsOf(command: Command): Options {
  const own = command.opts() as Options;
  let above: Options = {};
  for (let at = command.parent; at !== null; at = at.parent) above = { ...(at.opts() as Options), ...above };
  return { ...above, ...own, color: own['color'] !== false && above['color'] !== false };
}

/** All verbs. */
export function buildProgram(version: string, io: Io = realIo()): Command {
  const program = new Command('belay');
  withGlobals(program)
    .description('Declares MongoDB databases and keeps them as declared.')
    .version(version, '-V, --version')
    .showSuggestionAfterError(true)
    .showHelpAfterError(`(${TOP_HINT})`)
    .enablePositionalOptions()
    .configureOutput({ writeOut: io.out, writeErr: io.err })
    .configureHelp({ helpWidth: 100, ...HELP })
    .addHelpCommand(
      new Command('help').argument('[verb]').description('help about a verb').helpGroup('Look:'),
    )
    .addHelpText('after', FOOTER)
    .exitOverride();
  const verb: MakeVerb = (parent, spec, description, action) => {
    const command = withGlobals(parent.command(spec).description(description));
    command.action(async (...received: unknown[]) => {
      const options = optionsOf(command);
      const words = received
        .slice(0, -2)
        .flat()
        .filter((word) => word !== undefined) as string[];
      if (options['output'] === 'name') refuseNameless(command);
      await action(makeContext(options as GlobalOptions, io), options, words);
    });
    return command;
  };
  program.commandsGroup('Look:');
  lookVerbs(program, verb);
  program.commandsGroup('Change:');
  changeVerbs(program, verb);
  program.commandsGroup('Operate:');
  operationVerbs(program, verb);
  program.commandsGroup('Maintain:');
  maintenanceVerbs(program, verb);
  program.commandsGroup('Let in:');
  accessVerbs(program, verb, io);
  program.commandsGroup('Without a control plane:');
  localVerbs(program, verb, io);
  program.commandsGroup('Run:');
  processVerbs(program, io);
  for (const group of program.commands) pointToGroup(group);
  return program;
}

/** Whoever mistypes below a verb is told where its verbs are listed, and where a verb's options. */
function pointToGroup(group: Command): void {
  const above = `belay ${group.name()}`;
  group.showHelpAfterError(`(${group.commands.length > 0 ? `${above} --help lists the verbs` : TOP_HINT})`);
  for (const below of group.commands)
    below.showHelpAfterError(
      `(${above} ${below.name()} --help tells its options, ${above} --help lists the verbs)`,
    );
}
const TOP_HINT = 'belay --help lists the verbs';

/** Verbs whose answer has no name to print. */
const NAMELESS: ReadonlySet<string> = new Set(['version', 'doctor', 'connect', 'host token', 'token create']);

/** A form of output that would be ignored is refused, as every other wish that cannot be met. */
function refuseNameless(command: Command): void {
  const above = command.parent?.parent === null ? '' : `${command.parent?.name()} `;
  const verb = `${above}${command.name()}`;
  if (!NAMELESS.has(verb)) return;
  throw new BelayError('Usage', `belay ${verb} has no names to print`, {
    retry: 'never',
    fix: 'use -o json or yaml, or leave -o out',
  });
}

/** What a verb has of its own comes first; what all of them have is told once for the program. */
const HELP: Partial<Help> = {
  visibleOptions(command) {
    const all = Help.prototype.visibleOptions.call(this, command);
    return command.parent === null ? all.filter((option) => option.helpGroupHeading !== COMMON) : all;
  },
  groupItems(unsorted, visible, getGroup) {
    const groups = Help.prototype.groupItems.call(
      this,
      unsorted as never,
      visible as never,
      getGroup as never,
    );
    const common = groups.get(COMMON);
    if (common !== undefined && groups.delete(COMMON)) groups.set(COMMON, common);
    return groups as never;
  },
};

const FOOTER = `
All verbs take -n NAMESPACE, -o table|wide|json|yaml|name, --server URL, --token TOKEN, --ca-file FILE,
--no-color and -q, before or behind the verb. Begin with: belay demo   or   belay up --simulate`;

// ── look ───────────────────────────────────────────────────────────────────────────────────────────────────────────

function lookVerbs(program: Command, verb: MakeVerb): void {
  examples(
    verb(program, 'get <kind> [names...]', 'list objects or get some of them', async (c, o, words) =>
      (await import('./verbs/get.ts')).get(c, words, {
        watch: flag(o, 'watch'),
        allNamespaces: flag(o, 'allNamespaces'),
        selector: text(o, 'selector'),
      }),
    )
      .option('-w, --watch', 'go on and print changes as they come')
      .option('-A, --all-namespaces', 'objects of all namespaces')
      .option('-l, --selector <labels>', 'label selector: a=b,c!=d,e in (x,y)'),
    'belay get mongodb -o wide',
    'belay get mongodb orders -w',
    'belay get mongodb/orders -o yaml',
    'belay get all -A',
  );
  verb(
    program,
    'describe <kind> [name]',
    'everything about one object, and what you can do',
    async (c, _, words) => (await import('./verbs/describe.ts')).describe(c, words),
  );
  verb(program, 'events [kind] [name]', 'what happened, the newest last', async (c, o, words) =>
    (await import('./verbs/events.ts')).events(c, words, {
      limit: o['limit'] as number,
      watch: flag(o, 'watch'),
      allNamespaces: flag(o, 'allNamespaces'),
    }),
  )
    .option('--limit <number>', 'most events to print', parseCount, 100)
    .option('-w, --watch', 'go on as they come')
    .option('-A, --all-namespaces', 'events of all namespaces');
  examples(
    verb(program, 'wait <kind> [names...]', 'wait until something holds', async (c, o, words) =>
      (await import('./verbs/wait.ts')).waitFor(c, words, text(o, 'for'), o['timeout'] as number),
    )
      .option(
        '--for <condition>',
        'Ready, condition=NAME[=False], phase=NAME or delete; an operation: its state (default: Succeeded)',
      )
      .addOption(timeOption('--timeout <duration>', 'how long', '2m')),
    'belay wait mongodb orders --for Ready --timeout 5m',
    'belay wait mongodb orders --for delete',
    'belay wait operation orders-restart-x7k2 --timeout 10m',
  );
  examples(
    verb(
      program,
      'connect <name> [shellArguments...]',
      'connection string of a database, or start mongosh',
      async (c, o, [name = '', ...shellArguments]) =>
        (await import('./verbs/connect.ts')).connect(c, name, {
          shellArguments,
          print: flag(o, 'print'),
          user: text(o, 'user'),
        }),
    )
      .option('--print', 'print the connection string only')
      .option('--user <name>', 'MongoDBUser, or a system user; its password is part of what is printed'),
    'belay connect orders --user orders-app',
    'belay connect orders --user orders-app --print',
    "belay connect orders --user orders-app -- --eval 'db.hello().primary'",
  );
  verb(program, 'doctor', 'look for what could be wrong', async (c, o) =>
    (await import('./verbs/doctor.ts')).doctor(c, { binDir: text(o, 'binDir') }),
  ).option('--bin-dir <dir>', 'where MongoDB executables are');
}

// ── change ─────────────────────────────────────────────────────────────────────────────────────────────────────────

function changeVerbs(program: Command, verb: MakeVerb): void {
  examples(
    verb(program, 'apply', 'create or change what documents ask for', async (c, o) => {
      const { apply, WAIT_DEFAULT } = await import('./verbs/apply.ts');
      const timeout = o['timeout'] as number | undefined;
      const waitMillis = flag(o, 'wait') ? (timeout ?? WAIT_DEFAULT) : null;
      await apply(c, { files: files(o), dryRun: flag(o, 'dryRun'), waitMillis });
    })
      .addOption(fileOption())
      .option('--dry-run', 'check on the server, change nothing')
      .option(
        '--wait',
        'follow databases and users until they are Ready, maintenance tasks until they are granted',
      )
      .option('--timeout <duration>', 'how long --wait waits for each (default: 5m)', parseTimeout),
    'belay apply -f orders.yaml --wait',
    'belay apply -f clusters/ --dry-run',
  );
  verb(program, 'plan', 'every step a document would take, before anything is touched', async (c, o) =>
    (await import('./verbs/plan.ts')).plan(c, files(o)),
  )
    .addOption(fileOption())
    .addHelpText('after', '\nExit codes: 0 nothing to do, 10 there are changes, 4 refused.');
  examples(
    verb(
      program,
      'delete [kind] [names...]',
      'delete objects; a database with all its data',
      async (c, o, words) =>
        (await import('./verbs/delete.ts')).remove(c, words, {
          keepVolumes: flag(o, 'keepVolumes'),
          yes: flag(o, 'yes'),
          wait: o['wait'] !== false,
          timeoutMillis: o['timeout'] as number,
          files: o['filename'] as readonly string[],
        }),
    )
      .addOption(fileOption())
      .option('--keep-volumes', 'remove runtimes only; data and credentials stay')
      .option('-y, --yes', 'do not ask')
      .option('--no-wait', 'do not wait until it is gone')
      .addOption(timeOption('--timeout <duration>', 'how long to wait', '5m')),
    'belay delete mongodb orders --keep-volumes',
    'belay delete -f orders.yaml --yes',
  );
}

// ── let in ─────────────────────────────────────────────────────────────────────────────────────────────────────────

function accessVerbs(program: Command, verb: MakeVerb, io: Io): void {
  const host = program.command('host').description('machines');
  verb(host, 'token [name]', 'a one-time token for an agent to join with', async (c, o, [name]) =>
    (await import('./verbs/tokens.ts')).hostToken(c, name, o['ttl'] as number),
  ).addOption(timeOption('--ttl <duration>', 'how long it is good for', '1h'));
  const token = program.command('token').description('API tokens');
  verb(token, 'create <name>', 'a new API token', async (c, o, [name = '']) =>
    (await import('./verbs/tokens.ts')).createToken(
      c,
      name,
      String(o['role']),
      o['ttl'] as number | undefined,
    ),
  )
    .addOption(
      new Option('--role <role>', 'what it may do')
        .choices(['admin', 'operator', 'viewer'])
        .default('viewer'),
    )
    .option('--ttl <duration>', 'how long it is good for; without end when not given', parseTimeout);
  verb(token, 'list', 'API tokens without their secrets', async (c) =>
    (await import('./verbs/tokens.ts')).listTokens(c),
  );
  verb(token, 'revoke <id>', 'take an API token back', async (c, _, [id = '']) =>
    (await import('./verbs/tokens.ts')).revokeToken(c, id),
  );
  const key = program.command('key').description('the master key that secrets are sealed with');
  key
    .command('rotate')
    .description('seal all secrets with a new master key (the control plane must be stopped)')
    .requiredOption('--data <dir>', 'data folder of the control plane')
    .addOption(storeOption())
    .option('--master-key-file <file>', 'the key to replace; by default DATA/master.key')
    .action(async (o: { data: string; store?: string; masterKeyFile?: string }) =>
      (await import('./verbs/key.ts')).rotateKey(withStore(o, io), (line) => io.out(`${line}\n`)),
    );
}

// ── without a control plane ────────────────────────────────────────────────────────────────────────────────────────

function localVerbs(program: Command, verb: MakeVerb, io: Io): void {
  examples(
    verb(program, 'explain [what]', 'what a kind or a field means', async (c, _, [what]) =>
      (await import('./verbs/local.ts')).explainKind(c, what),
    ),
    'belay explain',
    'belay explain mongodb.spec.members',
  );
  verb(program, 'catalog', 'builds of Percona Server for MongoDB on offer', async (c) =>
    (await import('./verbs/local.ts')).catalog(c),
  );
  verb(program, 'convert', 'a document of mongodb.com/v1 in the words of belay.dev/v1', async (c, o) =>
    (await import('./verbs/local.ts')).convert(c, files(o)),
  ).addOption(fileOption());
  verb(program, 'version', 'versions of this program and of the control plane', async (c) =>
    (await import('./verbs/version.ts')).version(c),
  );
  examples(
    program
      .command('completion <shell>')
      .description('completion script for bash, zsh or fish')
      .action(async (shell: string) => io.out((await import('./completion.ts')).completionScript(shell))),
    'bash: source <(belay completion bash)',
    'zsh:  source <(belay completion zsh)',
    'fish: belay completion fish | source',
  );
  program
    .command('complete', { hidden: true })
    .allowUnknownOption()
    .helpOption(false)
    .argument('[words...]')
    .action(async (words: string[]) => {
      const found = await (await import('./completion.ts')).candidates(program, words, io);
      if (found.length > 0) io.out(`${found.join('\n')}\n`);
    });
}

// ── run ────────────────────────────────────────────────────────────────────────────────────────────────────────────

const storeOption = (): Option =>
  new Option(
    '--store <url>',
    'sqlite:PATH or postgres://… (better: BELAY_STORE, which no process list shows); else SQLite in the data folder',
  );

const listen = (command: Command): Command =>
  command
    .option('--listen <host:port>', 'where the API listens', '127.0.0.1:7717')
    .option('--agent-listen <host:port>', 'where agents connect to (mutual TLS)', '127.0.0.1:7718')
    .option('--maintenance-listen <host:port>', 'serve YDB’s maintenance service (gRPC, for ydbops) here')
    .option('--maintenance-compat', 'judge what comes that way as YDB’s own service does, quirks included')
    .option('--maintenance-topology <name>', 'topology its clients speak of, when there are several')
    .option(
      '--maintenance-priority <number>',
      'how urgent the control plane’s own work is beside maintenance tasks, from -100 (most urgent) to 100 (default: 100)',
      parsePriority,
    )
    .addOption(storeOption());

/** The store from the environment, where no process list shows its password, unless the option names one. */
function withStore<T extends { readonly store?: string }>(options: T, io: Io): T {
  const store = options.store ?? (io.env['BELAY_STORE'] || undefined);
  return store === undefined ? options : { ...options, store };
}

function processVerbs(program: Command, io: Io): void {
  listen(program.command('up').description('control plane and a local agent in one go'))
    .option('--data <dir>', 'where everything is kept (else ~/.local/share/belay)')
    .option('--bin-dir <dir>', 'MongoDB executables: VERSION/bin/mongod, or mongod')
    .option('--simulate', 'run the simulator instead of MongoDB')
    .option('--address <name>', 'name under which members on this machine are reached', 'localhost')
    .option('--no-color', 'no colours')
    .action(async (o) => (await import('./up.ts')).up(withStore(o, io), io));
  program
    .command('demo')
    .description('a control plane, the simulator and a replica set in a scratch folder; removed on exit')
    .option('-f, --filename <file>', 'document to apply')
    .option('--once', 'show that it works, then stop everything')
    .option('--no-color', 'no colours')
    .action(async (o) => (await import('./demo.ts')).demo(o, io));
  listen(program.command('server').description('the control plane on its own'))
    .requiredOption('--data <dir>', 'where store, CA and master key are kept')
    .option('--master-key-file <file>', 'master key; by default DATA/master.key, made at the first start')
    .option('--tls', 'serve the API over TLS with a certificate of the installation’s CA')
    .option(
      '--public-url <url...>',
      'addresses agents reach this control plane at, if not the one it listens on',
    )
    .action(async (o) => (await import('./processes.ts')).server(withStore(o, io)));
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

function files(options: Options): readonly string[] {
  const given = options['filename'] as readonly string[];
  if (given.length > 0) return given;
  throw new BelayError('Usage', 'which document?', {
    retry: 'never',
    fix: 'name a file, a folder or - with -f',
  });
}
