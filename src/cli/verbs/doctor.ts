import { accessSync, constants, existsSync, statfsSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { openExecutables } from '../../agent/executables.ts';
import { BelayError } from '../../base/error.ts';
import { formatBytes, formatCount, GIB } from '../../base/units.ts';
import { findBuild } from '../../model/index.ts';
import type { ApiList } from '../client.ts';
import { type Context, structured } from '../context.ts';
import { EXIT, Exit } from '../exit.ts';
import { asText } from '../output.ts';
import { switchedOff, tasksOf } from './maintenance.ts';
import { taskFindings } from './taskFindings.ts';
import { type HostRow, inMaintenance } from './taskText.ts';

export interface Finding {
  readonly level: 'ok' | 'warning' | 'problem';
  readonly about: string;
  readonly message: string;
  readonly fix?: string;
}

/** `belay doctor`: looks, changes nothing. Exit 1 when something is wrong. */
export async function doctor(
  context: Context,
  options: { readonly binDir: string | undefined },
): Promise<void> {
  const findings = [
    nodeVersion(),
    await executables(options.binDir),
    disk(),
    homeWritable(),
    shell(context.io.env),
    ...(await server(context)),
  ];
  const format = structured(context);
  if (format !== null) context.terminal.out(await asText(findings, format));
  else for (const finding of findings) context.terminal.out(findingText(finding));
  if (findings.some((f) => f.level === 'problem')) throw new Exit(EXIT.failed);
}

const MARKS = { ok: '✔', warning: '!', problem: '✘' };

const findingText = ({ level, about, message, fix }: Finding): string =>
  `${MARKS[level]} ${about.padEnd(14)} ${message}${fix === undefined ? '' : `\n${' '.repeat(17)}fix: ${fix}`}`;

function nodeVersion(): Finding {
  const [major = 0] = process.versions.node.split('.').map(Number);
  const message = `Node ${process.versions.node}`;
  return major >= 24
    ? { level: 'ok', about: 'node', message }
    : { level: 'problem', about: 'node', message, fix: 'needs Node 24: npm ci brings it along' };
}

async function executables(binDir: string | undefined): Promise<Finding> {
  const about = 'executables';
  const { mongod = [] } = await openExecutables(binDir ?? null).found();
  if (mongod.length === 0)
    return {
      level: 'warning',
      about,
      message: 'no mongod found',
      fix: 'install one, name its folder with --bin-dir, or use the simulator: belay up --simulate',
    };
  const message = `mongod ${mongod.join(', ')}`;
  const unknown = mongod.filter((v) => findBuild(v) === undefined);
  if (unknown.length === 0) return { level: 'ok', about, message };
  return {
    level: 'warning',
    about,
    message: `${message}; not in the catalog: ${unknown.join(', ')}`,
    fix: 'see: belay catalog',
  };
}

/** Only `belay connect` needs it. */
function shell(env: Readonly<Record<string, string | undefined>>): Finding {
  const found = (env['PATH'] ?? '')
    .split(path.delimiter)
    .find((folder) => folder !== '' && existsSync(path.join(folder, 'mongosh')));
  if (found !== undefined) return { level: 'ok', about: 'mongosh', message: `in ${found}` };
  return {
    level: 'warning',
    about: 'mongosh',
    message: 'not on PATH',
    fix: 'install it for belay connect; belay connect NAME --print works without',
  };
}

function disk(): Finding {
  const stat = statfsSync(os.tmpdir());
  const free = stat.bavail * stat.bsize;
  const message = `${formatBytes(free)} free in ${os.tmpdir()}`;
  return free > 2 * GIB
    ? { level: 'ok', about: 'disk', message }
    : { level: 'warning', about: 'disk', message, fix: 'databases stop when their disk is full' };
}

function homeWritable(): Finding {
  try {
    accessSync(os.homedir(), constants.W_OK);
    return { level: 'ok', about: 'home', message: `${os.homedir()} is writable` };
  } catch {
    return {
      level: 'warning',
      about: 'home',
      message: `${os.homedir()} is not writable`,
      fix: 'give --data, and set XDG_CONFIG_HOME',
    };
  }
}

/** A host that somebody works on may be down; any other may not. */
async function awayHosts(context: Context, names: readonly string[]): Promise<readonly Finding[]> {
  if (names.length === 0) return [];
  const { items } = await context.client.get<{ items: readonly HostRow[] }>('/api/v1/maintenance/hosts');
  return names.map((name): Finding => {
    const held = items.find(({ host }) => host === name)?.held ?? null;
    if (held !== null)
      return { level: 'ok', about: 'agent', message: `host ${name} is ${inMaintenance(held)}` };
    return {
      level: 'problem',
      about: 'agent',
      message: `host ${name} is not connected`,
      fix: 'look there: systemctl status belay-agent',
    };
  });
}

async function server(context: Context): Promise<readonly Finding[]> {
  try {
    const hosts = await context.client.get<ApiList>('/api/v1/hosts');
    const away = hosts.items.filter(
      (h) => (h.status as { connected?: boolean } | undefined)?.connected !== true,
    );
    const findings: Finding[] = [
      {
        level: 'ok',
        about: 'control plane',
        message: `${context.client.url} answers, ${formatCount(hosts.items.length, 'host')}`,
      },
    ];
    if (hosts.items.length === 0)
      findings.push({
        level: 'warning',
        about: 'agent',
        message: 'no host has joined, so nothing can be placed',
        fix: 'let one join: belay host token NAME   or run this machine: belay up',
      });
    const off = await switchedOff(context);
    if (off !== null)
      findings.push({
        level: 'warning',
        about: 'maintenance',
        message: off,
        fix: 'belay maintenance switch on',
      });
    return [
      ...findings,
      ...taskFindings(await tasksOf(context), context.now()),
      ...(await awayHosts(
        context,
        away.map((h) => h.metadata.name),
      )),
    ];
  } catch (error) {
    const known = error instanceof BelayError ? error : new BelayError('Internal', String(error));
    const level = known.code === 'ServerUnreachable' ? 'warning' : 'problem';
    return [
      {
        level,
        about: 'control plane',
        message: known.message,
        ...(known.fix === undefined ? {} : { fix: known.fix }),
      },
    ];
  }
}
