/**
 * The played fleet's world: hosts, clusters of three members spread over them, one user each. Everything follows from the
 * size and the uids the store gave, so that the control plane's record and the played agents tell the same story.
 */
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { type MemberItem, makeSigningRequest } from '../src/channel/index.ts';
import { running, seen } from '../src/clusters/fixtures.ts';
import { type Desired, desiredFrom, type State, userHash } from '../src/clusters/index.ts';
import type { Store, StoredObject } from '../src/engine/ports.ts';
import { type MongoDBSpec, validate } from '../src/model/index.ts';
import { Credentials } from '../src/provider/credentials.ts';
import { CLUSTER_FINALIZER, USER_FINALIZER } from '../src/provider/names.ts';
import { UserSecrets } from '../src/provider/userObjects.ts';
import { openCertificateAuthority } from '../src/security/ca.ts';
import { readKeyFile } from '../src/security/master-key.ts';
import { openSecrets } from '../src/security/secrets.ts';
import { systemClock } from '../src/server/clock.ts';
import { masterKeyFile, storeUrlOf } from '../src/server/masterKey.ts';
import { openStore } from '../src/store/open.ts';
import { replicaSet, user } from '../test/support/documents.ts';

export interface FleetSize {
  readonly hosts: number;
  readonly clusters: number;
}

export const MEMBERS = 3;
/** Objects made at once: the store syncs once for many. */
const AT_ONCE = 128;

/** What the player needs to be the agents of all hosts. */
export interface FleetFile {
  readonly url: string;
  readonly size: FleetSize;
  readonly version: string;
  readonly caPem: string;
  readonly keyPem: string;
  readonly certificates: readonly string[];
  /** Uid of each cluster by its number. */
  readonly uids: readonly string[];
}

export const hostName = (index: number): string => `host-${String(index).padStart(4, '0')}`;
export const clusterName = (index: number): string => `c${String(index).padStart(5, '0')}`;
/** Members of a cluster are on different hosts, and every host carries as many. */
export const hostOf = ({ hosts }: FleetSize, cluster: number, member: number): number =>
  (cluster * MEMBERS + member) % hosts;

/** Documents as admission would store them. */
function admitted(document: unknown): unknown {
  const { object, problems } = validate(document);
  if (object === undefined) throw new Error(JSON.stringify(problems));
  return object.spec;
}

export const userDocument = (
  cluster: number,
  roles: readonly string[],
): Readonly<Record<string, unknown>> => {
  const document = user(clusterName(cluster)) as { spec: Record<string, unknown> };
  return { ...document, spec: { ...document.spec, roles: roles.map((name) => ({ name, db: 'admin' })) } };
};

// ── one cluster ────────────────────────────────────────────────────────────────────────────────────────────────────

/** The record of a running cluster: placed, initiated, with all its users. */
export function recordOf(size: FleetSize, cluster: number, want: Desired): State {
  const state = running(want);
  const members = state.members.map((member, i) => {
    const host = hostOf(size, cluster, i);
    const port = 27_017 + Math.floor((cluster * MEMBERS + i) / size.hosts);
    const ids = { serviceId: `svc-${member.name}`, volumeId: `vol-${member.name}` };
    return { ...member, ...ids, host: hostName(host), address: `${hostName(host)}.example.com`, port };
  });
  return { ...state, members };
}

/** What agents report of the members of a running cluster; the first one is primary. */
export function itemsOf(state: State, want: Desired): readonly MemberItem[] {
  const { members } = seen(state, want, ['PRIMARY', 'SECONDARY', 'SECONDARY'], {
    setName: want.name,
    primary: `${state.members[0]?.address}:${state.members[0]?.port}`,
  });
  return members.map((member, i) => {
    const { serviceId, volumeId } = state.members[i] as State['members'][number];
    if (member.facts === null || serviceId === null || volumeId === null) throw new Error('not placed');
    return {
      clusterUid: state.uid,
      facts: {
        ...member.facts,
        serviceId,
        process: { kind: 'running', pid: 4_000 + i, since: 1_700_000_000_000, adopted: false },
        certificate: { notAfter: 4_000_000_000_000, fingerprint: 'sha256:00' },
        volume: { id: volumeId, totalBytes: 1e12, freeBytes: 5e11 },
      },
    };
  });
}

export const desiredOf = (uid: string, index: number, spec: unknown): Desired =>
  desiredFrom({
    metadata: { uid, namespace: 'default', name: clusterName(index), generation: 1, deletionTimestamp: null },
    spec: spec as MongoDBSpec,
  });

export const clusterSpec = (): unknown => admitted(replicaSet('c'));

// ── the store ──────────────────────────────────────────────────────────────────────────────────────────────────────

/**
 * Puts the fleet into the store of a control plane that is stopped: objects, records, and the secrets that a change of a
 * user needs. Identities of the agents are signed by its authority.
 */
export async function fillStore(dataDir: string, size: FleetSize, url: string): Promise<FleetFile> {
  const store = await openStore(storeUrlOf(dataDir), { clock: systemClock });
  try {
    const secrets = await openSecrets(store, await readKeyFile(masterKeyFile(dataDir)));
    const ca = await openCertificateAuthority(secrets, systemClock, { organization: 'Belay' });
    const spec = clusterSpec();
    const parts = {
      store,
      spec,
      userSpec: admitted(userDocument(0, ['read'])) as Record<string, unknown>,
      credentials: new Credentials(secrets, ca),
      userSecrets: new UserSecrets(secrets),
    };
    await each(size.hosts, async (i) => {
      const hostSpec = { unschedulable: false, failureDomains: {} };
      await store.create({ kind: 'Host', namespace: 'default', name: hostName(i), spec: hostSpec });
    });
    const uids = await each(size.clusters, (i) => fillCluster(parts, size, i));
    const { keyPem, csrPem } = await makeSigningRequest('fleet');
    const certificates = await each(size.hosts, async (i) => {
      const subject = { commonName: hostName(i), organizationalUnit: 'agents', names: [] };
      return (await ca.sign(csrPem, { ...subject, usages: ['client'] })).certificatePem;
    });
    const version = (spec as { version: string }).version;
    return { url, size, version, caPem: ca.caPem, keyPem, certificates, uids };
  } finally {
    await store.close();
  }
}

interface Parts {
  readonly store: Store;
  readonly spec: unknown;
  readonly userSpec: Readonly<Record<string, unknown>>;
  readonly credentials: Credentials;
  readonly userSecrets: UserSecrets;
}

async function fillCluster(parts: Parts, size: FleetSize, index: number): Promise<string> {
  const { store, spec } = parts;
  const key = { namespace: 'default', name: clusterName(index) };
  const object = await store.create({ kind: 'MongoDB', ...key, spec, finalizers: [CLUSTER_FINALIZER] });
  const { uid } = object.metadata;
  const want = desiredOf(uid, index, spec);
  const state = recordOf(size, index, want);
  const known = await fillUser(parts, index, want, state);
  await parts.credentials.ensure(uid);
  await store.commit({ state: { uid, version: 0, value: { ...state, users: [known] } } });
  return uid;
}

async function fillUser(
  { store, userSpec, userSecrets }: Parts,
  index: number,
  want: Desired,
  state: State,
): Promise<State['users'][number]> {
  const object: StoredObject = await store.create({
    kind: 'MongoDBUser',
    namespace: 'default',
    name: `${clusterName(index)}-app`,
    spec: { ...userSpec, mongodbResourceRef: { name: clusterName(index) } },
    finalizers: [USER_FINALIZER],
  });
  const declared = await userSecrets.desired(object, true);
  await userSecrets.publishConnection(object, want, state);
  const { uid, username, db } = declared;
  return { uid, username, db, hash: userHash(declared, { state, desired: want }) };
}

/** Calls for 0 to count - 1, many at once, results in order. */
async function each<T>(count: number, call: (index: number) => Promise<T>): Promise<readonly T[]> {
  const results: T[] = new Array(count);
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < count) {
      const index = next++;
      results[index] = await call(index);
    }
  };
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, count) }, worker));
  return results;
}

/** Where the player reads it. */
export function writeFleet(dir: string, fleet: FleetFile): string {
  const file = path.join(dir, 'fleet.json');
  writeFileSync(file, JSON.stringify(fleet), { mode: 0o600 });
  return file;
}
