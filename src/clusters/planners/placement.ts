import { err, ok, type Result } from '../../base/result.ts';
import type { Decision, Placement } from '../decisions.ts';
import { FIRST_PORT, LAST_PORT } from '../limits.ts';
import { taskText } from '../maintained.ts';
import { retryOf } from '../state.ts';
import { isRouter, untouched } from '../topology.ts';
import type { MemberState, ObservedHost, Replacement } from '../types.ts';
import { firstVersion } from '../versions.ts';
import { isOurs } from './ownership.ts';
import { blocked, type Scene, soon, wait } from './planner.ts';

/**
 * Chooses a machine and a port for every given member. Members spread over hosts first (fewest of this cluster, then
 * those nobody works on, then fewest of all, then by name, so that equal facts give equal places). A member that was placed before keeps its place:
 * its volume is there and its name is in the set's configuration. Only a port that somebody took meanwhile is chosen anew,
 * where no set knows its member by it: while it was suspended, for example.
 */
export function placeAll(
  scene: Scene,
  members: readonly MemberState[],
): Result<ReadonlyMap<string, Placement>, Decision> {
  const placed = new Map<string, Placement>();
  const used: Place[] = [
    ...placesOf(scene.state.members, false),
    ...placesOf(scene.state.retired ?? [], true),
  ];
  for (const member of members) {
    const keeps = !lostItsPortMeanwhile(scene, member);
    if (member.host !== null && member.address !== null && member.port !== null && keeps) {
      placed.set(member.name, {
        host: member.host,
        address: member.address,
        port: member.port,
        portFixed: true,
      });
      continue;
    }
    const own = used.filter((u) => u.group === member.replicaSet && !u.left);
    const before = member.host ?? volumeHost(scene, member);
    const host = before === null ? chooseHost(scene, used, own, member) : hostOf(scene, before);
    if (!host.ok) return host;
    const port = choosePort(scene, host.value, used, member.lostPorts ?? []);
    if (!port.ok) return port;
    const { name, replicaSet: group } = member;
    used.push({ name, host: host.value.name, port: port.value, group, left: false });
    placed.set(member.name, {
      host: host.value.name,
      address: host.value.address,
      port: port.value,
      portFixed: scene.desired.port !== null,
    });
  }
  return ok(placed);
}

/** A4.6: where a volume of it lies that an earlier import made, of which only this is left. Its import takes it up. */
const volumeHost = (scene: Scene, member: MemberState): string | null =>
  scene.observed.services?.find((s) => s.kind === 'volume' && isOurs(scene, member, s.owner))?.host ?? null;

/** Its runtime could not be made where it was, and no configuration of a set has it by that port. */
function lostItsPortMeanwhile({ state, desired }: Scene, { name, replicaSet }: MemberState): boolean {
  if (desired.port !== null || retryOf(state, 'import', name)?.code !== 'PortTaken') return false;
  const set = state.replicaSets.find((r) => r.name === replicaSet);
  return set === undefined || untouched(set);
}

/** The machine a member's volume is on: only its port is chosen anew. */
function hostOf(scene: Scene, name: string): Result<ObservedHost, Decision> {
  const host = scene.observed.hosts.find((h) => h.name === name && h.connected);
  return host === undefined
    ? err(wait('NoHostAvailable', soon(scene), `host ${name} is not connected`))
    : ok(host);
}

interface Place {
  readonly name: string;
  readonly host: string;
  readonly port: number | null;
  readonly group: string;
  /** What is left of a member that is out of its set: its port is taken, but its loss would hurt nobody. */
  readonly left: boolean;
}
type Used = readonly Place[];

const placesOf = (members: readonly MemberState[], left: boolean): readonly Place[] =>
  members.flatMap(({ name, host, port, replicaSet }) =>
    host === null ? [] : [{ name, host, port, group: replicaSet, left }],
  );

const productOf = (member: MemberState): 'mongos' | 'mongod' => (isRouter(member) ? 'mongos' : 'mongod');

/** `used`: places of all members; `own`: of those whose loss together must be avoided. */
function chooseHost(
  scene: Scene,
  used: Used,
  own: Used,
  member: MemberState,
): Result<ObservedHost, Decision> {
  const { hosts } = scene.observed;
  const wish = member.replacement ?? null;
  if (hosts.length === 0) {
    const fix = 'start an agent: belay agent --server URL --join-token TOKEN, or belay up for this machine';
    return err(blocked('NoHosts', 'capacity', 'no host has joined', fix));
  }
  const allowed = hosts.filter((h) => mayCarry(scene, h, own, wish));
  if (allowed.length === 0) {
    const [detail, fix] = nowhere(scene, own, wish);
    return err(blocked('NoHosts', 'spec', detail, fix));
  }
  // A host that somebody works on is about to be back, though nobody reports it meanwhile: it is waited for below.
  const connected = allowed.filter((h) => h.connected || h.maintenance !== undefined);
  if (connected.length === 0) {
    return err(
      wait(
        'NoHostAvailable',
        soon(scene),
        `no agent is connected (${allowed.map((h) => h.name).join(', ')})`,
      ),
    );
  }
  const product = productOf(member);
  const first = firstVersion(scene.desired, scene.state, member);
  const needed = [...new Set([first, scene.desired.version])];
  const able = connected.filter((h) => needed.every((version) => h.executables[product]?.includes(version)));
  if (able.length === 0) {
    const away = allowed.filter((h) => !h.connected).map((h) => h.name);
    if (wish !== null && away.length > 0)
      return err(
        wait('NoHostAvailable', soon(scene), `no agent is connected that could (${away.join(', ')})`),
      );
    const have =
      [...new Set(connected.flatMap((h) => h.executables[product] ?? []))].sort().join(', ') || 'none';
    return err(
      blocked(
        'NoExecutables',
        'person',
        `no connected host has ${product} ${needed.join(' and ')} (found: ${have})`,
        `install it there, or start the agent with --bin-dir DIR that holds VERSION/bin/${product}`,
      ),
    );
  }
  const best = spread(able, used, own, wish);
  return best.maintenance === undefined
    ? ok(best)
    : err(inMaintenance(scene, best.name, best.maintenance, member));
}

/** A member that begins where somebody works would be down at once; on a host with another of its set it would stay too near. */
function inMaintenance(
  scene: Scene,
  host: string,
  held: NonNullable<ObservedHost['maintenance']>,
  { name }: MemberState,
): Decision {
  const detail = `${name} is placed when host ${host} is free again: ${taskText(held)}`;
  return wait('MaintenanceGrant', soon(scene), detail, name);
}

/** Hosts by the spec and, for one that takes a place, by what its operation froze (A13.7). */
function mayCarry(scene: Scene, host: ObservedHost, own: Used, wish: Replacement | null): boolean {
  const named = scene.desired.hosts === null || scene.desired.hosts.includes(host.name);
  if (!host.schedulable || !named) return false;
  if (wish === null) return true;
  if (wish.avoidHosts.includes(host.name) || (wish.host !== null && wish.host !== host.name)) return false;
  // The set is there: its members are reached by localhost, and then on this one machine only, or by names.
  const localOn = localHost(scene, own);
  return localOn === null ? !isLocal(host) : host.name === localOn;
}

/** The machine whose members are reached by localhost; null: they are reached by names, or none is placed. */
const localHost = (scene: Scene, own: Used): string | null =>
  scene.observed.hosts.find((h) => isLocal(h) && own.some((u) => u.host === h.name))?.name ?? null;

/** Why no host at all may carry it, and what can be done. */
function nowhere(scene: Scene, own: Used, wish: Replacement | null): readonly [string, string] {
  const join = 'name hosts that have joined: belay get hosts';
  const wanted = scene.desired.hosts?.join(', ') ?? 'any';
  const { hosts } = scene.observed;
  const closed = hosts.filter((h) => !h.schedulable && (scene.desired.hosts?.includes(h.name) ?? true));
  if (wish === null && closed.length > 0) {
    const who = closed.map((h) => h.name).join(', ');
    const fix = `set spec.unschedulable of ${who} to false, or let another host join: belay host token NAME`;
    return [`new members are not to be placed on ${who}`, fix];
  }
  if (wish === null) return [`no host fits spec.placement (${wanted})`, join];
  const localOn = localHost(scene, own);
  if (localOn !== null)
    return [
      `members are reached by localhost on ${localOn}, where others can never reach them`,
      'make the database anew on hosts with an address: belay agent --address NAME',
    ];
  const target = scene.observed.hosts.find((h) => h.name === wish.host);
  if (wish.host !== null && target === undefined) return [`there is no host ${wish.host}`, join];
  if (target !== undefined && !target.schedulable)
    return [`host ${target.name} takes no new members`, 'set spec.unschedulable of the host to false'];
  const avoided = wish.avoidHosts.length === 0 ? '' : `, without ${wish.avoidHosts.join(', ')}`;
  return [
    `no host is left for it (spec.placement: ${wanted}${avoided})`,
    'let another host join, or name more hosts in spec.placement.hosts',
  ];
}

// A set's members are all reached by localhost or none is (server rule), so a local host carries all or nothing.
const isLocal = (h: ObservedHost): boolean => h.address === 'localhost';

function spread(
  able: readonly ObservedHost[],
  used: Used,
  set: Used,
  wish: Replacement | null,
): ObservedHost {
  // Whose place is taken will be gone; its host is as good as an empty one, but for whatever was wrong there.
  const own = (h: ObservedHost): number => set.filter((u) => u.host === h.name && u.name !== wish?.of).length;
  const old = (h: ObservedHost): number =>
    set.some((u) => u.host === h.name && u.name === wish?.of) ? 1 : 0;
  const held = (h: ObservedHost): number => (h.maintenance === undefined ? 0 : 1);
  const all = (h: ObservedHost): number => used.filter((u) => u.host === h.name).length;
  const started = used.length > 0 ? able.filter((h) => used.some((u) => u.host === h.name)) : [];
  const mustBeLocal = started.length > 0 && started.every(isLocal);
  const pool = mustBeLocal
    ? started
    : able.some((h) => !isLocal(h))
      ? able.filter((h) => !isLocal(h))
      : able.slice(0, 1);
  const best = [...pool].sort(
    (a, b) =>
      own(a) - own(b) ||
      held(a) - held(b) ||
      old(a) - old(b) ||
      all(a) - all(b) ||
      a.memberCount - b.memberCount ||
      a.name.localeCompare(b.name),
  )[0];
  return best ?? (able[0] as ObservedHost);
}

/** `lost`: ports of the member that somebody has whom nobody reports. */
function choosePort(
  scene: Scene,
  host: ObservedHost,
  used: Used,
  lost: readonly number[],
): Result<number, Decision> {
  const own = [...lost, ...used.filter((u) => u.host === host.name).map((u) => u.port)];
  const taken = new Map(host.portsTaken.map((p) => [p.port, p.by]));
  if (scene.desired.port === null) {
    const from = host.firstPort ?? FIRST_PORT;
    const free = firstFree(from, taken, own);
    const fix = `set spec.firstPort of host ${host.name} lower, or name more hosts`;
    return free === null ? err(noPortLeft(host, from, fix)) : ok(free);
  }
  // Members of ours come and go: the first that none of them has, not the one after their number.
  const port = firstFree(scene.desired.port, new Map(), own);
  if (port === null)
    return err(
      noPortLeft(host, scene.desired.port, 'set spec.port lower, or leave it out, or name more hosts'),
    );
  const by = taken.get(port);
  if (by === undefined) return ok(port);
  const free = firstFree(scene.desired.port, taken, own);
  const example = free === null ? '' : `, ${free} for example`;
  return err(
    blocked(
      'PortTaken',
      'spec',
      `port ${port} on host ${host.name} is taken by ${by}`,
      `set spec.port to a free one${example}, or leave it out`,
    ),
  );
}

const noPortLeft = (host: ObservedHost, from: number, fix: string): Decision =>
  blocked('PortTaken', 'spec', `no port from ${from} to ${LAST_PORT} is left on host ${host.name}`, fix);

function firstFree(
  from: number,
  taken: ReadonlyMap<number, string>,
  own: readonly (number | null)[],
): number | null {
  let port = from;
  while (taken.has(port) || own.includes(port)) port++;
  return port <= LAST_PORT ? port : null;
}
