/**
 * One seed from beginning to end. First everything that can go wrong may; safety is watched all the while. Then faults and
 * wishes end, and every cluster must become what its document says or say truthfully why not, within a bounded time (L1) and
 * with a bounded number of effects (L2); after that nothing may happen any more.
 */
import { MINUTE, type Millis, SECOND } from '../base/units.ts';
import type { StoredObject } from '../engine/ports.ts';
import type { Operation } from '../model/index.ts';
import { hasEnded } from '../provider/operationObjects.ts';
import { Balancer } from './balancer.ts';
import { CHECKERS } from './checkers/index.ts';
import { Client } from './client.ts';
import { drawScenario } from './draw.ts';
import { excused } from './excuses.ts';
import { squat } from './foreign.ts';
import { Maintainers } from './maintainers.ts';
import { type Mutation, NO_MUTATION } from './mutation.ts';
import type { Violation } from './narrator.ts';
import { People } from './people.ts';
import { Reached } from './reached.ts';
import type { Scenario, ScenarioKind } from './scenario.ts';
import type { Stage } from './stage.ts';
import { Storm } from './storm.ts';
import { BEGIN } from './timeline.ts';
import {
  clusterNamed,
  membersOf,
  objectsOf,
  setsOf,
  someoneLags,
  specOf,
  statusOf,
  userSetOf,
} from './truth.ts';
import { differs } from './wanted.ts';
import { World } from './world.ts';

/** L1: a few failures make waits of minutes; a rolling change of seven members takes three or four. */
const CONVERGENCE: Millis = 12 * MINUTE;
/** A sharded cluster has more members, and goes through each phase of a change one by one. */
const CONVERGENCE_SHARDED: Millis = 20 * MINUTE;
/** What a person changed last is noticed by a pass at the latest; a password first by its 30 s cache. */
const SETTLING: Millis = 33 * SECOND;
const SETTLING_PASSWORDS: Millis = 65 * SECOND;
/** Then nothing may happen for a while: in every fourth seed every cluster is looked at once in it, in some several times. */
const SHORT_QUIET: Millis = 8 * SECOND;
const QUIET: Millis = 32 * SECOND;
const QUIET_EVERY = 4;
const LONG_QUIET: Millis = 150 * SECOND;
const LONG_EVERY = 16;
/** A block is the last word only when nothing goes on beside it: no restart or removal is silent for that long. */
const STANDSTILL: Millis = 20 * SECOND;
/** L4: an edit of one cluster is carried out within this, whatever another one does. */
const NEIGHBOUR: Millis = 8 * SECOND;
/** Quiet is looked at so often. */
const LOOK: Millis = 2 * SECOND;
/** L2: effects per member and wish that are enough for anything. */
const EFFECTS_EACH = 16;

export interface RunResult {
  readonly seed: number;
  readonly digest: string;
  readonly violation: Violation | null;
  readonly lines: readonly string[];
  readonly scenario: Scenario;
  /** Virtual time used and events run. */
  readonly millis: Millis;
  readonly events: number;
  /** Reasons of blocks that stood at the end. */
  readonly blocks: readonly string[];
  /** Words of the product's closed sets that were met, `Reason Creating` for example. */
  readonly words: readonly string[];
}

export interface RunOptions {
  readonly mutation?: Mutation;
  readonly kind?: ScenarioKind;
  /** The only invariant that is watched for. */
  readonly heed?: string;
}

/** Plays one seed. Failures of the world itself (not of an invariant) are thrown. */
export async function runSeed(seed: number, options: RunOptions = {}): Promise<RunResult> {
  const scenario = drawScenario(seed, options.kind);
  const run = new Run(scenario, options.mutation ?? NO_MUTATION);
  run.stage.world.narrator.heed = options.heed ?? null;
  await run.play();
  const { narrator, timeline } = run.stage.world;
  return {
    seed,
    digest: narrator.digest,
    violation: narrator.violation,
    lines: narrator.lines,
    scenario,
    millis: timeline.now - BEGIN,
    events: timeline.count,
    blocks: run.blocks,
    words: [...run.reached.words].sort(),
  };
}

class Run {
  readonly stage: Stage;
  blocks: readonly string[] = [];
  readonly reached = new Reached();
  readonly #maintainers: Maintainers;
  #effects = 0;
  #effectAt: Millis = BEGIN;
  /** When anybody changed anything for the last time, hands in databases included. */
  #lastWish: Millis = BEGIN;

  constructor(scenario: Scenario, mutation: Mutation) {
    const { seed, hosts, planes, rates } = scenario;
    const storms: Storm[] = [];
    const weather = (world: World): Storm => {
      const storm = new Storm(world, rates);
      storms.push(storm);
      return storm;
    };
    const world = new World({ seed, hosts, planes, mutation, weather });
    const clients = new Map(scenario.clusters.map(({ name }) => [name, new Client(world, name)]));
    // What is taken back at once was wanted all the same.
    for (const { name, sharded } of scenario.clusters)
      if (sharded !== null) world.balancers.set(name, new Balancer(world, name));
    const people = new People(world, () => this.#noteWishes());
    this.stage = {
      world,
      scenario,
      people,
      storm: storms[0] as Storm,
      clients,
      troubled: new Map(),
      downAsked: new Map(),
    };
    for (const checker of Object.values(CHECKERS)) world.watch(checker(this.stage));
    world.watch(this.reached);
    world.watch({
      deed: () => {
        this.#effects++;
        this.#effectAt = world.timeline.now;
      },
      second: () => this.#noteWishes(),
      committed: (plane, batch) => this.stage.storm.intended(plane, batch),
    });
    this.#maintainers = new Maintainers(world, scenario.tasks ?? []);
    this.#schedule();
  }

  get #world(): World {
    return this.stage.world;
  }

  get #convergence(): Millis {
    return this.stage.scenario.clusters.some(({ sharded }) => sharded !== null)
      ? CONVERGENCE_SHARDED
      : CONVERGENCE;
  }

  #schedule(): void {
    const { scenario, people, storm, troubled } = this.stage;
    const { timeline, planes } = this.#world;
    for (const cluster of scenario.clusters) {
      if (cluster.squatted) squat(this.#world, cluster.name);
      timeline.after(cluster.createdAt, () => people.create(cluster));
    }
    for (const [index, plane] of planes.entries()) timeline.after(10 + index * 700, () => plane.start());
    for (const edit of scenario.edits) {
      const plan = scenario.clusters.find(({ name }) => name === edit.cluster);
      if (plan !== undefined) timeline.after(edit.at, () => people.edit(edit, plan));
    }
    for (const fault of scenario.faults) {
      timeline.after(fault.at, () => {
        storm.begin(fault);
        const millis = 'millis' in fault ? fault.millis : 0;
        for (const host of hostsOf(fault)) troubled.set(host, timeline.now + millis);
      });
    }
  }

  #noteWishes(): void {
    const { downAsked } = this.stage;
    const { now } = this.#world.timeline;
    for (const object of objectsOf(this.#world, 'MongoDB')) {
      const { uid, deletionTimestamp } = object.metadata;
      if (deletionTimestamp !== null || specOf(object).suspend) downAsked.set(uid, now);
    }
    for (const operation of objectsOf(this.#world, 'Operation')) {
      const { type, mongodbResourceRef } = operation.spec as Operation['spec'];
      const uid = clusterNamed(this.#world, mongodbResourceRef.name)?.metadata.uid;
      if (type === 'Suspend' && uid !== undefined && !hasEnded(operation)) downAsked.set(uid, now);
    }
  }

  async play(): Promise<void> {
    const { scenario, storm } = this.stage;
    const { timeline, narrator } = this.#world;
    const going = (): boolean => narrator.violation === null;
    await timeline.run(BEGIN + scenario.calmAt, going);
    if (!going()) return;
    storm.end();
    this.#maintainers.end();
    this.#lastWish = timeline.now;
    // A process that stands still does so for a while yet.
    await timeline.run(
      Math.max(timeline.now, ...this.#world.planes.map((plane) => plane.stalledUntil)),
      going,
    );
    const settled = await this.#settle(timeline.now + this.#convergence, going);
    if (!going()) return;
    if (!settled)
      return narrator.fail(
        'L1',
        `not converged ${this.#convergence / MINUTE} minutes after calm: ${this.#unsettled()}`,
      );
    // What the storm held up on its way is in nobody's way any more.
    await timeline.run(
      Math.max(timeline.now, ...this.#world.planes.map((plane) => plane.channel?.arrivedAt ?? 0)),
      going,
    );
    await this.#sickNeighbour(going);
    if (!going()) return;
    await this.#staysQuiet(going);
    if (!going()) return;
    this.blocks = objectsOf(this.#world, 'MongoDB').flatMap((object) => blockOf(object) ?? []);
    this.#world.end();
  }

  // ── L1 ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  /** True when all is settled at two looks in a row. */
  async #settle(until: Millis, going: () => boolean): Promise<boolean> {
    const { timeline } = this.#world;
    const before = this.#effects;
    let good = 0;
    while (timeline.now < until && going()) {
      await timeline.run(timeline.now + 2 * SECOND, going);
      this.#checkEffects(this.#effects - before);
      good = this.#unsettled() === null ? good + 1 : 0;
      if (good >= 2) return true;
    }
    return false;
  }

  /** What is not settled yet; null: everything is. */
  #unsettled(): string | null {
    for (const object of objectsOf(this.#world, 'MongoDB')) {
      const why = this.#unsettledCluster(object);
      if (why !== null) return `${object.metadata.name} ${why}`;
    }
    return this.#unsettledOperation() ?? this.#maintainers.left;
  }

  /** Operations end, unless their cluster is blocked or at rest: then they wait and say for what. */
  #unsettledOperation(): string | null {
    for (const operation of objectsOf(this.#world, 'Operation')) {
      if (hasEnded(operation)) continue;
      const { mongodbResourceRef } = operation.spec as Operation['spec'];
      const cluster = clusterNamed(this.#world, mongodbResourceRef.name);
      const status = operation.status as Operation['status'];
      if (cluster === null) return `operation ${operation.metadata.name} has no cluster any more`;
      const rests = statusOf(cluster)?.phase === 'Suspended' || blockOf(cluster) !== null;
      if (rests && status?.message) continue;
      return `operation ${operation.metadata.name} is ${status?.state}: ${status?.message}`;
    }
    return null;
  }

  #unsettledCluster(object: StoredObject): string | null {
    const { uid, generation } = object.metadata;
    const status = statusOf(object);
    if (status === null) return 'has no status';
    const shown = `${status.phase}: ${status.message}`;
    if (status.observedGeneration !== generation) return `has a status of an older generation (${shown})`;
    const block = blockOf(object);
    if (block !== null && !excused(this.stage, object, block))
      return `is blocked by ${block} without cause (${shown})`;
    if (block !== null)
      return this.#world.timeline.now - this.#effectAt < STANDSTILL
        ? `is blocked by ${block} and still at work (${shown})`
        : null;
    const spec = specOf(object);
    if (spec.paused && object.metadata.deletionTimestamp === null)
      return `is paused and does not say so (${shown})`;
    if (status.phase === 'Suspended') {
      const left = membersOf(this.#world, uid);
      return left.length === 0 ? null : `is called Suspended with ${left.length} runtimes`;
    }
    if (status.phase !== 'Ready') return `is ${shown}`;
    const why = differs(this.stage, object);
    return why === null ? null : `is called Ready though ${why}`;
  }

  // ── L4 ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  /** L4: while one cluster's members answer nothing, what is wanted of another is done as if it were alone. */
  async #sickNeighbour(going: () => boolean): Promise<void> {
    const { people, scenario } = this.stage;
    const world = this.#world;
    const good = objectsOf(world, 'MongoDB').filter((object) => statusOf(object)?.phase === 'Ready');
    const [sick, well] = good.filter(({ metadata }) => metadata.deletionTimestamp === null);
    if (this.stage.storm.meddled.has('changeAdmin')) return;
    if (sick === undefined || well === undefined || good.some((object) => blockOf(object) !== null)) return;
    world.hanging = sick.metadata.uid;
    world.tell('NEIGHBOUR', `${sick.metadata.name} answers nothing`);
    for (const { metadata } of [sick, well]) {
      const plan = scenario.clusters.find(({ name }) => name === metadata.name);
      const edit = { kind: 'roles', name: 'neighbour', at: 0, cluster: metadata.name } as const;
      if (plan !== undefined) people.edit(edit, plan);
    }
    await world.timeline.run(world.timeline.now + NEIGHBOUR, going);
    const now = clusterNamed(world, well.metadata.name);
    const status = now === null ? null : statusOf(now);
    // A member may lag meanwhile: what counts is that the edit is in the database and was told.
    // Of all its members: an election may be held this very moment.
    const done = membersOf(world, userSetOf(well)).some(({ mongod }) =>
      [...(mongod?.data.roles.values() ?? [])].some(({ role }) => role === 'neighbour'),
    );
    if (!done || status?.observedGeneration !== now?.metadata.generation)
      world.narrator.fail('L4', `${well.metadata.name} waits for ${sick.metadata.name}: ${status?.message}`);
    world.hanging = null;
    world.tell('NEIGHBOUR', `${sick.metadata.name} answers again`);
    if (going() && !(await this.#settle(world.timeline.now + this.#convergence, going)) && going())
      world.narrator.fail('L1', `not converged after a neighbour was well again: ${this.#unsettled()}`);
  }

  // ── L2 ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  #checkEffects(effects: number): void {
    const { scenario, people } = this.stage;
    const members = scenario.clusters.reduce((sum, { members: count }) => sum + count, 0);
    const limit = EFFECTS_EACH * (members + 7) * (1 + people.wishes.length);
    if (effects > limit)
      this.#world.narrator.fail(
        'L2',
        `${effects} effects after calm, more than ${limit} for ${members} members`,
      );
  }

  /** Settled means settled: no effects, no intents, no other phase or condition. A lag may still be told. */
  async #staysQuiet(going: () => boolean): Promise<void> {
    const { timeline, narrator, installation } = this.#world;
    await timeline.run(Math.max(timeline.now, this.#settledAt()), going);
    // A block may have stood for a moment only, while its cure was on its way.
    const again = this.#unsettled() !== null;
    if (again && !(await this.#settle(timeline.now + this.#convergence, going)) && going())
      return narrator.fail('L1', `not settled for long: ${this.#unsettled()}`);
    if (!going()) return;
    const [effects, journal, shown] = [this.#effects, installation.disk.journal.size, this.#shown()];
    // What is blocked is still tried again, with growing waits, and not called blocked while it is.
    const trying = (): boolean =>
      objectsOf(this.#world, 'MongoDB').some((object) => blockOf(object) !== null);
    const tried = trying();
    // A member that truly lags is told of: its source of operations may have ended a moment ago.
    let lagged = false;
    for (const until = timeline.now + quietOf(this.stage.scenario.seed); timeline.now < until && going(); ) {
      await timeline.run(Math.min(until, timeline.now + LOOK), going);
      lagged ||= objectsOf(this.#world, 'MongoDB').some((object) =>
        setsOf(object).some((set) => someoneLags(this.#world, set)),
      );
    }
    if (!going()) return;
    if (tried || trying()) return;
    if (this.#effects !== effects)
      narrator.fail('L2', `${this.#effects - effects} effects after everything had settled`);
    if (installation.disk.journal.size !== journal)
      narrator.fail('L2', 'intents after everything had settled');
    if (this.#shown() !== shown && !lagged)
      narrator.fail('L2', `a status changed after everything had settled: ${shown} → ${this.#shown()}`);
  }

  #settledAt(): Millis {
    const { people, storm } = this.stage;
    const passwords = storm.meddled.size > 0 || people.wishes.some(({ what }) => what === 'password');
    const noticed = this.#lastWish + (passwords ? SETTLING_PASSWORDS : SETTLING);
    const { faults } = this.stage.scenario;
    // Where a control plane's clock went back, it renews that much later.
    const back = faults.reduce(
      (sum, fault) => sum + (fault.kind === 'clockJump' ? Math.max(0, -fault.by) : 0),
      0,
    );
    const renewed = faults.map((fault) =>
      fault.kind === 'shortCertificates' ? BEGIN + fault.at + fault.millis + fault.life + back + SETTLING : 0,
    );
    return Math.max(noticed, ...renewed);
  }

  #shown(): string {
    const objects = objectsOf(this.#world, 'MongoDB').map((object) => {
      const status = statusOf(object);
      const conditions = status?.conditions.map(({ type, status: is, reason }) => `${type}=${is} ${reason}`);
      return `${object.metadata.name} ${object.metadata.generation} ${status?.phase} ${conditions?.join(', ')}`;
    });
    return objects.join('; ');
  }
}

function quietOf(seed: number): Millis {
  if (seed % LONG_EVERY === 0) return LONG_QUIET;
  return seed % QUIET_EVERY === 0 ? QUIET : SHORT_QUIET;
}

/** The reason of the block that stands in a status of the current generation. */
function blockOf(object: StoredObject): string | null {
  const condition = statusOf(object)?.conditions.find((c) => c.type === 'Blocked');
  return condition?.status === 'True' ? condition.reason : null;
}

function hostsOf(fault: Scenario['faults'][number]): readonly string[] {
  if ('host' in fault) return [fault.host];
  return fault.kind === 'cutHosts' ? [fault.a, fault.b] : [];
}
