/** The weather of a scenario: its faults when they are due, its small misfortunes while they last; then calm. */
import type { Rng } from '../base/rng.ts';
import { type Millis, SECOND } from '../base/units.ts';
import type { ReplSetConfig } from '../clusters/index.ts';
import type { Batch, HostOperation, JournalIntent } from '../engine/ports.ts';
import type { Fate as RequestFate } from './channel.ts';
import type { ControlPlane } from './controlPlane.ts';
import { type Fault, type Meddling, type Rates, SHARDED_KINDS, type ShardedFault } from './faults.ts';
import { foreignVolume } from './foreign.ts';
import type { Machine } from './machine.ts';
import type { Mongod } from './mongod.ts';
import { plainConfig } from './observer.ts';
import type { Fate as OperationFate } from './operations.ts';
import { beginSharded, type Hand } from './shardedStorm.ts';
import type { StoreFate } from './storeDoor.ts';
import { clusterNamed, groupOf, membersOf, primaryOf, setsOf, userSetOf } from './truth.ts';
import type { Weather } from './weather.ts';
import type { World } from './world.ts';

const SHARDING: ReadonlySet<string> = new Set(['run addShard', 'run setBalancer']);
const SHARDING_STEPS: ReadonlySet<string> = new Set([
  'addShard',
  'stopBalancer',
  'startBalancer',
  'switchBalancer',
]);

const isSharded = (fault: Fault): fault is ShardedFault => SHARDED_KINDS.some((kind) => kind === fault.kind);

/** Steps whose intent is worth an ambush. */
const TAKES_DOWN = new Set(['reload', 'upgrade', 'stepDown', 'deleteRuntime', 'reconfig']);

/** See the head of this file. */
export class Storm implements Weather {
  /** What was done by people to databases: it excuses some blocks. */
  readonly meddled = new Set<Meddling>();
  /** When a person last changed who votes in some set. */
  votesChangedAt: Millis = Number.NEGATIVE_INFINITY;
  /** Every time a person switched a balancer behind our back. */
  readonly hands: Hand[] = [];
  calm = false;
  readonly #world: World;
  readonly #rng: Rng;
  readonly #rates: Rates;
  readonly #undo = new Set<() => void>();
  readonly #stale = new Map<string, Millis>();
  #storeMood: 'good' | 'slow' | 'failing' | 'full' = 'good';
  #copiesFail = false;

  constructor(world: World, rates: Rates) {
    this.#world = world;
    this.#rng = world.rng.fork('storm');
    this.#rates = rates;
  }

  // ── small misfortunes ──────────────────────────────────────────────────────────────────────────────────────────

  #happens(rate: number): boolean {
    return !this.calm && rate > 0 && this.#rng.chance(rate);
  }

  request(_host: string, what: string): RequestFate {
    const { requestLost, answerLost, doubled, held, shardingLost } = this.#rates;
    const lost = SHARDING.has(what) && this.#happens(shardingLost);
    return {
      requestLost: this.#happens(requestLost),
      answerLost: this.#happens(answerLost) || lost,
      doubled: this.#happens(doubled),
      heldMillis: this.#happens(held) ? this.#rng.below(20 * SECOND) : 0,
    };
  }

  store(write: boolean, batch: Batch | null): StoreFate {
    const { storeAnswerLost, storeSlow, ambushes } = this.#rates;
    const intent = batch?.intents?.find(({ step }) => TAKES_DOWN.has(step));
    if (intent !== undefined && this.#happens(ambushes)) return this.#ambush(intent);
    const slow = this.#storeMood === 'slow' || this.#happens(storeSlow);
    const failing = this.#storeMood === 'failing' ? 'before' : 'no';
    return {
      millis: slow ? 1 + this.#rng.below(this.#storeMood === 'slow' ? 3 * SECOND : 50) : 0,
      fails: write && this.#happens(storeAnswerLost) ? (this.#rng.chance(0.5) ? 'before' : 'after') : failing,
      full: this.#storeMood === 'full',
    };
  }

  /** A control plane that has written down what it is going to do to shards or balancer may die any moment after. */
  intended(name: string, { intents = [] }: Batch): void {
    if (!intents.some(({ step }) => SHARDING_STEPS.has(step))) return;
    if (!this.#happens(this.#rates.shardingDeaths)) return;
    const plane = this.#world.planes.find((one) => one.name === name);
    this.#world.timeline.after(this.#rng.below(200), () => plane?.kill('in the middle of it'));
  }

  /** Another member than the one that is to go down dies first; the write takes so long that this can be known. */
  #ambush({ clusterUid, target, step }: JournalIntent): StoreFate {
    const set = step === 'stepDown' || step === 'reconfig' ? target : groupOf(target);
    const others = membersOf(this.#world, `${clusterUid}/${set}`).filter(
      ({ record, mongod }) => record.owner?.member !== target && mongod?.phase === 'listening',
    );
    const victim = others[this.#rng.below(Math.max(1, others.length))]?.mongod;
    if (victim != null) {
      this.#world.tell('FAULT', `ambush: ${victim.host} dies`);
      victim.kill();
    }
    return { millis: 30 + this.#rng.below(300), fails: 'no', full: false };
  }

  operation(machine: Machine, operation: HostOperation): OperationFate {
    const { operationFails, operationSlow, operationForgotten } = this.#rates;
    if (machine.diskFull)
      return { millis: 20, fails: { code: 'DiskFull', message: 'no space left on device' } };
    const millis = this.#happens(operationSlow) ? this.#rng.below(60 * SECOND) : 20 + this.#rng.below(300);
    if (this.#happens(operationForgotten)) {
      // What runs is not forgotten; its outcome may be, with the disk's last writes.
      const forget = (): void => {
        if (machine.disk.operations.get(operation.id)?.facts.kind !== 'running')
          machine.disk.operations.delete(operation.id);
        else this.#world.timeline.after(SECOND, forget);
      };
      this.#world.timeline.after(millis + 1, forget);
    }
    const fails = this.#happens(operationFails)
      ? { code: 'OperationFailed', message: 'the machine said no' }
      : null;
    return { millis, fails };
  }

  clone(): { readonly millis: Millis; readonly fails: boolean } {
    const fails = this.#copiesFail && this.#rng.chance(0.7);
    return { millis: 100 + this.#rng.below(this.calm ? 1000 : 4000), fails };
  }

  startMillis(): Millis {
    return 100 + this.#rng.below(this.calm || this.#rng.chance(0.8) ? 900 : 10 * SECOND);
  }

  lookMillis(machine: Machine): Millis {
    return 3 + (this.#stale.get(machine.name) ?? 0);
  }

  arrows(): number | null {
    return this.#happens(this.#rates.deaths) ? 1 + this.#rng.below(60) : null;
  }

  planeDied(plane: ControlPlane): void {
    this.#world.timeline.after(100 + this.#rng.below(this.calm ? 500 : 8000), () => plane.start());
  }

  // ── faults ─────────────────────────────────────────────────────────────────────────────────────────────────────

  begin(fault: Fault): void {
    this.#world.tell('FAULT', JSON.stringify(fault));
    this.#begin(fault);
  }

  /** Everything that went wrong is repaired; nothing goes wrong any more. */
  end(): void {
    this.calm = true;
    for (const undo of [...this.#undo]) undo();
    for (const plane of this.#world.planes) {
      plane.spare();
      plane.start();
    }
    this.#world.tell('CALM', 'faults are over');
  }

  /** Repairs after this time, or when calm comes. */
  #for(millis: Millis, undo: () => void): void {
    const once = (): void => {
      if (this.#undo.delete(once)) undo();
    };
    this.#undo.add(once);
    this.#world.timeline.after(millis, once);
  }

  #begin(fault: Fault): void {
    const world = this.#world;
    switch (fault.kind) {
      case 'hostCrash':
      case 'agentCrash':
      case 'diskFull':
      case 'slowHost':
      case 'staleLooks':
      case 'processKill':
      case 'runtimeGone':
      case 'foreignVolume':
        this.#onHost(fault, world.machines.get(fault.host) as Machine);
        return;
      case 'cutAgent':
        this.#cutAgent(world.planes[fault.plane], fault.host, fault.millis, fault.silently);
        return;
      case 'cutHosts':
        this.#for(fault.millis, world.fabric.cut(fault.a, fault.b));
        return;
      case 'isolate':
        for (const plane of world.planes) this.#cutAgent(plane, fault.host, fault.millis, fault.silently);
        for (const other of world.machines.keys()) {
          if (other !== fault.host) this.#for(fault.millis, world.fabric.cut(fault.host, other));
        }
        return;
      case 'planeKill':
        world.planes[fault.plane]?.kill('by force');
        return;
      case 'planeStall':
        world.planes[fault.plane]?.stall(fault.millis);
        return;
      case 'clockJump': {
        const plane = world.planes[fault.plane];
        if (plane !== undefined) plane.skew += fault.by;
        return;
      }
      case 'shortCertificates':
        world.installation.serials.shortLife = fault.life;
        this.#for(fault.millis, () => {
          world.installation.serials.shortLife = null;
        });
        return;
      case 'feedBreaks':
        world.planes[fault.plane]?.breakFeed();
        return;
      default:
        if (isSharded(fault)) beginSharded(world, fault, (...words) => this.#for(...words), this.hands);
        else this.#onCluster(fault);
    }
  }

  #onHost(fault: Extract<Fault, { readonly host: string }>, machine: Machine): void {
    switch (fault.kind) {
      case 'hostCrash':
        if (!machine.up) return;
        machine.crash();
        this.#for(fault.millis, () => machine.boot());
        return;
      case 'agentCrash':
        machine.crashAgent();
        this.#for(fault.millis, () => machine.startAgent());
        return;
      case 'diskFull':
        machine.diskFull = true;
        this.#for(fault.millis, () => {
          machine.diskFull = false;
        });
        return;
      case 'slowHost':
        this.#for(fault.millis, this.#world.fabric.slow(machine.name, fault.by));
        return;
      case 'staleLooks':
        this.#stale.set(machine.name, fault.by);
        this.#for(fault.millis, () => this.#stale.delete(machine.name));
        return;
      case 'processKill': {
        const runs = [...machine.runs.values()];
        runs[fault.which % Math.max(1, runs.length)]?.process.kill();
        return;
      }
      case 'runtimeGone':
        this.#removeRuntime(machine, fault.which);
        return;
      case 'foreignVolume':
        for (const group of this.#groupsOf(fault.cluster))
          for (const index of [0, 1, 2]) foreignVolume(machine, `${group}-${index}`);
        return;
      default:
    }
  }

  /** Somebody removes a service by hand; its volume stays. */
  #removeRuntime(machine: Machine, which: number): void {
    const ids = [...machine.disk.services.keys()];
    const id = ids[which % Math.max(1, ids.length)];
    if (id !== undefined && machine.disk.services.get(id)?.owner?.installation === 'world')
      machine.agent?.removeByHand(id);
  }

  #cutAgent(plane: ControlPlane | undefined, host: string, millis: Millis, silently: boolean): void {
    if (plane === undefined) return;
    const heal = this.#world.fabric.cut(plane.name, host);
    this.#for(millis, () => {
      heal();
      plane.channel?.wayHealed(host);
    });
    plane.channel?.wayCut(host, silently);
  }

  #onCluster(fault: Fault): void {
    switch (fault.kind) {
      case 'store':
        this.#storeMood = fault.how;
        this.#for(fault.millis, () => {
          this.#storeMood = 'good';
        });
        return;
      case 'copies':
        this.#copiesFail = true;
        this.#for(fault.millis, () => {
          this.#copiesFail = false;
        });
        return;
      case 'stepDowns':
        for (let time = 0; time < fault.times; time++) {
          this.#world.timeline.after(time * 3 * SECOND, () => !this.calm && this.#stepDown(fault.cluster));
        }
        return;
      case 'meddle':
        this.#meddle(fault.cluster, fault.how);
        return;
      default:
    }
  }

  /** What its members' names begin with. */
  #groupsOf(cluster: string): readonly string[] {
    const object = clusterNamed(this.#world, cluster);
    return object === null ? [cluster] : setsOf(object).map((set) => set.split('/')[1] as string);
  }

  /** A primary of the cluster: one of several where there are several sets. */
  #somePrimary(cluster: string): Mongod | null {
    const object = clusterNamed(this.#world, cluster);
    const sets = object === null ? [] : setsOf(object);
    const set = sets[sets.length > 1 ? this.#rng.below(sets.length) : 0];
    return set === undefined ? null : primaryOf(this.#world, set);
  }

  #stepDown(cluster: string): void {
    const primary = this.#somePrimary(cluster);
    primary?.command({ kind: 'stepDown', secs: 10, catchUpSecs: 1, force: true }, () => {});
  }

  /** A person with a password of their own changes what is ours. */
  #meddle(cluster: string, how: Meddling): void {
    const object = clusterNamed(this.#world, cluster);
    const app = how === 'dropAppUser' && object !== null;
    const primary = app ? primaryOf(this.#world, userSetOf(object)) : this.#somePrimary(cluster);
    if (primary === null || primary.data.users.size < 5) return;
    const { users } = primary.data;
    const write = (change: Parameters<typeof primary.write>[0]): void =>
      primary.write(change, null, () => {});
    this.#world.tell('person', `${how} in ${cluster}`);
    this.meddled.add(how);
    if (how === 'votes') this.votesChangedAt = this.#world.timeline.now;
    const changed = (name: string): void => {
      const user = users.get(name);
      if (user !== undefined) write({ kind: 'user', user: { ...user, password: 'changed by a person' } });
    };
    switch (how) {
      case 'dropMonitor':
        write({ kind: 'dropUser', name: 'admin.clusterMonitor' });
        return;
      case 'changeBackup':
        changed('admin.backup');
        return;
      case 'changeAdmin':
        changed('admin.userAdmin');
        return;
      case 'dropAppUser':
        write({ kind: 'dropUser', name: 'admin.app0' });
        return;
      case 'dropRole':
        write({ kind: 'role', role: { role: 'explainRole', db: 'admin', privileges: [], roles: [] } });
        return;
      case 'priorities':
        reconfigure(primary, (m, i) => (i === 0 ? { ...m, priority: m.priority > 0 ? 2 : 0 } : m));
        return;
      case 'votes':
        reconfigure(primary, (m, i) => (i === 1 ? { ...m, priority: 0, votes: 0 } : m));
    }
  }
}

/** A person changes the set's configuration by hand. */
function reconfigure(
  primary: Mongod,
  change: (row: ReplSetConfig['members'][number], index: number) => ReplSetConfig['members'][number],
): void {
  const { config } = primary.machine;
  if (config === null) return;
  const plain = plainConfig(config);
  const members = plain.members.map(change);
  const document = { ...plain, version: plain.version + 1, members, settings: { ...config.settings } };
  const options = { force: false, maxTimeMillis: 5000, explicitDefault: false, defaultMode: null, jump: 0 };
  primary.command({ kind: 'reconfig', document, options }, () => {});
}
