/** Tasks for tests. */
import type { TaskSpec } from '../tasks.ts';

/** Of eve, strong, of usual urgency, without a limit of what is in flight. */
export const taskOf = (uid: string, groups: TaskSpec['groups'], more: Partial<TaskSpec> = {}): TaskSpec => ({
  uid,
  owner: 'eve',
  description: '',
  mode: 'strong',
  priority: 0,
  dryRun: false,
  maxInFlight: 0,
  groups,
  ...more,
});
