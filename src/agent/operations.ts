/**
 * Infrastructure on this host: import, deploy and the two deletions. Each is journalled before it begins, done once
 * whatever happens in between (S10), and can be asked about by its id for a long time.
 */
import { randomBytes } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { asBelayError, BelayError } from '../base/error.ts';
import { formatBytes, type Millis } from '../base/units.ts';
import type { OperationFacts, OwnerMarker } from '../clusters/facts.ts';
import type { ServiceSpec } from '../clusters/snapshot.ts';
import type { Clock, HostOperation, Log } from '../engine/ports.ts';
import { majorOf } from '../model/index.ts';
import type { Executables } from './executables.ts';
import { isEmpty, PUBLIC, readJson, removeQuietly, writeJson } from './files.ts';
import { type Inventory, isId, type ServiceRecord, sameOwner } from './inventory.ts';
import type { Layout } from './layout.ts';
import { OPERATIONS_KEPT, PORTS_TRIED } from './limits.ts';
import { listenerFor, portsInUse } from './procfs.ts';
import { readSpace, type Space, usedBytes } from './space.ts';

interface Entry {
  readonly operation: HostOperation;
  readonly facts: OperationFacts;
  readonly startedAt: Millis;
  /** Decided before anything was made, so that a second try makes the same things. */
  readonly place: Place | null;
}

interface Place {
  readonly serviceId: string;
  readonly volumeId: string;
  readonly port: number;
}

export interface OperationsOptions {
  /** Name of this host. */
  readonly host: string;
  readonly layout: Layout;
  readonly inventory: Inventory;
  readonly executables: Executables;
  readonly clock: Clock;
  readonly log: Log;
  /** The service's process of this host, if it runs. */
  readonly runningPid: (serviceId: string) => number | null;
  /** A service was made or changed; its process follows. */
  readonly serviceChanged: (serviceId: string) => void;
  /** Stops the service's process and forgets the service; resolves when the process is gone. */
  readonly stopService: (serviceId: string) => Promise<void>;
  /** Throws `MemberIsPrimary` while the service's process leads its set, or does not say whether it does. */
  readonly refusePrimary: (serviceId: string) => Promise<void>;
  readonly changed: (id: string, clusterUid: string | null, facts: OperationFacts) => void;
  /** Of the disk below a path; absent: the real one. */
  readonly space?: (path: string) => Space | null;
}

export class Operations {
  readonly #options: OperationsOptions;
  readonly #entries = new Map<string, Entry>();
  readonly #running = new Map<string, Promise<void>>();

  /** Reads the journal. Call `resume` when all services are known. */
  constructor(options: OperationsOptions) {
    this.#options = options;
    for (const entry of readJournal(options.layout)) this.#entries.set(entry.operation.id, entry);
    this.#prune();
  }

  /** Goes on with what an earlier agent had begun. */
  resume(): void {
    for (const entry of this.#entries.values()) if (entry.facts.kind === 'running') this.#begin(entry);
  }

  /** Journals the operation and begins it; one that is known by its id is only begun once, however it ended. */
  start(operation: HostOperation): void {
    if (this.#entries.has(operation.id)) return;
    const entry: Entry = {
      operation,
      facts: { kind: 'running', detail: operation.kind },
      startedAt: this.#options.clock.now(),
      place: operation.kind === 'import' ? this.#placeFor(operation.spec) : null,
    };
    this.#save(entry);
    this.#begin(entry);
  }

  /** How it stands; `unknown` when this host never heard of it or forgot it long ago. */
  facts(id: string): OperationFacts {
    return this.#entries.get(id)?.facts ?? { kind: 'unknown' };
  }

  /** Resolves when nothing is under way; for tests and an orderly stop. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.#running.values());
  }

  #begin(entry: Entry): void {
    const { id } = entry.operation;
    const done = this.#carryOut(entry).then(
      (result) => this.#end(entry, { kind: 'succeeded', result }),
      (failure) => {
        const { code, message } = asBelayError(failure);
        this.#end(entry, { kind: 'failed', code, message });
      },
    );
    this.#running.set(id, done);
    void done.finally(() => this.#running.delete(id));
  }

  #end(entry: Entry, facts: OperationFacts): void {
    const ended = { ...entry, facts };
    const { id, kind } = entry.operation;
    this.#options.log.info('operation', { id, kind, outcome: facts.kind });
    try {
      this.#save(ended);
    } catch (failure) {
      // A full disk: what is in memory stands; after a restart the operation runs again, which changes nothing.
      this.#entries.set(id, ended);
      this.#options.log.error('operation not journalled', { id, error: asBelayError(failure).message });
    }
    this.#options.changed(id, clusterOf(entry.operation), facts);
  }

  #carryOut(entry: Entry): Promise<Readonly<Record<string, string | number>>> {
    const { operation } = entry;
    switch (operation.kind) {
      case 'import':
        return this.#import(operation.spec, entry.place ?? this.#placeFor(operation.spec));
      case 'deploy':
        return this.#deploy(operation);
      case 'growVolume':
        return this.#growVolume(operation);
      case 'deleteRuntime':
        return this.#deleteRuntime(operation.serviceId, operation.clusterUid);
      case 'deleteVolume':
        return this.#deleteVolume(operation.volumeId, operation.clusterUid, operation.member);
    }
  }

  // ── import ─────────────────────────────────────────────────────────────────────────────────────────────────────

  /** What is there already and ours is adopted (A3.4); the rest gets new ids, and a free port where one may be chosen. */
  #placeFor(spec: ServiceSpec): Place {
    const { inventory } = this.#options;
    const service = inventory.services().find((record) => sameOwner(record.owner, spec.owner));
    const volumeId =
      spec.volume.id ??
      service?.volumeId ??
      inventory.volumeIds().find((id) => {
        const record = inventory.volume(id);
        return record !== null && sameOwner(record.owner, spec.owner);
      });
    const serviceId = service?.id ?? newId('svc');
    const port = spec.portFixed ? spec.port : (service?.port ?? this.#freePort(serviceId, spec.port));
    return { serviceId, volumeId: volumeId ?? newId('vol'), port };
  }

  #freePort(serviceId: string, wanted: number): number {
    const used = portsInUse();
    for (let port = wanted; port < wanted + PORTS_TRIED; port++) {
      if (!used.has(port) && this.#sibling(serviceId, port) === null) return port;
    }
    return wanted;
  }

  async #import(spec: ServiceSpec, place: Place): Promise<Readonly<Record<string, string | number>>> {
    const { inventory, clock, serviceChanged, host } = this.#options;
    const { serviceId, volumeId, port } = place;
    this.#checkVolume(volumeId, spec);
    this.#checkClaims(spec.owner);
    this.#checkPort(serviceId, port);
    inventory.createVolume(volumeId, spec.owner, clock.now(), spec.volume.sizeBytes);
    inventory.putService({
      id: serviceId,
      owner: spec.owner,
      hostname: spec.hostname,
      address: spec.address,
      port,
      volumeId,
      version: inventory.service(serviceId)?.version ?? null,
      resources: spec.resources,
      environment: spec.environment,
    });
    serviceChanged(serviceId);
    const { sizeBytes = null } = inventory.volume(volumeId) ?? {};
    const size = sizeBytes === null ? {} : { volumeBytes: sizeBytes };
    return { serviceId, volumeId, host, address: spec.address, port, ...size };
  }

  /** A recorded volume id is authoritative (A4.4): it must be here and ours, and is never made anew. */
  #checkVolume(id: string, spec: ServiceSpec): void {
    const { inventory } = this.#options;
    if (!isId(id)) throw conflict(`"${id}" is no volume id of this host`);
    const record = inventory.volume(id);
    if (record && !sameOwner(record.owner, spec.owner)) {
      throw conflict(
        `volume ${id} belongs to ${record.owner.member} of another cluster (${record.owner.clusterUid})`,
      );
    }
    if (!record && inventory.volumeExists(id) && !isEmpty(inventory.dataPath(id))) {
      throw conflict(`volume ${id} holds data but no readable owner marker`);
    }
    if (!record && spec.volume.id !== null && !inventory.volumeExists(id)) {
      throw new BelayError('VolumeNotFound', `volume ${id} of ${spec.owner.member} is not on this host`, {
        retry: 'never',
        fix: 'Bring the volume back to this host, or replace the member.',
      });
    }
  }

  /** The same member of the same cluster, but of another installation or without the right proof. */
  #checkClaims(owner: OwnerMarker): void {
    const rivals = [
      ...this.#options.inventory.services().map((record) => record.owner),
      ...this.#options.inventory.volumeIds().flatMap((id) => {
        const record = this.#options.inventory.volume(id);
        return record ? [record.owner] : [];
      }),
    ].filter((other) => other.clusterUid === owner.clusterUid && other.member === owner.member);
    if (rivals.some((other) => !sameOwner(other, owner))) {
      throw conflict(
        `${owner.member} of cluster ${owner.clusterUid} exists here under another ownership proof`,
      );
    }
  }

  // ── deploy ─────────────────────────────────────────────────────────────────────────────────────────────────────

  async #deploy({
    serviceId,
    spec,
    unlessPrimary = false,
  }: Extract<HostOperation, { kind: 'deploy' }>): Promise<Readonly<Record<string, string | number>>> {
    const { inventory, executables, serviceChanged } = this.#options;
    const record = inventory.service(serviceId);
    if (!record) {
      throw new BelayError('ServiceNotFound', `service ${serviceId} is not on this host`, { retry: 'later' });
    }
    if (!sameOwner(record.owner, spec.owner))
      throw conflict(`service ${serviceId} belongs to another member`);
    await executables.find(spec.product, spec.version);
    this.#checkAge(record.volumeId, spec);
    this.#checkPort(serviceId, spec.port);
    if (unlessPrimary) await this.#options.refusePrimary(serviceId);
    inventory.putService({
      ...record,
      hostname: spec.hostname,
      address: spec.address,
      port: spec.port,
      version: spec.version,
      resources: spec.resources,
      environment: spec.environment,
    });
    serviceChanged(serviceId);
    return { serviceId, volumeId: record.volumeId, version: spec.version };
  }

  /** S7: data that a newer major has answered with is opened by no older one; whoever asked for it did not know yet. */
  #checkAge(volumeId: string, { version, owner }: ServiceSpec): void {
    const newest = this.#options.inventory.volume(volumeId)?.newestRun;
    if (newest === undefined || Math.trunc(Number(newest)) <= (majorOf(version) ?? 0)) return;
    throw new BelayError(
      'DataIsNewer',
      `${newest} has run on the data of ${owner.member}, and ${version} is older`,
      {
        retry: 'never',
        fix: 'Set spec.version to a version of the series that has run on it.',
      },
    );
  }

  #checkPort(serviceId: string, port: number): void {
    const by = this.#portUser(serviceId, port);
    if (by === null) return;
    throw new BelayError('PortTaken', `port ${port} is taken by ${by}`, {
      retry: 'later',
      fix: 'Stop what uses the port, or set another one with spec.port.',
    });
  }

  /** Who else uses the port, in words; a sibling may be stopped just now and still owns its port. */
  #portUser(serviceId: string, port: number): string | null {
    const sibling = this.#sibling(serviceId, port);
    if (sibling) return `${sibling.owner.member} of cluster ${sibling.owner.clusterUid}`;
    const listener = listenerFor(port, this.#options.runningPid(serviceId));
    return listener.kind === 'other' ? listener.by : null;
  }

  #sibling(serviceId: string, port: number): ServiceRecord | null {
    const { inventory } = this.#options;
    return inventory.services().find((record) => record.id !== serviceId && record.port === port) ?? null;
  }

  // ── volumes ────────────────────────────────────────────────────────────────────────────────────────────────────

  /**
   * A volume here is a folder: growing it is a promise, which is given only while the disk has room for it. Nothing has to
   * run for it, and what runs does not notice (STO-04).
   */
  async #growVolume({
    volumeId,
    clusterUid,
    member,
    sizeBytes,
  }: Extract<HostOperation, { kind: 'growVolume' }>): Promise<Readonly<Record<string, string | number>>> {
    const { inventory, space = readSpace } = this.#options;
    const record = inventory.volume(volumeId);
    if (!record || record.owner.clusterUid !== clusterUid || record.owner.member !== member)
      throw conflict(`volume ${volumeId} does not belong to ${member} of cluster ${clusterUid}`);
    const { sizeBytes: before = null } = record;
    if (before !== null && before >= sizeBytes) return { volumeId, volumeBytes: before };
    const path = inventory.dataPath(volumeId);
    const used = await usedBytes(path);
    const free = space(path)?.freeBytes ?? 0;
    if (used + free < sizeBytes) {
      const has = `the volume of ${member} holds ${formatBytes(used)} and its disk has ${formatBytes(free)} free`;
      throw new BelayError('DiskFull', `${has}: no room for ${formatBytes(sizeBytes)}`, { retry: 'later' });
    }
    inventory.resizeVolume(volumeId, sizeBytes);
    return { volumeId, volumeBytes: sizeBytes };
  }

  // ── deletions ──────────────────────────────────────────────────────────────────────────────────────────────────

  async #deleteRuntime(
    serviceId: string,
    clusterUid: string,
  ): Promise<Readonly<Record<string, string | number>>> {
    const { inventory, stopService } = this.#options;
    const record = inventory.service(serviceId);
    if (!record) return { serviceId };
    if (record.owner.clusterUid !== clusterUid) {
      throw conflict(`service ${serviceId} belongs to another cluster (${record.owner.clusterUid})`);
    }
    await stopService(serviceId);
    await inventory.removeService(serviceId);
    return { serviceId, volumeId: record.volumeId };
  }

  /** S4: only by id, and only when the marker inside says the same owner. */
  async #deleteVolume(
    volumeId: string,
    clusterUid: string,
    member: string,
  ): Promise<Readonly<Record<string, string | number>>> {
    const { inventory } = this.#options;
    if (!inventory.volumeExists(volumeId)) return { volumeId };
    const record = inventory.volume(volumeId);
    if (!record || record.owner.clusterUid !== clusterUid || record.owner.member !== member) {
      const whose = record
        ? `${record.owner.member} of cluster ${record.owner.clusterUid}`
        : 'nobody it names';
      throw conflict(`volume ${volumeId} belongs to ${whose}, not to ${member} of cluster ${clusterUid}`);
    }
    const user = inventory.services().find((service) => service.volumeId === volumeId);
    if (user) {
      throw new BelayError('VolumeInUse', `volume ${volumeId} is used by service ${user.id}`, {
        retry: 'later',
      });
    }
    await inventory.removeVolume(volumeId);
    return { volumeId };
  }

  // ── journal ────────────────────────────────────────────────────────────────────────────────────────────────────

  /**
   * The beginning is safe when this returns. Of the end only the content is: should a power cut take its name, the
   * operation runs again and finds everything done.
   */
  #save(entry: Entry): void {
    const synced = entry.facts.kind === 'running' ? 'file and name' : 'file';
    writeJson(this.#options.layout.operation(entry.operation.id), entry, PUBLIC, synced);
    this.#entries.set(entry.operation.id, entry);
    if (this.#entries.size > OPERATIONS_KEPT * 1.2) this.#prune();
  }

  #prune(): void {
    const ended = [...this.#entries.values()].filter((entry) => entry.facts.kind !== 'running');
    ended.sort((a, b) => a.startedAt - b.startedAt);
    for (const entry of ended.slice(0, Math.max(0, ended.length - OPERATIONS_KEPT))) {
      this.#entries.delete(entry.operation.id);
      removeQuietly(this.#options.layout.operation(entry.operation.id));
    }
  }
}

function readJournal(layout: Layout): readonly Entry[] {
  return readdirSync(layout.operations).flatMap((name) => {
    const entry = readJson(join(layout.operations, name)) as Entry | null;
    return entry?.operation?.id ? [entry] : [];
  });
}

/** The cluster an operation is about. */
export const clusterOf = (operation: HostOperation): string =>
  operation.kind === 'import' || operation.kind === 'deploy'
    ? operation.spec.owner.clusterUid
    : operation.clusterUid;

const newId = (prefix: string): string => `${prefix}-${randomBytes(8).toString('hex')}`;

function conflict(message: string): BelayError {
  return new BelayError('OwnershipConflict', message, {
    retry: 'never',
    fix: 'Nothing was touched. Move the foreign data away, or place the member on another host.',
  });
}
