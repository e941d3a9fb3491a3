/** What an agent does through its router, and what it reads there: as the real one, looking first and saying what it does not know. */

import { refused } from '../agent/commands/refusals.ts';
import { type Millis, SECOND } from '../base/units.ts';
import {
  type CommandOutcome,
  type DatabaseFacts,
  type Login,
  type MemberCommand,
  type MemberSnapshot,
  ROUTER_UNREACHED,
  type RouterFacts,
} from '../clusters/index.ts';
import { majorOf } from '../model/index.ts';
import { shardsOf } from './chunks.ts';
import { byServer, type CommandContext, done, login, noServer, runCommand, unknown } from './commands.ts';
import type { Answer, Mongod } from './mongod.ts';
import { primaryAmong, type Router } from './router.ts';

/** How long config servers look for a set's primary. */
const SELECT: Millis = 15 * SECOND;
const SELECT_AGAIN: Millis = 500;
const WRITE_LIMIT: Millis = 60 * SECOND;

export interface RouterContext extends Omit<CommandContext, 'mongod'> {
  readonly router: Router;
  /** All members that listen, by `address:port`. */
  readonly listening: ReadonlyMap<string, Mongod>;
}
type Done = (outcome: CommandOutcome) => void;
type Of<K extends MemberCommand['kind']> = Extract<MemberCommand, { kind: K }>;

/** Runs one command; calls at most once: a router that stands still gives no answer. */
export function runRouterCommand(context: RouterContext, command: MemberCommand, end: Done): void {
  const { router } = context;
  if (router.stuck) return;
  if (router.phase !== 'listening') {
    end(noServer());
    return;
  }
  const answered: Done = (outcome) => {
    if (router.stuck) return;
    end(router.phase === 'listening' ? outcome : unknown('the connection broke'));
  };
  const primary = router.configPrimary();
  const problem = primary === null ? NOT_THERE : 'as' in command ? login(primary, command.as) : null;
  if (primary === null || problem !== null) {
    answered(problem ?? NOT_THERE);
    return;
  }
  switch (command.kind) {
    case 'verifyLogin':
    case 'reconcileUsers':
      runCommand({ ...context, mongod: primary }, command, answered);
      return;
    case 'addShard':
      addShard(context, primary, command.shard, answered);
      return;
    case 'setBalancer':
      setBalancer(context, primary, command, answered);
      return;
    case 'setFcv':
      setFcv(context, primary, command.version, answered);
      return;
    default:
      answered(refused(59, 'CommandNotFound', `no such command: ${command.kind}`));
  }
}

const NOT_THERE = refused(
  133,
  'FailedToSatisfyReadPreference',
  'Could not find host matching read preference { mode: "primary" } for the config servers',
);

const written = (answer: Answer, then: () => void, end: Done): void => {
  if (answer.kind === 'done') then();
  else end(answer.kind === 'lost' ? unknown('the connection broke') : byServer(answer.refusal));
};

// ── shards ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** The config servers look for the set themselves; they go on with it when nobody waits any more. */
function addShard(context: RouterContext, config: Mongod, shard: string, end: Done): void {
  const { timeline, listening } = context;
  const [name = '', seeds = ''] = shard.split('/');
  const until = timeline.now + SELECT;
  const tryOnce = (): void => {
    if (shardsOf(config.data, config.machine.committed.op).has(name)) end(done({ already: true }));
    else if (!config.writable) end(refused(10107, 'NotWritablePrimary', 'not primary'));
    else if (config.data.shards.has(name)) confirm(context, config, end);
    else {
      const primary = primaryAmong(setBehind(listening, seeds.split(','), (m) => config.canUse(m)));
      if (primary !== null) register(context, config, { name, host: shard, primary }, end);
      else if (timeline.now < until) timeline.after(SELECT_AGAIN, tryOnce);
      else end(refused(133, 'FailedToSatisfyReadPreference', `Could not find a primary of ${shard}`));
    }
  };
  tryOnce();
}

/** It is written down already: what is left is that a majority has it. */
const confirm = ({ timeline }: RouterContext, config: Mongod, end: Done): void =>
  config.write({ kind: 'noop' }, timeline.now + WRITE_LIMIT, (answer) =>
    written(answer, () => end(done({ already: true })), end),
  );

/** The shard takes the cluster's compatibility version, then the config servers write it down. */
function register(
  { timeline }: RouterContext,
  config: Mongod,
  { name, host, primary }: { readonly name: string; readonly host: string; readonly primary: Mongod },
  end: Done,
): void {
  const { fcv } = config.data;
  const own = majorOf(primary.options.version) ?? 0;
  const needed = majorOf(fcv ?? '') ?? 0;
  if (fcv === null || (own !== needed && own !== needed + 1)) {
    end(refused(188, 'IncompatibleServerVersion', `${name} does not fit version ${fcv}`));
    return;
  }
  const deadline = timeline.now + WRITE_LIMIT;
  const note = (): void =>
    config.write({ kind: 'shard', name, host }, deadline, (answer) =>
      written(answer, () => end(done({ shard: name })), end),
    );
  if (primary.data.fcv === fcv) note();
  else primary.write({ kind: 'fcv', version: fcv }, deadline, (answer) => written(answer, note, end));
}

/** All members of a set that are found through some of them. */
function setBehind(
  listening: ReadonlyMap<string, Mongod>,
  seeds: readonly string[],
  uses: (member: Mongod) => boolean,
): readonly Mongod[] {
  const members = new Set<Mongod>();
  const visit = (host: string): void => {
    const found = listening.get(host);
    if (found === undefined || members.has(found) || !uses(found)) return;
    members.add(found);
    for (const row of found.machine.config?.members ?? []) visit(row.host);
  };
  for (const seed of seeds) visit(seed);
  return [...members];
}

// ── balancer ───────────────────────────────────────────────────────────────────────────────────────────────────────

function setBalancer(
  { timeline }: RouterContext,
  config: Mongod,
  { enabled, maxTimeMillis, autoMerge = enabled }: Of<'setBalancer'>,
  end: Done,
): void {
  const { balancerOn: wasEnabled, autoMerge: autoMergeWas } = config.data;
  const was = { wasEnabled, autoMergeWas };
  const rest = (): void => {
    let told = false;
    const once = (outcome: CommandOutcome): void => {
      if (!told) end(outcome);
      told = true;
    };
    const { moving } = config;
    if (enabled || moving === null) once(done(was));
    else {
      moving.waiting.push(() => once(done(was)));
      timeline.after(maxTimeMillis, () =>
        once(refused(50, 'MaxTimeMSExpired', 'operation exceeded time limit')),
      );
    }
  };
  // The server switches the AutoMerger along; what it is to be instead is written after that.
  const write = (merges: boolean, then: () => void): void => {
    if (config.data.balancerOn === enabled && config.data.autoMerge === merges) then();
    else
      config.write(
        { kind: 'balancer', on: enabled, autoMerge: merges },
        timeline.now + WRITE_LIMIT,
        (answer) => written(answer, then, end),
      );
  };
  write(enabled, () => write(autoMerge, rest));
}

// ── compatibility version ──────────────────────────────────────────────────────────────────────────────────────────

/** Config servers first, then every shard; it may stop half way and is asked for again. */
function setFcv({ router, timeline }: RouterContext, config: Mongod, version: string, end: Done): void {
  const shards = [...config.data.shards.keys()].map((name) => router.shardPrimary(name));
  if (shards.includes(null)) {
    end(refused(133, 'FailedToSatisfyReadPreference', 'Could not find the primary of a shard'));
    return;
  }
  const todo = [config, ...(shards as readonly Mongod[])].filter(({ data }) => data.fcv !== version);
  const next = (): void => {
    const member = todo.shift();
    if (member === undefined) end(done({ version }));
    else
      member.write({ kind: 'fcv', version }, timeline.now + WRITE_LIMIT, (answer) =>
        written(answer, next, end),
      );
  };
  next();
}

// ── facts ──────────────────────────────────────────────────────────────────────────────────────────────────────────

type Reachable = Extract<DatabaseFacts, { kind: 'reachable' }>;

/** One look at a router that listens and answers. */
export function readRouter(router: Router, snapshot: MemberSnapshot): Reachable {
  const primary = router.configPrimary();
  const logins = [snapshot.monitor, ...(snapshot.nextMonitor === null ? [] : [snapshot.nextMonitor])];
  const fits = (as: Login): boolean => primary !== null && login(primary, as) === null;
  const authenticated = primary === null ? null : logins.some(fits);
  return {
    kind: 'reachable',
    binaryVersion: router.options.version,
    featureCompatibilityVersion: null,
    initiated: null,
    setName: null,
    replicaSetId: null,
    state: null,
    term: null,
    writablePrimary: false,
    primary: null,
    peers: [],
    config: null,
    initialSyncPercent: null,
    authenticated,
    usersExist: null,
    router: primary !== null && authenticated === true ? told(primary) : ROUTER_UNREACHED,
  };
}

/** `listShards` is read with majority: what may be rolled back with one config server is not told. */
function told({ data, machine, moving }: Mongod): RouterFacts {
  const listed = shardsOf(data, machine.committed.op);
  const shards = [...listed].map(([name, host]) => ({ name, host, draining: false }));
  return {
    configReachable: true,
    shards: shards.sort((a, b) => a.name.localeCompare(b.name)),
    balancer: data.balancerOn ? 'full' : 'off',
    balancing: moving !== null,
    autoMerge: data.autoMerge,
  };
}

/** Nothing is going on that the next look should hurry for. */
export const isRouterQuiet = ({ router }: Reachable): boolean =>
  router?.configReachable === true && !router.balancing;
