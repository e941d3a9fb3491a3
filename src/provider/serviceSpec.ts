/** A member as a service in words no platform owns (A4.3, A4.8). */
import {
  componentOf,
  type Desired,
  isRouter,
  type MemberState,
  type OwnerMarker,
  type Placement,
  type ServiceSpec,
  serviceHostname,
} from '../clusters/index.ts';
import { findBuild, preparationCommands, TELEMETRY_ENV } from '../model/index.ts';

/** Where the agent's artifact lies inside a runtime, and where the data is mounted. */
const ARTIFACT_ROOT = '/opt/belay';
const DATA_MOUNT = '/var/lib/belay/data';

/** The service of one member. Nothing in it is secret; the owner marker proves, it does not grant (A4.3). */
export function serviceSpec(
  desired: Desired,
  member: MemberState,
  placement: Placement,
  owner: OwnerMarker,
  agentVersion: string,
): ServiceSpec {
  const hostname = serviceHostname(desired, member.name);
  const { volumeBytes, cpus, memoryBytes } = componentOf(desired, member.role) ?? desired;
  return {
    hostname,
    host: placement.host,
    address: placement.address,
    port: placement.port,
    portFixed: placement.portFixed,
    owner,
    artifact: { kind: 'belay-agent', version: agentVersion },
    prepare: preparation(desired.version),
    product: isRouter(member) ? 'mongos' : 'mongod',
    environment: { ...TELEMETRY_ENV },
    readiness: [`${ARTIFACT_ROOT}/bin/belay-ready`, '--member', member.name],
    volume: {
      name: `${hostname}-data`,
      mountPath: DATA_MOUNT,
      sizeBytes: volumeBytes,
      id: member.volumeId,
    },
    resources: { cpus, memoryBytes },
    version: desired.version,
  };
}

function preparation(version: string): readonly string[] {
  const build = findBuild(version);
  return build === undefined ? [] : preparationCommands(build).map((command) => command.argv.join(' '));
}

/** Where a member is, once the platform has placed it; null before. */
export function placementOf(member: MemberState): Placement | null {
  const { host, address, port } = member;
  return host === null || address === null || port === null ? null : { host, address, port, portFixed: true };
}
