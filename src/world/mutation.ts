/** A bug planted from outside the product's code: every part of it may be wrapped. Without any the world is the product's. */
import type { Authority, AuthorityOptions } from '../authority/index.ts';
import type { Agents, Store } from '../engine/ports.ts';
import type { RunningProvider } from '../provider/setup.ts';

export interface Mutation {
  /** The store under faults and deaths. */
  readonly store?: (store: Store) => Store;
  /** The store as the engine sees it. */
  readonly afterDoor?: (store: Store) => Store;
  readonly agents?: (agents: Agents) => Agents;
  /** What the maintenance authority is made of. */
  readonly authority?: (options: AuthorityOptions) => AuthorityOptions;
  /** The authority as the engine and people see it. */
  readonly gate?: (authority: Authority) => Authority;
  /** Changes the provider in place. */
  readonly provider?: (
    provider: { -readonly [K in keyof RunningProvider['provider']]: RunningProvider['provider'][K] },
  ) => void;
  /** Bugs in the agents' own code. */
  readonly agentBugs?: AgentBugs;
}

export interface AgentBugs {
  /** Every epoch is let through. */
  readonly ignoreEpochs?: boolean;
  /** A volume is deleted by the name on it. */
  readonly volumesByName?: boolean;
  /** An operation is begun again when it is asked for again. */
  readonly operationsTwice?: boolean;
  /** A volume without a service is formatted when a service gets it. */
  readonly formatsVolumes?: boolean;
  /** Configurations of sets are forced. */
  readonly forcesReconfigs?: boolean;
  /** A member that has become primary is stopped without being asked. */
  readonly stopsPrimaries?: boolean;
}

export const NO_MUTATION: Mutation = {};
