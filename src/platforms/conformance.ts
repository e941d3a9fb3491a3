/** One suite for every platform: what the provider relies on, whoever runs the services. */
import { describe, expect, test } from 'vitest';
import type { OperationFacts, OwnerMarker, ServiceFacts, ServiceSpec } from '../clusters/index.ts';
import type { Fence, Platform } from '../engine/ports.ts';

/** A platform with what a test needs to know of the world below it. */
export interface PlatformBench {
  readonly platform: Platform;
  /** Machines or zones that services can be placed on; at least two. */
  readonly hosts: readonly string[];
  /** Lets time pass until an operation that was started can end. */
  settle(): Promise<void>;
  /** Cuts a host off, where the platform knows such a thing; null elsewhere. */
  readonly cutOff: ((host: string, connected: boolean) => void) | null;
  close(): Promise<void>;
}

const FENCE: Fence = { lease: 'clusters/0', epoch: 3 };

const owner = (change: Partial<OwnerMarker> = {}): OwnerMarker => ({
  installation: 'i',
  clusterUid: 'c-1',
  member: 'orders-0',
  hostname: 'orders-0',
  proof: 'proof',
  ...change,
});

const spec = (host: string, change: Partial<ServiceSpec> = {}): ServiceSpec => ({
  hostname: 'orders-0',
  host,
  address: host,
  port: 27017,
  portFixed: false,
  owner: owner(),
  artifact: { kind: 'belay-agent', version: '0' },
  prepare: [],
  product: 'mongod',
  environment: {},
  readiness: ['/opt/belay/bin/belay-ready'],
  volume: { name: 'orders-0-data', mountPath: '/data', sizeBytes: null, id: null },
  resources: { cpus: null, memoryBytes: null },
  version: '8.0.32-14',
  ...change,
});

/** Runs the suite. */
export function describePlatform(name: string, open: () => Promise<PlatformBench>): void {
  const on = async (run: (bench: Bench) => Promise<void>): Promise<void> => {
    const bench = await open();
    try {
      await run(new Bench(bench));
    } finally {
      await bench.close();
    }
  };
  describe(`platform: ${name}`, () => {
    test('A4.3 A4.6 an import ends as an operation that tells ids and place, and the services carry the marker', () =>
      on(async (bench) => {
        const result = await bench.import(spec(bench.host));
        expect(result).toMatchObject({ host: bench.host, port: 27017 });
        const services = await bench.services();
        const runtime = services.find((s) => s.kind === 'runtime');
        const volume = services.find((s) => s.kind === 'volume');
        expect(runtime).toMatchObject({ id: result['serviceId'], hostname: 'orders-0', host: bench.host });
        expect(runtime?.owner).toEqual(owner());
        expect(volume).toMatchObject({ id: result['volumeId'] });
        expect(volume?.owner).toEqual(owner());
      }));

    test('S10 a step id started twice is one operation', () =>
      on(async (bench) => {
        const first = await bench.platform.import(spec(bench.host), 'step/1', FENCE);
        await bench.settle();
        const second = await bench.platform.import(spec(bench.host), 'step/1', FENCE);
        expect(second.operationId).toBe(first.operationId);
        expect((await bench.services()).filter((s) => s.kind === 'runtime')).toHaveLength(1);
      }));

    test('A4.6 an operation nobody started is unknown', () =>
      on(async (bench) => {
        const { operationId } = await bench.platform.import(spec(bench.host), 'step/1', FENCE);
        const other = operationId.replace('step/1', 'step/2');
        expect(await bench.platform.operation(other)).toEqual({ kind: 'unknown' });
      }));

    test('a taken port is passed over, or refused by name when it is fixed', () =>
      on(async (bench) => {
        await bench.import(spec(bench.host));
        const second = {
          hostname: 'b-0',
          owner: owner({ clusterUid: 'c-2', member: 'b-0', hostname: 'b-0' }),
        };
        const volume = { ...spec(bench.host).volume, name: 'b-0-data' };
        const fixed = spec(bench.host, { ...second, volume, portFixed: true });
        const { operationId } = await bench.platform.import(fixed, 'step/fixed', FENCE);
        await bench.settle();
        expect(await bench.platform.operation(operationId)).toMatchObject({
          kind: 'failed',
          code: 'PortTaken',
        });
        const moved = await bench.import(spec(bench.host, { ...second, volume }), 'step/free');
        expect(moved['port']).not.toBe(27017);
      }));

    test('A14.2 a runtime goes without its volume, and comes back on the same one', () =>
      on(async (bench) => {
        const made = await bench.import(spec(bench.host));
        await bench.deleteRuntime(String(made['serviceId']));
        expect((await bench.services()).map((s) => [s.kind, s.id])).toEqual([['volume', made['volumeId']]]);
        const volume = { ...spec(bench.host).volume, id: String(made['volumeId']) };
        const again = await bench.import(spec(bench.host, { volume }), 'step/again');
        expect(again['volumeId']).toBe(made['volumeId']);
        expect((await bench.services()).filter((s) => s.kind === 'volume')).toHaveLength(1);
      }));

    test('A6.6 S4 S10 STO-04 a volume grows for its owner, with or without a runtime; it never shrinks, and where there is no room it says so', () =>
      on(async (bench) => {
        if (!bench.platform.capabilities.diskGrowth) return;
        const MIB = 1024 ** 2;
        const volume = { ...spec(bench.host).volume, sizeBytes: MIB };
        const made = await bench.import(spec(bench.host, { volume }));
        const id = String(made['volumeId']);
        const size = async (): Promise<number | null | undefined> =>
          (await bench.services()).find((s) => s.kind === 'volume')?.sizeBytes;
        expect(await size()).toBe(MIB);
        expect((await bench.growVolume(id, 2 * MIB)).kind).toBe('succeeded');
        await bench.deleteRuntime(String(made['serviceId']));
        expect((await bench.growVolume(id, 3 * MIB)).kind).toBe('succeeded');
        expect((await bench.growVolume(id, 2 * MIB, 'step/smaller')).kind).toBe('succeeded');
        expect(await size()).toBe(3 * MIB);
        const foreign = await bench.growVolume(id, 4 * MIB, 'step/foreign', { clusterUid: 'c-2' });
        expect(foreign.kind).toBe('failed');
        expect(await bench.growVolume(id, 2 ** 52, 'step/huge')).toMatchObject({ code: 'DiskFull' });
        expect(await size()).toBe(3 * MIB);
      }));

    test('S4 a volume is deleted for its owner only', () =>
      on(async (bench) => {
        const made = await bench.import(spec(bench.host));
        await bench.deleteRuntime(String(made['serviceId']));
        const foreign = await bench.deleteVolume(String(made['volumeId']), { clusterUid: 'c-2' });
        expect(foreign.kind).toBe('failed');
        const other = await bench.deleteVolume(String(made['volumeId']), { member: 'orders-1' });
        expect(other.kind).toBe('failed');
        expect(await bench.services()).toHaveLength(1);
        const own = await bench.deleteVolume(String(made['volumeId']), {});
        expect(own.kind).toBe('succeeded');
        expect(await bench.services()).toEqual([]);
      }));

    test('deleting what is gone succeeds: the goal is reached', () =>
      on(async (bench) => {
        const made = await bench.import(spec(bench.host));
        await bench.deleteRuntime(String(made['serviceId']), 'step/a');
        await bench.deleteRuntime(String(made['serviceId']), 'step/b');
        await bench.deleteVolume(String(made['volumeId']), {}, 'step/c');
        expect((await bench.deleteVolume(String(made['volumeId']), {}, 'step/d')).kind).toBe('succeeded');
      }));

    test('S9 an older epoch changes nothing', () =>
      on(async (bench) => {
        await bench.import(spec(bench.host));
        const stale = { ...FENCE, epoch: 2 };
        const late = spec(bench.host, {
          hostname: 'late-0',
          owner: owner({ member: 'late-0', hostname: 'late-0' }),
        });
        await expect(bench.platform.import(late, 'step/late', stale)).rejects.toMatchObject({
          retry: 'never',
        });
        expect((await bench.services()).some((s) => s.hostname === 'late-0')).toBe(false);
      }));

    test('A7.1 a host that cannot be asked is named, and spoils nothing of the others', () =>
      on(async (bench) => {
        if (bench.cutOff === null) return;
        await bench.import(spec(bench.host));
        bench.cutOff(bench.hosts[1] ?? '', false);
        const listed = await bench.platform.services(bench.hosts);
        expect(listed.unreachable).toEqual([bench.hosts[1]]);
        expect(listed.items).not.toEqual([]);
        await expect(
          bench.platform.import(spec(bench.hosts[1] ?? ''), 'step/away', FENCE),
        ).rejects.toMatchObject({ retry: 'later' });
      }));
  });
}

/** A bench with the words the tests use. */
class Bench {
  readonly platform: Platform;
  readonly hosts: readonly string[];
  readonly host: string;
  readonly settle: () => Promise<void>;
  readonly cutOff: PlatformBench['cutOff'];

  constructor(bench: PlatformBench) {
    this.platform = bench.platform;
    this.hosts = bench.hosts;
    this.host = bench.hosts[0] ?? '';
    this.settle = () => bench.settle();
    this.cutOff = bench.cutOff;
  }

  /** Imports and deploys nothing: gives the operation's result. */
  async import(
    wanted: ServiceSpec,
    stepId = 'step/import',
  ): Promise<Readonly<Record<string, string | number>>> {
    const facts = await this.#ended(await this.platform.import(wanted, stepId, FENCE));
    expect(facts.kind).toBe('succeeded');
    return facts.kind === 'succeeded' ? facts.result : {};
  }

  async deleteRuntime(id: string, stepId = 'step/deleteRuntime'): Promise<void> {
    const service = { id, host: this.host, clusterUid: 'c-1' };
    const facts = await this.#ended(await this.platform.deleteRuntime(service, stepId, FENCE));
    expect(facts.kind).toBe('succeeded');
  }

  async growVolume(
    id: string,
    sizeBytes: number,
    stepId = `step/growVolume/${sizeBytes}`,
    change: { readonly clusterUid?: string } = {},
  ): Promise<OperationFacts> {
    const volume = { id, host: this.host, clusterUid: 'c-1', member: 'orders-0', ...change };
    return this.#ended(await this.platform.growVolume(volume, sizeBytes, stepId, FENCE));
  }

  async deleteVolume(
    id: string,
    change: { readonly clusterUid?: string; readonly member?: string },
    stepId = `step/deleteVolume/${JSON.stringify(change)}`,
  ): Promise<OperationFacts> {
    const volume = { id, host: this.host, clusterUid: 'c-1', member: 'orders-0', ...change };
    return this.#ended(await this.platform.deleteVolume(volume, stepId, FENCE));
  }

  async services(): Promise<readonly ServiceFacts[]> {
    return (await this.platform.services(this.hosts)).items;
  }

  async #ended({ operationId }: { readonly operationId: string }): Promise<OperationFacts> {
    await this.settle();
    return this.platform.operation(operationId);
  }
}
