/** Replication commands on a process that was started without `--replSet`: all are refused with 76. */
import type { CommandSpec } from '../../contracts.ts';
import { ServerError } from '../../contracts.ts';
import { onCluster } from './info.ts';

const NEEDS: Readonly<Record<string, string>> = {
  replSetGetStatus: 'replSetGetStatus',
  replSetGetConfig: 'replSetGetConfig',
  replSetInitiate: 'replSetConfigure',
  replSetReconfig: 'replSetConfigure',
  replSetStepDown: 'replSetStateChange',
  replSetStepUp: 'replSetStateChange',
  replSetFreeze: 'replSetStateChange',
  replSetMaintenance: 'replSetStateChange',
  replSetSyncFrom: 'replSetStateChange',
  replSetAbortPrimaryCatchUp: 'replSetStateChange',
  replSetResizeOplog: 'replSetResizeOplog',
  replSetGetRBID: 'internal',
  replSetHeartbeat: 'internal',
  replSetRequestVotes: 'internal',
  replSetUpdatePosition: 'internal',
};

/** The refusing commands of a standalone. */
export const replicationDisabledSpecs: readonly CommandSpec[] = Object.entries(NEEDS).map(
  ([name, action]) => ({
    name,
    adminOnly: true,
    auth: onCluster(action),
    access: 'any',
    run: () => {
      const text =
        name === 'replSetInitiate'
          ? 'This node was not started with replication enabled.'
          : 'not running with --replSet';
      throw new ServerError(76, 'NoReplicationEnabled', text);
    },
  }),
);
