/**
 * Those who work on machines (C1): they ask the authority, take down what they are granted and nothing else, bring it back,
 * and give it back, or let it expire. Like everybody who asks over a network they ask again when no answer comes.
 */

import type { Authority } from '../authority/index.ts';
import type { Rng } from '../base/rng.ts';
import { type Millis, SECOND } from '../base/units.ts';
import type { Action, ActionView, TaskReply, TaskSpec } from '../maintenance/index.ts';
import type { Machine } from './machine.ts';
import type { TaskPlan } from './tasks.ts';
import { objectsOf } from './truth.ts';
import type { World } from './world.ts';

/** How often somebody looks for what was left behind. */
const CLEANS_EVERY: Millis = 5 * SECOND;
/** No answer within this: another control plane is asked. */
const NO_ANSWER: Millis = 8 * SECOND;
/** Work that would not end so long before its deadline is not begun. */
const MARGIN: Millis = 5 * SECOND;
/** What is on a host is waited for no longer than this before it is given back all the same. */
const COMES_BACK: Millis = 60 * SECOND;

interface Task {
  readonly plan: TaskPlan;
  readonly begunAt: Millis;
  /** Permissions that were seen, and those that are worked on. */
  readonly seen: Set<string>;
  readonly working: Set<string>;
  waiting: boolean;
  over: boolean;
}

/** See the head of this file. */
export class Maintainers {
  readonly #world: World;
  readonly #rng: Rng;
  readonly #tasks: Task[] = [];
  #leaving = false;

  constructor(world: World, plans: readonly TaskPlan[]) {
    this.#world = world;
    this.#rng = world.rng.fork('maintainers');
    for (const plan of plans) world.timeline.after(plan.at, () => this.#begin(plan));
  }

  /** Nobody begins anything any more; what waits is given up, and what was begun is brought to its end. */
  end(): void {
    this.#leaving = true;
    this.#cleanUp();
  }

  /** A request that was held up on its way may make a task once more that its owner has dropped already. */
  #cleanUp(): void {
    const there = new Set(objectsOf(this.#world, 'MaintenanceTask').map(({ metadata }) => metadata.name));
    for (const task of this.#tasks) if (task.over && there.has(task.plan.name)) this.#drop(task);
    this.#world.timeline.after(CLEANS_EVERY, () => this.#cleanUp());
  }

  /** What is still under way or left behind; null: nothing. */
  get left(): string | null {
    const task = this.#tasks.find(({ over }) => !over);
    if (task !== undefined) return `task ${task.plan.name} has not ended`;
    const [object] = objectsOf(this.#world, 'MaintenanceTask');
    return object === undefined ? null : `task ${object.metadata.name} was left behind`;
  }

  // ── asking ───────────────────────────────────────────────────────────────────────────────────────────────────

  #begin(drawn: TaskPlan): void {
    const names = drawn.names.filter((name) => isThere(this.#world, drawn.scope, name));
    if (this.#leaving || names.length === 0) return;
    const plan = { ...drawn, names };
    const { now } = this.#world.timeline;
    const task = {
      plan,
      begunAt: now,
      seen: new Set<string>(),
      working: new Set<string>(),
      waiting: true,
      over: false,
    };
    this.#tasks.push(task);
    if (plan.dry) this.#explain(task);
    else this.#create(task);
  }

  #explain(task: Task): void {
    const name = `dry-${task.plan.name}`;
    const then = (reply: TaskReply): void => {
      this.#judge(task, reply);
      if (traces(this.#world, name)) this.#fail(`the dry run ${name} left something behind`);
      this.#create(task);
    };
    this.#ask(
      (gate) => gate.create({ ...specOf(task.plan), uid: name, dryRun: true }, undefined),
      then,
      () => this.#create(task),
    );
  }

  #create(task: Task): void {
    this.#ask(
      (gate) => gate.create(specOf(task.plan), undefined),
      (reply) => {
        this.#tell(
          `${task.plan.name} asks for ${task.plan.names.join(', ')}: ${reply.status} ${reply.issues.join('; ')}`,
        );
        // An answer that was lost made it all the same.
        if (reply.status === 'SUCCESS') this.#look(task, reply);
        else if (reply.issues.join().includes('already exists')) this.#refresh(task);
        else task.over = true;
      },
      () => this.#later(task, () => this.#create(task)),
    );
  }

  #refresh(task: Task): void {
    if (task.over) return;
    const { now } = this.#world.timeline;
    const givesUp = this.#leaving || now - task.begunAt > task.plan.patience;
    const { end } = task.plan;
    const has = !task.waiting && task.seen.size > 0;
    const drops = givesUp ? end !== 'expire' || !has : end === 'drop' && has;
    if (drops && task.working.size === 0) {
      this.#drop(task);
      return;
    }
    this.#ask(
      (gate) => (task.waiting && !givesUp ? gate.refresh(task.plan.name) : gate.get(task.plan.name)),
      (reply) => this.#look(task, reply),
      () => this.#later(task, () => this.#refresh(task)),
    );
  }

  #drop(task: Task): void {
    this.#ask(
      (gate) => gate.drop(task.plan.name),
      (reply) => {
        this.#tell(`${task.plan.name} is dropped: ${reply.status}`);
        if (reply.status === 'UNAVAILABLE') this.#later(task, () => this.#drop(task));
        else task.over = true;
      },
      () => this.#later(task, () => this.#drop(task)),
    );
  }

  /** Asks one of the control planes; `again` when it fails or does not answer in time. */
  #ask<T>(what: (gate: Authority) => Promise<T>, then: (answer: T) => void, again: () => void): void {
    const { timeline, planes } = this.#world;
    const alive = planes.filter(({ alive: lives, gate }) => lives && gate !== null);
    const gate = alive[this.#rng.below(Math.max(1, alive.length))]?.gate ?? null;
    let open = true;
    const once = (act: () => void): void => {
      if (!open) return;
      open = false;
      act();
    };
    timeline.after(NO_ANSWER, () => once(again));
    if (gate === null) return;
    timeline.promised = true;
    what(gate).then(
      (answer) => once(() => then(answer)),
      () => once(again),
    );
  }

  #later(task: Task, act: () => void): void {
    this.#world.timeline.after(500 + this.#rng.below(2 * SECOND), () => {
      if (!task.over) act();
    });
  }

  // ── answers ──────────────────────────────────────────────────────────────────────────────────────────────────

  #look(task: Task, reply: TaskReply): void {
    if (reply.entry === null) {
      // Completed and expired to the last action: it is gone by itself.
      if (task.working.size === 0) task.over = true;
      else this.#later(task, () => this.#refresh(task));
      return;
    }
    this.#judge(task, reply);
    const actions = reply.groups.flat();
    task.waiting = actions.some(({ status }) => status === 'PENDING');
    for (const action of actions) {
      if (action.id === null || task.seen.has(action.id)) continue;
      task.seen.add(action.id);
      this.#work(task, action, action.id);
    }
    this.#later(task, () => this.#refresh(task));
  }

  /** S13: a refusal has a reason and a time, and a group is granted whole or not at all. */
  #judge({ plan }: Task, reply: TaskReply): void {
    const actions = reply.groups.flat();
    const pending = actions.filter(({ status }) => status === 'PENDING');
    const silent = pending.find(({ refusal }) => refusal !== null && refusal.message === '');
    if (silent !== undefined) this.#fail(`${plan.name} is refused ${silent.reason} without a word`);
    const performed = actions.length - pending.length;
    if (plan.together && pending.length > 0 && performed > 0)
      this.#fail(`${performed} of ${actions.length} actions of the group ${plan.name} are granted`);
  }

  // ── work ─────────────────────────────────────────────────────────────────────────────────────────────────────

  #work(task: Task, view: ActionView, id: string): void {
    const { plan } = task;
    const { timeline } = this.#world;
    const machine = this.#machineOf(view.action);
    const ends = timeline.now + plan.workMillis + MARGIN;
    const tooLate =
      view.deadline === null || view.deadline < ends || plan.duration < plan.workMillis + MARGIN;
    this.#tell(`${plan.name} has ${nameOf(view.action)} (${id})${tooLate ? ', too late for any work' : ''}`);
    if (tooLate || machine === null) {
      this.#finish(task, id);
      return;
    }
    task.working.add(id);
    timeline.after(100 + this.#rng.below(500), () => {
      if (plan.work === 'reboot' && plan.scope === 'hosts') machine.crash();
      else if (plan.work !== 'look') killOn(machine, view.action);
    });
    timeline.after(600 + plan.workMillis, () => {
      if (plan.work === 'reboot' && plan.scope === 'hosts') machine.boot();
      this.#comesBack(task, view.action, id, timeline.now + COMES_BACK);
    });
  }

  /** A host is given back when everything on it is said to be up again. */
  #comesBack(task: Task, action: Action, id: string, until: Millis): void {
    const again = (): void => this.#later(task, () => this.#comesBack(task, action, id, until));
    this.#ask(
      (gate) => gate.nodes(),
      (nodes) => {
        const there = nodes.filter(({ node }) => isOn(action, node.host, node.key));
        const back = there.every(({ node }) => node.state === 'up');
        if (back || this.#world.timeline.now > until) this.#finish(task, id);
        else again();
      },
      again,
    );
  }

  #finish(task: Task, id: string): void {
    task.working.delete(id);
    this.#tell(`${task.plan.name} is done with ${id}`);
    if (task.plan.end === 'complete') this.#complete(task, id);
  }

  #complete(task: Task, id: string): void {
    this.#ask(
      (gate) => gate.complete([id]),
      ({ status }) => this.#tell(`${task.plan.name} gives ${id} back: ${status}`),
      () => this.#later(task, () => this.#complete(task, id)),
    );
  }

  #machineOf({ scope }: Action): Machine | null {
    if (scope.kind === 'host') return this.#world.machines.get(scope.host) ?? null;
    if (scope.kind !== 'node') return null;
    const member = scope.node.slice(scope.node.indexOf('/') + 1);
    for (const machine of this.#world.machines.values())
      for (const { owner } of machine.disk.services.values()) if (owner?.member === member) return machine;
    return null;
  }

  #fail(why: string): void {
    this.#world.narrator.fail('S13', why);
  }

  #tell(what: string): void {
    this.#world.tell('maintainer', what);
  }
}

function specOf(plan: TaskPlan): TaskSpec {
  const actions = plan.names.map((name): Action => {
    const scope =
      plan.scope === 'hosts'
        ? { kind: 'host' as const, host: name }
        : { kind: 'node' as const, node: `default/${name}` };
    return { type: 'lock', scope, duration: plan.duration };
  });
  const { name: uid, owner, mode, priority, maxInFlight, stepDown } = plan;
  const groups = plan.together ? [actions] : actions.map((action) => [action]);
  return { uid, owner, description: plan.work, mode, priority, dryRun: false, maxInFlight, stepDown, groups };
}

/** Nobody asks for what nobody has ever seen. */
const isThere = (world: World, scope: TaskPlan['scope'], name: string): boolean =>
  [...world.machines.values()].some(({ name: host, disk }) =>
    [...disk.services.values()].some(({ owner }) =>
      scope === 'hosts' ? host === name && owner !== null : owner?.member === name,
    ),
  );

const nameOf = ({ scope }: Action): string =>
  scope.kind === 'host' ? scope.host : scope.kind === 'node' ? scope.node : 'disks';

const isOn = ({ scope }: Action, host: string, key: string): boolean =>
  scope.kind === 'host' ? scope.host === host : scope.kind === 'node' && scope.node === key;

function killOn(machine: Machine, { scope }: Action): void {
  for (const [id, run] of [...machine.runs]) {
    const member = machine.disk.services.get(id)?.owner?.member;
    if (scope.kind === 'node' && scope.node !== `default/${member}`) continue;
    run.process.kill('SIGKILL');
  }
}

/** Whether anything of a task of this name is in the store. */
function traces(world: World, name: string): boolean {
  const { objects, states } = world.installation.disk;
  const text = states.get('maintenance')?.text ?? '';
  return (
    text.includes(`"${name}"`) ||
    [...objects.values()].some(({ kind, metadata, spec }) => {
      const uid = (spec as { readonly uid?: string } | null)?.uid ?? metadata.name;
      return kind === 'MaintenanceTask' && uid === name;
    })
  );
}
