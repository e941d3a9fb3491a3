/** The story of one run: what a failing seed prints, and the digest by which two runs are known to be the same. */
import type { Millis } from '../base/units.ts';
import { BEGIN, type Timeline } from './timeline.ts';

/** An invariant did not hold in the true world. */
export class Violation extends Error {
  readonly invariant: string;
  readonly at: Millis;

  constructor(invariant: string, detail: string, at: Millis) {
    super(`${invariant}: ${detail}`);
    this.name = 'Violation';
    this.invariant = invariant;
    this.at = at;
  }
}

/** See the head of this file. */
export class Narrator {
  readonly lines: string[] = [];
  violation: Violation | null = null;
  /** The only invariant whose breach counts; null: all do. Whether a checker notices by itself is seen with it. */
  heed: string | null = null;
  readonly #timeline: Timeline;
  #digest = 0x811c9dc5;

  constructor(timeline: Timeline) {
    this.#timeline = timeline;
  }

  /** One line of the story; all of them make up the digest. */
  tell(who: string, what: string): void {
    const line = `${stamp(this.#timeline.now)} ${who.padEnd(14)} ${what}`;
    this.lines.push(line);
    this.mix(line);
  }

  /** Something that belongs to the digest but is not worth a line. */
  mix(text: string): void {
    let digest = this.#digest;
    for (let i = 0; i < text.length; i++) digest = Math.imul(digest ^ text.charCodeAt(i), 0x01000193);
    this.#digest = digest;
  }

  get digest(): string {
    return (this.#digest >>> 0).toString(16).padStart(8, '0');
  }

  /** The first violation counts; the run ends with it. */
  fail(invariant: string, detail: string): void {
    if (this.violation !== null || (this.heed !== null && this.heed !== invariant)) return;
    this.violation = new Violation(invariant, detail, this.#timeline.now);
    this.tell('CHECKER', `${invariant} BROKEN: ${detail}`);
  }
}

/** Seconds since the world began. */
export const stamp = (at: Millis): string => ((at - BEGIN) / 1000).toFixed(3).padStart(9);
