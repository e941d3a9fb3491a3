/** A whole control plane without faces: real engine, planner, provider, secrets and CA over a store in memory and a fleet of pretended hosts. */
import { randomBytes } from 'node:crypto';
import { DAY } from '../../base/units.ts';
import { Engine } from '../../engine/engine.ts';
import type {
  CertificateAuthority,
  CertificateRequest,
  IssuedCertificate,
  Log,
  Platform,
  Secrets,
  Store,
  StoredObject,
} from '../../engine/ports.ts';
import { silentLog } from '../../engine/testing/bench.ts';
import { ManualClock } from '../../engine/testing/clock.ts';
import { FakeFleet } from '../../engine/testing/fleet.ts';
import { type MongoDBStatus, validate } from '../../model/index.ts';
import { HostsPlatform } from '../../platforms/hosts/platform.ts';
import { openCertificateAuthority } from '../../security/ca.ts';
import { masterKeyFrom } from '../../security/seal.ts';
import { openSecrets } from '../../security/secrets.ts';
import { openMemoryStore } from '../../store/memory.ts';
import { addProvider, PROVIDER_KINDS, type RunningProvider } from '../setup.ts';

const MASTER_KEY = masterKeyFrom(randomBytes(32));

export interface Rig {
  readonly clock: ManualClock;
  readonly store: Store;
  readonly fleet: FakeFleet;
  /** Starts a control plane; `over` is the store as that process sees it. */
  start(holder: string, over?: Store, log?: Log): Promise<Running>;
}
export interface Running {
  readonly engine: Engine;
  readonly secrets: Secrets;
  readonly provider: RunningProvider;
  readonly platform: Platform;
  close(): Promise<void>;
}

export function makeRig(hosts: readonly string[] = ['db1', 'db2', 'db3']): Rig {
  const clock = new ManualClock();
  const store = openMemoryStore({ clock });
  const fleet = new FakeFleet(clock, hosts);
  const start = async (holder: string, over: Store = store, log = silentLog): Promise<Running> => {
    const secrets = await openSecrets(over, MASTER_KEY);
    const ca = await sharedAuthority(clock, secrets);
    const engine = new Engine({ store: over, clock, log, holder, kinds: PROVIDER_KINDS });
    const platform = new HostsPlatform(fleet);
    const common = { engine, store: over, secrets, ca, agents: fleet, platform, clock, log };
    const provider = addProvider({ ...common, installation: 'test', agentVersion: '0' });
    await engine.open();
    const close = async (): Promise<void> => {
      provider.close();
      await engine.close();
    };
    return { engine, secrets, provider, platform, close };
  };
  return { clock, store, fleet, start };
}

/** One authority for all rigs, and equal requests get equal certificates: making keys is what takes time here. */
let authority: Promise<CertificateAuthority> | null = null;
const issued = new Map<string, Promise<IssuedCertificate>>();
/** How often each was asked for in one rig: the next is another one. */
const asked = new WeakMap<ManualClock, Map<string, number>>();
const START = new ManualClock().now();

async function sharedAuthority(clock: ManualClock, secrets: Secrets): Promise<CertificateAuthority> {
  authority ??= openCertificateAuthority(secrets, clock, { organization: 'Belay' });
  const real = await authority;
  const counts = asked.get(clock) ?? new Map<string, number>();
  asked.set(clock, counts);
  const issue = (request: CertificateRequest): Promise<IssuedCertificate> => {
    const { organizationalUnit: _, ...words } = request;
    const count = counts.get(JSON.stringify(words)) ?? 0;
    counts.set(JSON.stringify(words), count + 1);
    const later = clock.now() - START > DAY ? clock.now() - START : 0;
    const key = JSON.stringify([words, count, later]);
    const certificate =
      issued.get(key) ??
      real.issue({ ...request, validForMillis: (request.validForMillis ?? 365 * DAY) + later });
    issued.set(key, certificate);
    return clock.track(certificate);
  };
  return {
    caPem: real.caPem,
    authority: real.authority,
    refresh: async () => {},
    issuerOf: (pem) => real.issuerOf(pem),
    sign: (csrPem, request) => real.sign(csrPem, request),
    issue,
  };
}

export const clusterKey = (name: string) => ({ kind: 'MongoDB', namespace: 'default', name });
export const userKey = (name: string) => ({ kind: 'MongoDBUser', namespace: 'default', name });

/** Creates an object from a document's spec, admitted as the server does it. */
export async function create(
  store: Store,
  kind: 'MongoDB' | 'MongoDBUser',
  name: string,
  spec: Readonly<Record<string, unknown>>,
): Promise<StoredObject> {
  return store.create({ kind, namespace: 'default', name, spec: admitted(kind, name, spec) });
}

/** The spec as it is stored: checked, with defaults. */
export function admitted(
  kind: 'MongoDB' | 'MongoDBUser',
  name: string,
  spec: Readonly<Record<string, unknown>>,
): unknown {
  const checked = validate({ apiVersion: 'belay.dev/v1', kind, metadata: { name }, spec });
  if (checked.object === undefined) throw new Error(JSON.stringify(checked.problems));
  return checked.object.spec;
}

export const replicaSet = (change: Readonly<Record<string, unknown>> = {}) => ({
  type: 'ReplicaSet',
  version: '8.0.32-14',
  members: 3,
  ...change,
});

export async function statusOf(store: Store, name: string): Promise<MongoDBStatus | null> {
  return ((await store.get(clusterKey(name)))?.status ?? null) as MongoDBStatus | null;
}

export const conditionOf = (status: MongoDBStatus | null, type: string) =>
  status?.conditions.find((condition) => condition.type === type);

/** Spec of a user of the cluster `orders`. */
export const appUser = (change: Readonly<Record<string, unknown>> = {}) => ({
  username: 'app',
  mongodbResourceRef: { name: 'orders' },
  roles: [{ name: 'readWrite', db: 'shop' }],
  ...change,
});
