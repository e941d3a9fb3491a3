/** A host with an agent, a control plane's end of the channel and the stand-in executables, on real sockets. */
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, vi } from 'vitest';
import { asBelayError } from '../../base/error.ts';
import { secret } from '../../base/secret.ts';
import {
  type AgentServer,
  caFingerprint,
  createAgentServer,
  createJoinHandler,
} from '../../channel/index.ts';
import { realClock } from '../../channel/testing/clock.ts';
import { quiet } from '../../channel/testing/facts.ts';
import { makeTestCa, type TestCa } from '../../channel/testing/pki.ts';
import type { MemberFacts, OperationFacts, OwnerMarker } from '../../clusters/facts.ts';
import type {
  CommandOutcome,
  Login,
  MemberCommand,
  MemberSnapshot,
  ServiceSpec,
} from '../../clusters/snapshot.ts';
import type { HostOperation, Log, Proviso } from '../../engine/ports.ts';
import { freePort } from '../../engine/testing/freePort.ts';
import { type RunningAgent, runAgent } from '../agent.ts';
import { openLayout } from '../layout.ts';
import { findByConfig } from '../procfs.ts';
import { type Scratch, scratch } from './scratch.ts';

export const SIMULATOR = fileURLToPath(new URL('../../../simulator/bin', import.meta.url));
export const FENCE = { lease: 'p0', epoch: 1 };
export const PASSWORDS = { userAdmin: 'ua/p@ss:%', clusterMonitor: 'cm"pass\'$' };
export const login = (user: keyof typeof PASSWORDS): Login => ({
  user,
  db: 'admin',
  password: secret(PASSWORDS[user]),
});

export interface Bench {
  readonly box: Scratch;
  readonly agents: AgentServer;
  readonly ca: TestCa;
  readonly dataDir: string;
  /** What an agent in another process needs to know. */
  readonly url: string;
  agent: RunningAgent;
  /** Starts the agent again after its end; what is reported from then on is this one's. */
  startAgent(): Promise<void>;
  operate(operation: HostOperation): Promise<Readonly<Record<string, string | number>>>;
  close(): Promise<void>;
}

/** One host called `host-a` with `localhost` as its address. */
export async function openBench(
  options: { readonly binDir?: string; readonly log?: Log } = {},
): Promise<Bench> {
  const box = scratch();
  const ca = await makeTestCa();
  const { keyPem, certificatePem } = await ca.issue('control');
  const join_ = createJoinHandler({
    redeem: async () => {},
    sign: async (_host, csrPem) => ({ certificatePem: await ca.sign(csrPem) }),
    caPem: () => ca.caPem,
    urls: () => [],
  });
  const tls = {
    key: keyPem,
    cert: certificatePem,
    ca: ca.caPem,
    requestCert: true,
    rejectUnauthorized: false,
  };
  const https = createServer(tls, async (request, response) => {
    if (request.url === '/agent/v1/ca') {
      response.end(ca.caPem);
      return;
    }
    let body = '';
    for await (const chunk of request) body += chunk;
    try {
      response.end(JSON.stringify(await join_(JSON.parse(body))));
    } catch (failure) {
      response.writeHead(403).end(JSON.stringify({ code: asBelayError(failure).code }));
    }
  });
  const agents = createAgentServer({ verifyHost: (peer) => peer.commonName, clock: realClock, log: quiet });
  agents.attachTo(https);
  await new Promise<void>((resolve) => https.listen(0, '127.0.0.1', resolve));
  const url = `https://localhost:${(https.address() as AddressInfo).port}`;
  const dataDir = join(box.path, 'data');
  const start = (): Promise<RunningAgent> =>
    runAgent({
      dataDir,
      name: 'host-a',
      address: 'localhost',
      urls: [url],
      joinToken: secret('belay_join_x'),
      caFingerprint: caFingerprint(ca.caPem),
      binDir: options.binDir ?? SIMULATOR,
      log: options.log ?? quiet,
    });
  const bench: Bench = {
    box,
    agents,
    ca,
    dataDir,
    url,
    agent: await start(),
    startAgent: async () => {
      const connected = (): boolean => agents.host('host-a')?.connected === true;
      await until(() => expect(connected()).toBe(false));
      bench.agent = await start();
      await until(() => expect(connected()).toBe(true));
    },
    operate: (operation) => operate(agents, operation),
    close: () => close(bench, https),
  };
  return bench;
}

async function operate(
  agents: AgentServer,
  operation: HostOperation,
): Promise<Readonly<Record<string, string | number>>> {
  await until(() => expect(agents.host('host-a')?.connected).toBe(true));
  await agents.startOperation('host-a', operation, FENCE);
  let facts: OperationFacts = { kind: 'unknown' };
  await until(async () => {
    facts = await agents.operation('host-a', operation.id);
    expect(facts.kind).not.toBe('running');
  });
  expect(facts, JSON.stringify(facts)).toMatchObject({ kind: 'succeeded' });
  return (facts as OperationFacts as Extract<OperationFacts, { kind: 'succeeded' }>).result;
}

async function close(bench: Bench, https: Server): Promise<void> {
  await bench.agent.close().catch(() => {});
  const layout = openLayout(bench.dataDir);
  const { readdirSync } = await import('node:fs');
  const configs = new Set(readdirSync(layout.services).map((id) => layout.service(id).config));
  for (const { pid } of findByConfig(configs).values()) process.kill(pid, 'SIGKILL');
  await bench.agents.close();
  https.closeAllConnections();
  await new Promise((resolve) => https.close(resolve));
  bench.box.remove();
}

export const until = (check: () => unknown): Promise<unknown> =>
  vi.waitFor(check, { timeout: 20_000, interval: 20 });

// ── one member ─────────────────────────────────────────────────────────────────────────────────────────────────────

export interface TestMember {
  readonly serviceId: string;
  readonly volumeId: string;
  readonly port: number;
  readonly snapshot: MemberSnapshot;
  facts(): MemberFacts | null;
  publish(change: Partial<MemberSnapshot>, proviso?: Proviso): Promise<void>;
  run(command: MemberCommand): Promise<CommandOutcome>;
}

export const ownerOf = (member: string): OwnerMarker => ({
  installation: 'i1',
  clusterUid: 'uid-1',
  member,
  hostname: member,
  proof: `proof of ${member}`,
});

export const specOf = (member: string, port: number): ServiceSpec => ({
  hostname: member,
  host: 'host-a',
  address: 'localhost',
  port,
  portFixed: true,
  owner: ownerOf(member),
  artifact: { kind: 'belay-agent', version: '0.1.0' },
  prepare: [],
  product: 'mongod',
  environment: {},
  readiness: [],
  volume: { name: `${member}-data`, mountPath: '/data', sizeBytes: null, id: null },
  resources: { cpus: null, memoryBytes: null },
  version: '8.0.32-14',
});

/** Imports and deploys a member; it has no snapshot yet. */
export async function makeMember(
  bench: Bench,
  member: string,
  change: Partial<MemberSnapshot> = {},
): Promise<TestMember> {
  const spec = specOf(member, await freePort());
  const made = await bench.operate({ kind: 'import', id: `import ${member}`, spec });
  const [serviceId, volumeId] = [String(made['serviceId']), String(made['volumeId'])];
  await bench.operate({ kind: 'deploy', id: `deploy ${member}`, serviceId, spec });
  const leaf = await bench.ca.issue(member, ['localhost', member, '127.0.0.1']);
  const snapshot: MemberSnapshot = {
    configVersion: 1,
    restartToken: null,
    certificatesOnline: false,
    nextMonitor: null,
    clusterUid: 'uid-1',
    cluster: 'default/orders',
    member,
    replicaSet: 'orders',
    role: 'replicaSet',
    product: 'mongod',
    version: spec.version,
    run: 'running',
    hostname: member,
    port: spec.port,
    bindIp: [],
    tlsMode: 'requireTLS',
    cacheGb: 0.25,
    userConfig: { setParameter: { shutdownTimeoutMillisForSignaledShutdown: 100 } },
    limits: { memoryBytes: null, cpus: null },
    caPem: bench.ca.caPem,
    certificatePem: secret(leaf.keyPem + leaf.certificatePem),
    keyFile: secret('dGhlIGtleSBvZiB0aGUgY2x1c3Rlcg=='),
    monitor: login('clusterMonitor'),
    hash: 'h1',
    ...change,
  };
  let step = 0;
  const ref = { host: 'host-a', serviceId };
  return {
    serviceId,
    volumeId,
    port: spec.port,
    snapshot,
    facts: () => bench.agents.member(ref)?.facts ?? null,
    publish: (more, proviso) => bench.agents.publish(ref, { ...snapshot, ...more }, FENCE, proviso),
    run: (command) =>
      bench.agents.run(ref, command, { timeoutMillis: 20_000, stepId: `${member} ${step++}`, fence: FENCE }),
  };
}

export const configOf = (...members: readonly TestMember[]) => ({
  _id: 'orders',
  version: 1,
  members: members.map((member, index) => ({
    _id: index,
    host: `localhost:${member.port}`,
    priority: index === 0 ? 2 : 1,
    votes: 1 as const,
  })),
});

/** What reconciliation brings to a new set. */
export const systemUsers = (): Extract<MemberCommand, { kind: 'reconcileUsers' }> => ({
  kind: 'reconcileUsers',
  as: login('userAdmin'),
  roles: [
    {
      role: 'explainRole',
      db: 'admin',
      privileges: [{ resource: { db: '', collection: '' }, actions: ['listCollections', 'collStats'] }],
      roles: [],
    },
  ],
  users: [
    {
      user: 'userAdmin',
      db: 'admin',
      password: secret(PASSWORDS.userAdmin),
      roles: [{ role: 'userAdminAnyDatabase', db: 'admin' }],
    },
    {
      user: 'clusterMonitor',
      db: 'admin',
      password: secret(PASSWORDS.clusterMonitor),
      roles: [
        { role: 'clusterMonitor', db: 'admin' },
        { role: 'explainRole', db: 'admin' },
        { role: 'read', db: 'local' },
      ],
    },
  ],
  drop: [],
});
