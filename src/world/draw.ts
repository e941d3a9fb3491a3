import { withTasks } from './maintainedScenario.ts';
import { drawSets, type Scenario, type ScenarioKind } from './scenario.ts';
import { drawShardedScenario } from './shardedScenario.ts';

/** Draws everything of a seed. */
export function drawScenario(seed: number, kind: ScenarioKind = 'replicaSets'): Scenario {
  switch (kind) {
    case 'replicaSets':
      return drawSets(seed);
    case 'sharded':
      return drawShardedScenario(seed);
    case 'maintained':
      return withTasks(drawSets(seed));
    case 'maintainedSharded':
      return withTasks(drawShardedScenario(seed));
  }
}
