/** Bugs of engine, store and agents: rights, records, secrets. */
import type { Agents, Batch } from '../../engine/ports.ts';
import type { Mutation } from '../mutation.ts';
import type { Mutant } from './index.ts';
import { over } from './over.ts';
import { both, lateRivals, rivals, suffers, wants } from './suits.ts';

const batches = (change: (batch: Batch) => Batch): Mutation => ({
  store: (store) => over(store, { commit: (batch) => store.commit(change(batch)) }),
});

export const RUNTIME_MUTANTS: readonly Mutant[] = [
  {
    name: 'store-without-fences',
    bug: 'the store takes writes of holders that have lost their lease',
    caughtBy: ['S9'],
    budget: 400,
    from: 334,
    suits: rivals,
    make: () => {
      // The fence is taken off before the store sees it; the write is still told with it.
      return { store: (store) => over(store, { commit: ({ fence: _, ...batch }) => store.commit(batch) }) };
    },
  },
  {
    name: 'two-holders',
    bug: 'every control plane believes to hold every lease',
    caughtBy: ['S9', 'S10', 'L1', 'S16', 'L2'],
    budget: 100,
    from: 146,
    suits: rivals,
    make: () => ({
      store: (store) =>
        over(store, {
          acquireLeases: async (names, holder, ttl, now) =>
            names.map((name) => ({ name, holder, epoch: 1, expiresAt: now + ttl })),
          commit: ({ fence: _, ...batch }) => store.commit(batch),
        }),
    }),
  },
  {
    name: 'agents-without-epochs',
    bug: 'agents carry out commands of any epoch',
    caughtBy: ['S9', 'L1', 'L2'],
    budget: 40,
    from: 1686,
    suits: lateRivals,
    make: () => ({ agentBugs: { ignoreEpochs: true } }),
  },
  {
    name: 'no-intents',
    bug: 'effects are not written down before they are done',
    caughtBy: ['S16'],
    budget: 3,
    from: 1,
    make: () => batches(({ intents: _, outcomes: __, ...batch }) => batch),
  },
  {
    name: 'volume-by-name',
    bug: 'an agent deletes the volume that has the right name',
    caughtBy: ['S4', 'S11'],
    budget: 600,
    from: 247,
    suits: both(suffers('foreignVolume'), wants('delete', 'members', 'operation')),
    make: () => ({ agentBugs: { volumesByName: true } }),
  },
  {
    name: 'formats-volumes',
    bug: 'a volume whose service is gone is formatted when the service is made again: it looked empty',
    caughtBy: ['S6', 'WRITES'],
    budget: 300,
    from: 58,
    suits: suffers('runtimeGone'),
    make: () => ({ agentBugs: { formatsVolumes: true } }),
  },
  {
    name: 'forces-reconfigs',
    bug: 'configurations are forced upon the set',
    caughtBy: ['S5'],
    budget: 100,
    from: 9,
    make: () => ({ agentBugs: { forcesReconfigs: true } }),
  },
  {
    name: 'stops-primaries',
    bug: 'an agent does not look whether the member it restarts leads by now',
    caughtBy: ['S3'],
    budget: 3,
    from: 971483,
    make: () => ({ agentBugs: { stopsPrimaries: true } }),
  },
  {
    name: 'intent-after-effect',
    bug: 'an intent is written with its outcome, after the effect',
    caughtBy: ['S16'],
    budget: 3,
    from: 1,
    make: intentsLate,
  },
  {
    name: 'new-passwords-alone',
    bug: 'agents are not given the password to come before their database has it',
    caughtBy: ['S12'],
    budget: 30,
    from: 9000,
    suits: ({ edits }) => edits.some((edit) => edit.kind === 'operation' && edit.type === 'RotateUsers'),
    make: () => ({
      agents: (agents) =>
        new Proxy(agents, {
          get: (target, name) => {
            const value = Reflect.get(target, name, target) as unknown;
            if (name !== 'publish') return typeof value === 'function' ? value.bind(target) : value;
            const publish: Agents['publish'] = (ref, snapshot, ...rest) =>
              target.publish(ref, { ...snapshot, nextMonitor: null }, ...rest);
            return publish;
          },
        }),
    }),
  },
  {
    name: 'secret-in-event',
    bug: 'a password is told in an event',
    caughtBy: ['S8'],
    budget: 5,
    from: 1,
    make: () => {
      let password = '';
      return {
        agents: (agents) => listening(agents, (text) => (password = text)),
        store: (store) =>
          over(store, {
            commit: (batch) =>
              store.commit({
                ...batch,
                events: (batch.events ?? []).map((event) => ({
                  ...event,
                  message: `${event.message} ${password}`,
                })),
              }),
          }),
      };
    },
  },
  {
    name: 'unsealed-row',
    bug: 'secrets are put into the store as they are',
    caughtBy: ['S8'],
    budget: 3,
    from: 1,
    make: () => ({
      store: (store) =>
        over(store, {
          putSealed: (name, sealed, expect) => store.putSealed(name, opened(sealed), expect),
          getSealed: async (name) => {
            const row = await store.getSealed(name);
            return row === null ? null : { ...row, sealed: opened(row.sealed) };
          },
        }),
    }),
  },
];

/** Intents wait until something else is written. */
function intentsLate(): Mutation {
  let held: NonNullable<Batch['intents']> = [];
  return batches(({ intents, ...batch }) => {
    if (intents !== undefined) {
      held = [...held, ...intents];
      return batch;
    }
    const late = held;
    held = [];
    return late.length === 0 ? batch : { ...batch, intents: late };
  });
}

/** The world's seal, taken off. */
const opened = (sealed: Uint8Array): Uint8Array => sealed.map((byte) => byte ^ 0x5a);

/** Notes the last password on its way to an agent. */
function listening(agents: Agents, note: (text: string) => void): Agents {
  return new Proxy(agents, {
    get: (target, name) => {
      const value = Reflect.get(target, name, target) as unknown;
      if (typeof value !== 'function') return value;
      if (name !== 'publish') return value.bind(target);
      const publish: Agents['publish'] = (ref, snapshot, ...rest) => {
        note(snapshot.monitor.password.reveal());
        return target.publish(ref, snapshot, ...rest);
      };
      return publish;
    },
  });
}
