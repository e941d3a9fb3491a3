/** What every effect works with, and how its end is said. */
import { BelayError } from '../../base/error.ts';
import {
  type Desired,
  type MemberState,
  memberOf,
  type State,
  type StepOutcome,
  stateOf,
  views,
} from '../../clusters/index.ts';
import type { Informer } from '../../engine/informer.ts';
import type {
  Agents,
  Clock,
  Fence,
  MemberRef,
  Platform,
  Proviso,
  Store,
  StoredObject,
} from '../../engine/ports.ts';
import type { Effect } from '../../engine/provider.ts';
import type { Credentials } from '../credentials.ts';
import type { Reading } from '../observe.ts';
import type { UserSecrets } from '../userObjects.ts';

export interface EffectDeps {
  readonly agents: Agents;
  readonly platform: Platform;
  readonly store: Store;
  readonly informer: Informer;
  readonly clock: Clock;
  readonly credentials: Credentials;
  readonly userSecrets: UserSecrets;
  /** Identity of this installation: part of every owner marker. */
  readonly installation: string;
  /** Version of the agent artifact that runtimes are made with. */
  readonly agentVersion: string;
}

/** Everything an effect works with. */
export interface Work extends EffectDeps {
  readonly desired: Desired;
  readonly state: State;
  readonly object: StoredObject;
  readonly reading: Reading;
  readonly stepId: string;
  readonly fence: Fence;
}

export const done = (result: Extract<StepOutcome, { kind: 'done' }>['result']): Effect => ({
  outcome: { kind: 'done', result },
});

export function member(work: Pick<Work, 'state'>, name: string): MemberState {
  const found = memberOf(work.state, name);
  if (found === null) throw new BelayError('NotPlaced', `there is no member ${name}`, { retry: 'never' });
  return found;
}

/** A member that was not seen to lead is not to be stopped as a primary (S3): readings that are still to come may tell otherwise. */
export function asSeen({ state, reading }: Work, { name }: MemberState): Proviso {
  const view = views(state, reading).find((v) => v.member.name === name);
  return view !== undefined && stateOf(view) === 'PRIMARY' ? {} : { unlessPrimary: true };
}

export const notPlaced = (name: string): BelayError =>
  new BelayError('NotPlaced', `${name} has no place yet`, { retry: 'later' });

export function ref({ name, host, serviceId }: MemberState): MemberRef {
  if (host === null || serviceId === null) throw notPlaced(name);
  return { host, serviceId };
}
