/** A bug planted from outside the product's code: every part of it may be wrapped. Without any the world is the product's. */
import type { Agents, Store } from '../engine/ports.ts';
import type { RunningProvider } from '../provider/setup.ts';

export interface Mutation {
  /** The store under faults and deaths. */
  readonly store?: (store: Store) => Store;
  /** The store as the engine sees it. */
  readonly afterDoor?: (store: Store) => Store;
  readonly agents?: (agents: Agents) => Agents;
  /** Changes the provider in place. */
  readonly provider?: (
    provider: { -readonly [K in keyof RunningProvider['provider']]: RunningProvider['provider'][K] },
  ) => void;
  /** Agents let every epoch through. */
  readonly ignoreEpochs?: boolean;
}

export const NO_MUTATION: Mutation = {};
