/** Whether the true world is what a document asks for: what "converged" means, seen from outside (L1, S15). */
import type { StoredObject } from '../engine/ports.ts';
import type { MongoDBUser } from '../model/index.ts';
import type { Stage } from './stage.ts';
import {
  configOf,
  groupOf,
  healthyIn,
  membersOf,
  membersWantedIn,
  objectsOf,
  type Part,
  partsOf,
  primaryOf,
  routersOf,
  setsOf,
  specOf,
  statusOf,
  userSetOf,
} from './truth.ts';
import type { World } from './world.ts';

/** What of a cluster that is called Ready is not as its document says; null: all of it is. */
export function differs({ world, storm }: Stage, object: StoredObject): string | null {
  for (const part of partsOf(object)) {
    const why = partDiffers(world, object, part);
    if (why !== null) return why;
  }
  const sharded = specOf(object).type === 'ShardedCluster' ? shardsDiffer(world, object) : null;
  if (sharded !== null) return sharded;
  // A user that a person dropped is not missed: only system users are looked after (A5.4).
  const users = primaryOf(world, userSetOf(object))?.data.users ?? new Map();
  return storm.meddled.has('dropAppUser') ? null : userDiffers(world, object, users);
}

function volumesOf(world: World, part: Part): number {
  const [uid, group] = part.split('/');
  return [...world.machines.values()]
    .flatMap(({ disk }) => [...disk.volumes.values()])
    .filter(
      ({ owner }) =>
        owner !== null &&
        owner.clusterUid === uid &&
        (group === undefined || groupOf(owner.member) === group),
    ).length;
}

function partDiffers(world: World, object: StoredObject, part: Part): string | null {
  const members = membersOf(world, part);
  const [healthy, wanted] = [healthyIn(world, part), membersWantedIn(object, part)];
  const name = part.split('/')[1];
  const isSet = part !== routersOf(object);
  if (healthy !== wanted || (isSet && primaryOf(world, part) === null))
    return `${healthy} of ${wanted} members of ${name} are healthy`;
  if (members.length !== wanted) return `${members.length} runtimes of ${name} exist for ${wanted} members`;
  const volumes = volumesOf(world, part);
  if (volumes > wanted) return `${volumes} volumes of ${name} exist for ${wanted} members`;
  const rows = primaryOf(world, part)?.machine.config?.members.length ?? 0;
  if (isSet && rows !== wanted) return `the configuration of ${name} has ${rows} members`;
  for (const { mongod, router, machine, record } of members) {
    const process = mongod ?? router;
    const config = machine.disk.snapshots.get(record.id)?.userConfig;
    const what = process === null ? null : unlike(object, part, process.options, config);
    if (what !== null) return `${record.hostname} ${what}`;
  }
  return null;
}

function unlike(
  object: StoredObject,
  part: Part,
  runs: { readonly version: string; readonly tlsMode: string },
  config: Readonly<Record<string, unknown>> | undefined,
): string | null {
  const spec = specOf(object);
  if (runs.version !== spec.version) return `runs ${runs.version}, not ${spec.version}`;
  if (runs.tlsMode !== spec.security.tls.mode)
    return `has TLS ${runs.tlsMode}, not ${spec.security.tls.mode}`;
  const threshold = (from: unknown): unknown =>
    (from as { operationProfiling?: { slowOpThresholdMs?: unknown } } | undefined)?.operationProfiling
      ?.slowOpThresholdMs;
  const [is, ought] = [threshold(config), threshold(configWanted(object, part))];
  return is === ought ? null : `has slowOpThresholdMs ${is}, not ${ought}`;
}

function configWanted(object: StoredObject, part: Part): Readonly<Record<string, unknown>> {
  const spec = specOf(object);
  if (spec.type !== 'ShardedCluster') return spec.additionalMongodConfig;
  const own =
    part === routersOf(object) ? spec.mongos : part === userSetOf(object) ? spec.configSrv : spec.shard;
  return own.additionalMongodConfig;
}

/** A5.3, A6.5: every shard is registered, and shares the cluster's compatibility version; routers know the config servers. */
function shardsDiffer(world: World, object: StoredObject): string | null {
  const config = primaryOf(world, userSetOf(object));
  const known = [...(config?.data.shards.keys() ?? [])].sort();
  const shards = setsOf(object).slice(1);
  const wanted = shards.map((shard) => shard.split('/')[1] as string).sort();
  if (known.join() !== wanted.join()) return `its shards are ${known.join(', ')}, not ${wanted.join(', ')}`;
  const apart = shards.find((shard) => primaryOf(world, shard)?.data.fcv !== config?.data.fcv);
  if (apart !== undefined) return `${apart} has another compatibility version than ${config?.data.fcv}`;
  const servers = configOf(world, userSetOf(object))?.members.map(({ host }) => host) ?? [];
  for (const { router, record } of membersOf(world, routersOf(object))) {
    const told = (router?.options.configServers.split('/')[1] ?? '').split(',').sort().join();
    if (told !== servers.toSorted().join())
      return `${record.hostname} was started with ${told}, not ${servers}`;
  }
  return null;
}

/** Users that are called Ready are in the database with their roles; those whose documents are gone are not. */
function userDiffers(
  world: World,
  cluster: StoredObject,
  users: ReadonlyMap<string, { readonly roles: readonly { readonly role: string }[] }>,
): string | null {
  const named = new Set<string>();
  for (const user of objectsOf(world, 'MongoDBUser')) {
    const spec = user.spec as MongoDBUser['spec'];
    if (spec.mongodbResourceRef.name !== cluster.metadata.name) continue;
    const name = `${spec.db}.${spec.username}`;
    named.add(name);
    if ((statusOf(user) as { readonly phase?: string } | null)?.phase !== 'Ready') continue;
    const roles = (list: readonly string[]): string => [...list].sort().join();
    const has = roles(users.get(name)?.roles.map(({ role }) => role) ?? []);
    const ought = roles(spec.roles.map((role) => role.name));
    if (has !== ought) return `user ${name} is called Ready and has roles ${has || 'none'}, not ${ought}`;
  }
  const left = [...users.keys()].find((name) => /^admin\.(app|late)/.test(name) && !named.has(name));
  return left === undefined ? null : `user ${left} is still there`;
}
