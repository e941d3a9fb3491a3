/** Questions to the true world, for checkers and people: never to what a control plane believes. */

import type { OwnerMarker } from '../clusters/index.ts';
import type { StoredObject } from '../engine/ports.ts';
import type { MongoDBSpec, MongoDBStatus } from '../model/index.ts';
import { compareConfigs, type ReplicaSetConfig, voters } from '../simulator/member/config.ts';
import { compareOpTimes } from '../simulator/member/optime.ts';
import type { Machine, Run, ServiceRecord } from './machine.ts';
import type { Mongod } from './mongod.ts';
import type { Router } from './router.ts';
import type { World } from './world.ts';

/** The lag up to which a secondary counts as healthy (S1). */
const LAG_SECONDS = 10;

export interface TrueMember {
  readonly machine: Machine;
  readonly record: ServiceRecord;
  /** Null: no process, or a router. */
  readonly mongod: Mongod | null;
  readonly router: Router | null;
}

/**
 * What a question is about: `uid` for a whole cluster, `uid/group` for one of its replica sets or its routers. Of a cluster
 * that is one replica set both mean the same.
 */
export type Part = string;

/** What a member's name begins with: its replica set's name, or the routers'. */
export const groupOf = (member: string): string => member.slice(0, member.lastIndexOf('-'));

/** Asked many thousand times in a run, so no text is made for it. */
const isIn = (group: string, member: string): boolean =>
  member.startsWith(group) && member.lastIndexOf('-') === group.length;

/** The group of a service's member. */
export const partOf = ({ clusterUid, member }: OwnerMarker): Part => `${clusterUid}/${groupOf(member)}`;

/** The database process of a run; null: there is none, or it is a router. */
export const mongodOf = (run: Run | null | undefined): Mongod | null =>
  run?.process.kind === 'mongod' ? run.process : null;

/** What was found at one moment, in which nothing changes: many ask the same. */
export class Looked {
  readonly members = new Map<Part, readonly TrueMember[]>();
  readonly quorums = new Map<Part, TrueQuorum | null>();
  readonly objects = new Map<string, readonly StoredObject[]>();
}

function once<Found>(known: Map<string, Found> | undefined, of: string, find: () => Found): Found {
  const there = known?.get(of);
  if (there !== undefined) return there;
  const found = find();
  known?.set(of, found);
  return found;
}

/** All members that exist anywhere for a part of a cluster. */
export const membersOf = (world: World, part: Part): readonly TrueMember[] =>
  once(world.looked?.members, part, () => foundNow(world, part));

function foundNow(world: World, part: Part): readonly TrueMember[] {
  const found: TrueMember[] = [];
  const slash = part.indexOf('/');
  const uid = slash < 0 ? part : part.slice(0, slash);
  const group = slash < 0 ? null : part.slice(slash + 1);
  for (const machine of world.machines.values()) {
    if (machine.disk.services.size === 0) continue;
    for (const record of machine.disk.services.values()) {
      if (record.owner?.clusterUid !== uid) continue;
      if (group !== null && !isIn(group, record.owner.member)) continue;
      const run = machine.runs.get(record.id);
      const router = run?.process.kind === 'router' ? run.process : null;
      found.push({ machine, record, mongod: mongodOf(run), router });
    }
  }
  return found;
}

/** The replica sets a cluster is to have, config servers first; one that is no more than wanted is named too. */
export function setsOf(object: StoredObject): readonly Part[] {
  const spec = specOf(object);
  const { uid, name } = object.metadata;
  if (spec.type !== 'ShardedCluster') return [`${uid}/${name}`];
  const shards = Array.from({ length: spec.shardCount }, (_, index) => `${uid}/${name}-s${index}`);
  return [`${uid}/${name}-cfg`, ...shards];
}

/** Its sets, and its routers where it has some. */
export const partsOf = (object: StoredObject): readonly Part[] =>
  specOf(object).type === 'ShardedCluster' ? [...setsOf(object), routersOf(object)] : setsOf(object);

/** The set that keeps a cluster's users: its only one, or the config servers. */
export const userSetOf = (object: StoredObject): Part => setsOf(object)[0] as Part;

/** Sets that belong to a cluster by now: a shard does once it is registered. */
export function belongingSets(world: World, object: StoredObject): readonly Part[] {
  const [first, ...shards] = setsOf(object);
  if (shards.length === 0) return [first as Part];
  const known = primaryOf(world, first as Part)?.data.shards;
  return [first as Part, ...shards.filter((shard) => known?.has(shard.split('/')[1] as string))];
}

/** Routers of a cluster; none of a replica set. */
export const routersOf = (object: StoredObject): Part =>
  `${object.metadata.uid}/${object.metadata.name}-mongos`;

/** The newest configuration any member of the set has. */
export function configOf(world: World, set: Part): ReplicaSetConfig | null {
  let newest: ReplicaSetConfig | null = null;
  for (const { machine, record, mongod } of membersOf(world, set)) {
    // One whose process has just ended has it on its disk.
    const stored = machine.disk.volumes.get(record.volumeId)?.data.config ?? null;
    const config = mongod?.machine.config ?? stored;
    if (config !== null && (newest === null || compareConfigs(config, newest) > 0)) newest = config;
  }
  return newest;
}

/** The set's writable primary of the newest term. */
export function primaryOf(world: World, set: Part): Mongod | null {
  let best: Mongod | null = null;
  for (const { mongod } of membersOf(world, set)) {
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
  return ahead - (firstMissing(mongod, primary) ?? ahead) <= LAG_SECONDS;
}

/**
 * Since when a member lacks something its primary has, in seconds; null: it has everything. Distances between times of
 * operations would count the time without a primary too, in which there was nothing to lack.
 */
function firstMissing(mongod: Mongod, primary: Mongod): number | null {
  const own = mongod.machine.applied.op;
  if (own === null) return 0;
  const { log } = primary.data;
  const has = log.findLastIndex(({ op }) => compareOpTimes(op, own) <= 0);
  return log[has + 1]?.op.s ?? null;
}

/** Whether any member of a set lags as servers tell it: by the distance of its last operation to its primary's. */
export function someoneLags(world: World, set: Part): boolean {
  const primary = primaryOf(world, set);
  const ahead = primary?.machine.applied.op?.s ?? 0;
  return (
    primary === null ||
    membersOf(world, set).some(
      ({ mongod }) => mongod !== null && ahead - (mongod.machine.applied.op?.s ?? 0) > LAG_SECONDS,
    )
  );
}

export interface TrueQuorum {
  readonly voters: readonly string[];
  readonly healthy: readonly string[];
  readonly needed: number;
}

/** Voters of the newest configuration, and who of them is healthy. Null: no set was initiated. */
export const quorumOf = (world: World, set: Part): TrueQuorum | null =>
  once(world.looked?.quorums, set, () => quorumNow(world, set));

function quorumNow(world: World, set: Part): TrueQuorum | null {
  const config = configOf(world, set);
  if (config === null) return null;
  const primary = primaryOf(world, set);
  const hosts = voters(config).map((member) => member.host);
  const healthy = hosts.filter((host) => isHealthy(world.listening.get(host) ?? null, primary));
  return { voters: hosts, healthy, needed: Math.floor(hosts.length / 2) + 1 };
}

// ── objects ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** All objects of a kind as they are in the store now. */
export const objectsOf = (world: World, kind: string): readonly StoredObject[] =>
  once(world.looked?.objects, kind, () =>
    [...world.installation.disk.objects.values()].filter((object) => object.kind === kind),
  );

export const clusterNamed = (world: World, name: string): StoredObject | null =>
  objectsOf(world, 'MongoDB').find((object) => object.metadata.name === name) ?? null;

export const clusterByUid = (world: World, uid: string): StoredObject | null =>
  objectsOf(world, 'MongoDB').find((object) => object.metadata.uid === uid) ?? null;

export const specOf = (object: StoredObject): MongoDBSpec => object.spec as MongoDBSpec;
export const statusOf = (object: StoredObject): MongoDBStatus | null => object.status as MongoDBStatus | null;

/** How many members the document asks for in all, routers included; a Standalone is a set of one. */
export function membersWanted(object: StoredObject): number {
  const spec = specOf(object);
  if (spec.type === 'ShardedCluster')
    return spec.configServerCount + spec.shardCount * spec.mongodsPerShardCount + spec.mongosCount;
  return spec.type === 'ReplicaSet' ? spec.members : 1;
}

/** How many members the document asks for in one set or for routers. */
export function membersWantedIn(object: StoredObject, part: Part): number {
  const spec = specOf(object);
  if (spec.type !== 'ShardedCluster') return membersWanted(object);
  if (part === routersOf(object)) return spec.mongosCount;
  return part === userSetOf(object) ? spec.configServerCount : spec.mongodsPerShardCount;
}

/** A set's healthy members, or the routers that answer and reach the config servers. */
export function healthyIn(world: World, part: Part): number {
  const primary = primaryOf(world, part);
  return membersOf(world, part).filter(
    ({ mongod, router }) => isHealthy(mongod, primary) || isServing(router),
  ).length;
}

/** A router that answers and reaches the config servers. */
export const isServing = (router: Router | null): boolean =>
  router !== null && router.phase === 'listening' && !router.stuck && router.configPrimary() !== null;

/** Somebody can use it: it has users. Before that nothing can be hurt. */
export const isInUse = (world: World, part: Part): boolean =>
  membersOf(world, part).some(({ mongod }) => (mongod?.data.users.size ?? 0) > 0);
