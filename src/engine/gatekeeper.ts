import type { Grant } from '../maintenance/index.ts';
import { type Gate, type Passed, passGate } from './gate.ts';
import { REQUEUE_PENDING } from './limits.ts';
import type { Memory } from './memory.ts';
import type { Clock } from './ports.ts';
import type { AnyStep, Provider, Subject } from './provider.ts';

export interface GatekeeperOptions<Desired, State, Observed, Step extends AnyStep> {
  readonly provider: Pick<Provider<Desired, State, Observed, Step>, 'disruptions' | 'underWay'>;
  readonly clock: Clock;
  /** Absent only where nothing is taken down. */
  readonly gate?: Gate;
}

/** What one object's work asks of the gate, holds and gives back. */
export class Gatekeeper<Desired, State, Observed, Step extends AnyStep> {
  readonly #options: GatekeeperOptions<Desired, State, Observed, Step>;

  constructor(options: GatekeeperOptions<Desired, State, Observed, Step>) {
    this.#options = options;
  }

  /** Ids of what is held or asked for an object. */
  holds(uid: string): readonly string[] {
    return this.#options.gate?.holds(`${uid}/`) ?? [];
  }

  async pass(
    memory: Memory<State, Step>,
    subject: Subject<Desired, State>,
    observed: Observed,
    ready: readonly Step[],
  ): Promise<Passed<Step>> {
    const { gate, clock } = this.#options;
    memory.atTheGate = false;
    const asks = new Map(ready.map((step) => [step, this.#asksOf(step, observed, subject)]));
    const asked = [...asks.values()].flat();
    if (gate === undefined || asked.length === 0) return { steps: ready, waits: [], grants: new Map() };
    const passed = await passGate(gate, ready, (step) => asks.get(step) ?? [], REQUEUE_PENDING, clock.now());
    memory.atTheGate = passed.waits.length > 0;
    return passed;
  }

  /** Grants of work that is over, and wishes for work that is not wanted any more. */
  async giveBack(
    uid: string,
    subject: Subject<Desired, State>,
    observed: Observed,
    ready: readonly Step[],
  ): Promise<void> {
    const { gate, provider } = this.#options;
    // Also what a process before us was granted, whenever its grant comes to be known here (S14).
    const held = this.holds(uid);
    if (gate === undefined || held.length === 0) return;
    const asked = ready.flatMap((step) => this.#asksOf(step, observed, subject));
    const kept = new Set([...(provider.underWay?.(subject) ?? []), ...asked.map((ask) => ask.id)]);
    for (const id of held) if (!kept.has(id)) await gate.release(id);
  }

  /** S2, S13: nothing is taken down without a grant that holds now, for every member it takes. */
  ungranted(
    step: Step,
    fresh: Observed,
    subject: Subject<Desired, State>,
    grants: readonly Grant[],
  ): { readonly reason: string; readonly detail: string } | null {
    const { gate, clock } = this.#options;
    if (gate === undefined) return null;
    const lacking = this.#asksOf(step, fresh, subject).filter(
      ({ node }) => !grants.some((grant) => grant.node === node && grant.holdsAt(clock.now())),
    );
    if (lacking.length === 0) return null;
    return { reason: 'NoGrant', detail: `no grant holds for ${lacking.map(({ node }) => node).join(', ')}` };
  }

  #asksOf(step: Step, observed: Observed, subject: Subject<Desired, State>) {
    return this.#options.provider.disruptions?.(step, observed, subject) ?? [];
  }
}
