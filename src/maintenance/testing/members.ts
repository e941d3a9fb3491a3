import type { NodeSpec } from '../fleetSpec.ts';

/** The i-th member of the replica set default/a on this host, up and without disks of its own. */
export const memberNode = (host: string, i: number, more: Partial<NodeSpec> = {}): NodeSpec => ({
  key: `default/a-${i}`,
  name: `a-${i}`,
  host,
  kind: 'member',
  state: 'up',
  startedAt: null,
  disks: [],
  cluster: 'default/a',
  ...more,
});
