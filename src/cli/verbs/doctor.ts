import { accessSync, constants, statfsSync } from 'node:fs';
import os from 'node:os';
import { BelayError } from '../../base/error.ts';
import { formatBytes, GIB } from '../../base/units.ts';
import { findBuild } from '../../model/index.ts';
import type { ApiList } from '../client.ts';
import type { Context } from '../context.ts';
import { findExecutables } from '../executables.ts';
import { EXIT, Exit } from '../exit.ts';
import { asText } from '../output.ts';

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
    executables(options.binDir),
    disk(),
    homeWritable(),
    ...(await server(context)),
  ];
  if (context.output === 'json' || context.output === 'yaml')
    context.terminal.out(asText(findings, context.output));
  else
    for (const f of findings)
      context.terminal.out(
        `${{ ok: '✔', warning: '!', problem: '✘' }[f.level]} ${f.about.padEnd(14)} ${f.message}${f.fix ? `\n                 ${f.fix}` : ''}`,
      );
  if (findings.some((f) => f.level === 'problem')) throw new Exit(EXIT.failed);
}

function nodeVersion(): Finding {
  const [major = 0] = process.versions.node.split('.').map(Number);
  const message = `Node ${process.versions.node}`;
  return major >= 24
    ? { level: 'ok', about: 'node', message }
    : { level: 'problem', about: 'node', message, fix: 'needs Node 24: npm ci brings it along' };
}

function executables(binDir: string | undefined): Finding {
  const found = findExecutables(binDir);
  if (found === null)
    return {
      level: 'warning',
      about: 'executables',
      message: 'no mongod found',
      fix: 'install one, name its folder with --bin-dir, or use the simulator: belay up --simulate',
    };
  const unknown = found.versions.filter((v) => findBuild(v) === undefined);
  const message = `mongod ${found.versions.join(', ')} in ${found.binDir}`;
  return unknown.length === 0
    ? { level: 'ok', about: 'executables', message }
    : {
        level: 'warning',
        about: 'executables',
        message: `${message}; not in the catalog: ${unknown.join(', ')}`,
        fix: 'see: belay catalog',
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
        message: `${context.client.url} answers, ${hosts.items.length} host${hosts.items.length === 1 ? '' : 's'}`,
      },
    ];
    for (const h of away)
      findings.push({
        level: 'problem',
        about: 'agent',
        message: `host ${h.metadata.name} is not connected`,
        fix: 'look there: systemctl status belay-agent',
      });
    return findings;
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
