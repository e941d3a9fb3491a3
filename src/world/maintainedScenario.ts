/** Scenarios in which people work on the machines as well: what was drawn of a world, with machines to spare and tasks. */
import { makeRng } from '../base/rng.ts';
import { LAST_MAJOR, NEWEST, OLDER, type Scenario } from './scenario.ts';
import { drawTasks } from './tasks.ts';

/** Adds machines and tasks, from a stream of their own. Half of these worlds have no faults: people are enough. */
export function withTasks(scenario: Scenario): Scenario {
  const rng = makeRng(scenario.seed).fork('maintenance');
  const hosts = [...scenario.hosts];
  const least = rng.pick([3, 3, 4, 5]);
  while (hosts.length < least)
    hosts.push({ name: `h${hosts.length + 1}`, versions: [NEWEST, OLDER, LAST_MAJOR] });
  const clusters = scenario.clusters.filter(({ sharded }) => sharded === null);
  const { calmAt } = scenario;
  const tasks = drawTasks(rng, { hosts: hosts.map(({ name }) => name), clusters, calmAt });
  const faults = rng.chance(0.5) ? [] : scenario.faults;
  return { ...scenario, kind: 'maintained', hosts, faults, tasks };
}
