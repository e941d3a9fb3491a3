import { err, ok, type Result } from '../../base/result.ts';
import { FIRST_PORT } from '../limits.ts';
import { isRouter } from '../topology.ts';
import type { Decision, MemberState, ObservedHost, Placement } from '../types.ts';
import { blocked, type Scene, soon, wait } from './planner.ts';

/**
 * Chooses a machine and a port for every given member. Members spread over hosts first (fewest of this cluster, then
 * fewest of all, then by name, so that equal facts give equal places). A member that was placed before keeps its place:
 * its volume is there and its name is in the set's configuration.
 */
export function placeAll(
  scene: Scene,
  members: readonly MemberState[],
): Result<ReadonlyMap<string, Placement>, Decision> {
  const placed = new Map<string, Placement>();
  const used = scene.state.members
    .filter((m) => m.host !== null)
    .map((m) => ({ host: m.host as string, port: m.port, group: m.replicaSet }));
  for (const member of members) {
    if (member.host !== null && member.address !== null && member.port !== null) {
      placed.set(member.name, {
        host: member.host,
        address: member.address,
        port: member.port,
        portFixed: true,
      });
      continue;
    }
    const own = used.filter((u) => u.group === member.replicaSet);
    const host =
      member.host === null ? chooseHost(scene, used, own, productOf(member)) : hostOf(scene, member.host);
    if (!host.ok) return host;
    const port = choosePort(scene, host.value, used);
    if (!port.ok) return port;
    used.push({ host: host.value.name, port: port.value, group: member.replicaSet });
    placed.set(member.name, {
      host: host.value.name,
      address: host.value.address,
      port: port.value,
      portFixed: scene.desired.port !== null,
    });
  }
  return ok(placed);
}

/** The machine a member's volume is on: only its port is chosen anew. */
function hostOf(scene: Scene, name: string): Result<ObservedHost, Decision> {
  const host = scene.observed.hosts.find((h) => h.name === name && h.connected);
  return host === undefined
    ? err(wait('NoHostAvailable', soon(scene), `host ${name} is not connected`))
    : ok(host);
}

type Used = readonly { readonly host: string; readonly port: number | null; readonly group: string }[];

const productOf = (member: MemberState): 'mongos' | 'mongod' => (isRouter(member) ? 'mongos' : 'mongod');

/** `used`: places of all members; `own`: of those whose loss together must be avoided. */
function chooseHost(
  scene: Scene,
  used: Used,
  own: Used,
  product: 'mongos' | 'mongod',
): Result<ObservedHost, Decision> {
  const { hosts } = scene.observed;
  if (hosts.length === 0) {
    const fix = 'start an agent: belay agent --server URL --join-token TOKEN, or belay up for this machine';
    return err(blocked('NoHosts', 'capacity', 'no host has joined', fix));
  }
  const allowed = hosts.filter(
    (h) => h.schedulable && (scene.desired.hosts === null || scene.desired.hosts.includes(h.name)),
  );
  if (allowed.length === 0) {
    const wanted = scene.desired.hosts?.join(', ') ?? 'any';
    return err(
      blocked(
        'NoHosts',
        'spec',
        `no host fits spec.placement (${wanted})`,
        'name hosts that have joined: belay get hosts',
      ),
    );
  }
  const connected = allowed.filter((h) => h.connected);
  if (connected.length === 0) {
    return err(
      wait(
        'NoHostAvailable',
        soon(scene),
        `no agent is connected (${allowed.map((h) => h.name).join(', ')})`,
      ),
    );
  }
  const able = connected.filter((h) => h.executables[product]?.includes(scene.desired.version));
  if (able.length === 0) {
    const have =
      [...new Set(connected.flatMap((h) => h.executables[product] ?? []))].sort().join(', ') || 'none';
    return err(
      blocked(
        'NoExecutables',
        'person',
        `no connected host has ${product} ${scene.desired.version} (found: ${have})`,
        `install it there, or start the agent with --bin-dir DIR that holds VERSION/bin/${product}`,
      ),
    );
  }
  return ok(spread(able, used, own, scene));
}

function spread(able: readonly ObservedHost[], used: Used, set: Used, scene: Scene): ObservedHost {
  const own = (h: ObservedHost): number => set.filter((u) => u.host === h.name).length;
  const all = (h: ObservedHost): number => used.filter((u) => u.host === h.name).length;
  // A set's members are all reached by localhost or none is (server rule), so a local host carries all or nothing.
  const local = (h: ObservedHost): boolean => h.address === 'localhost';
  const started = used.length > 0 ? able.filter((h) => used.some((u) => u.host === h.name)) : [];
  const mustBeLocal = started.length > 0 && started.every(local);
  const pool = mustBeLocal
    ? started
    : able.some((h) => !local(h))
      ? able.filter((h) => !local(h))
      : able.slice(0, 1);
  const best = [...pool].sort(
    (a, b) =>
      own(a) - own(b) || all(a) - all(b) || a.memberCount - b.memberCount || a.name.localeCompare(b.name),
  )[0];
  return best ?? (scene.observed.hosts[0] as ObservedHost);
}

function choosePort(scene: Scene, host: ObservedHost, used: Used): Result<number, Decision> {
  const own = used.filter((u) => u.host === host.name).map((u) => u.port);
  const taken = new Map(host.portsTaken.map((p) => [p.port, p.by]));
  if (scene.desired.port !== null) {
    const port = scene.desired.port + own.length;
    const by = taken.get(port);
    if (by === undefined) return ok(port);
    const free = firstFree(scene.desired.port, taken, own);
    return err(
      blocked(
        'PortTaken',
        'spec',
        `port ${port} on host ${host.name} is taken by ${by}`,
        `set spec.port to a free one, ${free} for example, or leave it out`,
      ),
    );
  }
  return ok(firstFree(host.firstPort ?? FIRST_PORT, taken, own));
}

function firstFree(
  from: number,
  taken: ReadonlyMap<number, string>,
  own: readonly (number | null)[],
): number {
  let port = from;
  while (taken.has(port) || own.includes(port)) port++;
  return port;
}
