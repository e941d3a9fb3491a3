/** The verbs of operations (A13.1) and their options. */
import type { Command } from 'commander';
import { BelayError } from '../base/error.ts';
import { collect, examples, flag, type MakeVerb, type Options, text, timeOption } from './verbKit.ts';
import type { Wish } from './verbs/operations.ts';

/** How long an operation is followed when nobody says: the longest is an initial sync. */
const FOLLOW_DEFAULT = '6h';

const list = (options: Options, name: string): readonly string[] => options[name] as readonly string[];
/** Only what was given: the server knows the defaults. */
const given = (name: string, value: string | undefined): Readonly<Record<string, string>> =>
  value === undefined ? {} : { [name]: value };

/** Adds them below the program. */
export function operationVerbs(program: Command, verb: MakeVerb): void {
  const operation: MakeOperation = (parent, spec, description, wish) =>
    verb(parent, spec, description, async (c, o, [name = '', ...words]) =>
      (await import('./verbs/operations.ts')).ask(c, name, wish(o, words), {
        wait: o['wait'] !== false,
        plan: flag(o, 'plan'),
        timeoutMillis: o['timeout'] as number,
      }),
    )
      .option('--no-wait', 'do not follow it')
      .option('--plan', 'every step it would take; nothing is done')
      .addOption(timeOption('--timeout <duration>', 'how long to follow it', FOLLOW_DEFAULT));

  memberVerbs(program, operation);
  authorityVerb(rotateVerbs(program, operation), verb);
  databaseVerbs(program, operation);
  const balancer = program.command('balancer').description('the balancer of a sharded cluster');
  operation(balancer, 'on <name>', 'let it move chunks', () => ({ type: 'StartBalancer' }));
  operation(balancer, 'off <name>', 'stop it', () => ({ type: 'StopBalancer' }));
  recordVerbs(program, verb);
}

/** What is done to some of the members. */
function memberVerbs(program: Command, operation: MakeOperation): void {
  examples(
    operation(program, 'restart <name>', 'restart members one after the other, the primary last', (o) => ({
      type: 'Restart',
      members: list(o, 'member'),
    })).option('--member <name>', 'only this one; may be given several times', collect, []),
    'belay restart orders',
    'belay restart orders --member orders-1 --no-wait',
    'belay restart orders --plan',
  );
  examples(
    operation(program, 'replace <name> <member>', 'a new member instead of this one', (_, [member = '']) => ({
      type: 'Replace',
      member,
    })),
    'belay replace orders orders-2',
  );
  examples(
    operation(program, 'move <name> <member>', 'a member to another host', (o, [member = '']) => ({
      type: 'Move',
      member,
      avoidHosts: list(o, 'avoid'),
      ...given('host', text(o, 'to')),
    }))
      .option('--to <host>', 'to this host; else the platform chooses')
      .option('--avoid <host>', 'not to this host; may be given several times', collect, []),
    'belay move orders orders-2 --to db4',
    'belay move orders orders-2 --avoid db3',
  );
}

/** What is done to a database as a whole. */
function databaseVerbs(program: Command, operation: MakeOperation): void {
  operation(program, 'raise-fcv <name>', 'raise the feature compatibility version', (o) => ({
    type: 'RaiseFCV',
    ...given('version', text(o, 'to')),
  })).option('--to <version>', 'X.Y; else that of the running binaries');
  examples(
    operation(program, 'force-reconfig <name>', 'go on without a majority that is lost for good', (o) => ({
      type: 'ForceReconfig',
      acknowledge: acknowledged(o),
    })).option(
      '--acknowledge <what>',
      'LoseUnreplicatedWrites: what only the lost members hold is lost; never while they may still run',
    ),
    'belay force-reconfig orders --acknowledge LoseUnreplicatedWrites',
  );
  examples(
    operation(
      program,
      'override-windows <name>',
      'let changes go on outside the maintenance windows for a while',
      (o) => ({
        type: 'OverrideWindows',
        ...given('reason', overrideReason(o)),
        ...(flag(o, 'end') ? { end: true } : {}),
        ...given('duration', text(o, 'for')),
      }),
    )
      .option('--reason <why>', 'why they may not wait; it is kept with who asked')
      .option('--for <duration>', 'how long (default: 2h)')
      .option('--end', 'let them wait for the windows again'),
    'belay override-windows orders --reason "CVE-2026-1234" --for 4h',
    'belay override-windows orders --end',
  );
  operation(program, 'suspend <name>', 'stop all members and keep their data', () => ({ type: 'Suspend' }));
  operation(program, 'resume <name>', 'start a suspended database', () => ({ type: 'Resume' }));
}

/** Nobody has to say why changes wait again as the spec wants it. */
function overrideReason(options: Options): string | undefined {
  const reason = text(options, 'reason');
  if (reason !== undefined || flag(options, 'end')) return reason;
  throw new BelayError('Usage', 'override-windows needs a reason', {
    retry: 'never',
    fix: 'say why changes may not wait: --reason WHY; or --end, to let them wait again',
  });
}

/** What may be lost is said before anybody can agree to it. */
function acknowledged(options: Options): string {
  const what = text(options, 'acknowledge');
  if (what !== undefined) return what;
  throw new BelayError('Usage', 'force-reconfig loses writes that only the lost members hold', {
    retry: 'never',
    fix: 'if they are gone for good and can never run again: --acknowledge LoseUnreplicatedWrites',
  });
}

type MakeOperation = (
  parent: Command,
  spec: string,
  description: string,
  wish: (options: Options, words: readonly string[]) => Wish,
) => Command;

function rotateVerbs(program: Command, operation: MakeOperation): Command {
  const rotate = program.command('rotate').description('new passwords or certificates');
  examples(
    operation(rotate, 'users <name>', 'new passwords of the system users, one after the other', (o) => ({
      type: 'RotateUsers',
      users: list(o, 'user'),
    })).option('--user <name>', 'only this one; may be given several times', collect, []),
    'belay rotate users orders',
    'belay rotate users orders --user clusterMonitor',
  );
  examples(
    operation(rotate, 'tls <name>', 'new certificates, one member after the other', () => ({
      type: 'RotateTLS',
    })),
    'belay rotate tls orders',
  );
  return rotate;
}

function authorityVerb(rotate: Command, verb: MakeVerb): void {
  examples(
    verb(rotate, 'ca', 'a new certificate authority for the whole installation', async (c, o) =>
      (await import('./verbs/authority.ts')).rotateCa(c, {
        clientsUpdated: flag(o, 'clientsUpdated'),
        wait: o['wait'] !== false,
        timeoutMillis: o['timeout'] as number,
      }),
    )
      .option('--clients-updated', 'clients have the bundle with both: let the new one issue')
      .option('--no-wait', 'do not wait for members and agents')
      .addOption(timeOption('--timeout <duration>', 'how long to wait', FOLLOW_DEFAULT)),
    'belay rotate ca',
    'belay rotate ca --clients-updated',
  );
}

function recordVerbs(program: Command, verb: MakeVerb): void {
  examples(
    verb(program, 'operations [name]', 'operations asked for, the newest last', async (c, o, [name]) =>
      (await import('./verbs/operations.ts')).operations(c, name, {
        watch: flag(o, 'watch'),
        allNamespaces: flag(o, 'allNamespaces'),
      }),
    )
      .option('-w, --watch', 'go on and print changes as they come')
      .option('-A, --all-namespaces', 'operations of all namespaces'),
    'belay operations orders',
    'belay describe operation orders-restart-x7k2',
    'belay wait operation orders-restart-x7k2',
  );
  verb(
    program,
    'cancel <operation>',
    'stop an operation where it can be left safely',
    async (c, o, [name = '']) =>
      (await import('./verbs/operations.ts')).cancel(c, name, {
        wait: o['wait'] !== false,
        timeoutMillis: o['timeout'] as number,
      }),
  )
    .option('--no-wait', 'do not wait until it has stopped')
    .addOption(timeOption('--timeout <duration>', 'how long to wait', FOLLOW_DEFAULT));
}
