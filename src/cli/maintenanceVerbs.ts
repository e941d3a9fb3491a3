/** The verbs of maintenance tasks and their options. */
import { type Command, Option } from 'commander';
import { BelayError } from '../base/error.ts';
import {
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
import type { Wanted, Which } from './verbs/maintenance.ts';

const parseNames = (value: string, previous: string[]): string[] => [
  ...previous,
  ...value.split(',').filter((n) => n !== ''),
];

/** What a task is about and how much it may cost. */
function wanting(command: Command, duration: string): Command {
  return command
    .option(
      '--host, --hosts <hosts>',
      'hosts, with everything on them; commas or several times',
      parseNames,
      [],
    )
    .option('--node, --nodes <names>', 'members (orders-0), or nodes of a topology by number', parseNames, [])
    .option('--topology <name>', 'topology the nodes belong to; without it those of managed databases')
    .addOption(
      new Option('--mode <mode>', 'how much may be unavailable')
        .choices(['strong', 'weak', 'smart', 'force'])
        .default('strong'),
    )
    .option('--duration <duration>', 'how long each is needed; then it counts as done', duration)
    .option('--priority <number>', 'a smaller number is more urgent', parsePriority, 0)
    .option('--step-down', 'let primaries there hand over first; then it is granted')
    .option('--reason <text>', 'why, for others', '')
    .option('--name <name>', 'name of the task; made up when it is not given');
}

const wantedOf = (o: Options): Wanted => ({
  hosts: o['hosts'] as readonly string[],
  nodes: o['nodes'] as readonly string[],
  topology: text(o, 'topology'),
  mode: String(o['mode']),
  duration: String(o['duration']),
  priority: o['priority'] as number,
  reason: String(o['reason']),
  name: text(o, 'name'),
  together: flag(o, 'together'),
  maxInFlight: (o['inFlight'] as number | undefined) ?? 0,
  stepDown: flag(o, 'stepDown'),
});

const WAIT_DEFAULT = '1h';

/** How long to wait until all is granted; null: not at all. A time limit for no wait would be ignored. */
function waitOf(o: Options): number | null {
  const limit = o['timeout'] as number | undefined;
  if (flag(o, 'wait')) return limit ?? parseTimeout(WAIT_DEFAULT);
  if (limit === undefined) return null;
  throw new BelayError('Usage', '--timeout is about --wait, which was not given', {
    retry: 'never',
    fix: 'give --wait as well, or leave --timeout out: without --wait what cannot be granted now is asked for and waits',
  });
}

/** Parts of what a task holds. */
const which = (command: Command): Command =>
  command
    .option('--host, --hosts <hosts>', 'these hosts; without them everything the task holds', parseNames, [])
    .option('--action <ids>', 'these actions', parseNames, []);

const whichOf = (o: Options): Which => ({
  hosts: o['hosts'] as readonly string[],
  actions: o['action'] as readonly string[],
});

const verbs = () => import('./verbs/maintenance.ts');

/** Adds them below the program. */
export function maintenanceVerbs(program: Command, verb: MakeVerb): void {
  const parent = program.command('maintenance').description('take hosts out of service safely');
  taskVerbs(parent, verb);
  heldVerbs(parent, verb);
  fleetVerbs(parent, verb);
  runVerb(parent, verb);
}

/** Asking for hosts, and looking whether they are granted. */
function taskVerbs(parent: Command, verb: MakeVerb): void {
  examples(
    wanting(
      verb(parent, 'create', 'ask for hosts or nodes; what cannot be granted now waits', async (c, o) =>
        (await verbs()).create(c, wantedOf(o), waitOf(o)),
      ),
      '30m',
    )
      .option('--together', 'all of them or none')
      .option('--in-flight <number>', 'most of them at a time', parseCount)
      .option('--wait', 'ask again until everything is granted')
      .addOption(
        new Option('--timeout <duration>', `how long --wait waits (default: ${WAIT_DEFAULT})`).argParser(
          parseTimeout,
        ),
      ),
    'belay maintenance create --host db6 --mode strong --duration 30m --reason "kernel update"',
  ).addHelpText(
    'after',
    `
Exit codes: 0 asked for, also when nothing is granted yet; 2 usage; 3 --wait ran out; 4 refused.
A script gives --wait, or asks first with belay maintenance explain, which ends with 4 while something would wait.`,
  );
  verb(parent, 'list', 'tasks that hold or wait for something', async (c, o) =>
    (await verbs()).list(c, text(o, 'owner'), flag(o, 'all')),
  )
    .option('--owner <name>', 'only this owner’s')
    .option('--all', 'also what the control plane itself holds and waits for');
  verb(
    parent,
    'get <name>',
    'one task: whose it is, what it holds, and what it waits for',
    async (c, _, [name = '']) => (await verbs()).get(c, name),
  );
  verb(parent, 'refresh <name>', 'try again what waits', async (c, _, [name = '']) =>
    (await verbs()).refresh(c, name),
  );
}

/** What becomes of what a task holds. */
function heldVerbs(parent: Command, verb: MakeVerb): void {
  which(
    verb(parent, 'extend <name>', 'hold longer what is granted', async (c, o, [name = '']) =>
      (await verbs()).extend(c, name, String(o['duration']), whichOf(o)),
    ).requiredOption('--duration <duration>', 'how long it is needed from now on; never shorter than before'),
  ).addHelpText(
    'after',
    `
Exit codes: 0 held at least that long, also where it was before; 1 no such task, or it does not hold that;
2 usage; 4 refused: another’s task, or it holds nothing yet.`,
  );
  which(
    verb(parent, 'complete <name>', 'give back before the deadline', async (c, o, [name = '']) =>
      (await verbs()).complete(c, name, whichOf(o)),
    ),
  ).addHelpText(
    'after',
    `
Exit codes: 0 given back; 1 no such task (any more), or it does not hold that; 2 usage; 4 it holds nothing yet.`,
  );
  verb(parent, 'drop <name>', 'give everything back and want nothing any more', async (c, _, [name = '']) =>
    (await verbs()).drop(c, name),
  );
}

/** What is about all machines rather than one task. */
function fleetVerbs(parent: Command, verb: MakeVerb): void {
  verb(parent, 'nodes', 'members and nodes with state and holder', async (c, o) =>
    (await verbs()).nodes(c, text(o, 'cluster'), flag(o, 'byHost')),
  )
    .option('--cluster <name>', 'of this topology, or of this database (NAMESPACE/NAME)')
    .option('--by-host', 'hosts instead, with waiting tasks and warnings');
  wanting(
    verb(
      parent,
      'explain',
      'what would be granted now and what stands in the way; changes nothing',
      async (c, o) => (await verbs()).explain(c, wantedOf(o)),
    ),
    '30m',
  )
    .option('--together', 'all of them or none')
    .addHelpText(
      'after',
      '\nExit codes: 0 all would be granted; 2 usage; 4 something would wait, new grants are switched off, or it is refused.',
    );
  verb(
    parent,
    'switch <on|off>',
    'grant nothing new for a while, or go on granting',
    async (c, _, [to = '']) => (await verbs()).switchGrants(c, to),
  );
}

function runVerb(parent: Command, verb: MakeVerb): void {
  examples(
    wanting(
      verb(
        parent,
        'run [command...]',
        'run a command on host after host, as they are granted',
        async (c, o, command) =>
          (await import('./verbs/maintenanceRun.ts')).run(c, wantedOf(o), {
            command,
            allHosts: flag(o, 'allHosts'),
            settleMillis: o['settle'] as number,
            keepGoing: flag(o, 'keepGoing'),
          }),
      ),
      '1h',
    )
      .option('--all-hosts', 'every host there is')
      .option('--in-flight <number>', 'most hosts at a time', parseCount, 1)
      .addOption(timeOption('--settle <duration>', 'how long to wait after the command before looking', '5s'))
      .option('--keep-going', 'go on with others when the command fails'),
    'belay maintenance run --all-hosts --in-flight 1 -- ssh {host} sudo reboot',
  ).addHelpText(
    'after',
    `
Exit codes: 0 done on all; 1 it failed on some, which are named as those never begun are; 2 usage; 4 refused; 130 interrupted.`,
  );
}
