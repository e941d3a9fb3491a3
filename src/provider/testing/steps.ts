/** Single steps of the provider: agents and platform that answer as told, and all that was said to them. */
import { randomBytes } from 'node:crypto';
import {
  type CommandOutcome,
  type Desired,
  desiredFrom,
  initialState,
  type MemberCommand,
  type MemberSnapshot,
  type MemberState,
  type State,
  type Step,
} from '../../clusters/index.ts';
import { Informer } from '../../engine/informer.ts';
import type { Platform, Proviso, StoredObject } from '../../engine/ports.ts';
import { silentLog } from '../../engine/testing/bench.ts';
import { ManualClock } from '../../engine/testing/clock.ts';
import type { MongoDBSpec } from '../../model/index.ts';
import { openCertificateAuthority } from '../../security/ca.ts';
import { masterKeyFrom } from '../../security/seal.ts';
import { openSecrets } from '../../security/secrets.ts';
import { openMemoryStore } from '../../store/memory.ts';
import { Credentials } from '../credentials.ts';
import { perform } from '../effects.ts';
import type { Reading } from '../observe.ts';
import { UserSecrets } from '../userObjects.ts';
import { create, replicaSet } from './rig.ts';

const FENCE = { lease: 'clusters/0', epoch: 1 };
export const DONE: CommandOutcome = { kind: 'done', result: {} };
export const refused = (kind: 'credentials' | 'transient' | 'permanent'): CommandOutcome => ({
  kind: 'refused',
  code: 1,
  codeName: 'No',
  message: 'no',
  class: kind,
});

/** One cluster whose members are placed, agents that answer as told, and all that was said to them. */
export async function scene(
  answer: (command: MemberCommand) => CommandOutcome | Promise<CommandOutcome> = () => DONE,
  over: Partial<Platform> = {},
) {
  const clock = new ManualClock(Date.UTC(2030, 0, 1));
  const store = openMemoryStore({ clock });
  const secrets = await openSecrets(store, masterKeyFrom(randomBytes(32)));
  const ca = await openCertificateAuthority(secrets, clock, { organization: 'Belay' });
  const credentials = new Credentials(secrets, ca);
  const informer = new Informer({ store, clock, log: silentLog, kinds: ['MongoDB', 'Operation'] });
  const object = await create(store, 'MongoDB', 'orders', replicaSet());
  const desired = desiredFrom({ metadata: object.metadata, spec: object.spec as MongoDBSpec });
  const said: MemberCommand[] = [];
  const given: MemberSnapshot[] = [];
  const provisos: Proviso[] = [];
  /** In the order in which they came. */
  const order: string[] = [];
  const hooks = { publish: (): void => {} };
  const agents = {
    run: async (_: unknown, command: MemberCommand) => {
      said.push(command);
      order.push(command.kind);
      return answer(command);
    },
    publish: async (_: unknown, snapshot: MemberSnapshot, __: unknown, proviso: Proviso) => {
      hooks.publish();
      provisos.push(proviso);
      given.push(snapshot);
      order.push('publish');
    },
  };
  const platform = {
    deleteVolume: async () => ({ operationId: 'gone' }),
  };
  const deps = {
    agents,
    platform: { ...platform, ...over },
    store,
    informer,
    clock,
    credentials,
    userSecrets: new UserSecrets(secrets),
    installation: 'test',
    agentVersion: '0',
  } as unknown as Parameters<typeof perform>[0];
  const observed = {
    members: [],
    userObjects: [],
    authority: ca.authority,
    services: [],
  } as unknown as Reading;
  await credentials.ensure(object.metadata.uid);
  const run = (
    step: Step,
    change: Partial<{ desired: Desired; state: State; object: StoredObject }> = {},
    reading: Partial<Reading> = {},
  ) =>
    perform(
      deps,
      step,
      { object, desired, state: placed(desired), ...change },
      {
        stepId: 'step',
        fence: FENCE,
        observed: { ...observed, ...reading },
      },
    );
  return {
    clock,
    store,
    secrets,
    ca,
    credentials,
    informer,
    object,
    desired,
    said,
    given,
    provisos,
    order,
    hooks,
    run,
  };
}

export const placed = (want: Desired, change: Partial<MemberState> = {}): State => {
  const state = initialState(want);
  return {
    ...state,
    members: state.members.map((m, i) => ({
      ...m,
      host: `db${i + 1}`,
      address: `db${i + 1}`,
      port: 27017,
      serviceId: `s${i}`,
      volumeId: `v${i}`,
      deployedVersion: want.version,
      stage: 'active' as const,
      ...change,
    })),
  };
};
export const passwordOf = (command: MemberCommand | undefined): string =>
  command !== undefined && 'as' in command ? command.as.password.reveal() : '';
