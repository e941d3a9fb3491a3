/** What members ask of each other. */
import { type Document, Int32 } from 'bson';
import type { CommandContext, CommandSpec, Privilege } from '../contracts.ts';
import { ServerError } from '../contracts.ts';
import { decodeFetch, decodeHeartbeat, decodePositions, decodeVote } from './peer-codec.ts';
import type { Runtime } from './runtime.ts';
import { numberOf, toBson } from './values.ts';

const internal = (): readonly Privilege[] => [{ resource: { cluster: true }, actions: ['internal'] }];

const spec = (name: string, run: (context: CommandContext) => Promise<Document> | Document): CommandSpec => ({
  name,
  adminOnly: true,
  auth: internal,
  access: 'any',
  run,
});

/** Commands of other members; all but `_isSelf` need the internal action on the cluster. */
export function peerCommands(runtime: Runtime): readonly CommandSpec[] {
  const session = (command: Document, field: string): number => numberOf(command[field]) ?? -1;
  return [
    {
      name: '_isSelf',
      auth: 'none',
      access: 'any',
      run: () => ({ id: runtime.instanceId }),
    },
    spec('replSetHeartbeat', ({ command }) => runtime.request(decodeHeartbeat(command))),
    spec('replSetRequestVotes', ({ command }) => runtime.request(decodeVote(command))),
    spec('replSetUpdatePosition', ({ command }) => runtime.request(decodePositions(command))),
    spec('_simFetchOplog', ({ command }) => {
      const request = decodeFetch(command);
      if (request === null)
        throw new ServerError(2, 'BadValue', '_simFetchOplog needs an optime to start after');
      return runtime.request(request);
    }),
    spec('_simInitialSyncBegin', () => {
      assertReadable(runtime);
      return runtime.sessions.begin(runtime.data, runtime.state.rbid, runtime.now());
    }),
    spec('_simInitialSyncRead', ({ command }) =>
      runtime.sessions.read(
        session(command, 'session'),
        session(command, 'collection'),
        session(command, 'from'),
        runtime.now(),
      ),
    ),
    spec('_simInitialSyncEnd', ({ command }) => {
      runtime.sessions.end(session(command, 'session'));
      return { rbid: new Int32(runtime.state.rbid), lastApplied: toBson(runtime.state.applied.op) };
    }),
  ];
}

function assertReadable(runtime: Runtime): void {
  const { shownState } = runtime.state;
  if (shownState === 'PRIMARY' || shownState === 'SECONDARY') return;
  throw new ServerError(
    13436,
    'NotPrimaryOrSecondary',
    'not primary or secondary; cannot currently read from this replSet member',
  );
}
