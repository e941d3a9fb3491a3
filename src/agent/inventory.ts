/** The services and volumes of this host, as they lie on disk. */
import { existsSync, readdirSync, renameSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { BelayError } from '../base/error.ts';
import type { Bytes, Millis } from '../base/units.ts';
import type { OwnerMarker, ServiceFacts } from '../clusters/facts.ts';
import { makeFolder, readJson, syncFolder, writeJson } from './files.ts';
import type { Layout } from './layout.ts';

/** What is known of a service apart from its snapshot. Nothing in here is secret. */
export interface ServiceRecord {
  readonly id: string;
  readonly owner: OwnerMarker;
  readonly hostname: string;
  readonly address: string;
  readonly port: number;
  readonly volumeId: string;
  /** The version to run; null until it was deployed. */
  readonly version: string | null;
  readonly resources: { readonly cpus: number | null; readonly memoryBytes: Bytes | null };
  readonly environment: Readonly<Record<string, string>>;
}

/** `owner.json` in a volume: the only proof of whose data this is (S4). */
export interface VolumeRecord {
  readonly id: string;
  readonly owner: OwnerMarker;
  readonly createdAt: Millis;
  /** settings.replicaSetId of the set this data belongs to, once seen (S6). */
  readonly replicaSetId: string | null;
  /** What it may be counted on to hold; absent: nobody said. */
  readonly sizeBytes?: Bytes | null;
  /** Newest release series, `8.0`, whose process has answered with this data (S7); absent: none has, or nobody noted it. */
  readonly newestRun?: string;
}

export const sameOwner = (a: OwnerMarker, b: OwnerMarker): boolean =>
  a.installation === b.installation &&
  a.clusterUid === b.clusterUid &&
  a.member === b.member &&
  a.hostname === b.hostname &&
  a.proof === b.proof;

export class Inventory {
  readonly #layout: Layout;
  readonly #host: string;
  readonly #services = new Map<string, ServiceRecord>();

  /** Reads all services; a damaged record is left where it is and listed as masked. */
  constructor(layout: Layout, host: string) {
    this.#layout = layout;
    this.#host = host;
    for (const id of readdirSync(layout.services)) {
      const record = readJson(layout.service(id).record) as ServiceRecord | null;
      if (record?.id === id && record.owner) this.#services.set(id, record);
    }
  }

  // ── services ───────────────────────────────────────────────────────────────────────────────────────────────────

  services(): readonly ServiceRecord[] {
    return [...this.#services.values()];
  }

  service(id: string): ServiceRecord | null {
    return this.#services.get(id) ?? null;
  }

  putService(record: ServiceRecord): void {
    makeFolder(this.#layout.service(record.id).folder);
    writeJson(this.#layout.service(record.id).record, record);
    this.#services.set(record.id, record);
  }

  /** Removes a service with its snapshot and log; never a volume. */
  async removeService(id: string): Promise<void> {
    this.#services.delete(id);
    await this.#discard(this.#layout.service(id).folder, id);
  }

  // ── volumes ────────────────────────────────────────────────────────────────────────────────────────────────────

  volumeIds(): readonly string[] {
    return readdirSync(this.#layout.volumes);
  }

  /** Null: no such volume, or one without a readable owner (then `exists`). */
  volume(id: string): VolumeRecord | null {
    if (!isId(id)) return null;
    const record = readJson(this.#layout.volume(id).owner) as VolumeRecord | null;
    return record?.id === id && record.owner ? record : null;
  }

  volumeExists(id: string): boolean {
    return isId(id) && existsSync(this.#layout.volume(id).folder);
  }

  dataPath(id: string): string {
    return this.#layout.volume(id).data;
  }

  /** Makes the volume, its owner marker first: data without an owner never comes to be. */
  createVolume(id: string, owner: OwnerMarker, now: Millis, sizeBytes: Bytes | null = null): void {
    const paths = this.#layout.volume(id);
    makeFolder(paths.folder);
    if (!this.volume(id))
      writeJson(paths.owner, { id, owner, createdAt: now, replicaSetId: null, sizeBytes });
    makeFolder(paths.data);
  }

  resizeVolume(id: string, sizeBytes: Bytes): void {
    const record = this.volume(id);
    if (record) writeJson(this.#layout.volume(id).owner, { ...record, sizeBytes });
  }

  /** Remembers which set the data belongs to; the first one stands. */
  noteReplicaSet(id: string, replicaSetId: string): void {
    const record = this.volume(id);
    if (record && record.replicaSetId === null) {
      writeJson(this.#layout.volume(id).owner, { ...record, replicaSetId });
    }
  }

  /** Remembers that this series has run on the data; it only ever grows. Gives what is remembered. */
  noteRun(id: string, series: string): string | null {
    const record = this.volume(id);
    if (!record) return null;
    const known = record.newestRun;
    if (known !== undefined && Number(known) >= Number(series)) return known;
    writeJson(this.#layout.volume(id).owner, { ...record, newestRun: series });
    return series;
  }

  /** Moves the volume out of the way at once, then deletes it; a crash between the two leaves only rubbish. */
  async removeVolume(id: string): Promise<void> {
    await this.#discard(this.#layout.volume(id).folder, id);
  }

  // ── both ───────────────────────────────────────────────────────────────────────────────────────────────────────

  facts(): readonly ServiceFacts[] {
    const services = [...readdirSync(this.#layout.services)].map((id) => this.#serviceFacts(id));
    return [...services, ...this.volumeIds().map((id) => this.#volumeFacts(id))];
  }

  #serviceFacts(id: string): ServiceFacts {
    const record = this.#services.get(id);
    return {
      id,
      hostname: record?.hostname ?? id,
      host: this.#host,
      kind: 'runtime',
      owner: record?.owner ?? null,
      masked: record === undefined,
      deployed: record ? record.version !== null : false,
      port: record?.port ?? null,
      dataPath: record ? this.dataPath(record.volumeId) : null,
      sizeBytes: null,
    };
  }

  #volumeFacts(id: string): ServiceFacts {
    const record = this.volume(id);
    return {
      id,
      hostname: record?.owner.hostname ?? id,
      host: this.#host,
      kind: 'volume',
      owner: record?.owner ?? null,
      masked: record === null,
      deployed: false,
      port: null,
      dataPath: this.dataPath(id),
      sizeBytes: record?.sizeBytes ?? null,
    };
  }

  /** Deletes what an earlier agent moved away but did not finish. */
  async emptyTrash(): Promise<void> {
    for (const name of readdirSync(this.#layout.trash)) {
      await rm(join(this.#layout.trash, name), { recursive: true, force: true });
    }
  }

  async #discard(folder: string, id: string): Promise<void> {
    if (!isId(id)) throw new BelayError('Invalid', `"${id}" is no id of this host`, { retry: 'never' });
    if (!existsSync(folder)) return;
    const target = join(this.#layout.trash, `${id}-${process.hrtime.bigint()}`);
    renameSync(folder, target);
    syncFolder(join(folder, '..'));
    await rm(target, { recursive: true, force: true });
  }
}

/** Ids are folder names; nothing that climbs out of its folder is one. */
export const isId = (id: string): boolean => /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/.test(id);
