/** Infrastructure on a host: import, deploy and the two deletions, by the rules of the agent's own operations. */
import { asBelayError, BelayError } from '../base/error.ts';
import type { Millis } from '../base/units.ts';
import type { OperationFacts, OwnerMarker, ServiceSpec } from '../clusters/index.ts';
import type { HostOperation } from '../engine/ports.ts';
import { DataFolder } from './data.ts';
import type { Machine, OperationEntry, Volume } from './machine.ts';

type Result = Readonly<Record<string, string | number>>;

export interface OperationsOutside {
  readonly stopService: (serviceId: string, gone: () => void) => void;
  readonly serviceChanged: (serviceId: string) => void;
  readonly changed: (operation: HostOperation, facts: OperationFacts) => void;
  /** How long one takes, and whether it fails or is forgotten: the world's say. */
  readonly fate: (operation: HostOperation) => Fate;
  /** Told when a volume is really deleted. */
  readonly volumeDeleted: (operation: Extract<HostOperation, { kind: 'deleteVolume' }>) => void;
}
export interface Fate {
  readonly millis: Millis;
  readonly fails: { readonly code: string; readonly message: string } | null;
}

export const sameOwner = (a: OwnerMarker | null, b: OwnerMarker | null): boolean =>
  a !== null &&
  b !== null &&
  a.installation === b.installation &&
  a.clusterUid === b.clusterUid &&
  a.member === b.member &&
  a.hostname === b.hostname &&
  a.proof === b.proof;

/** S3: whoever wants it restarted saw it lead nobody, which may be over. */
export function refusePrimary({ runs, bugs }: Machine, serviceId: string): void {
  const process = runs.get(serviceId)?.process;
  if (bugs.stopsPrimaries || process?.kind !== 'mongod' || !process.writable) return;
  throw new BelayError('MemberIsPrimary', `${process.host} is primary by now: it hands over first`);
}

/** One life of an agent's operations; the journal lies on the machine's disk. */
export class Operations {
  readonly #machine: Machine;
  readonly #outside: OperationsOutside;
  #closed = false;

  constructor(machine: Machine, outside: OperationsOutside) {
    this.#machine = machine;
    this.#outside = outside;
  }

  /** Goes on with what an earlier life had begun. */
  resume(): void {
    for (const entry of this.#machine.disk.operations.values()) {
      if (entry.facts.kind === 'running') this.#begin(entry);
    }
  }

  close(): void {
    this.#closed = true;
  }

  /** Begins it once, however often it is asked for. Throws `DiskFull` when it cannot be written down. */
  start(operation: HostOperation): void {
    const { disk, diskFull } = this.#machine;
    if (disk.operations.has(operation.id) && !this.#machine.bugs.operationsTwice) return;
    if (diskFull) throw new BelayError('DiskFull', 'no space left on device', { retry: 'later' });
    const entry: OperationEntry = {
      operation,
      facts: { kind: 'running', detail: operation.kind },
      place: null,
    };
    disk.operations.set(operation.id, entry);
    this.#begin(entry);
  }

  facts(id: string): OperationFacts {
    return this.#machine.disk.operations.get(id)?.facts ?? { kind: 'unknown' };
  }

  #begin(entry: OperationEntry): void {
    const fate = this.#outside.fate(entry.operation);
    this.#machine.near.timeline.after(fate.millis, () => {
      if (this.#closed) return;
      if (fate.fails !== null) this.#end(entry, { kind: 'failed', ...fate.fails });
      else this.#carryOut(entry);
    });
  }

  #end(entry: OperationEntry, facts: OperationFacts): void {
    if (this.#closed) return;
    entry.facts = facts;
    this.#outside.changed(entry.operation, facts);
  }

  #carryOut(entry: OperationEntry): void {
    const { operation } = entry;
    const ended = (result: Result): void => this.#end(entry, { kind: 'succeeded', result });
    try {
      if (operation.kind === 'deleteRuntime') this.#deleteRuntime(operation, ended);
      else ended(this.#now(entry));
    } catch (failure) {
      const { code, message } = asBelayError(failure);
      this.#end(entry, { kind: 'failed', code, message });
    }
  }

  #now(entry: OperationEntry): Result {
    const { operation } = entry;
    switch (operation.kind) {
      case 'import':
        entry.place ??= this.#placeFor(operation.spec);
        return this.#import(operation.spec, entry.place);
      case 'deploy':
        return this.#deploy(operation);
      case 'growVolume':
        return { volumeId: operation.volumeId, volumeBytes: operation.sizeBytes };
      case 'deleteVolume':
        return this.#deleteVolume(operation);
      default:
        throw new BelayError('Unsupported', operation.kind);
    }
  }

  // ── import ─────────────────────────────────────────────────────────────────────────────────────────────────────

  #placeFor(spec: ServiceSpec): NonNullable<OperationEntry['place']> {
    const { disk } = this.#machine;
    const service = [...disk.services.values()].find((record) => sameOwner(record.owner, spec.owner));
    const volume = [...disk.volumes.values()].find((record) => sameOwner(record.owner, spec.owner));
    const serviceId = service?.id ?? this.#machine.newId('svc');
    const volumeId = spec.volume.id ?? service?.volumeId ?? volume?.id ?? this.#machine.newId('vol');
    const port = spec.portFixed ? spec.port : (service?.port ?? this.#freePort(serviceId, spec.port));
    return { serviceId, volumeId, port };
  }

  #freePort(serviceId: string, wanted: number): number {
    let port = wanted;
    while (this.#portUser(serviceId, port) !== null) port++;
    return port;
  }

  #import(spec: ServiceSpec, { serviceId, volumeId, port }: NonNullable<OperationEntry['place']>): Result {
    const { disk, name } = this.#machine;
    this.#checkVolume(volumeId, spec);
    this.#checkClaims(spec.owner);
    this.#checkPort(serviceId, port);
    if (this.#machine.diskFull) throw new BelayError('DiskFull', 'no space left on device');
    if (this.#machine.bugs.formatsVolumes && !disk.services.has(serviceId)) disk.volumes.delete(volumeId);
    if (!disk.volumes.has(volumeId)) {
      const { owner, hostname } = spec;
      disk.volumes.set(volumeId, {
        id: volumeId,
        owner,
        hostname,
        replicaSetId: null,
        data: new DataFolder(),
      });
    }
    disk.services.set(serviceId, {
      id: serviceId,
      owner: spec.owner,
      hostname: spec.hostname,
      address: spec.address,
      port,
      volumeId,
      version: disk.services.get(serviceId)?.version ?? null,
      resources: spec.resources,
    });
    this.#outside.serviceChanged(serviceId);
    const { sizeBytes } = spec.volume;
    const size = sizeBytes === null ? {} : { volumeBytes: sizeBytes };
    return { serviceId, volumeId, host: name, address: spec.address, port, ...size };
  }

  #checkVolume(id: string, spec: ServiceSpec): void {
    const volume = this.#machine.disk.volumes.get(id);
    if (volume !== undefined && !sameOwner(volume.owner, spec.owner)) {
      throw conflict(`volume ${id} belongs to another member`);
    }
    if (volume === undefined && spec.volume.id !== null) {
      throw new BelayError('VolumeNotFound', `volume ${id} of ${spec.owner.member} is not on this host`);
    }
  }

  #checkClaims(owner: OwnerMarker): void {
    const { services, volumes } = this.#machine.disk;
    const owners = [...services.values(), ...volumes.values()].map((record) => record.owner);
    const rival = owners.find(
      (other) =>
        other?.clusterUid === owner.clusterUid && other.member === owner.member && !sameOwner(other, owner),
    );
    if (rival !== undefined) throw conflict(`${owner.member} exists here under another ownership proof`);
  }

  // ── deploy ─────────────────────────────────────────────────────────────────────────────────────────────────────

  #deploy({ serviceId, spec, unlessPrimary }: Extract<HostOperation, { kind: 'deploy' }>): Result {
    const { disk, versions } = this.#machine;
    const record = disk.services.get(serviceId);
    if (record === undefined) throw new BelayError('ServiceNotFound', `service ${serviceId} is not here`);
    if (!sameOwner(record.owner, spec.owner)) throw conflict(`${serviceId} belongs to another member`);
    if (!versions.includes(spec.version)) {
      throw new BelayError('NoExecutables', `no mongod ${spec.version} on this host`, { retry: 'never' });
    }
    this.#checkPort(serviceId, spec.port);
    if (unlessPrimary) refusePrimary(this.#machine, serviceId);
    const { hostname, address, port, version, resources } = spec;
    disk.services.set(serviceId, { ...record, hostname, address, port, version, resources });
    this.#outside.serviceChanged(serviceId);
    return { serviceId, volumeId: record.volumeId, version };
  }

  #checkPort(serviceId: string, port: number): void {
    const by = this.#portUser(serviceId, port);
    if (by !== null) throw new BelayError('PortTaken', `port ${port} is taken by ${by}`);
  }

  #portUser(serviceId: string, port: number): string | null {
    const { disk } = this.#machine;
    const other = [...disk.services.values()].find(
      (record) => record.id !== serviceId && record.port === port,
    );
    return other === undefined ? null : (other.owner?.member ?? other.hostname);
  }

  // ── deletions ──────────────────────────────────────────────────────────────────────────────────────────────────

  #deleteRuntime(
    { serviceId, clusterUid }: Extract<HostOperation, { kind: 'deleteRuntime' }>,
    ended: (result: Result) => void,
  ): void {
    const { disk } = this.#machine;
    const record = disk.services.get(serviceId);
    if (record === undefined) {
      ended({ serviceId });
      return;
    }
    if (record.owner?.clusterUid !== clusterUid) throw conflict(`${serviceId} belongs to another cluster`);
    this.#outside.stopService(serviceId, () => {
      if (this.#closed) return;
      disk.services.delete(serviceId);
      disk.snapshots.delete(serviceId);
      ended({ serviceId, volumeId: record.volumeId });
    });
  }

  #volumeToDelete({
    volumeId,
    member,
  }: Extract<HostOperation, { kind: 'deleteVolume' }>): Volume | undefined {
    const { disk, bugs } = this.#machine;
    const byName = bugs.volumesByName
      ? [...disk.volumes.values()].findLast((volume) => volume.hostname === member)
      : undefined;
    return byName ?? disk.volumes.get(volumeId);
  }

  #deleteVolume(operation: Extract<HostOperation, { kind: 'deleteVolume' }>): Result {
    const { disk } = this.#machine;
    const { volumeId, clusterUid, member } = operation;
    const volume = this.#volumeToDelete(operation);
    if (volume === undefined) return { volumeId };
    if (this.#machine.bugs.volumesByName) {
      this.#outside.volumeDeleted({ ...operation, volumeId: volume.id });
      disk.volumes.delete(volume.id);
      return { volumeId };
    }
    if (volume.owner?.clusterUid !== clusterUid || volume.owner.member !== member) {
      throw conflict(`volume ${volumeId} belongs to somebody else`);
    }
    if ([...disk.services.values()].some((service) => service.volumeId === volumeId)) {
      throw new BelayError('VolumeInUse', `volume ${volumeId} is in use`);
    }
    this.#outside.volumeDeleted(operation);
    disk.volumes.delete(volumeId);
    return { volumeId };
  }
}

const conflict = (message: string): BelayError =>
  new BelayError('OwnershipConflict', message, { retry: 'never' });
