import { expect, test } from 'vitest';
import type { BelayError } from '../base/error.ts';
import { admit } from './admission.ts';
import { host, orders } from './testing/rig.ts';

const NOW = Date.parse('2026-11-29T10:00:00Z');

function refused(document: unknown): readonly string[] {
  try {
    admit(document, null, NOW);
    return [];
  } catch (error) {
    return (error as BelayError).problems.map(({ path }) => path);
  }
}

test('B1.4 A4.9 what is of a wrong form does not hide what this version cannot carry out', () => {
  const spec = {
    members: 'three',
    platform: 'zerops',
    exposure: { cidrs: ['1.2.3.4'] },
    backup: { storage: 'minio' },
    dataSource: { backup: 'b' },
    dataAccess: {},
    placement: { spread: 'required' },
  };
  const all = [
    'spec.members',
    'spec.exposure.cidrs[0]',
    'spec.platform',
    'spec.exposure',
    'spec.backup',
    'spec.dataSource',
    'spec.dataAccess',
    'spec.placement.spread',
  ];
  expect(refused(orders(spec)).toSorted()).toEqual(all.toSorted());
  const oldVersion = { ...orders(spec), apiVersion: 'belay.dev/v0' };
  expect(refused(oldVersion).toSorted()).toEqual(['apiVersion', ...all].toSorted());
});

test('B1.4 nor what only another kind or the time of day shows', () => {
  const backup = { apiVersion: 'belay.dev/v1', kind: 'Backup', metadata: { name: 'B' }, spec: {} };
  expect(refused(backup)).toEqual(expect.arrayContaining(['metadata.name', 'kind']));
  const nodes = [{ id: 1, startedAt: '2027-01-01T00:00:00Z' }, { startedAt: 'soon' }, 5];
  const topology = { apiVersion: 'belay.dev/v1', kind: 'Topology', metadata: { name: 'y' }, spec: { nodes } };
  expect(refused(topology)).toEqual(
    expect.arrayContaining(['spec.nodes[0].startedAt', 'spec.nodes[1].startedAt', 'spec.nodes[2]']),
  );
});

test('VAL-01 parts that are no maps at all are problems of their form alone', () => {
  for (const value of [5, 'x', true, [], [5]])
    for (const part of ['exposure', 'backup', 'dataAccess', 'placement', 'security', 'platform'])
      expect(refused(orders({ [part]: value })), `${part} ${JSON.stringify(value)}`).toEqual([
        `spec.${part}`,
      ]);
  expect(refused({ ...orders(), spec: [] })).toEqual(expect.arrayContaining(['spec']));
  expect(refused(host())).toEqual([]);
});
