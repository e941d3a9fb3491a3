/**
 * Machines with an agent as a platform: every action is an operation of the host's agent, which keeps the operation's
 * outcome on its disk and starts one id once. An operation's id here names the host, so that it can be asked again by
 * whoever comes later.
 */
import { BelayError } from '../../base/error.ts';
import type { Bytes } from '../../base/units.ts';
import type { Capabilities, OperationFacts, ServiceFacts, ServiceSpec } from '../../clusters/index.ts';
import type { Agents, Fence, HostOperation, Platform, Proviso } from '../../engine/ports.ts';

/** What machines offer: limits for processes, nothing that needs a router or a disk service in front (A4.9). */
const CAPABILITIES: Capabilities = {
  publicExposure: false,
  allowlists: false,
  // Volumes are folders: what grows is what may be counted on, and it is checked against the disk.
  diskGrowth: true,
  volumesOnHostDisk: true,
  resourceLimits: true,
};

type Started = Promise<{ readonly operationId: string }>;
interface Service {
  readonly id: string;
  readonly host: string;
  readonly clusterUid: string;
}
interface Volume extends Service {
  readonly member: string;
}

/** The platform `hosts` over the agents' channel. Errors: those of `Agents`; `NoHost` (never) for a spec without one. */
export class HostsPlatform implements Platform {
  readonly name = 'hosts';
  readonly capabilities = CAPABILITIES;
  readonly #agents: Agents;

  constructor(agents: Agents) {
    this.#agents = agents;
  }

  import(spec: ServiceSpec, stepId: string, fence: Fence): Started {
    return this.#start(hostOf(spec), { kind: 'import', id: stepId, spec }, fence);
  }

  deploy(serviceId: string, spec: ServiceSpec, stepId: string, fence: Fence, proviso: Proviso = {}): Started {
    return this.#start(hostOf(spec), { kind: 'deploy', id: stepId, serviceId, spec, ...proviso }, fence);
  }

  deleteRuntime({ id, host, clusterUid }: Service, stepId: string, fence: Fence): Started {
    return this.#start(host, { kind: 'deleteRuntime', id: stepId, serviceId: id, clusterUid }, fence);
  }

  growVolume(
    { id, host, clusterUid, member }: Volume,
    sizeBytes: Bytes,
    stepId: string,
    fence: Fence,
  ): Started {
    const what = { volumeId: id, clusterUid, member, sizeBytes };
    return this.#start(host, { kind: 'growVolume', id: stepId, ...what }, fence);
  }

  deleteVolume({ id, host, clusterUid, member }: Volume, stepId: string, fence: Fence): Started {
    return this.#start(host, { kind: 'deleteVolume', id: stepId, volumeId: id, clusterUid, member }, fence);
  }

  operation(operationId: string): Promise<OperationFacts> {
    const slash = operationId.indexOf('/');
    return this.#agents.operation(operationId.slice(0, slash), operationId.slice(slash + 1));
  }

  operationOf(host: string, stepId: string, fence: Fence): Promise<OperationFacts> {
    return this.#agents.operation(host, stepId, fence);
  }

  async services(
    hosts: readonly string[],
  ): Promise<{ readonly items: readonly ServiceFacts[]; readonly unreachable: readonly string[] }> {
    const lists = await Promise.all(hosts.map((host) => this.#list(host)));
    return {
      items: lists.flatMap((list) => list ?? []),
      unreachable: hosts.filter((_, index) => lists[index] === null),
    };
  }

  /** Null: the host cannot be asked. A service always names its host, whatever its agent calls itself. */
  #list(host: string): Promise<readonly ServiceFacts[] | null> {
    return this.#agents.services(host).then(
      (items) => items.map((item) => ({ ...item, host })),
      () => null,
    );
  }

  async #start(host: string, operation: HostOperation, fence: Fence): Started {
    await this.#agents.startOperation(host, operation, fence);
    return { operationId: `${host}/${operation.id}` };
  }
}

function hostOf(spec: ServiceSpec): string {
  if (spec.host !== null) return spec.host;
  throw new BelayError('NoHost', `${spec.hostname} is not placed on a host`, {
    retry: 'never',
    fix: 'name hosts in spec.placement.hosts, or let an agent join',
  });
}
