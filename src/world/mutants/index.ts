/** Planted bugs: what is wrong, which invariant must notice, and within how many seeds. The list for people is docs/mutants.md. */
import type { Mutation } from '../mutation.ts';
import type { Scenario, ScenarioKind } from '../scenario.ts';
import { MAINTENANCE_MUTANTS } from './maintenance.ts';
import { PLANNER_MUTANTS } from './planner.ts';
import { READING_MUTANTS } from './readings.ts';
import { RUNTIME_MUTANTS } from './runtime.ts';
import { SHARDED_MUTANTS } from './sharded.ts';

export interface Mutant {
  readonly name: string;
  /** What is wrong, in one sentence. */
  readonly bug: string;
  /** Any of these may be the first to notice. */
  readonly caughtBy: readonly string[];
  /** Seeds that are enough, from `from` on; those that cannot show it are not counted. */
  readonly budget: number;
  /** First seed to try. */
  readonly from: number;
  /** What kind of world shows it; left out: replica sets. */
  readonly kind?: ScenarioKind;
  /** Whether a scenario has what it takes to show the bug at all; without: any has. */
  readonly suits?: (scenario: Scenario) => boolean;
  /** A fresh one for every run: some remember. */
  readonly make: () => Mutation;
}

export const MUTANTS: readonly Mutant[] = [
  ...PLANNER_MUTANTS,
  ...READING_MUTANTS,
  ...RUNTIME_MUTANTS,
  ...MAINTENANCE_MUTANTS,
  ...SHARDED_MUTANTS,
];
