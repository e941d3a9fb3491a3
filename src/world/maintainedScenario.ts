/** Scenarios in which people work on the machines as well: what was drawn of a world, with machines to spare and tasks. */
import { makeRng } from '../base/rng.ts';
import { type ClusterPlan, LAST_MAJOR, NEWEST, OLDER, type Scenario } from './scenario.ts';
import { drawTasks, type TaskContext } from './tasks.ts';

/** Adds machines and tasks, from a stream of their own. Half of these worlds have no faults: people are enough. */
export function withTasks(scenario: Scenario): Scenario {
  const rng = makeRng(scenario.seed).fork('maintenance');
  const hosts = [...scenario.hosts];
  const least = rng.pick([3, 3, 4, 5]);
  while (hosts.length < least)
    hosts.push({ name: `h${hosts.length + 1}`, versions: [NEWEST, OLDER, LAST_MAJOR] });
  const { calmAt } = scenario;
  const clusters = scenario.clusters.flatMap(partsOf);
  const tasks = drawTasks(rng, { hosts: hosts.map(({ name }) => name), clusters, calmAt });
  const faults = rng.chance(0.5) ? [] : scenario.faults;
  const kind = scenario.kind === 'sharded' ? 'maintainedSharded' : 'maintained';
  return { ...scenario, kind, hosts, faults, tasks };
}

/** A sharded cluster's members are called by the part they belong to. */
function partsOf({ name, members, sharded }: ClusterPlan): TaskContext['clusters'] {
  if (sharded === null) return [{ name, members }];
  const shards = Array.from({ length: sharded.shards }, (_, index) => ({
    name: `${name}-s${index}`,
    members: sharded.perShard,
  }));
  return [
    { name: `${name}-cfg`, members: sharded.configServers },
    ...shards,
    { name: `${name}-mongos`, members: sharded.routers },
  ];
}
