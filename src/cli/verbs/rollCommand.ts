/** The command of a rolling task on one machine. */
import { spawn } from 'node:child_process';
import { BelayError } from '../../base/error.ts';
import type { Context } from '../context.ts';
import type { ActionRow, NodeRow } from './taskText.ts';

/** What a command is about. */
export interface Place {
  /** Machine: of the host that was taken, or the one the node is on. */
  readonly host: string;
  /** Node that was taken: name of a member, or number of a node of a topology; null: a whole host was. */
  readonly node: string | null;
  /** Everything that was taken. */
  readonly nodes: readonly NodeRow[];
}

/** Where an action is, among all nodes there are. */
export function placeOf(
  { scope }: ActionRow,
  topology: string | undefined,
  nodes: readonly NodeRow[],
): Place {
  if (scope.node === undefined) {
    const host = scope.host ?? '';
    return { host, node: null, nodes: nodes.filter((n) => n.host === host) };
  }
  const key = topology === undefined ? scope.node : `${topology}/${scope.node}`;
  const taken = nodes.filter((n) => n.key === key || n.key === scope.node);
  return { host: taken[0]?.host ?? '', node: scope.node.split('/').at(-1) ?? scope.node, nodes: taken };
}

/** `Usage` for a command that is empty, or that wants a node where hosts are taken. */
export function checkCommand(command: readonly string[], takesHosts: boolean): void {
  if (command.length === 0)
    throw new BelayError('Usage', 'run what?', {
      retry: 'never',
      fix: 'write the command behind --, with {host} in it: -- ssh {host} sudo reboot',
    });
  if (takesHosts && command.some((word) => word.includes('{node}')))
    throw new BelayError('Usage', '{node} means nothing where whole hosts are taken', {
      retry: 'never',
      fix: 'write {host}, or take members with --nodes instead of hosts',
    });
}

/** A command that was started. */
export interface Started {
  /** Its exit code, or the name of the signal that ended it. */
  readonly ended: Promise<number | string>;
  /** Asks it to end; it is waited for. */
  readonly terminate: () => void;
  /** Asks it to end and waits for it no longer. */
  readonly abandon: () => void;
}

/** Starts the command with what it is about filled in; its output goes to stderr behind the name. */
export function start(context: Context, command: readonly string[], name: string, place: Place): Started {
  const { host, node } = place;
  const fill = (text: string): string => text.replaceAll('{host}', host).replaceAll('{node}', node ?? '');
  const [program = '', ...args] = command.map(fill);
  const child = spawn(program, args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, BELAY_MAINTENANCE_HOST: host, BELAY_MAINTENANCE_NODE: node ?? '' },
  });
  for (const stream of [child.stdout, child.stderr]) tell(context, name, stream);
  const ended = new Promise<number | string>((resolve) => {
    child.on('error', (failure) => {
      context.terminal.err(`${name}: ${failure.message}`);
      resolve(127);
    });
    child.on('close', (code, signal) => resolve(code ?? signal ?? 1));
  });
  const abandon = (): void => {
    child.kill('SIGTERM');
    child.stdout.destroy();
    child.stderr.destroy();
    child.unref();
  };
  return { ended, terminate: () => void child.kill('SIGTERM'), abandon };
}

function tell(context: Context, name: string, stream: NodeJS.ReadableStream): void {
  let rest = '';
  stream.setEncoding('utf8');
  stream.on('data', (chunk: string) => {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) context.terminal.errRaw(`${name} | ${line}`);
  });
  stream.on('end', () => {
    if (rest !== '') context.terminal.errRaw(`${name} | ${rest}`);
  });
}
