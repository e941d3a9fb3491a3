import { equalValues } from '../base/equal.ts';
import { type Informer, keyOf } from './informer.ts';
import type { Pass } from './memory.ts';
import type { EngineMetrics } from './metrics.ts';
import type { Batch, Clock, Store } from './ports.ts';
import type { AnyStep, Report } from './provider.ts';
import { withTransitionTimes } from './status.ts';

export interface PassWriterOptions {
  readonly store: Store;
  readonly informer: Informer;
  readonly clock: Clock;
  readonly metrics: EngineMetrics;
}

/** Writes down what is new of a pass: record, journal, statuses and events in one transaction. */
export class PassWriter<State, Step extends AnyStep> {
  readonly #options: PassWriterOptions;

  constructor(options: PassWriterOptions) {
    this.#options = options;
  }

  /** Everything new of this moment in one transaction; nothing new: no write. */
  async commit(
    pass: Pass<State, Step>,
    state: State | null,
    parts: Pick<Batch, 'intents' | 'outcomes' | 'releases' | 'secretPrefixesToDelete'>,
    report: Report | null,
  ): Promise<void> {
    const { memory, uid, fence } = pass;
    const news = report === null ? null : this.#news(pass, report);
    const releases = [...(parts.releases ?? []), ...(report?.releases ?? [])];
    const prefixes = [...(parts.secretPrefixesToDelete ?? []), ...(report?.secretPrefixesToDelete ?? [])];
    const batch: Batch = {
      ...(state !== memory.saved ? { state: { uid, version: memory.version, value: state } } : {}),
      ...some('intents', parts.intents),
      ...some('outcomes', [...memory.over.splice(0), ...(parts.outcomes ?? [])]),
      ...some('status', news?.status),
      ...some('events', report?.events),
      ...some('releases', releases),
      ...some('secretPrefixesToDelete', prefixes),
    };
    if (Object.keys(batch).length === 0) return;
    const { stateVersion, wrote } = await this.#options.store.commit({ fence, ...batch });
    if (wrote) this.#options.metrics.passWrites++;
    if (state !== null) {
      if (batch.state !== undefined) memory.version = stateVersion ?? memory.version;
      memory.state = state;
      memory.saved = state;
    }
    news?.remember();
  }

  #news(
    pass: Pass<State, Step>,
    report: Report,
  ): { readonly status: NonNullable<Batch['status']>; readonly remember: () => void } {
    const { memory, object, uid } = pass;
    const now = this.#options.clock.now();
    const own = withTransitionTimes(report.status, memory.status, now);
    const others = report.others
      .map((other) => {
        const before =
          memory.others.get(other.uid) ?? this.#options.informer.byUid(other.uid)?.status ?? null;
        const value = withTransitionTimes(other.value as Record<string, unknown>, before, now);
        return { ...other, value, before };
      })
      .filter(({ value, before }) => !equalValues(value, before));
    const status = [
      ...(equalValues(own, memory.status) ? [] : [{ key: keyOf(object), uid, value: own }]),
      ...others.map(({ key, uid: otherUid, value }) => ({ key, uid: otherUid, value })),
    ];
    const remember = (): void => {
      memory.status = own;
      for (const other of others) memory.others.set(other.uid, other.value);
    };
    return { status, remember };
  }
}

const some = <K extends string, T>(
  name: K,
  items: readonly T[] | undefined,
): { readonly [P in K]?: readonly T[] } =>
  items === undefined || items.length === 0 ? {} : ({ [name]: items } as { readonly [P in K]: readonly T[] });
