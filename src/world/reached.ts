/** Which words of the product's closed sets a run came across: reasons, waits, blocks, refusals, codes of failures. */
import { asBelayError } from '../base/error.ts';
import type { State } from '../clusters/index.ts';
import type { RunningProvider } from '../provider/setup.ts';
import type { Watcher } from './world.ts';

/** The closed sets. */
export type WordKind = 'Reason' | 'WaitReason' | 'BlockReason' | 'Refusal' | 'Code';
type Provider = { -readonly [K in keyof RunningProvider['provider']]: RunningProvider['provider'][K] };

/** Listens; `words` fills up, each as `kind name`. */
export class Reached implements Watcher {
  readonly words = new Set<string>();

  #note(kind: WordKind, name: string): void {
    this.words.add(`${kind} ${name}`);
  }

  born(_: unknown, provider: RunningProvider['provider']): void {
    this.#hearPlans(provider);
    this.#hearEffects(provider);
  }

  #hearPlans(provider: Provider): void {
    const { plan, guard } = provider;
    provider.plan = (...words) => {
      const planned = plan(...words);
      if (planned.act !== null) this.#note('Reason', planned.act.because);
      for (const wait of planned.waits) this.#note('WaitReason', wait.on);
      for (const block of planned.blocks) this.#note('BlockReason', block.by);
      return planned;
    };
    provider.guard = (...words) => {
      const refusal = guard(...words);
      if (refusal !== null) this.#note('Refusal', refusal.reason);
      return refusal;
    };
  }

  #hearEffects(provider: Provider): void {
    const { perform } = provider;
    provider.perform = async (...words) => {
      try {
        const effect = await perform(...words);
        if (effect.outcome.kind === 'failed') this.#note('Code', effect.outcome.code);
        return effect;
      } catch (failure) {
        this.#note('Code', asBelayError(failure).code);
        throw failure;
      }
    };
  }

  /** Failed operations come back as readings and stay in the record as retries. */
  committed(_: string, { state }: { readonly state?: { readonly value: unknown } }): void {
    for (const retry of (state?.value as State | null | undefined)?.retries ?? [])
      this.#note('Code', retry.code);
  }
}
