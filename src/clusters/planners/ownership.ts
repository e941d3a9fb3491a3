import type { Decision, Step } from '../decisions.ts';
import type { OwnerMarker, ServiceFacts } from '../facts.ts';
import { pendingOf } from '../state.ts';
import { serviceHostname } from '../topology.ts';
import type { MemberState } from '../types.ts';
import { act, blocked, type Planner, type Scene, soon, verdict, wait } from './planner.ts';

/**
 * Who owns what is already there (A4.3 to A4.7). All members are verified before anything is made or removed: one
 * foreign service at a member's name stops the whole cluster. A volume that carries a member's marker is only ever
 * found here, never taken by its name (S4).
 */
export const planOwnership: Planner = (scene) => {
  const unplaced = scene.state.members.filter(
    (m) => m.stage === 'planned' && pendingOf(scene.state, m.name) === null,
  );
  if (unplaced.length === 0 || scene.desired.deleting !== null || scene.desired.suspend) return null;
  const services = scene.observed.services;
  if (services === null) {
    // It is what an event of the change says first: what is going on, rather than what a reading lacks.
    const who = unplaced.map((m) => m.name).join(', ');
    const detail = `what the platform has already is looked up before making ${who}`;
    return verdict([wait('ObservationStale', soon(scene), detail)], true);
  }
  const conflicts = unplaced.map((m) => conflict(scene, m, services)).filter((d) => d !== null);
  if (conflicts.length > 0) return verdict(conflicts, true);
  const steps = unplaced.map((m) => adoption(scene, m, services)).filter((s): s is Step => s !== null);
  return steps.length === 0
    ? null
    : verdict([act('Adopting', steps, 'services made by an earlier pass are ours: taking them over')], true);
};

/** What of somebody else's has this member's name on the platform. */
export function conflict(
  scene: Scene,
  member: MemberState,
  services: readonly ServiceFacts[],
): Extract<Decision, { kind: 'blocked' }> | null {
  const hostname = serviceHostname(scene.desired, member.name);
  for (const service of services) {
    if (service.hostname !== hostname) continue;
    if (service.masked && member.serviceId !== service.id) {
      return blocked(
        'OwnershipUnreadable',
        'person',
        `service ${hostname} exists, but its owner cannot be read`,
        'delete that service so that it is made anew, or run one pass with a platform token that may read secrets',
      );
    }
    if (
      !isOurs(scene, member, service.owner) &&
      service.id !== member.volumeId &&
      service.id !== member.serviceId
    ) {
      const owner =
        service.owner === null ? 'has no owner marker' : `belongs to cluster ${service.owner.clusterUid}`;
      return blocked(
        'OwnershipConflict',
        'person',
        `${service.kind} ${service.id} is called ${hostname} and ${owner}`,
        'move it away or choose another name; Belay takes nothing over by its name',
      );
    }
  }
  return null;
}

export function isOurs(
  { state }: Pick<Scene, 'state'>,
  member: MemberState,
  owner: OwnerMarker | null,
): boolean {
  return owner !== null && owner.clusterUid === state.uid && owner.member === member.name;
}

/** S4: what lies in the place of a member's volume without its marker, and so is nobody's here to delete; null: nothing does. */
export function strangeVolume(scene: Pick<Scene, 'state' | 'observed'>, member: MemberState): string | null {
  const listed = scene.observed.services?.find((s) => s.kind === 'volume' && s.id === member.volumeId);
  if (member.volumeId === null || listed === undefined || isOurs(scene, member, listed.owner)) return null;
  const whose =
    listed.owner === null ? 'has no readable owner marker' : 'carries the marker of somebody else';
  return `volume ${member.volumeId} of ${member.name} on host ${member.host} ${whose}, so it is not deleted`;
}

/** What a person does about such a volume. */
export const REMOVE_BY_HAND =
  'look at it, and move its folder out of volumes below the data folder of the agent on that host';

function adoption(scene: Scene, member: MemberState, services: readonly ServiceFacts[]): Step | null {
  const ours = services.filter((s) => isOurs(scene, member, s.owner));
  const runtime = ours.find((s) => s.kind === 'runtime');
  if (runtime === undefined || runtime.host === null || runtime.port === null) return null;
  const volume = ours.find((s) => s.kind === 'volume');
  const host = scene.observed.hosts.find((h) => h.name === runtime.host);
  if (host === undefined) return null;
  return {
    kind: 'adopt',
    member: member.name,
    serviceId: runtime.id,
    volumeId: volume?.id ?? member.volumeId,
    placement: { host: host.name, address: host.address, port: runtime.port, portFixed: true },
  };
}
