/** Sharded clusters of real stand-in processes for tests. */
import { MongoClient, type MongoClientOptions } from 'mongodb';
import { MONGOS, type Running, type Workshop } from '../process/launch.testing.ts';

/** Elections within a second, no waiting at the end, a short search for primaries. */
const FAST = {
  BELAY_SIM_ELECTION_TIMEOUT_MILLIS: '1000',
  BELAY_SIM_HEARTBEAT_MILLIS: '200',
  BELAY_SIM_SHUTDOWN_MILLIS: '100',
};

/** Primaries are looked for so long before a command fails, unless a test is about an election. */
const SELECT = 1500;
const selecting = ({ select = SELECT }: ClusterOptions): readonly string[] => [
  '--setParameter',
  `defaultFindReplicaSetHostTimeoutMS=${select}`,
];

/** A member that can be killed and started again on the same port and folder. */
export class Member {
  readonly folder: string;
  readonly #workshop: Workshop;
  readonly #args: readonly string[];
  readonly #env: NodeJS.ProcessEnv;
  running!: Running;
  port = 0;

  constructor(workshop: Workshop, args: readonly string[], env: NodeJS.ProcessEnv) {
    this.#workshop = workshop;
    this.#args = args;
    this.#env = env;
    this.folder = workshop.folder();
  }

  async start(env: NodeJS.ProcessEnv = {}): Promise<void> {
    const args = ['--dbpath', this.folder, '--port', String(this.port), '--nounixsocket', ...this.#args];
    this.running = await this.#workshop.start(args, { ...FAST, ...this.#env, ...env });
    this.port = this.running.port;
  }

  get host(): string {
    return `127.0.0.1:${this.port}`;
  }

  kill(): Promise<number | string> {
    return this.running.stop('SIGKILL');
  }
}

/** What a set of the cluster is. */
export interface SetShape {
  readonly name: string;
  readonly role: 'configsvr' | 'shardsvr';
  readonly size: number;
}

/** A replica set of a cluster. */
export class ClusterSet {
  readonly name: string;
  readonly members: readonly Member[];
  readonly options: MongoClientOptions;

  constructor(name: string, members: readonly Member[], options: MongoClientOptions) {
    this.name = name;
    this.members = members;
    this.options = options;
  }

  get url(): string {
    return `${this.name}/${this.members.map(({ host }) => host).join(',')}`;
  }

  /** A client of one member. */
  direct(index = 0, options: MongoClientOptions = {}): MongoClient {
    return new MongoClient(`mongodb://${this.members[index]!.host}/?directConnection=true`, {
      serverSelectionTimeoutMS: 5_000,
      ...this.options,
      ...options,
    });
  }

  async initiate(configsvr: boolean): Promise<void> {
    const client = this.direct();
    const members = this.members.map(({ host }, _id) => ({ _id, host, priority: _id === 0 ? 2 : 1 }));
    const config = { _id: this.name, ...(configsvr ? { configsvr: true } : {}), members };
    await client.db('admin').command({ replSetInitiate: config });
    await until(async () => (await client.db('admin').command({ hello: 1 }))['isWritablePrimary'] === true);
    await client.close();
  }

  /** Place of the member that is primary now. */
  async primary(): Promise<number> {
    let found = -1;
    await until(async () => {
      const asked = await Promise.all(
        this.members.map(async (_, index) => {
          const client = this.direct(index, { serverSelectionTimeoutMS: 500 });
          const hello = await client
            .db('admin')
            .command({ hello: 1 })
            .catch(() => null);
          await client.close();
          return hello?.['isWritablePrimary'] === true;
        }),
      );
      found = asked.indexOf(true);
      return found >= 0;
    });
    return found;
  }
}

/** Tries again until it holds. */
export async function until(holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds())) await new Promise((resolve) => setTimeout(resolve, 25));
}

export interface ClusterOptions {
  readonly shards: readonly number[];
  readonly config?: number;
  /** Milliseconds in which a primary has to be found: more than an election takes on a busy machine, where one is to be waited for. */
  readonly select?: number;
  /** Arguments of every process. */
  readonly args?: readonly string[];
  readonly env?: NodeJS.ProcessEnv;
  /** How clients connect. */
  readonly client?: MongoClientOptions;
}

/** A whole cluster. */
export class Cluster {
  readonly config: ClusterSet;
  readonly shards: readonly ClusterSet[];
  readonly #workshop: Workshop;
  readonly #options: ClusterOptions;

  private constructor(
    workshop: Workshop,
    options: ClusterOptions,
    config: ClusterSet,
    shards: readonly ClusterSet[],
  ) {
    this.#workshop = workshop;
    this.#options = options;
    this.config = config;
    this.shards = shards;
  }

  /** Starts and initiates the sets; shards are not added yet. */
  static async start(workshop: Workshop, options: ClusterOptions): Promise<Cluster> {
    const set = async ({ name, role, size }: SetShape): Promise<ClusterSet> => {
      const args = ['--replSet', name, `--${role}`, ...selecting(options), ...(options.args ?? [])];
      const members = Array.from({ length: size }, () => new Member(workshop, args, options.env ?? {}));
      await Promise.all(members.map((member) => member.start()));
      const made = new ClusterSet(name, members, options.client ?? {});
      await made.initiate(role === 'configsvr');
      return made;
    };
    const [config, ...shards] = await Promise.all([
      set({ name: 'cfg', role: 'configsvr', size: options.config ?? 1 }),
      ...options.shards.map((size, index) => set({ name: `rs${index}`, role: 'shardsvr' as const, size })),
    ]);
    return new Cluster(workshop, options, config, shards);
  }

  /** Starts a router. */
  router(env: NodeJS.ProcessEnv = {}, args: readonly string[] = [], port = 0): Promise<Running> {
    const all = [
      ...['--configdb', this.config.url, '--port', String(port), '--nounixsocket'],
      ...selecting(this.#options),
      ...(this.#options.args ?? []),
      ...args,
    ];
    return this.#workshop.start(all, { ...FAST, ...this.#options.env, ...env }, MONGOS);
  }

  client(router: Running, options: MongoClientOptions = {}): MongoClient {
    return new MongoClient(`mongodb://127.0.0.1:${router.port}/`, { ...this.#options.client, ...options });
  }

  async addShards(client: MongoClient): Promise<void> {
    for (const { url } of this.shards) await client.db('admin').command({ addShard: url });
  }
}
