/** Bugs of seeing and telling: stale readings, wrong generations, false blocks, one cluster in another's way. */
import type { Observed, ReplSetConfig, Step } from '../../clusters/index.ts';
import { brain, replan, withSteps } from './brain.ts';
import type { Mutant } from './index.ts';
import { wants } from './suits.ts';

export const READING_MUTANTS: readonly Mutant[] = [
  {
    name: 'stale-is-healthy',
    bug: 'the last reading of a member counts as its present one, however old it is',
    caughtBy: ['S1', 'S2', 'S15', 'L1', 'S13'],
    budget: 300,
    from: 30,
    make: staleIsHealthy,
  },
  {
    name: 'ready-of-old-generation',
    bug: 'Ready is told of the newest generation though an older one was carried out',
    caughtBy: ['S15', 'L1', 'L4'],
    budget: 60,
    from: 2,
    make: () => {
      const first = new Map<string, unknown>();
      return brain((provider) => {
        const { desired } = provider;
        provider.desired = (object) => {
          const { uid, deletionTimestamp } = object.metadata;
          const now = desired(object);
          if (deletionTimestamp !== null) return now;
          const then = (first.get(uid) as typeof now | undefined) ?? now;
          first.set(uid, then);
          return { ...then, paused: now.paused, suspend: now.suspend };
        };
      });
    },
  },
  {
    name: 'blocks-falsely',
    bug: 'a member that fails is called a conflict of ownership',
    caughtBy: ['L1', 'S1', 'S13'],
    budget: 60,
    from: 33,
    make: () =>
      replan((plan, { state }) => {
        if (state.members.every(({ stage }) => stage === 'active') || state.phase !== 'running') return plan;
        const [wait] = plan.waits;
        if (wait === undefined) return plan;
        const block = { kind: 'blocked', by: 'OwnershipConflict', needs: 'person' } as const;
        const blocks = [{ ...block, detail: wait.detail, fix: 'planted' }];
        return { ...plan, act: null, waits: [], blocks, converged: false };
      }),
  },
  {
    name: 'one-after-the-other',
    bug: 'effects of all clusters wait for each other',
    caughtBy: ['L4', 'L1'],
    budget: 60,
    from: 2,
    make: () => {
      let last: Promise<unknown> = Promise.resolve();
      return brain((provider) => {
        const { perform } = provider;
        provider.perform = (...words) => {
          const mine = last.then(() => perform(...words));
          last = mine.catch(() => {});
          return mine;
        };
      });
    },
  },
  {
    name: 'two-votes-at-once',
    bug: 'all members get their votes in one reconfig',
    caughtBy: ['S5', 'L1', 'L2', 'S13'],
    budget: 150,
    from: 12,
    make: () =>
      replan((plan) =>
        withSteps(
          plan,
          (plan.act?.steps ?? []).map(
            (step): Step => (step.kind === 'reconfig' ? { ...step, config: turned(step.config) } : step),
          ),
        ),
      ),
  },
  {
    name: 'upgrades-all',
    bug: 'all members get the new binary at once',
    caughtBy: ['S1', 'S2', 'S3', 'S7', 'L1', 'S13'],
    budget: 200,
    from: 69,
    suits: wants('version'),
    make: () =>
      replan((plan, { state }) => {
        const upgrade = plan.act?.steps.find((step) => step.kind === 'upgrade');
        if (upgrade === undefined) return plan;
        const late = state.members.filter(({ deployedVersion }) => deployedVersion !== upgrade.version);
        return withSteps(
          plan,
          late.map(({ name }): Step => ({ ...upgrade, member: name })),
        );
      }),
  },
];

/** Everyone who may vote does: whoever had no vote gets one, all in one go. */
const turned = (config: ReplSetConfig): ReplSetConfig => ({
  ...config,
  members: config.members.map((row) => (row.hidden ? row : { ...row, votes: 1, priority: 1 })),
});

function staleIsHealthy() {
  const known = new Map<string, Observed['members'][number]>();
  return brain((provider) => {
    const { observe } = provider;
    provider.observe = async (...words) => {
      const observed = await observe(...words);
      const members = observed.members.map((member) => {
        const key = `${words[0].object.metadata.uid}/${member.name}`;
        if (member.connected && member.facts?.database?.kind === 'reachable') known.set(key, member);
        const before = known.get(key);
        return before === undefined ? member : { ...before, observedAt: observed.at, connected: true };
      });
      return { ...observed, members };
    };
  });
}
