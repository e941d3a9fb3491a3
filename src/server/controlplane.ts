/**
 * The composition of a control plane: store, sealed secrets, CA, agents, engine and provider become one thing that is
 * opened and closed. Faces (REST, command line) stand on it; it knows none of them.
 */

import { randomUUID } from 'node:crypto';
import { Authority, FLEET_KINDS, InformerFleet } from '../authority/index.ts';
import { type AgentServer, createAgentServer } from '../channel/index.ts';
import { Engine } from '../engine/engine.ts';
import type { Clock, Log, Secrets, Store } from '../engine/ports.ts';
import { HostsPlatform } from '../platforms/hosts/platform.ts';
import { addProvider, PROVIDER_KINDS, type RunningProvider } from '../provider/setup.ts';
import { openCertificateAuthority, type ReplaceableAuthority } from '../security/ca.ts';
import type { MasterKey } from '../security/seal.ts';
import { openSecrets } from '../security/secrets.ts';
import { openTokens, type Tokens } from '../security/tokens.ts';
import { openStore } from '../store/open.ts';
import {
  type AgentListener,
  certifyHost,
  knownHost,
  type ListenOptions,
  listenForAgents,
} from './agentListener.ts';
import { AuthorityRotation } from './authorityRotation.ts';
import { systemClock } from './clock.ts';
import { type ClaimedFolder, claimFolder } from './instance.ts';

export interface ControlPlaneOptions extends ListenOptions {
  readonly storeUrl: string;
  /** Folder of this process: its claim lies there. */
  readonly dataDir: string;
  readonly masterKey: MasterKey;
  readonly log: Log;
  readonly clock?: Clock;
  /** Version of the agent artifact that runtimes are made with. */
  readonly version: string;
  /** How urgent our own work is beside people's maintenance tasks; a smaller number is more urgent. */
  readonly maintenancePriority?: number;
  /** O of certificates. */
  readonly organization?: string;
}

export interface ControlPlane {
  readonly store: Store;
  readonly secrets: Secrets;
  readonly ca: ReplaceableAuthority;
  readonly caRotation: AuthorityRotation;
  /** The one authority that says what may go down now (C1). */
  readonly maintenance: Authority;
  readonly tokens: Tokens;
  readonly agents: AgentServer;
  readonly engine: Engine;
  readonly provider: RunningProvider;
  readonly clock: Clock;
  readonly log: Log;
  /** Identity of this installation. */
  readonly installation: string;
  /** Where agents connect, `https://host:port`. */
  readonly agentUrls: readonly string[];
  /** `sha256:` and hex of the CA: what a joining agent pins. */
  readonly caFingerprint: string;
  /** The store answers and this process looks after its clusters or stands by. */
  ready(): Promise<boolean>;
  /** Stops acting, hands leases over, closes everything. Nothing on hosts is touched (fail-static). */
  close(): Promise<void>;
}

/** Opens everything in order; what was opened is closed again when a later part fails. */
export async function openControlPlane(options: ControlPlaneOptions): Promise<ControlPlane> {
  const undo: (() => Promise<void> | void)[] = [];
  try {
    return await compose(options, undo);
  } catch (failure) {
    for (const close of undo.reverse()) await close();
    throw failure;
  }
}

async function compose(
  options: ControlPlaneOptions,
  undo: (() => Promise<void> | void)[],
): Promise<ControlPlane> {
  const { log, clock = systemClock, organization = 'Belay' } = options;
  const store = await openStore(options.storeUrl, { clock });
  undo.push(() => store.close());
  const secrets = announcing(await openSecrets(store, options.masterKey));
  const ca = await openCertificateAuthority(secrets, clock, { organization });
  const installation = await store.initSetting('installation', randomUUID());
  const tokens = openTokens(store, clock);
  const folder = await claimFolder(options.dataDir, store, log);
  undo.push(() => folder.release());

  const kinds = [...new Set<string>([...PROVIDER_KINDS, ...FLEET_KINDS])];
  const engine = new Engine({ store, clock, log, holder: folder.holder, kinds });
  const agents = createAgentServer({
    clock,
    log,
    name: installation,
    verifyHost: (peer) => knownHost(store, peer.commonName),
    renew: async (host, csrPem) => ({ ...(await certifyHost(ca, host, csrPem)), caPem: ca.caPem }),
  });
  undo.push(() => agents.close());
  const listener = await listenForAgents(options, { store, ca, tokens, agents, clock, log });
  undo.push(() => listener.close());
  const platform = new HostsPlatform(agents);
  const common = { engine, store, secrets, ca, agents, platform, clock, log, installation };
  const fleet = new InformerFleet(engine.informer, agents);
  const maintenance = new Authority({ store, clock, log, source: fleet });
  undo.push(() => fleet.close());
  const provider = addProvider({
    ...common,
    agentVersion: options.version,
    gate: maintenance,
    ...(options.maintenancePriority === undefined
      ? {}
      : { maintenancePriority: options.maintenancePriority }),
  });
  secrets.onChange = (name) => provider.secretChanged(name);
  undo.push(() => provider.close());
  const caRotation = new AuthorityRotation({
    ca,
    store,
    agents,
    clock,
    log,
    changed: () => provider.authorityChanged(),
  });
  undo.push(() => caRotation.close());
  engine.informer.onChange(({ before, after }) => {
    if (before?.kind === 'Host' && after === null) agents.forget(before.metadata.name);
  });
  await maintenance.open();
  undo.push(() => maintenance.close());
  await engine.open();
  return {
    ...common,
    tokens,
    provider,
    maintenance,
    agentUrls: listener.urls,
    caRotation,
    get caFingerprint() {
      return `sha256:${ca.authority.issuer}`;
    },
    ready: () =>
      store.getSetting('installation').then(
        (value) => value === installation,
        () => false,
      ),
    close: () =>
      closeAll({ engine, provider, agents, listener, store, folder, caRotation, maintenance, fleet }),
  };
}

/** Acting ends first, then agents are let go, then the memory is closed. */
async function closeAll(parts: {
  readonly engine: Engine;
  readonly provider: RunningProvider;
  readonly agents: AgentServer;
  readonly listener: AgentListener;
  readonly store: Store;
  readonly folder: ClaimedFolder;
  readonly caRotation: AuthorityRotation;
  readonly maintenance: Authority;
  readonly fleet: InformerFleet;
}): Promise<void> {
  parts.caRotation.close();
  await parts.engine.close();
  parts.provider.close();
  await parts.maintenance.close();
  parts.fleet.close();
  await parts.agents.close();
  await parts.listener.close();
  parts.folder.release();
  await parts.store.close();
}

// ── secrets ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Secrets that tell of their own changes, so that a new password is applied within moments. */
interface AnnouncingSecrets extends Secrets {
  onChange: (name: string) => void;
}

function announcing(secrets: Secrets): AnnouncingSecrets {
  const wrapped: AnnouncingSecrets = {
    onChange: () => {},
    get: (name) => secrets.get(name),
    ensure: (name, make) => secrets.ensure(name, make),
    list: (prefix) => secrets.list(prefix),
    put: async (name, value) => {
      await secrets.put(name, value);
      wrapped.onChange(name);
    },
    delete: async (prefix) => {
      await secrets.delete(prefix);
      wrapped.onChange(prefix);
    },
  };
  return wrapped;
}
