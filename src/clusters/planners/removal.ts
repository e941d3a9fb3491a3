import type { Decision, Reason, Step } from '../decisions.ts';
import type { ServiceFacts } from '../facts.ts';
import { everyMember, pendingOf } from '../state.ts';
import { serviceHostname } from '../topology.ts';
import type { MemberState } from '../types.ts';
import { REMOVE_BY_HAND, strangeVolume } from './ownership.ts';
import {
  act,
  backingOff,
  blocked,
  helpNeeded,
  type Planner,
  type Scene,
  soon,
  type Verdict,
  verdict,
  wait,
} from './planner.ts';

/**
 * Deletion in its order (A14, DEL-06): runtimes, their absence observed, then volumes (only with our marker), then
 * secrets, then the record. Nothing before it blocks it: failed provisioning is simply taken down (A3.6, DEL-04).
 */
export const planDeletion: Planner = (scene) => {
  const deleting = scene.desired.deleting;
  if (deleting === null) return null;
  const runtimes = removeRuntimes(scene, 'Deleting');
  if (runtimes !== null) return only(runtimes);
  if (!deleting.keepVolumes) {
    const volumes = removeVolumes(scene);
    if (volumes !== null) return only(volumes);
  }
  if (!deleting.keepVolumes && !scene.state.secretsDeleted) {
    return verdict([act('Deleting', [{ kind: 'deleteSecrets' }], 'credentials and certificates')], true);
  }
  return verdict([act('Deleting', [{ kind: 'forget' }], 'nothing is left')], true);
};

/** A14.2: runtimes go, volumes and credentials stay. Asked for by a person, so it may take the set down (S1). */
export const planSuspend: Planner = (scene) => {
  if (!scene.desired.suspend) return null;
  return only(removeRuntimes(scene, 'Suspending') ?? []);
};

/** Whoever comes later in the order has nothing to say of what goes, also while all of it is under way already. */
const only = (decisions: readonly Decision[]): Verdict => ({ decisions, barrier: true });

function removeRuntimes(scene: Scene, because: Reason): readonly Decision[] | null {
  const services = scene.observed.services;
  if (services === null)
    return [wait('ObservationStale', soon(scene), 'the platform has not listed its services yet')];
  const strays = adoptions(scene, services);
  if (strays.length > 0) return [act('Adopting', strays, 'services of ours that an interrupted pass made')];
  const there = everyMember(scene.state).filter((m) => m.serviceId !== null);
  const left = firstToGo(there.filter((m) => !isInNobodysWay(scene, m)));
  const importing = scene.state.pending.filter((p) => p.action === 'import' || p.action === 'deploy');
  if (left.length === 0 && importing.length === 0 && scene.state.pending.length === 0) return null;
  return each(scene, left, 'deleteRuntime', because, (m) => ({ kind: 'deleteRuntime', member: m.name }));
}

/** Routers go before the shards they write to, and config servers last: nobody is left asking for what is gone. */
function firstToGo(members: readonly MemberState[]): readonly MemberState[] {
  for (const role of ['router', 'shardServer', 'configServer'] as const) {
    const some = members.filter((m) => m.role === role);
    if (some.length > 0) return some;
  }
  return members;
}

/** What is left of a member that was replaced holds up no suspension; a deletion waits for it, since nothing may stay. */
const isInNobodysWay = (scene: Scene, member: MemberState): boolean =>
  scene.desired.deleting === null &&
  (scene.state.retired ?? []).includes(member) &&
  unreachable(scene, member) !== null;

function removeVolumes(scene: Scene): readonly Decision[] | null {
  const left = everyMember(scene.state).filter((m) => m.volumeId !== null);
  if (left.length === 0 && scene.state.pending.length === 0) return null;
  return each(scene, left, 'deleteVolume', 'Deleting', (m) => ({ kind: 'deleteVolume', member: m.name }));
}

/** Runtimes that carry our marker but are not in the record: the answer of their import was lost. */
function adoptions(scene: Scene, services: readonly ServiceFacts[]): readonly Step[] {
  const steps: Step[] = [];
  for (const service of services) {
    if (service.kind !== 'runtime' || service.owner?.clusterUid !== scene.state.uid) continue;
    const member = everyMember(scene.state).find((m) => m.name === service.owner?.member);
    if (member === undefined || member.serviceId !== null || pendingOf(scene.state, member.name) !== null)
      continue;
    if (service.hostname !== serviceHostname(scene.desired, member.name) || service.host === null) continue;
    const volume = services.find(
      (s) => s.kind === 'volume' && s.owner?.clusterUid === scene.state.uid && s.owner.member === member.name,
    );
    const placement = { host: service.host, address: service.host, port: service.port ?? 0, portFixed: true };
    steps.push({
      kind: 'adopt',
      member: member.name,
      serviceId: service.id,
      volumeId: volume?.id ?? member.volumeId,
      placement,
    });
  }
  return steps;
}

function each(
  scene: Scene,
  members: readonly MemberState[],
  action: 'deleteRuntime' | 'deleteVolume',
  because: Reason,
  step: (m: MemberState) => Step,
): readonly Decision[] {
  const decisions: Decision[] = [];
  const steps: Step[] = [];
  for (const member of members) {
    if (pendingOf(scene.state, member.name) !== null) continue;
    const strange = action === 'deleteVolume' ? strangeVolume(scene, member) : null;
    const held =
      backingOff(scene, action, member.name) ??
      unreachable(scene, member) ??
      (strange === null ? null : blocked('OwnershipConflict', 'person', strange, REMOVE_BY_HAND));
    if (held !== null) decisions.push(held);
    else steps.push(step(member));
    const help = helpNeeded(scene, action, member.name);
    if (help !== null) decisions.push(help);
  }
  if (steps.length > 0)
    decisions.unshift(
      act(
        because,
        steps,
        `${action === 'deleteRuntime' ? 'stop and remove' : 'delete the volumes of'} ${steps.map((s) => ('member' in s ? s.member : '')).join(', ')}`,
      ),
    );
  return decisions;
}

function unreachable(scene: Scene, member: MemberState): Decision | null {
  const host = scene.observed.hosts.find((h) => h.name === member.host);
  if (member.host === null || host?.connected) return null;
  return waitingToBeRemoved(scene, member);
}

/** Its runtime or its volume is on a host whose agent is away. */
export const waitingToBeRemoved = (scene: Scene, { name, host }: MemberState): Decision =>
  wait(
    'AgentNotConnected',
    soon(scene),
    `host ${host} is not connected; ${name} there is removed when it is back`,
    name,
  );
