/** A set that plays along, for the tests of planners: steps work, members come back. */
import { expect } from 'vitest';
import { seriesOf, type TlsMode } from '../model/index.ts';
import { modelCertificate } from './certificates.ts';
import type { Step } from './decisions.ts';
import type { DatabaseFacts, MemberStateName, ReplSetConfig } from './facts.ts';
import { facts, running, seen } from './fixtures.ts';
import { guard } from './guard.ts';
import { advance } from './learn.ts';
import { plan } from './plan.ts';
import { systemUsersHash } from './planners/users.ts';
import { activatedSnapshot } from './snapshotInputs.ts';
import { applyOutcome, startStep } from './steps.ts';
import { initialConfig, memberHost } from './topology.ts';
import type {
  ActivatedSnapshot,
  Authority,
  Desired,
  MemberState,
  Observed,
  ObservedHost,
  ObservedMember,
  OperationRequest,
  State,
} from './types.ts';

/** A set that plays along: steps work, members come back, the highest index of the healthy ones is elected. */
export class Play {
  state: State;
  desired: Desired;
  states: (MemberStateName | null)[];
  readonly lines: string[] = [];
  now = 0;

  constructor(want: Desired) {
    this.desired = want;
    this.state = running(want);
    this.config = initialConfig(this.state, want) as ReplSetConfig;
    this.states = want.members.map((_, i) => (i === 0 ? 'PRIMARY' : 'SECONDARY'));
  }

  /** The set's configuration once a test changes it. */
  config: ReplSetConfig;
  /** Machines with an agent. Null: each member gets one of its own, called by its index. */
  hosts: readonly ObservedHost[] | null = null;
  /** Machines that are gone, with whatever runs there. */
  readonly lostHosts = new Set<string>();
  /** Members whose process is down though their agent reports them. */
  readonly down = new Set<number>();
  /** How many passes a new member copies data before it is a secondary. */
  syncPasses = 0;
  readonly #syncing = new Map<number, number>();

  /** A machine goes away for good, or comes back. Who is left elects a primary where it can. */
  lose(host: string, gone = true): void {
    if (gone) this.lostHosts.add(host);
    else this.lostHosts.delete(host);
    this.vote();
  }

  /** A member's process ends, or is there again. */
  crash(index: number, gone = true): void {
    if (gone) this.down.add(index);
    else this.down.delete(index);
    this.vote();
  }

  /** A majority of the voters elects the first that may be primary; without one nobody is. */
  vote(not = -1): void {
    const up = this.state.members.filter((m) => this.isIn(m) && this.isUp(m));
    const row = (m: MemberState) => this.config.members.find((r) => r.host === memberHost(m));
    const before = up.find((m) => this.states[m.index] === 'PRIMARY' && m.index !== not);
    const voters = this.config.members.filter((r) => r.votes === 1).length;
    const enough = up.filter((m) => row(m)?.votes === 1).length > voters / 2;
    const able = up.filter(
      (m) => m.index !== not && (row(m)?.priority ?? 0) > 0 && !this.#syncing.has(m.index),
    );
    const next = enough ? (before ?? able[0]) : undefined;
    for (const m of this.state.members)
      if (this.states[m.index] === 'PRIMARY') this.states[m.index] = 'SECONDARY';
    if (next !== undefined) this.states[next.index] = 'PRIMARY';
  }

  /** The primary's member, as it truly is. */
  primary(): MemberState | null {
    return this.state.members.find((m) => this.states[m.index] === 'PRIMARY' && this.isUp(m)) ?? null;
  }

  /** It has joined and copies data. */
  isCopying(member: MemberState): boolean {
    return this.#syncing.has(member.index);
  }

  isUp(member: MemberState): boolean {
    return (
      !this.down.has(member.index) && !this.lostHosts.has(member.host ?? '') && member.serviceId !== null
    );
  }

  reading(): Observed {
    const o = seen(
      this.state,
      this.desired,
      this.state.members.map((m) => this.stateOf(m)),
    );
    const members = o.members.map((m) => {
      const record = this.state.members.find((x) => x.name === m.name);
      const index = record?.index ?? -1;
      if (m.facts !== null && (this.crashing.has(index) || this.down.has(index))) {
        const process = {
          kind: 'exited',
          since: 0,
          exitCode: 2,
          signal: null,
          failures: 3,
          nextStartAt: null,
          message: 'Unrecognized option',
        } as const;
        const newestRun = this.#ran.get(index) ?? null;
        return { ...m, facts: { ...m.facts, process, database: null, newestRun } };
      }
      if (record === undefined) return m;
      if (record.serviceId === null || record.activated === null)
        return { ...m, facts: null, connected: false };
      if (m.facts?.database?.kind !== 'reachable') return m;
      if (!this.isIn(record)) return this.outsider(m, record);
      const database = {
        ...m.facts.database,
        config: this.config,
        binaryVersion: record.deployedVersion ?? '',
        featureCompatibilityVersion: this.fcv,
        ...(this.#syncing.has(index) ? { initialSyncPercent: this.#percent(index) } : {}),
      };
      const given = record.activated?.certificate ?? null;
      const fingerprint = this.presents.get(record.index) ?? given?.fingerprint;
      const certificate =
        given === null || fingerprint === undefined ? null : { notAfter: given.notAfter, fingerprint };
      const { configVersion = 0 } = record.activated ?? {};
      const newestRun = this.#answers(record);
      return { ...m, facts: { ...m.facts, configVersion, database, certificate, newestRun } };
    });
    const hosts = (this.hosts ?? o.hosts).map((h) => ({
      ...h,
      connected: h.connected && !this.lostHosts.has(h.name),
    }));
    const capabilities = { ...o.capabilities, diskGrowth: this.grows };
    return { ...o, members, hosts, requests: this.requests, authority: this.authority, capabilities };
  }

  /** What its agent keeps with its volume: it only ever grows. */
  readonly #ran = new Map<number, string>();
  #answers({ index, deployedVersion }: MemberState): string {
    const series = seriesOf(deployedVersion ?? '') ?? '';
    const newest = [this.#ran.get(index) ?? series, series].sort(
      (a, b) => Number(b) - Number(a),
    )[0] as string;
    this.#ran.set(index, newest);
    return newest;
  }

  #percent(index: number): number {
    return Math.round(100 - (100 * (this.#syncing.get(index) ?? 0)) / (this.syncPasses + 1));
  }

  /** Operations asked for. */
  requests: readonly OperationRequest[] = [];
  fcv = '8.0';
  authority: Authority | null = null;
  /** Servers that take a certificate only by a restart. */
  refusesOnline = false;
  /** The platform's volumes grow. */
  grows = false;
  /** Fingerprints that members present, by index; others present what they were given. */
  readonly presents = new Map<number, string>();
  /** Members whose process ends as soon as it starts, though their agent reports them. */
  crashing = new Set<number>();

  /** One pass: gives what was done, or what is waited for. */
  pass(): string {
    this.now += 1000;
    this.#copy();
    const o = this.reading();
    this.state = advance(this.state, this.desired, o, this.now);
    const p = plan(o, this.desired, this.state, this.now);
    const step = p.act?.steps[0];
    if (step === undefined)
      return p.blocks[0] ? `blocked ${p.blocks[0].by}` : p.waits[0] ? `wait ${p.waits[0].on}` : 'converged';
    const disruptive =
      p.act?.steps.filter((x) => ['reload', 'upgrade', 'stepDown', 'reconfig'].includes(x.kind)) ?? [];
    expect(disruptive.length, 'S2: one disruptive step').toBeLessThan(2);
    for (const one of p.act?.steps ?? []) {
      expect(guard(one, o, this.desired, this.state, this.now), one.kind).toBeNull();
      this.perform(one);
    }
    if (step.kind === 'setFcv' || step.kind === 'setSuspend')
      return `${step.kind} ${step.kind === 'setFcv' ? step.version : step.suspend}`;
    return step.kind === 'reconfig' ? step.change : `${step.kind} ${'member' in step ? step.member : ''}`;
  }

  /** Members that are up copy a part of the data. */
  #copy(): void {
    for (const [index, left] of this.#syncing) {
      const member = this.state.members.find((m) => m.index === index);
      if (member === undefined || !this.isIn(member)) this.#syncing.delete(index);
      else if (this.isUp(member) && this.primary() !== null)
        left <= 1 ? this.#syncing.delete(index) : this.#syncing.set(index, left - 1);
    }
  }

  #joined(config: ReplSetConfig): void {
    for (const member of this.state.members) {
      const isNew = !this.isIn(member) && config.members.some((r) => r.host === memberHost(member));
      if (isNew && this.syncPasses > 0) this.#syncing.set(member.index, this.syncPasses);
    }
  }

  perform(step: Step): void {
    const id = `s${this.now}`;
    this.state = startStep(this.state, step, id, this.now);
    if (step.kind === 'reconfig') {
      expect(step.config.version).toBe(this.config.version + 1);
      this.#joined(step.config);
      this.config = step.config;
    }
    this.infrastructure(step, id);
    const i = 'member' in step ? (this.state.members.find((m) => m.name === step.member)?.index ?? -1) : -1;
    if (step.kind === 'rotateCertificate' && this.refusesOnline) {
      const outcome = { kind: 'failed', code: 'CertificateNotTaken', message: 'no', retry: 'later' } as const;
      this.state = applyOutcome(this.state, step, id, outcome, this.now);
    } else if (step.kind === 'reload' || step.kind === 'rotateCertificate' || step.kind === 'giveLogins') {
      const snapshot = this.snapshot(step.member, step.configVersion, id);
      this.state = applyOutcome(this.state, step, id, { kind: 'done', result: { snapshot } }, this.now);
    }
    if (step.kind === 'upgrade') {
      this.state = applyOutcome(
        this.state,
        step,
        id,
        { kind: 'done', result: { operationId: id } },
        this.now,
      );
      this.state = advance(
        this.state,
        this.desired,
        { ...this.reading(), operations: { [id]: { kind: 'succeeded', result: {} } } },
        this.now,
      );
    }
    if (step.kind === 'reconcileSystemUsers') {
      const usersHash = systemUsersHash({ desired: this.desired, state: this.state });
      this.state = applyOutcome(this.state, step, id, { kind: 'done', result: { usersHash } }, this.now);
    }
    if (step.kind === 'stageLogins' || step.kind === 'rotateUsers' || step.kind === 'keepLogins')
      this.state = applyOutcome(this.state, step, id, { kind: 'done', result: {} }, this.now);
    if (step.kind === 'setFcv') {
      this.fcv = step.version;
      this.state = applyOutcome(this.state, step, id, { kind: 'done', result: {} }, this.now);
    }
    if (step.kind === 'setSuspend') {
      const generation = this.desired.generation + 1;
      this.desired = { ...this.desired, suspend: step.suspend, generation };
      this.state = applyOutcome(this.state, step, id, { kind: 'done', result: { generation } }, this.now);
    }
    if (step.kind === 'stepDown') {
      this.states[i] = 'SECONDARY';
      const heirs = this.state.members.filter(
        (m) =>
          m.index !== i &&
          m.stage !== 'removing' &&
          this.isIn(m) &&
          this.isUp(m) &&
          this.states[m.index] !== null &&
          (this.config.members.find((r) => r.host === memberHost(m))?.priority ?? 0) > 0,
      );
      this.states[heirs[0]?.index ?? i] = 'PRIMARY';
    }
    const modes = this.state.members.flatMap((m): TlsMode[] =>
      m.activated === null ? [] : [m.activated.tlsMode],
    );
    const places = modes.map((m) => ['disabled', 'allowTLS', 'preferTLS', 'requireTLS'].indexOf(m));
    expect(Math.max(...places) - Math.min(...places), `S12: ${modes.join()}`).toBeLessThan(2);
  }

  private snapshot(member: string, configVersion: number, id: string): ActivatedSnapshot {
    const certificate = modelCertificate(this.state, this.reading(), member, id, this.now);
    return activatedSnapshot(this.state, this.desired, member, configVersion, certificate);
  }

  toTheEnd(limit = 60): string[] {
    for (let i = 0; i < limit; i++) {
      const line = this.pass();
      if (line === 'converged' || line.startsWith('blocked')) return [...this.lines, line];
      this.lines.push(line);
    }
    return [...this.lines, 'did not converge'];
  }

  private stateOf(member: MemberState): MemberStateName | null {
    if (this.lostHosts.has(member.host ?? '')) return null;
    if (this.#syncing.has(member.index)) return 'STARTUP2';
    const told = this.states[member.index];
    if (told !== undefined) return told;
    return this.isIn(member) ? 'SECONDARY' : 'STARTUP';
  }

  private isIn(member: MemberState): boolean {
    return this.config.members.some((row) => row.host === memberHost(member));
  }

  private outsider(m: ObservedMember, record: MemberState): ObservedMember {
    const database = {
      ...(facts(record).database as Extract<DatabaseFacts, { kind: 'reachable' }>),
      binaryVersion: record.deployedVersion ?? '',
    };
    return {
      ...m,
      facts: { ...facts(record), configVersion: record.activated?.configVersion ?? 0, database },
    };
  }

  /** Imports, deployments and deletions succeed at once. */
  private infrastructure(step: Step, id: string): void {
    const succeed = (result: Record<string, string | number>): void => {
      this.state = advance(
        this.state,
        this.desired,
        { ...this.reading(), operations: { [id]: { kind: 'succeeded', result } } },
        this.now,
      );
    };
    if (step.kind === 'import') {
      const index = Number(step.member.split('-').at(-1)) + 1;
      const { host, address, port } = step.placement;
      const place = this.hosts === null ? {} : { host, address, port };
      succeed({
        serviceId: `s-${step.member}`,
        volumeId: `v-${step.member}`,
        host: `db${index}`,
        address: `db${index}`,
        port: 27017,
        ...place,
      });
    }
    if (
      step.kind === 'deploy' ||
      step.kind === 'growVolume' ||
      step.kind === 'deleteRuntime' ||
      step.kind === 'deleteVolume'
    )
      succeed({});
    if (step.kind === 'publish') {
      const snapshot = this.snapshot(step.member, step.configVersion, id);
      this.state = applyOutcome(this.state, step, id, { kind: 'done', result: { snapshot } }, this.now);
    }
  }
}
