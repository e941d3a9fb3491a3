/** Plays scenarios of the public layer (`maintenance`) against anything that answers as the maintenance service does. */
import { SECOND } from '../../base/units.ts';
import { same, sorted } from './internal.ts';
import type { Json, Scenario, World } from './scenario.ts';

/** One action as it is asked for: indexes of nodes, names of hosts, `pdisk:<node>:<disk>`. */
export interface WantedAction {
  readonly kind: 'node' | 'host' | 'pdisk';
  readonly value: number | string;
  readonly type: 'lock' | 'drain' | 'cordon';
  readonly seconds: number;
}

export interface WantedTask {
  readonly uid: string;
  readonly mode: string;
  readonly groups: readonly (readonly WantedAction[])[];
  readonly priority: number;
  readonly dryRun: boolean;
  readonly maxInFlight: number;
  readonly description: string;
}

/** Names without prefix, as in the scenarios; objects as the scenario names them. */
export interface SeenState {
  readonly status: string;
  readonly reason: string;
  readonly object: unknown;
  readonly id: string | null;
  readonly details: string;
}
export interface SeenReply {
  readonly status: string;
  readonly states: readonly SeenState[];
  readonly issues: readonly string[];
  readonly retryAfter: number | null;
  readonly createTime: number | null;
  readonly lastRefreshTime: number | null;
}

/** What a scenario drives: the desk itself, or a server through a client. */
export interface TaskDriver {
  create(task: WantedTask, user: string): Promise<SeenReply>;
  refresh(uid: string): Promise<SeenReply>;
  get(uid: string): Promise<SeenReply>;
  list(user: string): Promise<{ readonly status: string; readonly uids: readonly string[] }>;
  complete(
    ids: readonly { readonly task: string; readonly id: string }[],
  ): Promise<{ readonly status: string }>;
  drop(uid: string): Promise<SeenReply>;
  /** The cluster or its settings have changed. */
  changed(): Promise<void> | void;
  /** How far the drain of an action is; null: done. */
  drain(id: string, percent: number | null): Promise<void> | void;
  reachable(yes: boolean): void;
}

/** Everything that went otherwise than the scenario says; empty: it passes. */
export async function playPublic(
  scenario: Scenario,
  world: World,
  driver: TaskDriver,
): Promise<readonly string[]> {
  const player = new Player(world, driver);
  const problems: string[] = [];
  for (const [i, step] of scenario.steps.entries()) {
    const found = await player.step(step);
    problems.push(...found.map((problem) => `step ${i + 1} (${Object.keys(step)[0]}): ${problem}`));
  }
  return problems;
}

class Player {
  readonly #world: World;
  readonly #driver: TaskDriver;
  /** Actions performed in the last reply, and the task they belong to. */
  #performed: readonly { readonly task: string; readonly id: string }[] = [];
  #times = new Map<string, { create: number | null; refresh: number | null }>();

  constructor(world: World, driver: TaskDriver) {
    this.#world = world;
    this.#driver = driver;
  }

  async step(step: Json): Promise<readonly string[]> {
    const expect = (step['expect'] ?? {}) as Json;
    const [what = ''] = Object.keys(step);
    switch (what) {
      case 'create':
        return this.#create(
          wantedTask(step['create'] as Json),
          expect,
          String((step['create'] as Json)['user'] ?? step['user'] ?? 'test-user'),
        );
      case 'create_drain':
      case 'create_cordon':
        return this.#create(
          oneNode(step[what] as Json, what === 'create_drain' ? 'drain' : 'cordon'),
          expect,
          'test-user',
        );
      case 'refresh':
        return this.#seen(
          String(step['refresh']),
          'refresh',
          await this.#driver.refresh(String(step['refresh'])),
          expect,
        );
      case 'get':
        return this.#get(step, expect);
      case 'complete':
        return this.#complete(step['complete'] as readonly (number | string)[], expect);
      case 'drop':
        return this.#drop(step, expect);
      case 'list': {
        const seen = await this.#driver.list(String(step['list'] ?? ''));
        return [
          ...same('status', expect['status'], seen.status),
          ...same('uids', sorted(expect['uids']), sorted(seen.uids)),
        ];
      }
      case 'set':
        this.#world.set(step['set'] as Json);
        await this.#driver.changed();
        return [];
      case 'advance':
        this.#world.now += Number(step['advance']) * SECOND;
        return [];
      case 'note':
        return [];
      default:
        return [`nothing is known of ${what}`];
    }
  }

  async #create(task: WantedTask, expect: Json, user: string): Promise<readonly string[]> {
    return this.#seen(task.uid, 'create', await this.#driver.create(task, user), expect);
  }

  async #get(step: Json, expect: Json): Promise<readonly string[]> {
    const uid = String(step['get']);
    const [first] = this.#performed;
    if (first !== undefined && step['when'] === 'drain running') await this.#driver.drain(first.id, 50);
    if (first !== undefined && String(step['when']).startsWith('drain finished'))
      await this.#driver.drain(first.id, null);
    return this.#seen(uid, 'get', await this.#driver.get(uid), expect);
  }

  async #complete(refs: readonly (number | string)[], expect: Json): Promise<readonly string[]> {
    const ids = refs.map((ref) =>
      typeof ref === 'number'
        ? (this.#performed[ref] ?? { task: '', id: `nothing at ${ref}` })
        : { task: '', id: ref },
    );
    return same('status', expect['status'], (await this.#driver.complete(ids)).status);
  }

  async #drop(step: Json, expect: Json): Promise<readonly string[]> {
    const away = step['when'] === 'hive not reachable';
    if (away) this.#driver.reachable(false);
    const seen = await this.#driver.drop(String(step['drop']));
    if (away) this.#driver.reachable(true);
    return same('status', expect['status'], seen.status);
  }

  #seen(uid: string, how: 'create' | 'refresh' | 'get', reply: SeenReply, expect: Json): readonly string[] {
    if (reply.status === 'SUCCESS') {
      this.#performed = reply.states.flatMap((s) => (s.id === null ? [] : [{ task: uid, id: s.id }]));
    }
    const of = (status: string): number => reply.states.filter((s) => s.status === status).length;
    const states = reply.states.map((s) => [s.status, s.reason, s.object]);
    return [
      ...same('status', expect['status'], reply.status),
      ...same('performed', expect['performed'], of('PERFORMED') + of('IN_PROGRESS')),
      ...same('pending', expect['pending'], of('PENDING')),
      ...same('states', sorted(expect['states']), sorted(states)),
      ...same('retry_after', expect['retry_after'], this.#retryIn(reply)),
      ...this.#timesOf(uid, how, reply),
      ...unexplained(reply, how),
    ].map((problem) => (reply.issues.length === 0 ? problem : `${problem}; ${reply.issues.join('; ')}`));
  }

  /** Seconds from now; null: nobody has to ask again. */
  #retryIn({ retryAfter }: SeenReply): number | null {
    return retryAfter === null ? null : Math.round((retryAfter - this.#world.now) / SECOND);
  }

  /** create_time is set once, last_refresh_time moves with create and refresh and with nothing else. */
  #timesOf(uid: string, how: 'create' | 'refresh' | 'get', reply: SeenReply): readonly string[] {
    if (reply.status !== 'SUCCESS' || reply.createTime === null) return [];
    const known = this.#times.get(uid);
    const refresh = how === 'get' ? (known?.refresh ?? reply.lastRefreshTime) : this.#world.now;
    const create = how === 'create' ? this.#world.now : (known?.create ?? reply.createTime);
    this.#times.set(uid, { create, refresh });
    return [
      ...same('create_time', create, reply.createTime),
      ...same('last_refresh_time', refresh, reply.lastRefreshTime),
    ];
  }
}

/** C1.2: whatever was looked at and waits says why. */
function unexplained(reply: SeenReply, how: string): readonly string[] {
  if (how === 'get') return [];
  return reply.states
    .filter((s) => s.status === 'PENDING' && s.reason !== 'UNSPECIFIED' && s.details === '')
    .map((s) => `${JSON.stringify(s.object)} waits for ${s.reason} without a word`);
}

function wantedTask(create: Json): WantedTask {
  return {
    uid: String(create['uid'] ?? ''),
    mode: String(create['mode'] ?? 'STRONG'),
    priority: Number(create['priority'] ?? 0),
    dryRun: create['dry_run'] === true || create['dry'] === true,
    maxInFlight: Number(create['max_inflight'] ?? 0),
    description: String(create['description'] ?? ''),
    groups: (create['groups'] as readonly (readonly Json[])[]).map((group) => group.map(wantedAction)),
  };
}

function wantedAction(action: Json): WantedAction {
  const seconds = Number(action['seconds'] ?? 60);
  for (const type of ['drain', 'cordon'] as const) {
    if (action[type] !== undefined) return { kind: 'node', value: action[type] as number, type, seconds };
  }
  const type = (action['type'] ?? 'lock') as WantedAction['type'];
  if (action['host'] !== undefined) return { kind: 'host', value: String(action['host']), type, seconds };
  if (action['pdisk'] !== undefined) return { kind: 'pdisk', value: String(action['pdisk']), type, seconds };
  return { kind: 'node', value: Number(action['node']), type, seconds };
}

function oneNode(what: Json, type: 'drain' | 'cordon'): WantedTask {
  const action: WantedAction = { kind: 'node', value: Number(what['node']), type, seconds: 60 };
  return { ...wantedTask({ ...what, groups: [] }), groups: [[action]] };
}
