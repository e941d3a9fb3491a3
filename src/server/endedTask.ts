/** A maintenance task that is gone leaves its events: whoever asks for it by its name is told how and when it ended. */
import { BelayError } from '../base/error.ts';
import type { Store, StoredEvent } from '../engine/ports.ts';
import { DEFAULT_NAMESPACE } from '../model/index.ts';
import type { ApiDeps } from './deps.ts';
import type { Route } from './routes.ts';

/** Events that are looked through for the end of a task: the newest, of everything. */
const LOOKED_AT = 1000;
const ENDS: ReadonlySet<string> = new Set([
  'MaintenanceExpired',
  'MaintenanceCompleted',
  'MaintenanceDropped',
]);

/** The route of one task (`{name}`): `NotFound` of one that there was says how it ended. */
export const tellingEnds = ({ store }: ApiDeps, route: Route): Route => ({
  ...route,
  handle: async (call) => {
    try {
      return await route.handle(call);
    } catch (failure) {
      const name = call.param('name');
      if (!(failure instanceof BelayError) || failure.message !== `Task not found: ${name}`) throw failure;
      const end = await endOf(store, name);
      throw end === undefined ? failure : ended(name, end);
    }
  },
});

async function endOf(store: Store, name: string): Promise<StoredEvent | undefined> {
  const events = await store.events({ namespace: DEFAULT_NAMESPACE, limit: LOOKED_AT });
  return events.findLast(
    ({ regarding, reason }) =>
      regarding.kind === 'MaintenanceTask' && regarding.name === name && ENDS.has(reason),
  );
}

const ended = (name: string, { at, message }: StoredEvent): BelayError =>
  new BelayError(
    'NotFound',
    `Task not found: ${name} has ended at ${new Date(at).toISOString()}: ${message}`,
    {
      retry: 'never',
      fix: `it holds nothing any more; if it is still needed, ask again: belay maintenance create; what happened: belay events maintenancetask ${name}`,
    },
  );
