import type { Millis } from '../base/units.ts';
import type { Batch, HostOperation } from '../engine/ports.ts';
import type { Fate as RequestFate } from './channel.ts';
import type { ControlPlane } from './controlPlane.ts';
import type { Machine } from './machine.ts';
import type { Fate as OperationFate } from './operations.ts';
import type { StoreFate } from './storeDoor.ts';

export interface Weather {
  /** Nothing goes wrong any more. */
  readonly calm: boolean;
  request(host: string, what: string): RequestFate;
  store(write: boolean, batch: Batch | null): StoreFate;
  operation(machine: Machine, operation: HostOperation): OperationFate;
  clone(): { readonly millis: Millis; readonly fails: boolean };
  startMillis(): Millis;
  lookMillis(machine: Machine): Millis;
  /** Arrows the next life of a control plane survives. */
  arrows(): number | null;
  planeDied(plane: ControlPlane): void;
}
