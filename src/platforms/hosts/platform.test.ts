import { expect, test } from 'vitest';
import { ManualClock } from '../../engine/testing/clock.ts';
import { FakeFleet } from '../../engine/testing/fleet.ts';
import { describePlatform } from '../conformance.ts';
import { HostsPlatform } from './platform.ts';

describePlatform('hosts', async () => {
  const fleet = new FakeFleet(new ManualClock(), ['db1', 'db2']);
  return {
    platform: new HostsPlatform(fleet),
    hosts: ['db1', 'db2'],
    settle: async () => {},
    cutOff: (host, connected) => fleet.connect(host, connected),
    close: async () => {},
  };
});

test('A4.9 what machines cannot do is said', () => {
  const { capabilities } = new HostsPlatform(new FakeFleet(new ManualClock(), []));
  expect(capabilities).toEqual({
    publicExposure: false,
    allowlists: false,
    diskGrowth: true,
    volumesOnHostDisk: true,
    resourceLimits: true,
  });
});

test('an operation is found again by its id alone, whatever slashes are in it', async () => {
  const fleet = new FakeFleet(new ManualClock(), ['db1']);
  const platform = new HostsPlatform(fleet);
  const asked: string[][] = [];
  fleet.operation = async (host, id) => {
    asked.push([host, id]);
    return { kind: 'unknown' };
  };
  await platform.operation('db1/uid/import/orders-0/7');
  expect(asked).toEqual([['db1', 'uid/import/orders-0/7']]);
});
