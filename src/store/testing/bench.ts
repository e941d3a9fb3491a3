/** What every part of the conformance suite works with. */
import { expect } from 'vitest';
import { BelayError } from '../../base/error.ts';
import type { JournalIntent, NewEvent, NewObject, ObjectEvent, Store, TokenRow } from '../../engine/ports.ts';
import type { StoreLimits } from '../limits.ts';
import type { ManualClock } from './clock.ts';

/** A place that stores live in; every `open` is another instance on the same data. */
export interface StorePlace {
  open(): Promise<Store>;
  remove(): Promise<void>;
}
export interface PlaceOptions {
  readonly clock: ManualClock;
  readonly limits: Partial<StoreLimits>;
}
/** The current test's store; a fresh one for each. */
export interface Bench {
  clock: ManualClock;
  place: StorePlace;
  store: Store;
  opened: Store[];
}

/** One more instance on the same data; closed after the test. */
export async function another(at: Bench): Promise<Store> {
  const store = await at.place.open();
  at.opened.push(store);
  return store;
}

/** Names an object in tests. */
export const key = (name: string, namespace = 'prod') => ({ kind: 'MongoDB', namespace, name });
/** An object to create. */
export const object = (name: string, more: Partial<NewObject> = {}): NewObject => ({
  ...key(name),
  spec: { members: 3 },
  ...more,
});

/** The code of the failure; fails the test when there is none. */
export async function codeOf(work: Promise<unknown>): Promise<string> {
  try {
    await work;
  } catch (failure) {
    expect(failure).toBeInstanceOf(BelayError);
    return (failure as BelayError).code;
  }
  return 'no failure';
}

/** Takes the next events of a watch. */
export async function take(events: AsyncIterator<ObjectEvent>, count: number): Promise<ObjectEvent[]> {
  const taken: ObjectEvent[] = [];
  while (taken.length < count) {
    const next = await events.next();
    if (next.done === true) break;
    taken.push(next.value);
  }
  return taken;
}

/** `ADDED orders`. */
export const brief = (event: ObjectEvent): string => `${event.type} ${event.object.metadata.name}`;

/** One for a test; `more` changes fields. */
export const intent = (id: string, more: Partial<JournalIntent> = {}): JournalIntent => ({
  id,
  clusterUid: 'u1',
  step: 'deploy',
  target: 'orders-0',
  reason: 'NewMember',
  epoch: 1,
  at: 1_000,
  detail: { image: 'x' },
  ...more,
});

/** One for a test; `more` changes fields. */
export const event = (reason: string, more: Partial<NewEvent> = {}): NewEvent => ({
  namespace: 'prod',
  regarding: { kind: 'MongoDB', name: 'orders', uid: 'u1' },
  type: 'Normal',
  reason,
  message: `${reason} happened`,
  at: 1_000,
  ...more,
});

/** One for a test; `more` changes fields. */
export const token = (id: string, more: Partial<TokenRow> = {}): TokenRow => ({
  id,
  kind: 'join',
  role: '*',
  name: 'for host a',
  hash: 'aa',
  createdAt: 1_000,
  expiresAt: null,
  usedAt: null,
  ...more,
});
