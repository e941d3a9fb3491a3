/** All invariants that are watched, each in a file of its own. */
import type { Checker } from '../stage.ts';
import { balancer } from './balancer.ts';
import { canary } from './canary.ts';
import { credentials } from './credentials.ts';
import { epochs } from './epochs.ts';
import { grants } from './grants.ts';
import { handsOff } from './handsOff.ts';
import { initiation } from './initiation.ts';
import { intents } from './intents.ts';
import { lastRouter } from './lastRouter.ts';
import { locks } from './locks.ts';
import { majority } from './majority.ts';
import { once } from './once.ts';
import { oneAtATime } from './oneAtATime.ts';
import { operations } from './operations.ts';
import { order } from './order.ts';
import { primaryLast } from './primaryLast.ts';
import { ready } from './ready.ts';
import { reconfigs } from './reconfigs.ts';
import { sharding } from './sharding.ts';
import { versions } from './versions.ts';
import { volumes } from './volumes.ts';
import { waits } from './waits.ts';
import { writes } from './writes.ts';

export const CHECKERS: Readonly<Record<string, Checker>> = {
  S1: majority,
  'S1 of routers': lastRouter,
  S2: oneAtATime,
  S3: primaryLast,
  S4: volumes,
  S5: reconfigs,
  S6: initiation,
  S7: versions,
  S8: canary,
  S9: epochs,
  S10: once,
  S11: handsOff,
  S12: credentials,
  S13: grants,
  S14: balancer,
  S15: ready,
  S16: intents,
  L3: waits,
  C2: locks,
  'A5.3': sharding,
  'A8.2': order,
  A13: operations,
  WRITES: writes,
};
