import { expect, test } from 'vitest';
import { FenceGate } from './fence.ts';

const gate = (epochs: Record<string, number> = {}) => {
  const saved: Record<string, number>[] = [];
  return {
    saved,
    gate: new FenceGate({ load: () => epochs, save: (next) => void saved.push({ ...next }) }),
  };
};

test('S9 a newer epoch is durable before its effect starts, and survives a restart of the agent', async () => {
  const { gate: fences, saved } = gate({ p1: 3 });
  const at = await fences.pass({ lease: 'p0', epoch: 7 }, async () => saved.length);
  expect(at).toBe(1);
  expect(saved).toEqual([{ p1: 3, p0: 7 }]);
  const { gate: restarted } = gate(saved[0]);
  await expect(restarted.pass({ lease: 'p0', epoch: 6 }, async () => 1)).rejects.toMatchObject({
    code: 'StaleEpoch',
  });
});

test('S9 what still runs under an older epoch is aborted and over before the newer effect starts', async () => {
  const { gate: fences } = gate();
  const order: string[] = [];
  const old = fences.pass({ lease: 'p0', epoch: 1 }, async (signal) => {
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
    order.push('old ended');
    throw signal.reason;
  });
  const other = fences.pass({ lease: 'p1', epoch: 1 }, async (signal) => signal.aborted);
  const next = fences.pass({ lease: 'p0', epoch: 2 }, async () => void order.push('new started'));
  await expect(old).rejects.toMatchObject({ code: 'StaleEpoch' });
  await next;
  expect(order).toEqual(['old ended', 'new started']);
  expect(await other).toBe(false);
});

test('S9 an epoch that cannot be made durable lets nothing through', async () => {
  const fences = new FenceGate({
    load: () => ({}),
    save: () => {
      throw new Error('disk full');
    },
  });
  let ran = false;
  const effect = async () => {
    ran = true;
  };
  await expect(fences.pass({ lease: 'p0', epoch: 1 }, effect)).rejects.toThrow('disk full');
  expect(ran).toBe(false);
});
