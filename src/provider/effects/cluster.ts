/** Effects on sets and on the cluster in its databases. */
import type { Step } from '../../clusters/index.ts';
import type { Effect } from '../../engine/provider.ts';
import { command, commandAs, outcomeOf, runAs } from './commands.ts';
import type { Work } from './work.ts';

/** The old primary does not stand again for this long: enough to be worked on. */
const STEP_DOWN_SECONDS = 60;
/** How long an heir may take to catch up before the server refuses. */
const CATCH_UP_SECONDS = 10;

/** The server waits until the configuration is committed, but no longer than this. */
const RECONFIG_LIMIT = 10_000;

export async function reconfig(
  work: Work,
  { via, config, forcedBy }: Extract<Step, { kind: 'reconfig' }>,
): Promise<Effect> {
  const maxTimeMillis = RECONFIG_LIMIT;
  const force = forcedBy === undefined ? {} : { force: true as const };
  const answer = await runAs(work, via, 'clusterAdmin', (as) => ({
    kind: 'reconfig',
    as,
    config,
    maxTimeMillis,
    ...force,
  }));
  const term = answer.kind === 'done' ? answer.result['term'] : undefined;
  // An older agent does not say.
  return { outcome: outcomeOf(answer, typeof term === 'number' ? { term } : {}) };
}

/** Never forced: without a caught-up heir the server refuses, and so do we (S3, S13). */
export async function stepDown(work: Work, name: string): Promise<Effect> {
  return commandAs(work, name, 'clusterAdmin', (as) => ({
    kind: 'stepDown',
    as,
    forSeconds: STEP_DOWN_SECONDS,
    catchUpSeconds: CATCH_UP_SECONDS,
  }));
}

export async function addShard(work: Work, via: string, shard: string): Promise<Effect> {
  return commandAs(work, via, 'clusterAdmin', (as) => ({ kind: 'addShard', as, shard }));
}

/** How long the end of a migration is waited for in one try; the next pass asks again. */
const BALANCER_LIMIT = 10_000;

/** `autoMerge` left out: the AutoMerger goes on or off along. */
export async function setBalancer(
  work: Work,
  via: string,
  enabled: boolean,
  autoMerge?: boolean,
): Promise<Effect> {
  const maxTimeMillis = BALANCER_LIMIT;
  const answer = await runAs(work, via, 'clusterAdmin', (as) => ({
    kind: 'setBalancer',
    as,
    enabled,
    maxTimeMillis,
    ...(autoMerge === undefined ? {} : { autoMerge }),
  }));
  const { wasEnabled, autoMergeWas } = answer.kind === 'done' ? answer.result : {};
  // An older agent does not say.
  return {
    outcome: outcomeOf(answer, {
      ...(typeof wasEnabled === 'boolean' ? { balancerWas: wasEnabled } : {}),
      ...(typeof autoMergeWas === 'boolean' ? { autoMergeWas } : {}),
    }),
  };
}

export async function setFcv(work: Work, via: string, version: string): Promise<Effect> {
  const as = await work.credentials.login(work.state.uid, 'clusterAdmin');
  return command(work, via, { kind: 'setFcv', as, version });
}
