/** What `belay doctor` says of maintenance tasks: whose work goes on, and what was probably forgotten. */
import { formatDuration, HOUR, type Millis } from '../../base/units.ts';
import type { Finding } from './doctor.ts';
import { aboutActions, staleText, type TaskRow, waiting } from './taskText.ts';

/** Who has got nothing for so long may wait for something that does not come by itself. */
const LONG_WAIT: Millis = HOUR;

const about = 'maintenance';

/** One line for all that hold something as they should, and one for each that somebody has to look at. */
export function taskFindings(tasks: readonly TaskRow[], now: Millis): readonly Finding[] {
  const odd = tasks.flatMap((task) => oddity(task, now) ?? []);
  const holding = tasks.filter((task) => heldOf(task).length > 0);
  if (holding.length === 0) return odd;
  const message = `held: ${holding.map(holdingText).join('; ')}`;
  return [{ level: 'ok', about, message }, ...odd];
}

/** Null: it is as it should be. */
function oddity(task: TaskRow, now: Millis): Finding | null {
  const { name } = task;
  const drop = `give it up: belay maintenance drop ${name}`;
  if (task.stale) return { level: 'warning', about, message: staleText(task) };
  const overdue = overdueOf(task, now);
  if (overdue.length > 0) {
    const message = `task ${name} of ${task.owner} holds ${aboutActions(overdue)} longer than it asked for, without a deadline`;
    return {
      level: 'warning',
      about,
      message,
      fix: `when its work is done: belay maintenance complete ${name}`,
    };
  }
  const [first] = waiting(task).filter((action) => action.message !== '');
  const age = ageOf(task, now);
  // One that holds something goes on with the rest by and by.
  if (first === undefined || age < LONG_WAIT || heldOf(task).length > 0) return null;
  const message = `task ${name} of ${task.owner} was asked for ${formatDuration(age)} ago and waits for ${aboutActions(waiting(task))}: ${first.message}`;
  return {
    level: 'warning',
    about,
    message,
    fix: `see what stands in the way: belay maintenance get ${name}; or ${drop}`,
  };
}

const heldOf = ({ groups }: TaskRow): TaskRow['groups'][number] =>
  groups.flat().filter((action) => action.state !== 'pending');

function holdingText(task: TaskRow): string {
  const held = heldOf(task);
  const ends = held.flatMap(({ deadline }) => deadline ?? []).sort();
  const until = ends.length === held.length ? ` until ${ends.at(-1)}` : '';
  return `${aboutActions(held)} by task ${task.name} of ${task.owner}${until}`;
}

/** What ends with a deadline is given back by itself; a drain or a cordon is not. */
const overdueOf = (task: TaskRow, now: Millis): TaskRow['groups'][number] =>
  heldOf(task).filter(
    ({ deadline, durationMillis }) => deadline === null && ageOf(task, now) > durationMillis,
  );

const ageOf = ({ createTime }: TaskRow, now: Millis): Millis =>
  createTime === null ? 0 : now - Date.parse(createTime);
