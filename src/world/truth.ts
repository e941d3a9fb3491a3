/** Questions to the true world, for checkers and people: never to what a control plane believes. */
import type { StoredObject } from '../engine/ports.ts';
import type { MongoDBSpec, MongoDBStatus } from '../model/index.ts';
import { compareConfigs, type ReplicaSetConfig, voters } from '../simulator/member/config.ts';
import type { Machine, ServiceRecord } from './machine.ts';
import type { Mongod } from './mongod.ts';
import type { World } from './world.ts';

/** The lag up to which a secondary counts as healthy (S1). */
const LAG_SECONDS = 10;

export interface TrueMember {
  readonly machine: Machine;
  readonly record: ServiceRecord;
  /** Null: no process. */
  readonly mongod: Mongod | null;
}

/** All members that exist anywhere for a cluster, by its uid. */
export function membersOf(world: World, uid: string): readonly TrueMember[] {
  const found: TrueMember[] = [];
  for (const machine of world.machines.values()) {
    for (const record of machine.disk.services.values()) {
      if (record.owner?.clusterUid !== uid) continue;
      found.push({ machine, record, mongod: machine.runs.get(record.id)?.mongod ?? null });
    }
  }
  return found;
}

/** All processes of each cluster, by its uid. */
export function runningByCluster(world: World): ReadonlyMap<string, readonly Mongod[]> {
  const found = new Map<string, Mongod[]>();
  for (const { disk, runs } of world.machines.values()) {
    for (const [id, { mongod }] of runs) {
      const uid = disk.services.get(id)?.owner?.clusterUid;
      if (uid === undefined) continue;
      const list = found.get(uid);
      if (list === undefined) found.set(uid, [mongod]);
      else list.push(mongod);
    }
  }
  return found;
}

/** The newest configuration any member of the cluster has. */
export function configOf(world: World, uid: string): ReplicaSetConfig | null {
  let newest: ReplicaSetConfig | null = null;
  for (const { mongod } of membersOf(world, uid)) {
    const config = mongod?.machine.config ?? mongod?.data.config ?? null;
    if (config !== null && (newest === null || compareConfigs(config, newest) > 0)) newest = config;
  }
  return newest;
}

/** The writable primary of the newest term. */
export function primaryOf(world: World, uid: string): Mongod | null {
  let best: Mongod | null = null;
  for (const { mongod } of membersOf(world, uid)) {
    if (mongod?.writable && (best === null || mongod.machine.term > best.machine.term)) best = mongod;
  }
  return best;
}

/** PRIMARY, or SECONDARY within the lag limit; without a primary nobody's lag is known, and unknown is not healthy. */
export function isHealthy(mongod: Mongod | null, primary: Mongod | null): boolean {
  if (mongod === null || mongod.phase !== 'listening') return false;
  const { state } = mongod;
  if (state === 'PRIMARY') return true;
  if (state !== 'SECONDARY' || primary === null) return false;
  const ahead = primary.machine.applied.op?.s ?? 0;
  return ahead - (mongod.machine.applied.op?.s ?? 0) <= LAG_SECONDS;
}

export interface TrueQuorum {
  readonly voters: readonly string[];
  readonly healthy: readonly string[];
  readonly needed: number;
}

/** Voters of the newest configuration, and who of them is healthy. Null: no set was initiated. */
export function quorumOf(world: World, uid: string): TrueQuorum | null {
  const config = configOf(world, uid);
  if (config === null) return null;
  const primary = primaryOf(world, uid);
  const hosts = voters(config).map((member) => member.host);
  const healthy = hosts.filter((host) => isHealthy(world.listening.get(host) ?? null, primary));
  return { voters: hosts, healthy, needed: Math.floor(hosts.length / 2) + 1 };
}

// ── objects ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** All objects of a kind as they are in the store now. */
export const objectsOf = (world: World, kind: string): readonly StoredObject[] =>
  [...world.installation.disk.objects.values()].filter((object) => object.kind === kind);

export const clusterNamed = (world: World, name: string): StoredObject | null =>
  objectsOf(world, 'MongoDB').find((object) => object.metadata.name === name) ?? null;

export const clusterByUid = (world: World, uid: string): StoredObject | null =>
  objectsOf(world, 'MongoDB').find((object) => object.metadata.uid === uid) ?? null;

export const specOf = (object: StoredObject): MongoDBSpec => object.spec as MongoDBSpec;
export const statusOf = (object: StoredObject): MongoDBStatus | null => object.status as MongoDBStatus | null;

/** How many members the document asks for; a Standalone is a set of one. */
export function membersWanted(object: StoredObject): number {
  const spec = specOf(object);
  return spec.type === 'ReplicaSet' ? spec.members : 1;
}

/** Somebody can use the set: it has users. Before that nothing can be hurt. */
export const isInUse = (world: World, uid: string): boolean =>
  membersOf(world, uid).some(({ mongod }) => (mongod?.data.users.size ?? 0) > 0);
