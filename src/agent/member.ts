/** One member on this host: its snapshot, its process, its database, and what is reported of them. */
import { createHash, X509Certificate } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { BelayError } from '../base/error.ts';
import type { Bytes, Millis } from '../base/units.ts';
import { hideSnapshot, type MemberItem, revealSnapshot } from '../channel/index.ts';
import type { MemberFacts, VolumeFacts } from '../clusters/facts.ts';
import type { CommandOutcome, MemberCommand, MemberSnapshot } from '../clusters/snapshot.ts';
import type { Clock, Log } from '../engine/ports.ts';
import { seriesOf } from '../model/index.ts';
import { bounded } from './clock.ts';
import { leads } from './commands/members.ts';
import { runCommand } from './commands/run.ts';
import type { Executables } from './executables.ts';
import {
  atomicWrite,
  derivedWriteIfChanged,
  isEmpty,
  makeFolder,
  PRIVATE,
  readJson,
  readText,
} from './files.ts';
import type { Inventory, ServiceRecord } from './inventory.ts';
import { signal } from './launch.ts';
import type { ServicePaths } from './layout.ts';
import { ANSWERS_KEPT, COUNT_EVERY, MAX_QUEUED_COMMANDS, USED_STEP } from './limits.ts';
import { rotateLog } from './logRotation.ts';
import { ClientPool } from './mongo.ts';
import { Observer } from './observer.ts';
import { listenerFor, portHolder } from './procfs.ts';
import { renderConfig } from './render.ts';
import { printOf, servedCertificate } from './served.ts';
import { readSpace, steadySpace, usedBytes } from './space.ts';
import { type Goal, type RunPlan, Supervisor } from './supervisor.ts';

export interface MemberOptions {
  readonly serviceId: string;
  readonly paths: ServicePaths;
  readonly inventory: Inventory;
  readonly executables: Executables;
  /** What "all addresses" means on this host; null: all. */
  readonly bindIp: readonly string[] | null;
  readonly clock: Clock;
  readonly log: Log;
  readonly changed: (serviceId: string) => void;
}

export class Member {
  readonly #options: MemberOptions;
  readonly #supervisor: Supervisor;
  readonly #observer: Observer;
  readonly #clients: ClientPool;
  readonly #answers = new Map<string, Promise<CommandOutcome>>();
  #snapshot: MemberSnapshot | null = null;
  #certificate: MemberFacts['certificate'] = null;
  #volume: VolumeFacts | null = null;
  #foreign: string | null = null;
  #observedPid: number | null = null;
  #observedVersion = 0;
  #identified: string | null = null;
  #newestRun: string | null = null;
  #usedBytes: Bytes | null = null;
  #countedAt: Millis | null = null;
  #queue: Promise<unknown> = Promise.resolve();
  #queued = 0;

  constructor(options: MemberOptions) {
    this.#options = options;
    const { serviceId, paths, clock, log } = options;
    this.#clients = new ClientPool(clock);
    this.#supervisor = new Supervisor({
      serviceId,
      paths,
      clock,
      log,
      changed: () => this.#processChanged(),
      redact: (message) => this.#redact(message),
      portHolder: () => this.#portHolder(),
    });
    this.#observer = new Observer({
      clock,
      changed: () => this.#databaseChanged(),
      answered: () => {
        this.#noteRun(this.#supervisor.version);
        this.#supervisor.confirm();
      },
      lost: () => this.#supervisor.look(),
      stranger: (port) => {
        const listener = listenerFor(port, this.#supervisor.pid);
        return listener.kind === 'other' ? listener.by : null;
      },
      identified: (replicaSetId) => this.#identify(replicaSetId),
    });
  }

  /** Takes up what is on disk: the cached snapshot and a process that still runs. No control plane is needed. */
  open(): void {
    const cached = readJson(this.#options.paths.snapshot);
    if (cached !== null) this.#keep(hideSnapshot(cached));
    this.look();
    const { volumeId = '' } = this.#record ?? {};
    this.#newestRun = this.#options.inventory.volume(volumeId)?.newestRun ?? null;
    this.#supervisor.adopt();
    this.#processChanged();
    this.reload(false);
  }

  // ── facts ──────────────────────────────────────────────────────────────────────────────────────────────────────

  get item(): MemberItem {
    return { clusterUid: this.#record?.owner.clusterUid ?? null, facts: this.facts };
  }

  get facts(): MemberFacts {
    const { serviceId } = this.#options;
    const { configVersion, configError, facts: process } = this.#supervisor;
    return {
      serviceId,
      configVersion,
      configError,
      process,
      database: this.#observer.facts,
      certificate: this.#certificate,
      volume: this.#volume,
      newestRun: this.#newestRun,
    };
  }

  get pid(): number | null {
    return this.#supervisor.pid;
  }

  /** There is something to say of its database; of one without a process there is at once. */
  async looked(): Promise<void> {
    if (this.pid !== null) await this.#observer.looked;
  }

  get #record(): ServiceRecord | null {
    return this.#options.inventory.service(this.#options.serviceId);
  }

  // ── snapshot ───────────────────────────────────────────────────────────────────────────────────────────────────

  /**
   * Takes a snapshot: on disk when this returns, taken over after that. Errors: `OwnershipConflict` (never) for another
   * member's, `StaleSnapshot` (never) for one older than what is here, `ServiceNotFound` (later) while it is being removed. The same version again replaces what is here: the
   * control plane may have died between giving it and remembering that.
   */
  publish(snapshot: MemberSnapshot): void {
    const { serviceId, paths } = this.#options;
    const owner = this.#record?.owner;
    if (owner?.clusterUid !== snapshot.clusterUid || owner.member !== snapshot.member) {
      throw new BelayError(
        'OwnershipConflict',
        `service ${serviceId} is not ${snapshot.member} of ${snapshot.cluster}`,
        {
          retry: 'never',
        },
      );
    }
    if (this.#supervisor.leaving)
      throw new BelayError('ServiceNotFound', `service ${serviceId} is being removed`, { retry: 'later' });
    if (this.#snapshot && snapshot.configVersion < this.#snapshot.configVersion) {
      throw new BelayError(
        'StaleSnapshot',
        `configuration ${snapshot.configVersion} of ${snapshot.member} is older than ${this.#snapshot.configVersion}`,
        { retry: 'never' },
      );
    }
    const text = JSON.stringify(revealSnapshot(snapshot));
    const fresh = readText(paths.snapshot) !== text;
    if (fresh) atomicWrite(paths.snapshot, text, PRIVATE);
    this.#keep(snapshot);
    if (fresh) this.#foreign = null;
    // Certificates that were taken before are not those that are here now, also when the same step asks again.
    if (fresh)
      for (const asked of this.#answers.keys()) if (asked.endsWith(TAKING)) this.#answers.delete(asked);
    this.reload(fresh);
  }

  /**
   * S3: whoever wants it restarted saw it lead nobody, which may be over. Errors: `MemberIsPrimary` (later) while it leads its
   * set, or has answered until now and does not say whether it does; one that does not run or answer leads nobody.
   */
  async refusePrimary(): Promise<void> {
    const snapshot = this.#snapshot;
    if (snapshot === null || snapshot.product !== 'mongod' || this.#supervisor.pid === null) return;
    const answered = this.#observer.facts?.kind === 'reachable';
    const context = { snapshot, clients: this.#clients, signal: NEVER_ABORTED };
    const leading = await bounded(this.#options.clock, leads(context)).catch(() => null);
    if (leading === true)
      throw new BelayError('MemberIsPrimary', `${snapshot.member} is primary by now: it hands over first`);
    if (leading === null && answered)
      throw new BelayError('MemberIsPrimary', `${snapshot.member} does not say whether it is primary`);
  }

  #keep(snapshot: MemberSnapshot): void {
    this.#snapshot = snapshot;
  }

  /** The service record or snapshot changed: the process follows. */
  reload(fresh: boolean): void {
    this.#supervisor.setGoal(this.#goal(), fresh);
  }

  #goal(): Goal {
    const snapshot = this.#snapshot;
    const record = this.#record;
    if (!snapshot || !record || record.version === null) return { kind: 'nothing' };
    const { configVersion } = snapshot;
    if (snapshot.run === 'stopped') return { kind: 'stopped', configVersion };
    const volume = this.#volumeProblem(record);
    const foreign = this.#foreign ?? (volume?.code === 'ForeignData' ? volume.message : null);
    // What is only missing is looked for again before each start.
    if (foreign !== null) return { kind: 'refused', code: 'ForeignData', message: foreign, configVersion };
    return { kind: 'run', plan: this.#plan(this.#bound(snapshot), record, record.version) };
  }

  #bound(snapshot: MemberSnapshot): MemberSnapshot {
    const { bindIp } = this.#options;
    return bindIp && snapshot.bindIp.includes('*') ? { ...snapshot, bindIp } : snapshot;
  }

  /**
   * S6: the marker in the volume decides whose data it is, not the path. And a voter whose data is gone would come back empty
   * under its own name, forget what it has acknowledged, and could elect somebody who never had it.
   */
  #volumeProblem({ volumeId, owner }: ServiceRecord): BelayError | null {
    const { inventory } = this.#options;
    const volume = inventory.volume(volumeId);
    if (volume === null)
      return new BelayError('VolumeNotFound', `the volume ${volumeId} is gone or has no readable owner`);
    const { clusterUid, member } = volume.owner;
    if (clusterUid !== owner.clusterUid || member !== owner.member)
      return new BelayError(
        'ForeignData',
        `the data folder belongs to ${member} of another cluster (${clusterUid})`,
      );
    const held = volume.replicaSetId !== null || volume.newestRun !== undefined;
    return held && isEmpty(inventory.dataPath(volumeId))
      ? new BelayError(
          'VolumeNotFound',
          `the data of volume ${volumeId} is gone: its folder is missing or empty`,
        )
      : null;
  }

  #plan(snapshot: MemberSnapshot, record: ServiceRecord, version: string): RunPlan {
    return {
      version,
      configVersion: snapshot.configVersion,
      inputs: inputsOf(snapshot, version),
      certificates: certificatesOf(snapshot),
      certificatesOnline: snapshot.certificatesOnline,
      limits: snapshot.limits,
      environment: record.environment,
      prepare: async () => {
        const executable = await this.#options.executables.find(snapshot.product, version);
        const problem = this.#volumeProblem(record);
        if (problem !== null) throw problem;
        this.#writeFiles(snapshot, record);
        return executable;
      },
    };
  }

  /** All of it comes from the snapshot, which is safe on disk: after a power cut it is written again before a start. */
  #writeFiles(snapshot: MemberSnapshot, record: ServiceRecord): void {
    const { paths, inventory } = this.#options;
    const dataPath = inventory.dataPath(record.volumeId);
    makeFolder(dataPath);
    makeFolder(`${paths.folder}/tls`, 0o700, 'nothing');
    this.#writeCertificates(snapshot);
    derivedWriteIfChanged(paths.keyFile, snapshot.keyFile.reveal(), PRIVATE);
    derivedWriteIfChanged(paths.config, renderConfig(snapshot, paths, dataPath));
  }

  #writeCertificates({ caPem, certificatePem }: MemberSnapshot): void {
    const { paths } = this.#options;
    derivedWriteIfChanged(paths.ca, caPem);
    derivedWriteIfChanged(paths.certificate, certificatePem.reveal(), PRIVATE);
  }

  #redact(message: string): string {
    const snapshot = this.#snapshot;
    if (!snapshot) return message;
    const logins = [snapshot.monitor, snapshot.nextMonitor].flatMap(
      (login) => login?.password.reveal() ?? [],
    );
    const secrets = [snapshot.keyFile.reveal().trim(), ...logins];
    return secrets
      .filter((text) => text !== '')
      .reduce((text, hidden) => text.replaceAll(hidden, '***'), message);
  }

  // ── process and database ───────────────────────────────────────────────────────────────────────────────────────

  #processChanged(): void {
    const { pid, configVersion } = this.#supervisor;
    const snapshot = this.#snapshot;
    if (pid !== this.#observedPid) {
      this.#observedPid = pid;
      this.#clients.clear();
      if (pid === null || !snapshot) this.#observer.stop();
      else this.#observer.start(snapshot, this.#isAdopted);
    } else if (configVersion !== this.#observedVersion && snapshot) this.#observer.update(snapshot);
    if (configVersion !== this.#observedVersion) {
      this.#observedVersion = configVersion;
      if (snapshot?.configVersion === configVersion) void this.#lookAtCertificate(snapshot);
    }
    this.#report();
  }

  get #isAdopted(): boolean {
    const { facts } = this.#supervisor;
    return facts.kind === 'running' && facts.adopted;
  }

  /** What is reported is what the process presents; without TLS, what it would. */
  async #lookAtCertificate(snapshot: MemberSnapshot): Promise<void> {
    const served = snapshot.tlsMode === 'disabled' ? null : await servedCertificate(snapshot.port);
    if (snapshot !== this.#snapshot || !this.#ownsPort(snapshot)) return;
    this.#certificate = served ?? certificateOf(snapshot);
    this.#report();
  }

  #databaseChanged(): void {
    const database = this.#observer.facts;
    const snapshot = this.#snapshot;
    if (database?.kind === 'reachable') this.#noteRun(database.binaryVersion);
    if (database?.kind === 'reachable' && database.setName !== null && snapshot) {
      if (database.setName !== snapshot.replicaSet) {
        this.#refuseData(`the data folder belongs to another replica set (${database.setName})`);
      }
    }
    this.#report();
  }

  /** Kept with the data before anybody is told that it answers: after a crash it is known what may have written there (S7). */
  #noteRun(version: string | null): void {
    const series = seriesOf(version ?? '');
    if (series === undefined || Number(series) <= Number(this.#newestRun ?? 0)) return;
    const record = this.#record;
    if (record && this.#snapshot?.product !== 'mongos')
      this.#newestRun = this.#options.inventory.noteRun(record.volumeId, series);
  }

  /** The set's id goes into the volume's marker when first seen; data with another one is not ours (S6, INI-06). */
  #identify(replicaSetId: string): void {
    if (this.#identified === replicaSetId) return;
    const { inventory } = this.#options;
    const record = this.#record;
    const known = record ? inventory.volume(record.volumeId)?.replicaSetId : undefined;
    if (!record || known === undefined) return;
    if (known !== null && known !== replicaSetId) {
      this.#refuseData(`the data folder belongs to another replica set (id ${replicaSetId}, not ${known})`);
      return;
    }
    inventory.noteReplicaSet(record.volumeId, replicaSetId);
    this.#identified = replicaSetId;
  }

  /** False while somebody else answers where the member's own process ought to; what they say is not of its data. */
  #ownsPort({ port }: MemberSnapshot): boolean {
    return listenerFor(port, this.#supervisor.pid).kind !== 'other';
  }

  #portHolder(): string | null {
    const { port } = this.#snapshot ?? {};
    const holder = port === undefined ? null : portHolder(port);
    return holder === null ? null : `port ${port} is taken by ${holder}`;
  }

  /** S6: only for what the process that runs on the data itself says of it. */
  #refuseData(message: string): void {
    if (this.#foreign !== null || !this.#snapshot || !this.#ownsPort(this.#snapshot)) return;
    this.#foreign = message;
    this.#options.log.error('foreign data', { service: this.#options.serviceId, message });
    this.reload(false);
  }

  #report(): void {
    this.#options.changed(this.#options.serviceId);
  }

  // ── commands ───────────────────────────────────────────────────────────────────────────────────────────────────

  /** Runs commands of this member one after the other. The same step asked twice is done once, unless it was not done. */
  run(
    command: MemberCommand,
    options: { readonly timeoutMillis: Millis; readonly stepId: string; readonly signal: AbortSignal },
  ): Promise<CommandOutcome> {
    // A step may ask for several things, a change and its proof for one.
    const asked = `${options.stepId} ${command.kind}`;
    const known = this.#answers.get(asked);
    if (known) return known;
    if (this.#queued >= MAX_QUEUED_COMMANDS) {
      throw new BelayError('TooManyRequests', `${MAX_QUEUED_COMMANDS} commands wait for this member`);
    }
    this.#queued++;
    const outcome = this.#queue
      .then(() => this.#runNow(command, options))
      .finally(() => {
        this.#queued--;
        this.#observer.poke();
      });
    this.#queue = outcome.catch(() => {});
    this.#remember(asked, outcome);
    return outcome;
  }

  async #runNow(
    command: MemberCommand,
    options: { readonly timeoutMillis: Millis; readonly signal: AbortSignal },
  ): Promise<CommandOutcome> {
    const snapshot = this.#snapshot;
    const { pid } = this.#supervisor;
    if (!snapshot || pid === null) {
      return refusedHere('MemberNotRunning', 'the member does not run', 'transient');
    }
    const context = { snapshot, clients: this.#clients, ownsPort: () => this.#ownsPort(snapshot) };
    const run = (): Promise<CommandOutcome> =>
      runCommand(context, command, { ...options, clock: this.#options.clock });
    return command.kind === 'rotateCertificates' ? this.#rotateCertificates(command, snapshot, run) : run();
  }

  /** Files first, then the server's own command, then the proof: what it presents from now on. */
  async #rotateCertificates(
    { configVersion }: Extract<MemberCommand, { kind: 'rotateCertificates' }>,
    snapshot: MemberSnapshot,
    run: () => Promise<CommandOutcome>,
  ): Promise<CommandOutcome> {
    if (snapshot.configVersion !== configVersion)
      return refusedHere('StaleSnapshot', `configuration ${configVersion} is not here`, 'transient');
    this.#writeCertificates(snapshot);
    const outcome = await run();
    if (outcome.kind !== 'done') return outcome;
    const served = await servedCertificate(snapshot.port);
    if (served === null) return refusedHere('MemberNotRunning', 'the member does not answer', 'transient');
    if (served.fingerprint !== certificateOf(snapshot)?.fingerprint)
      return refusedHere(
        'CertificateNotTaken',
        'the process still presents another certificate',
        'permanent',
      );
    if (snapshot === this.#snapshot) {
      this.#certificate = served;
      this.#supervisor.tookCertificates();
      this.#report();
    }
    return outcome;
  }

  #remember(asked: string, outcome: Promise<CommandOutcome>): void {
    this.#answers.set(asked, outcome);
    const forget = (): boolean => this.#answers.delete(asked);
    outcome.then((answer) => answer.kind === 'done' || forget(), forget);
    const [oldest] = this.#answers.keys();
    if (this.#answers.size > ANSWERS_KEPT && oldest !== undefined) this.#answers.delete(oldest);
  }

  // ── housekeeping ───────────────────────────────────────────────────────────────────────────────────────────────

  /** Disk and log, every now and then. */
  look(): void {
    const record = this.#record;
    const space = record ? readSpace(this.#options.inventory.dataPath(record.volumeId)) : null;
    const told = steadySpace(this.#volume, space);
    const used = this.#usedBytes === null ? {} : { usedBytes: this.#usedBytes };
    const volume =
      record && told
        ? { id: record.volumeId, totalBytes: told.totalBytes, freeBytes: told.freeBytes, ...used }
        : null;
    if (record) void this.#count(this.#options.inventory.dataPath(record.volumeId));
    if (!isDeepStrictEqual(volume, this.#volume)) {
      this.#volume = volume;
      this.#report();
    }
    const { pid } = this.#supervisor;
    if (pid !== null) rotateLog(this.#options.paths.log, () => signal(pid, 'SIGUSR1'));
  }

  /** What the volume holds, when it was not counted for a while. */
  async #count(dataPath: string): Promise<void> {
    const now = this.#options.clock.now();
    if (this.#countedAt !== null && now - this.#countedAt < COUNT_EVERY) return;
    this.#countedAt = now;
    const used = await usedBytes(dataPath);
    const told = this.#usedBytes;
    if (told !== null && Math.abs(used - told) < told * USED_STEP) return;
    this.#usedBytes = used;
    this.look();
  }

  /** Stops the process for good. */
  async stop(): Promise<void> {
    await this.#supervisor.stop();
    this.close();
  }

  /** Lets go; the process runs on. */
  close(): void {
    this.#supervisor.close();
    this.#observer.stop();
    this.#clients.clear();
  }
}

const NEVER_ABORTED = new AbortController().signal;

const TAKING = ' rotateCertificates' satisfies ` ${MemberCommand['kind']}`;

function refusedHere(
  codeName: string,
  message: string,
  kind: 'transient' | 'permanent',
): Extract<CommandOutcome, { kind: 'refused' }> {
  return { kind: 'refused', code: null, codeName, message, class: kind };
}

/** What a process can be given while it runs. */
function certificatesOf({ tlsMode, caPem, certificatePem }: MemberSnapshot): string {
  if (tlsMode === 'disabled') return '';
  return createHash('sha256').update(`${caPem}\n${certificatePem.reveal()}`).digest('hex');
}

/** What decides whether a process must be restarted: everything else that goes into its files, and nothing else (CRD-11). */
function inputsOf(snapshot: MemberSnapshot, version: string): string {
  const { port, bindIp, tlsMode, cacheGb, userConfig, replicaSet, role, limits, restartToken } = snapshot;
  const { configServers } = snapshot;
  const secrets = [snapshot.keyFile.reveal()];
  const inputs = [
    version,
    port,
    bindIp,
    tlsMode,
    cacheGb,
    userConfig,
    replicaSet,
    role,
    limits,
    secrets,
    ...(restartToken === null ? [] : [restartToken]),
    ...(configServers === undefined ? [] : [configServers]),
  ];
  return createHash('sha256').update(JSON.stringify(inputs)).digest('hex');
}

function certificateOf(snapshot: MemberSnapshot): MemberFacts['certificate'] {
  try {
    const { validTo, fingerprint256 } = new X509Certificate(snapshot.certificatePem.reveal());
    return { notAfter: Date.parse(validTo), fingerprint: printOf(fingerprint256) };
  } catch {
    return null;
  }
}
