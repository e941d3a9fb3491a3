/** Whether the true world is what a document asks for: what "converged" means, seen from outside (L1, S15). */
import type { StoredObject } from '../engine/ports.ts';
import type { MongoDBUser } from '../model/index.ts';
import type { Stage } from './stage.ts';
import { isHealthy, membersOf, membersWanted, objectsOf, primaryOf, specOf, statusOf } from './truth.ts';
import type { World } from './world.ts';

/** What of a cluster that is called Ready is not as its document says; null: all of it is. */
export function differs({ world, storm }: Stage, object: StoredObject): string | null {
  const { uid } = object.metadata;
  const primary = primaryOf(world, uid);
  const members = membersOf(world, uid);
  const healthy = members.filter(({ mongod }) => isHealthy(mongod, primary)).length;
  const wanted = membersWanted(object);
  if (primary === null || healthy !== wanted) return `${healthy} of ${wanted} members are healthy`;
  if (members.length !== wanted) return `${members.length} runtimes exist for ${wanted} members`;
  const rows = primary.machine.config?.members ?? [];
  if (rows.length !== wanted) return `its configuration has ${rows.length} members`;
  for (const { mongod, machine, record } of members) {
    const what =
      mongod === null
        ? null
        : unlike(object, mongod.options, machine.disk.snapshots.get(record.id)?.userConfig);
    if (what !== null) return `${record.hostname} ${what}`;
  }
  // A user that a person dropped is not missed: only system users are looked after (A5.4).
  return storm.meddled.has('dropAppUser') ? null : userDiffers(world, object, primary.data.users);
}

function unlike(
  object: StoredObject,
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
  const [is, ought] = [threshold(config), threshold(spec.additionalMongodConfig)];
  return is === ought ? null : `has slowOpThresholdMs ${is}, not ${ought}`;
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
