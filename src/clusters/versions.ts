/** Order of release series (S7). */
import { SUPPORTED_SERIES } from '../model/index.ts';

/** How a binary change moves between majors. */
export type MajorStep = 'same' | 'next' | 'skip' | 'down';

const majorOf = (version: string): number => Number(version.split('.')[0]);

/** Majors on offer, oldest first. */
const MAJORS: readonly number[] = [...new Set(SUPPORTED_SERIES.map(majorOf))].sort((a, b) => a - b);

/** From one pinned build to another. A major that is not on offer any more counts by its number. */
export function majorStep(from: string, to: string): MajorStep {
  const [a, b] = [majorOf(from), majorOf(to)];
  if (a === b) return 'same';
  if (b < a) return 'down';
  const between = MAJORS.filter((m) => m > a && m < b).length;
  return between === 0 && b - a === 1 ? 'next' : 'skip';
}
