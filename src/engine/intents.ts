/**
 * Intents without an outcome: what was about to be done when an answer, or this process, was lost. Such a step is done
 * again under its old id, so that whoever carries it out recognises it (S10), or closed when the world no longer asks
 * for it. A step is recognised by kind, target and equal content. Kinds that undo one another count as one kind here: done
 * under its old id after its opposite, a step would be answered from memory by whoever did it before. So would one that
 * somebody else may have undone meanwhile: kinds that are done anew get a new id for every try.
 */

import { equalValues } from '../base/equal.ts';
import type { Millis } from '../base/units.ts';
import type { JournalEntry, JournalOutcome } from './ports.ts';
import type { AnyStep, KindsOfEffort } from './provider.ts';

/** After an unknown outcome the same step waits this long, doubling, before it is sent again; the reading comes first. */
const RESEND_FIRST: Millis = 1_000;
const RESEND_CAP: Millis = 30_000;

interface Open<Step> {
  readonly id: string;
  readonly step: Step;
  readonly tries: number;
  readonly notBefore: Millis;
}

/** A step with the id it is done under. */
export interface Identified<Step> {
  readonly id: string;
  readonly step: Step;
  /** No intent is in the journal yet. */
  readonly isNew: boolean;
}

const EACH_ITS_OWN: KindsOfEffort = { of: (kind) => kind, anew: () => false };

/** The open intents of one object. */
export class OpenIntents<Step extends AnyStep> {
  readonly #open = new Map<string, Open<Step>>();
  readonly #target: (step: Step) => string;
  readonly #kinds: KindsOfEffort;

  constructor(
    target: (step: Step) => string,
    entries: readonly JournalEntry[],
    kinds: KindsOfEffort = EACH_ITS_OWN,
  ) {
    this.#target = target;
    this.#kinds = kinds;
    for (const entry of entries) {
      this.#open.set(`${kinds.of(entry.step)}/${entry.target}`, {
        id: entry.id,
        step: entry.detail as Step,
        tries: 0,
        notBefore: 0,
      });
    }
  }

  /**
   * The id a step is done under: that of its open intent, or a new one. New ids end with the lease's epoch, which grows
   * with every holder, and the holder's count of efforts: no id is ever used for two different efforts.
   */
  identify(uid: string, step: Step, effort: () => string): Identified<Step> {
    const open = this.#same(step);
    if (open !== undefined && !this.#kinds.anew(step.kind)) return { id: open.id, step, isNew: false };
    return { id: `${uid}/${step.kind}/${this.#target(step)}/${effort()}`, step, isNew: true };
  }

  /** When the step may be sent again after an unknown outcome, on the clock `unknown` was told; 0 when it was not sent yet. */
  notBefore(step: Step): Millis {
    return this.#same(step)?.notBefore ?? 0;
  }

  #same(step: Step): Open<Step> | undefined {
    const open = this.#open.get(this.#key(step));
    return open !== undefined && equalValues(open.step, plain(step)) ? open : undefined;
  }

  /** Ids of open intents that a new effort on the same kind and target replaces. */
  replacedBy(items: readonly Identified<Step>[]): readonly string[] {
    return items
      .filter((item) => item.isNew)
      .map((item) => this.#open.get(this.#key(item.step))?.id)
      .filter((id) => id !== undefined);
  }

  /** Takes out what is over though its outcome never came, so that its id is not used for a later effort; gives the ids. */
  takeOver(isOver: (step: Step, id: string) => boolean): readonly string[] {
    const over = [...this.#open].filter(([, { id, step }]) => isOver(step, id));
    for (const [key] of over) this.#open.delete(key);
    return over.map(([, { id }]) => id);
  }

  opened(item: Identified<Step>): void {
    if (!item.isNew) return;
    const tries = this.#same(item.step)?.tries ?? 0;
    this.#open.set(this.#key(item.step), { id: item.id, step: plain(item.step), tries, notBefore: 0 });
  }

  closed(item: Identified<Step>): void {
    this.#open.delete(this.#key(item.step));
  }

  /** The effect was sent and nothing is known: observe first, send again later. */
  unknown(item: Identified<Step>, now: Millis): void {
    const open = this.#open.get(this.#key(item.step));
    if (open === undefined) return;
    const wait = Math.min(RESEND_CAP, RESEND_FIRST * 2 ** Math.min(open.tries, 10));
    this.#open.set(this.#key(item.step), { ...open, tries: open.tries + 1, notBefore: now + wait });
  }

  /** Outcomes for all that is still open: the goal was reached without them. */
  supersedeAll(at: Millis): readonly JournalOutcome[] {
    return [...this.#open.values()].map((open) =>
      superseded(open.id, at, 'the goal was observed without it'),
    );
  }

  clear(): void {
    this.#open.clear();
  }

  #key(step: Step): string {
    return `${this.#kinds.of(step.kind)}/${this.#target(step)}`;
  }
}

export const superseded = (id: string, at: Millis, message: string): JournalOutcome => ({
  id,
  at,
  kind: 'superseded',
  message,
});

/** The step as the journal gives it back. */
const plain = <Step>(step: Step): Step => JSON.parse(JSON.stringify(step)) as Step;
