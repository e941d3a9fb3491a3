import { expect, test } from 'vitest';
import { maintenanceOf } from './maintenanceListen.ts';

test('C3.2 C6.1 how urgent our own work is, and where YDB’s service is served, are told apart', () => {
  expect(maintenanceOf({})).toEqual({});
  expect(maintenanceOf({ maintenancePriority: 20 })).toEqual({ maintenancePriority: 20 });
  expect(
    maintenanceOf({
      maintenanceListen: '127.0.0.1:2135',
      maintenanceTopology: 'ydb',
      maintenancePriority: -5,
    }),
  ).toEqual({
    maintenancePriority: -5,
    maintenance: { host: '127.0.0.1', port: 2135, compat: false, topology: 'ydb' },
  });
});
