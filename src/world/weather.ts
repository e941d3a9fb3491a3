/** What the world does to those in it. Good weather: everything takes a moment and works. */
import type { Rng } from '../base/rng.ts';
import type { Millis } from '../base/units.ts';
import type { HostOperation } from '../engine/ports.ts';
import type { Fate as RequestFate } from './channel.ts';
import type { ControlPlane } from './controlPlane.ts';
import type { Machine } from './machine.ts';
import type { Fate as OperationFate } from './operations.ts';
import type { StoreFate } from './storeDoor.ts';

export interface Weather {
  request(host: string, what: string): RequestFate;
  store(write: boolean): StoreFate;
  operation(machine: Machine, operation: HostOperation): OperationFate;
  clone(): { readonly millis: Millis; readonly fails: boolean };
  startMillis(): Millis;
  lookMillis(machine: Machine): Millis;
  /** Arrows the next life of a control plane survives. */
  arrows(): number | null;
  planeDied(plane: ControlPlane): void;
}

const GOOD_REQUEST: RequestFate = { requestLost: false, answerLost: false, doubled: false, heldMillis: 0 };
const GOOD_STORE: StoreFate = { millis: 0, fails: 'no', full: false };

/** Nothing goes wrong. */
export function goodWeather(rng: Rng): Weather {
  return {
    request: () => GOOD_REQUEST,
    store: () => GOOD_STORE,
    operation: () => ({ millis: 20 + rng.below(200), fails: null }),
    clone: () => ({ millis: 200 + rng.below(1000), fails: false }),
    startMillis: () => 100 + rng.below(900),
    lookMillis: () => 3,
    arrows: () => null,
    planeDied: () => {},
  };
}
