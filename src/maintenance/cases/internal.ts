/** Plays scenarios of the internal layer (`cms`): permission requests straight at the desk. */
import { type Millis, SECOND } from '../../base/units.ts';
import type { Answer } from '../answers.ts';
import type { Compat } from '../compat.ts';
import { Desk } from '../desk.ts';
import { Fleet } from '../fleet.ts';
import { ydbReason } from '../tasks.ts';
import type { Action, Book, DiskRef, Mode, Permission } from '../types.ts';
import { type Json, type Scenario, World } from './scenario.ts';

const MODES: Readonly<Record<string, Mode>> = {
  max: 'strong',
  keep: 'weak',
  force: 'force',
  smart: 'smart',
  strong: 'strong',
  weak: 'weak',
};

/** What a name in a scenario stands for: a request and the permissions its answer gave. */
interface Named {
  readonly entry: string | null;
  readonly permissions: readonly string[];
}

/** Everything that went otherwise than the scenario says; empty: it passes. */
export function playInternal(scenario: Scenario, compat: Compat): readonly string[] {
  const player = new Player(scenario, compat);
  return scenario.steps.flatMap((step, i) =>
    player.step(step).map((problem) => `step ${i + 1} (${Object.keys(step)[0]}): ${problem}`),
  );
}

class Player {
  readonly #world: World;
  readonly #compat: Compat;
  readonly #names = new Map<string, Named>();
  #desk: Desk;

  constructor(scenario: Scenario, compat: Compat) {
    this.#world = new World(scenario.cluster);
    this.#compat = compat;
    this.#desk = this.#open();
  }

  #open(book?: Book): Desk {
    const { flags } = this.#world;
    return new Desk(new Fleet(this.#world.spec()), book, {
      compat: this.#compat,
      locksPriority: flags['locks_priority'] === true,
      priorities: flags['request_priorities'] !== false,
      disabled: this.#world.disabled,
    });
  }

  step(step: Json): readonly string[] {
    const expect = (step['expect'] ?? {}) as Json;
    const [what] = Object.keys(step);
    switch (what) {
      case 'request':
        return this.#request(step, step['request'] as Json, expect);
      case 'check':
        return this.#check(step, expect);
      case 'done':
        return this.#done(step['done'] as readonly string[], expect);
      case 'approve':
        return this.#approve(step, expect);
      case 'reject_request':
        return same(
          'code',
          expect['code'] ?? 'OK',
          this.#desk.reject(this.#entry(step, 'reject_request')) ? 'OK' : 'WRONG_REQUEST',
        );
      case 'get_request':
        return this.#getRequest(step, expect);
      case 'list_requests':
        return same('count', expect['count'], this.#waiting(String(step['list_requests'])));
      case 'list_permissions':
        return same('count', expect['count'], this.#held(String(step['list_permissions'])));
      case 'notify':
        return this.#notify(step['notify'] as Json, expect);
      case 'list_notifications': {
        const owner = String(step['list_notifications']);
        const own = this.#desk.announcements().filter((a) => a.owner === owner);
        return same('count', expect['count'], own.length);
      }
      case 'reject_notification':
        this.#desk.withdraw(this.#names.get(String(step['reject_notification']))?.entry ?? '');
        return [];
      case 'restart_cms':
        this.#desk = this.#open(JSON.parse(JSON.stringify(this.#desk.book())) as Book);
        return [];
      case 'set':
        this.#world.set(step['set'] as Json);
        this.#desk.replaceFleet(new Fleet(this.#world.spec()));
        this.#desk.configure({ disabled: this.#world.disabled });
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

  #request(step: Json, request: Json, expect: Json): readonly string[] {
    const answer = this.#desk.request(
      {
        owner: String(request['user'] ?? 'user'),
        mode: modeOf(request['mode']),
        priority: Number(request['priority'] ?? 0),
        partial: request['partial'] === true,
        schedule: request['schedule'] === true,
        dry: request['dry'] === true,
        duration: seconds(request['duration']),
        ignoreTenants: request['tenant_policy'] === 'none',
        evict: request['evict_vdisks'] === true,
        maxInFlight: Number(request['max_inflight'] ?? 0),
        actions: this.#expanded(request['actions'] as readonly Json[]).map((action, i) => ({
          action: actionOf(action),
          at: [i, 0] as const,
        })),
      },
      this.#world.now,
    );
    return this.#answered({ ...step, as: request['as'] }, answer, answer.entry?.id ?? null, expect);
  }

  /** An action on a tenant is one on each of its nodes. */
  #expanded(actions: readonly Json[]): readonly Json[] {
    const { nodes } = this.#world.spec();
    return actions.flatMap((action) =>
      action['tenant'] === undefined
        ? [action]
        : nodes
            .filter((node) => node.tenant === action['tenant'])
            .map((node) => ({ ...action, shutdown: Number(node.key) })),
    );
  }

  #check(step: Json, expect: Json): readonly string[] {
    const id = this.#entry(step, 'check');
    const answer = this.#desk.check(id, this.#world.now, { dry: step['dry'] === true });
    return this.#answered({ ...step, as: step['as'] ?? `${step['check']}` }, answer, id, expect);
  }

  #answered(step: Json, answer: Answer, entry: string | null, expect: Json): readonly string[] {
    const permissions = answer.granted.map((p) => p.id);
    if (typeof step['as'] === 'string') {
      const known = this.#names.get(step['as']);
      // A request that is tried again under its own name keeps what it was given before.
      this.#names.set(step['as'], {
        entry,
        permissions: [...(step['check'] === step['as'] ? (known?.permissions ?? []) : []), ...permissions],
      });
    }
    const granted = answer.granted.flatMap((p) => nodesOf(p));
    return [
      ...same('code', expect['code'], answer.code),
      ...same('reason', expect['reason'], ydbReason(answer.refusal?.reason ?? null)),
      ...same('count', expect['count'], answer.granted.length),
      ...same('granted', sorted(expect['granted']), sorted(granted)),
    ].map((problem) => (answer.refusal === null ? problem : `${problem}; ${answer.refusal.message}`));
  }

  #approve(step: Json, expect: Json): readonly string[] {
    const answer = this.#desk.approve(this.#entry(step, 'approve'), this.#world.now);
    const problems = [
      ...same('code', expect['code'], answer.code === 'ALLOW' ? 'OK' : answer.code),
      ...same('count', expect['count'], answer.granted.length),
    ];
    if (typeof step['as'] === 'string')
      this.#names.set(step['as'], {
        entry: answer.entry?.id ?? null,
        permissions: answer.granted.map((p) => p.id),
      });
    return problems;
  }

  #getRequest(step: Json, expect: Json): readonly string[] {
    const entry = this.#desk.entry(this.#entry(step, 'get_request'));
    const user = step['user'] ?? entry?.owner;
    const visible = entry !== undefined && entry.pending.length > 0 && user === entry.owner;
    const issues = entry?.pending.map((p) => (p.refusal === null ? null : ydbReason(p.refusal.reason)));
    return [
      ...same('code', expect['code'], visible ? 'OK' : 'WRONG_REQUEST'),
      ...same('actions', expect['actions'], entry?.pending.length ?? 0),
      ...same('issues', expect['issues'], issues),
    ];
  }

  #done(refs: readonly string[], expect: Json): readonly string[] {
    const ids = refs.flatMap((ref) => this.#permissions(ref));
    const unknown = ids.filter((id) => this.#desk.permission(id) === undefined);
    for (const id of ids) this.#desk.complete(id);
    return same('code', expect['code'], unknown.length === 0 ? 'OK' : 'WRONG_REQUEST');
  }

  #notify(notify: Json, expect: Json): readonly string[] {
    const from: Millis = this.#world.now + Number(notify['in_seconds'] ?? 0) * SECOND;
    const actions = (notify['actions'] as readonly Json[]).map(actionOf);
    const id = `n-${this.#desk.announcements().length + 1}-${from}`;
    this.#desk.announce({ id, owner: String(notify['user'] ?? 'user'), actions, from });
    if (typeof notify['as'] === 'string') this.#names.set(notify['as'], { entry: id, permissions: [] });
    return same('code', expect['code'], 'OK');
  }

  #entry(step: Json, verb: string): string {
    const entry = this.#names.get(String(step[verb]))?.entry ?? '';
    const owner = this.#desk.entry(entry)?.owner;
    // Checks of somebody else's request: the scenario says as whom.
    if (verb === 'check' && step['user'] !== undefined && owner !== undefined && owner !== step['user'])
      return '';
    return entry;
  }

  #permissions(ref: string): readonly string[] {
    const [name = '', which = '*'] = ref.split('.');
    const all = this.#names.get(name)?.permissions ?? [];
    return which === '*' ? all : all.slice(Number(which), Number(which) + 1);
  }

  #waiting(owner: string): number {
    return [...this.#desk.entries()].filter((e) => e.owner === owner && e.pending.length > 0).length;
  }

  #held(owner: string): number {
    this.#desk.expire(this.#world.now);
    return [...this.#desk.entries()]
      .filter((e) => e.owner === owner)
      .reduce((sum, e) => sum + e.held.length, 0);
  }
}

const seconds = (value: unknown): Millis | null => (value === undefined ? null : Number(value) * SECOND);

function modeOf(name: unknown): Mode {
  const mode = MODES[String(name ?? 'max')];
  if (mode === undefined) throw new Error(`there is no mode ${String(name)}`);
  return mode;
}

/** `restart: 0`, `shutdown: 0`, `reboot: 0`, `replace: [device…]`; text stands for a host. */
function actionOf(step: Json): Action {
  const duration = seconds(step['seconds'] ?? 60);
  if (step['replace'] !== undefined) {
    const disks = (step['replace'] as readonly string[]).map(deviceOf);
    return { type: 'lock', scope: { kind: 'disks', disks }, duration };
  }
  const what = ['restart', 'shutdown', 'reboot'].find((name) => step[name] !== undefined) ?? 'shutdown';
  const target = step[what];
  const scope: Action['scope'] =
    typeof target === 'number'
      ? { kind: 'node', node: String(target) }
      : { kind: 'host', host: String(target) };
  return {
    type: 'lock',
    scope,
    duration,
    ...(what === 'restart' ? { service: step['service'] === 'dynnode' ? 'dynnode' : 'storage' } : {}),
    ...(what === 'reboot' ? { reboot: true } : {}),
  };
}

/** `pdisk:<node>:<disk>`, `vdisk:<group>:<node>`, `path:<host>:<path>`. */
export function deviceOf(text: string): DiskRef {
  const [, kind, rest = ''] = /^(\w+):(.*)$/.exec(text) ?? [];
  const cut = rest.lastIndexOf(':');
  const [first, second] = [rest.slice(0, cut), rest.slice(cut + 1)];
  if (kind === 'path') return { kind: 'path', host: first, path: second };
  if (kind === 'pdisk') return { kind: 'id', node: first, disk: Number(second) };
  if (kind === 'vdisk') return { kind: 'vdisk', group: Number(first), node: second };
  throw new Error(`there is no device ${text}`);
}

function nodesOf({ action: { scope } }: Permission): readonly (number | string)[] {
  if (scope.kind === 'node') return [Number(scope.node)];
  return scope.kind === 'host' ? [scope.host] : [];
}

/** A difference in words; nothing is expected where the scenario says nothing. */
export function same(what: string, wanted: unknown, is: unknown): readonly string[] {
  const [a, b] = [JSON.stringify(wanted), JSON.stringify(is)];
  return wanted === undefined || a === b ? [] : [`${what}: expected ${a}, got ${b}`];
}

export const sorted = (value: unknown): unknown =>
  Array.isArray(value) ? value.map((item) => JSON.stringify(item)).sort() : value;
