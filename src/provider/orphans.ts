/**
 * MongoDBUser documents whose MongoDB is not there: they say so, and their deletion is not held up (B3.5). A user whose
 * cluster exists is part of that cluster's pass; here the cluster is only woken.
 */

import { equalValues } from '../base/equal.ts';
import type { Millis } from '../base/units.ts';
import type { EngineParts } from '../engine/engine.ts';
import { keyOf } from '../engine/informer.ts';
import type { Clock, Store } from '../engine/ports.ts';
import type { Reconciler } from '../engine/provider.ts';
import { withTransitionTimes } from '../engine/status.ts';
import { USER_FINALIZER } from './names.ts';
import { clusterKeyOf, type UserSecrets } from './userObjects.ts';
import { orphanStatus } from './userStatus.ts';

/** See the head of this file. */
export function orphanedUsers(
  deps: { readonly store: Store; readonly clock: Clock; readonly userSecrets: UserSecrets },
  { informer, leases, wake }: EngineParts,
): Reconciler {
  const pass = async (uid: string): Promise<Millis | null> => {
    const user = informer.byUid(uid);
    const fence = leases.fence(uid);
    if (user === null || fence === null) return null;
    const cluster = informer.get(clusterKeyOf(user)) ?? (await deps.store.get(clusterKeyOf(user)));
    if (cluster !== null) {
      wake('MongoDB', cluster.metadata.uid);
      return null;
    }
    const key = keyOf(user);
    if (user.metadata.deletionTimestamp !== null) {
      const rows = await deps.userSecrets.ownedRows(user);
      const releases = [{ key, uid, finalizer: USER_FINALIZER }];
      await deps.store.commit({ fence, releases, secretPrefixesToDelete: rows });
      return null;
    }
    const { namespace, name } = clusterKeyOf(user);
    const drafted = orphanStatus(
      user,
      `MongoDB ${namespace}/${name} does not exist; applied as soon as it does`,
    );
    const value = withTransitionTimes(drafted, user.status, deps.clock.now());
    if (!equalValues(value, user.status)) await deps.store.commit({ fence, status: [{ key, uid, value }] });
    return null;
  };
  return { kind: 'MongoDBUser', pass, drop: () => {} };
}
