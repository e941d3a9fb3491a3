/** Those who declare: they write documents as the API would store them, and sometimes put their hands into a database. */
import { BelayError } from '../base/error.ts';
import { secret } from '../base/secret.ts';
import { unsupportedFeatures } from '../clusters/index.ts';
import type { StoredObject } from '../engine/ports.ts';
import { type MongoDBSpec, validate } from '../model/index.ts';
import { CLUSTER_FINALIZER, namedSecret, USER_FINALIZER } from '../provider/index.ts';
import { CANCEL_ANNOTATION, OPERATION_FINALIZER, OPERATION_TARGET_LABEL } from '../provider/names.ts';
import type { Edit } from './edits.ts';
import type { ClusterPlan } from './scenario.ts';
import { CANARY, WorldSecrets } from './secrets.ts';
import { BAD_OPTION } from './supervisor.ts';
import { clusterNamed, membersOf, objectsOf } from './truth.ts';
import type { World } from './world.ts';

type Loose = Readonly<Record<string, unknown>>;
const key = (kind: string, name: string) => ({ kind, namespace: 'default', name });

/** See the head of this file. */
export class People {
  /** Times at which somebody wanted something, by cluster name: what the engine may answer with effects. */
  readonly wishes: { readonly at: number; readonly cluster: string; readonly what: string }[] = [];
  readonly #world: World;
  readonly #secrets: WorldSecrets;
  readonly #changed: () => void;
  #passwords = 0;

  /** `changed`: called whenever something that was wanted is in the store. */
  constructor(world: World, changed: () => void) {
    this.#world = world;
    this.#changed = changed;
    this.#secrets = new WorldSecrets(world.people, world.installation.makes);
  }

  create(plan: ClusterPlan): void {
    this.#try(plan.name, 'create', async () => {
      await this.#put('MongoDB', plan.name, clusterSpec(plan));
    });
  }

  edit(edit: Edit, plan: ClusterPlan): void {
    const what = edit.kind === 'operation' ? edit.type : edit.kind;
    this.#try(edit.cluster, what, () => this.#edit(edit, plan));
  }

  #edit(edit: Edit, plan: ClusterPlan): Promise<unknown> {
    const { cluster } = edit;
    switch (edit.kind) {
      case 'user':
        return this.#user(cluster, edit.user, ['readWrite']);
      case 'userRoles':
        return this.#user(cluster, edit.user, ['read', 'dbAdmin']);
      case 'password':
        return this.#password(edit.user);
      case 'dropUser':
        return this.#world.people.update(key('MongoDBUser', `${cluster}-${edit.user}`), { delete: true });
      case 'suspend':
        return this.#change(cluster, { suspend: edit.on });
      case 'pause':
        return this.#change(cluster, { paused: edit.on });
      case 'delete':
        return this.#world.people.update(key('MongoDB', cluster), { delete: true });
      case 'recreate':
        return this.#put('MongoDB', cluster, clusterSpec(plan));
      case 'roles':
        return this.#changeSecurity(cluster, {
          roles: [{ role: edit.name, db: 'admin', privileges: [], roles: [] }],
        });
      case 'members':
        return this.#change(cluster, { members: edit.members });
      case 'config':
        return this.#change(cluster, configOf(plan, config(edit.value, edit.bad)));
      case 'tls':
        return this.#changeSecurity(cluster, { tls: { mode: edit.mode } });
      case 'memory':
        return this.#change(cluster, { resources: { memory: `${edit.gib}Gi` } });
      case 'version':
        return this.#change(cluster, { version: edit.version });
      case 'memberConfig':
        return this.#change(cluster, { memberConfig: edit.rows.map((row) => TUNED[row]) });
      case 'counts':
        return this.#change(cluster, { [COUNTS[edit.part]]: edit.to });
      case 'routerConfig':
        return this.#change(cluster, { mongos: { additionalMongodConfig: config(edit.value, edit.bad) } });
      case 'changeType':
        return this.#put('MongoDB', cluster, clusterSpec({ ...plan, sharded: null, members: 3 }));
      case 'operation':
        return this.#ask(cluster, edit);
      case 'cancel':
        return this.#world.people.update(key('Operation', edit.name), {
          annotations: { [CANCEL_ANNOTATION]: 'somebody' },
        });
    }
  }

  /** As the API stores it: it cannot know whether it will be refused. */
  async #ask(name: string, edit: Extract<Edit, { kind: 'operation' }>): Promise<void> {
    const object = clusterNamed(this.#world, name);
    if (object === null || object.metadata.deletionTimestamp !== null) throw new BelayError('NotFound', name);
    const spec = { mongodbResourceRef: { name }, ...this.#operation(object.metadata.uid, edit) };
    const document = { apiVersion: 'belay.dev/v1', kind: 'Operation', metadata: { name: edit.name }, spec };
    const checked = validate(document, { readOnlyKinds: true });
    if (checked.object === undefined) throw new BelayError('Invalid', `${checked.problems[0]?.message}`);
    await this.#world.people.create({
      kind: 'Operation',
      namespace: 'default',
      name: edit.name,
      spec: checked.object.spec,
      labels: { [OPERATION_TARGET_LABEL]: name },
      finalizers: [OPERATION_FINALIZER],
    });
  }

  #operation(uid: string, { type, which }: Extract<Edit, { kind: 'operation' }>): Loose {
    const names = membersOf(this.#world, uid).flatMap(({ record }) => record.owner?.member ?? []);
    const member = names.sort()[which % Math.max(1, names.length)] ?? 'nobody-0';
    switch (type) {
      case 'RestartOne':
        return { type: 'Restart', members: [member] };
      case 'Replace':
      case 'Move':
        return { type, member };
      default:
        return { type };
    }
  }

  async #user(cluster: string, user: string, roles: readonly string[]): Promise<void> {
    await this.#secretOf(user);
    await this.#put('MongoDBUser', `${cluster}-${user}`, {
      username: user,
      db: 'admin',
      mongodbResourceRef: { name: cluster },
      roles: roles.map((name) => ({ name, db: 'shop' })),
      ...(user.startsWith('app') ? { passwordSecretKeyRef: { name: `pw-${user}`, key: 'password' } } : {}),
    });
  }

  async #secretOf(user: string): Promise<void> {
    const name = namedSecret('default', `pw-${user}`, 'password');
    if ((await this.#secrets.get(name)) === null) await this.#password(user);
  }

  async #password(user: string): Promise<void> {
    const name = namedSecret('default', `pw-${user}`, 'password');
    this.#passwords++;
    await this.#secrets.put(name, secret(`${CANARY}by-hand-${this.#passwords}`));
    for (const plane of this.#world.planes) if (plane.alive) plane.provider?.secretChanged(name);
  }

  async #change(cluster: string, change: Loose): Promise<void> {
    const object = clusterNamed(this.#world, cluster);
    if (object === null) throw new BelayError('NotFound', cluster);
    await this.#put('MongoDB', cluster, { ...(object.spec as Loose), ...change });
  }

  async #changeSecurity(cluster: string, change: Loose): Promise<void> {
    const object = clusterNamed(this.#world, cluster);
    const security = (object?.spec as MongoDBSpec | undefined)?.security;
    await this.#change(cluster, { security: { ...security, ...change } });
  }

  /** Through the checks of admission: what is refused there is not the engine's business. */
  async #put(kind: 'MongoDB' | 'MongoDBUser', name: string, spec: Loose): Promise<StoredObject | null> {
    const { people } = this.#world;
    const current = objectsOf(this.#world, kind).find((object) => object.metadata.name === name) ?? null;
    const document = { apiVersion: 'belay.dev/v1', kind, metadata: { name }, spec };
    const checked = validate(document, current === null ? {} : { current });
    const admitted = checked.object?.spec;
    const unsupported = kind === 'MongoDB' && admitted ? unsupportedFeatures(admitted as MongoDBSpec) : [];
    const problem = checked.problems[0] ?? unsupported[0];
    if (problem !== undefined || admitted === undefined) {
      throw new BelayError('Invalid', `${problem?.path}: ${problem?.message}`);
    }
    const finalizers = [kind === 'MongoDB' ? CLUSTER_FINALIZER : USER_FINALIZER];
    if (current === null)
      return people.create({ kind, namespace: 'default', name, finalizers, spec: admitted });
    if (current.metadata.deletionTimestamp !== null) throw new BelayError('BeingDeleted', name);
    return people.update(key(kind, name), { spec: admitted });
  }

  #try(cluster: string, what: string, act: () => Promise<unknown>): void {
    const { timeline } = this.#world;
    timeline.promised = true;
    act().then(
      () => {
        this.wishes.push({ at: timeline.now, cluster, what });
        this.#changed();
        this.#world.tell('people', `${what} ${cluster}`);
      },
      (failure: unknown) =>
        this.#world.tell('people', `${what} ${cluster} refused: ${(failure as Error).message}`),
    );
  }
}

function clusterSpec(plan: ClusterPlan): Loose {
  const { sharded } = plan;
  return {
    ...(sharded === null
      ? { type: 'ReplicaSet', members: plan.members }
      : {
          type: 'ShardedCluster',
          shardCount: sharded.shards,
          mongodsPerShardCount: sharded.perShard,
          configServerCount: sharded.configServers,
          mongosCount: sharded.routers,
        }),
    version: plan.version,
    security: { tls: { mode: plan.tlsMode } },
    ...(plan.hosts === null ? {} : { placement: { hosts: plan.hosts } }),
    ...(plan.interruption ? { maintenance: { interruption: 'Allowed' } } : {}),
  };
}

/** A sharded cluster has one for each of its parts. */
const configOf = ({ sharded }: ClusterPlan, own: Loose): Loose =>
  sharded === null
    ? { additionalMongodConfig: own }
    : { shard: { additionalMongodConfig: own }, configSrv: { additionalMongodConfig: own } };

const COUNTS = {
  shards: 'shardCount',
  shardMembers: 'mongodsPerShardCount',
  configServers: 'configServerCount',
  routers: 'mongosCount',
} as const;

/** Admission refuses what leaves no member that could be primary, or an even number of votes where it minds. */
const TUNED: Readonly<Record<Extract<Edit, { kind: 'memberConfig' }>['rows'][number], Loose>> = {
  usual: {},
  preferred: { priority: 5 },
  hidden: { hidden: true, priority: 0 },
  voteless: { votes: 0, priority: 0 },
  tagged: { tags: { zone: 'a' } },
  last: { priority: 0 },
};

const config = (value: number, bad: boolean): Loose => ({
  operationProfiling: { slowOpThresholdMs: 100 * value },
  ...(bad ? { setParameter: { [BAD_OPTION]: 1 } } : {}),
});
