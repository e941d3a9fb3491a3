/** `belay server` and `belay agent`: the processes on their own. Logs go to stderr as JSON lines. */
import os from 'node:os';
import { runAgent } from '../agent/index.ts';
import { BelayError } from '../base/error.ts';
import { Secret } from '../base/secret.ts';
import { makeLog } from '../security/log.ts';
import { parseAddress, startServer } from '../server/start.ts';
import { type MaintenanceListen, maintenanceOf } from './maintenanceListen.ts';
import { untilSignal } from './up.ts';
import { ownVersion } from './version.ts';

export interface ServerVerbOptions extends MaintenanceListen {
  readonly data: string;
  readonly listen: string;
  readonly agentListen: string;
  readonly store?: string;
  readonly masterKeyFile?: string;
  readonly tls?: boolean;
  readonly publicUrl?: readonly string[];
}

/** The control plane until a signal. */
export async function server(options: ServerVerbOptions): Promise<void> {
  const log = makeLog({ level: 'info' });
  const running = await startServer({
    dataDir: options.data,
    ...(options.store === undefined ? {} : { storeUrl: options.store }),
    listen: parseAddress(options.listen),
    agentListen: parseAddress(options.agentListen),
    ...(options.masterKeyFile === undefined ? {} : { masterKeyFile: options.masterKeyFile }),
    ...(options.publicUrl === undefined ? {} : { publicUrls: options.publicUrl }),
    ...maintenanceOf(options),
    tls: options.tls === true,
    version: ownVersion(),
    log,
  });
  log.info('control plane ready', {
    url: running.url,
    agents: running.agentUrls,
    tokenFile: running.tokenFile,
  });
  await untilSignal().stopped;
  await running.close();
}

export interface AgentVerbOptions {
  readonly data: string;
  readonly server?: readonly string[];
  readonly joinToken?: string;
  readonly caFingerprint?: string;
  readonly name?: string;
  readonly address?: string;
  readonly binDir?: string;
  readonly label: readonly string[];
}

/** The agent until a signal. Members go on without it. */
export async function agent(options: AgentVerbOptions): Promise<void> {
  const token = options.joinToken ?? process.env['BELAY_JOIN_TOKEN'];
  delete process.env['BELAY_JOIN_TOKEN'];
  const log = makeLog({ level: 'info' });
  const running = await runAgent({
    dataDir: options.data,
    name: options.name ?? os.hostname(),
    address: options.address ?? os.hostname(),
    urls: options.server ?? [],
    ...(token === undefined ? {} : { joinToken: new Secret(token) }),
    ...(options.caFingerprint === undefined ? {} : { caFingerprint: options.caFingerprint }),
    ...(options.binDir === undefined ? {} : { binDir: options.binDir }),
    labels: labelsOf(options.label),
    log,
  });
  await untilSignal().stopped;
  await running.close();
}

function labelsOf(pairs: readonly string[]): Readonly<Record<string, string>> {
  const labels: Record<string, string> = {};
  for (const pair of pairs) {
    const at = pair.indexOf('=');
    if (at < 1) throw new BelayError('Usage', `--label ${pair} is not key=value`, { retry: 'never' });
    labels[pair.slice(0, at)] = pair.slice(at + 1);
  }
  return labels;
}
