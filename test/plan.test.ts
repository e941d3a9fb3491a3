import { afterAll, beforeAll, expect, test } from 'vitest';
import { objectPath } from '../src/cli/client.ts';
import { statusOf } from '../src/cli/rows.ts';
import type { PlanAnswer } from '../src/cli/verbs/plan.ts';
import { replicaSet } from './support/documents.ts';
import { LONG, Stack } from './support/stack.ts';

const OLD = '7.0.43-23';
const NEW = '8.0.32-14';
const OTHER = '8.0.29-13';
const spec: Record<string, unknown> = { version: OLD, security: { tls: { mode: 'requireTLS' } } };
let stack: Stack;

beforeAll(async () => {
  // Stopping takes 15 s as with the real one; nothing here is about that.
  stack = await Stack.start({ agents: [], env: { BELAY_SIM_SHUTDOWN_MILLIS: '200' } });
  stack.patience = LONG;
  await stack.startAgent('local', { binDir: stack.builds([OLD, NEW, OTHER]) });
  await stack.apply(replicaSet('plan', spec));
  await stack.untilReady('plan');
}, LONG);
afterAll(() => stack?.stop(), LONG);

interface Entry {
  readonly step: string;
  readonly target: string;
  readonly at: number;
  readonly detail: { readonly member?: string; readonly change?: string };
  readonly outcome: { readonly kind: string } | null;
}

async function journal(): Promise<readonly Entry[]> {
  const { items } = await stack.server.api.get<{ items: readonly Entry[] }>(
    '/api/v1/namespaces/default/mongodb/plan/operations',
    { limit: '1000' },
  );
  return items.filter((entry) => entry.outcome?.kind === 'done');
}

/** Members that are let in by one reconfiguration or by several: when each was there is the world's choice. */
const joins = (change: string): readonly string[] | null => {
  const [, members] = /^(.*) join without vote/.exec(change) ?? [];
  return members === undefined ? null : members.split(', ').map((member) => `join ${member}`);
};

/** New members are made side by side, members that have left are removed side by side: which is quicker is the world's choice. */
const SIDE_BY_SIDE = ['import', 'deploy', 'publish', 'join', 'deleteRuntime', 'deleteVolume'];
const rank = (line: string): number => SIDE_BY_SIDE.indexOf(line.split(' ')[0] as string);

/** The lines with each stretch of such steps in one order. */
function story(lines: readonly string[]): readonly string[] {
  const told: string[] = [];
  let stretch: string[] = [];
  const flush = (): void => {
    told.push(...stretch.toSorted((a, b) => rank(a) - rank(b) || a.localeCompare(b)));
    stretch = [];
  };
  for (const line of lines) {
    if (rank(line) >= 0) stretch.push(line);
    else {
      flush();
      told.push(line);
    }
  }
  flush();
  return told;
}

/** `reload plan-2`, one line for each thing that is touched, those of one step in the order of their names. */
const planned = (plan: PlanAnswer): readonly string[] =>
  story(
    plan.steps.flatMap(
      (step) => joins(step.detail) ?? step.targets.map((target) => `${step.verb} ${target}`).sort(),
    ),
  );

/** What was done, in the same form: steps of one moment and kind are one. */
function done(entries: readonly Entry[]): readonly string[] {
  const groups: string[][] = [];
  let last: Entry | null = null;
  for (const entry of entries) {
    const joined = joins(entry.detail.change ?? '');
    const line = `${entry.step} ${entry.detail.member ?? entry.target}`;
    if (joined !== null) groups.push([...joined]);
    else if (last !== null && last.at === entry.at && last.step === entry.step) groups.at(-1)?.push(line);
    else groups.push([line]);
    last = entry;
  }
  return story(groups.flatMap((group) => group.sort()));
}

/** Nothing is left to be done. */
const settled = (): Promise<void> =>
  stack.until(
    async () => {
      const query = { dryRun: 'plan' };
      const body = replicaSet('plan', spec);
      const plan = await stack.server.api.request<PlanAnswer>('POST', '/api/v1/apply', { body, query });
      return plan.converges && plan.steps.length === 0;
    },
    'nothing to do',
    LONG / 2,
  );

/** Elections the set has held. */
const term = async (): Promise<number> => (await stack.status('plan')).replicaSets?.[0]?.term ?? 0;

/**
 * What was done, to be compared with what was said. A set may hold an election that nobody asked for (a busy machine lets
 * heartbeats be late): then who hands over, and when, is another story, and the rest of it is compared as a collection.
 */
function told(said: readonly string[], did: readonly string[], elections: number): readonly string[] {
  const asked = said.filter((line) => line.startsWith('stepDown')).length;
  if (elections <= asked) return did;
  const rest = (lines: readonly string[]): string =>
    lines
      .filter((line) => !/^(stepDown|reconcileSystemUsers) /.test(line))
      .toSorted()
      .join();
  return rest(said) === rest(did) ? said : did;
}

/** Both stories, and the entries themselves for whoever has to find out why they differ. */
function compared(plan: PlanAnswer, entries: readonly Entry[], elections: number) {
  const said = planned(plan);
  const log = `${elections} elections\n${entries.map((entry) => JSON.stringify(entry)).join('\n')}`;
  return { said, did: told(said, done(entries), elections), log };
}

/** Plans the document, applies it, and gives both stories. */
async function change(fields: Readonly<Record<string, unknown>>) {
  Object.assign(spec, fields);
  const document = replicaSet('plan', spec);
  const plan = await stack.server.api.request<PlanAnswer>('POST', '/api/v1/apply', {
    body: document,
    query: { dryRun: 'plan' },
  });
  const [before, held] = [(await journal()).length, await term()];
  await stack.apply(document);
  await stack.untilReady('plan');
  await settled();
  return { plan, ...compared(plan, (await journal()).slice(before), (await term()) - held) };
}

/** The same for an operation. */
async function operate(wish: Readonly<Record<string, unknown>>) {
  const body = { spec: { mongodbResourceRef: { name: 'plan' }, ...wish } };
  const at = objectPath('operations', 'default');
  const plan = await stack.server.api.request<PlanAnswer>('POST', at, { body, query: { dryRun: 'plan' } });
  const [before, held] = [(await journal()).length, await term()];
  const { metadata } = await stack.server.api.request<{ metadata: { name: string } }>('POST', at, { body });
  await stack.until(
    async () => {
      const object = await stack.object('operations', metadata.name);
      return object !== null && statusOf(object).finishedAt !== undefined;
    },
    `end of ${metadata.name}`,
    LONG / 2,
  );
  await settled();
  const state = statusOf((await stack.object('operations', metadata.name)) as never).state;
  return { plan, state, ...compared(plan, (await journal()).slice(before), (await term()) - held) };
}

test(
  'A13.2 a restart goes as its plan says, and later plans know how long restarts take here',
  async () => {
    const { plan, state, said, did, log } = await operate({ type: 'Restart' });
    expect(did, `${JSON.stringify(plan)}\n${log}`).toEqual(said);
    expect({ state, said }).toEqual({
      state: 'Succeeded',
      said: ['reload plan-2', 'reload plan-1', 'stepDown plan-0', 'reload plan-0'],
    });
    expect(plan.converges).toBe(true);
    expect(plan.steps[0]?.votes).toMatchObject({
      before: { voters: 3, healthyVoters: 3, needed: 2 },
      after: { voters: 3, healthyVoters: 2, needed: 2 },
    });
    expect(plan.steps.map((step) => step.expected)).toEqual([null, null, null, null]);
    const again = await stack.belay(['restart', 'plan', '--plan']);
    expect(again.code).toBe(10);
    expect(again.out).toMatch(
      /healthy voters 3 → 2 of 3, needs 2 {3}1 member restarts {3}~\S+ m?s \(2 earlier ones\)/,
    );
    expect(again.out).toContain('by earlier steps here');
  },
  LONG,
);

test(
  'A9.1 a changed configuration goes as its plan says',
  async () => {
    const { said, did, log } = await change({
      additionalMongodConfig: { operationProfiling: { slowOpThresholdMs: 250 } },
    });
    expect(did, log).toEqual(said);
    expect(said.filter((line) => line.startsWith('reload'))).toHaveLength(3);
  },
  LONG,
);

test(
  'A8.1 A8.5 an upgrade and the raised FCV go as their plans say',
  async () => {
    const { said, did, plan, log } = await change({ version: NEW });
    expect(did, `${JSON.stringify(plan)}\n${log}`).toEqual(said);
    expect(said.filter((line) => line.startsWith('upgrade'))).toHaveLength(3);
    const raised = await operate({ type: 'RaiseFCV' });
    expect(raised.did, raised.log).toEqual(raised.said);
    expect(raised.said).toEqual(['setFcv plan']);
  },
  LONG,
);

test(
  'A8.1 A9.1 another binary and another configuration at once go as their plan says: each member goes down once',
  async () => {
    const { said, did, plan, log } = await change({
      version: OTHER,
      additionalMongodConfig: { operationProfiling: { slowOpThresholdMs: 300 } },
    });
    expect(did, log).toEqual(said);
    const restarts = plan.steps.filter((step) => step.impact === '1 member restarts');
    expect(restarts.map((step) => step.verb)).toEqual(['upgrade', 'upgrade', 'upgrade']);
    const given = plan.steps.filter((step) => step.verb === 'reload');
    expect(given.map((step) => [step.impact, step.votes])).toEqual(
      Array.from({ length: 3 }, () => ['nothing else goes down: it is down already', null]),
    );
  },
  LONG,
);

test(
  'A13.4 A13.5 rotations of certificates and passwords go as their plans say',
  async () => {
    const certificates = await operate({ type: 'RotateTLS' });
    expect(certificates.did, certificates.log).toEqual(certificates.said);
    const passwords = await operate({ type: 'RotateUsers' });
    expect(passwords.did, passwords.log).toEqual(passwords.said);
    expect([certificates.state, passwords.state]).toEqual(['Succeeded', 'Succeeded']);
  },
  LONG,
);

test(
  'A9.3 TLS off: the same steps, each phase on every member before the next; who leads after an election is the set’s choice',
  async () => {
    const { said, did, log } = await change({ security: { tls: { mode: 'disabled' } } });
    const phases = (lines: readonly string[]) => {
      const reloads = lines.filter((line) => line.startsWith('reload'));
      return [0, 3, 6].map((at) => reloads.slice(at, at + 3).toSorted());
    };
    expect(phases(did), log).toEqual(phases(said));
    expect(did.filter((line) => line.startsWith('stepDown'))).toHaveLength(3);
    expect(did.toSorted()).toEqual(said.toSorted());
  },
  LONG,
);

test(
  'A6.3 A6.4 3 → 5 → 3 goes as its plan says',
  async () => {
    const more = await change({ members: 5 });
    expect(more.did, more.log).toEqual(more.said);
    const votes = more.plan.steps.flatMap((step) => step.votes ?? []);
    expect(votes.map(({ before, after }) => [before.voters, after.voters])).toEqual([
      [3, 4],
      [4, 5],
    ]);
    const fewer = await change({ members: 3 });
    expect(fewer.did, fewer.log).toEqual(fewer.said);
  },
  LONG,
);

test(
  'A13.3 a replacement goes as its plan says',
  async () => {
    const { state, said, did, log } = await operate({ type: 'Replace', member: 'plan-1' });
    expect(did, log).toEqual(said);
    expect(state).toBe('Succeeded');
  },
  LONG,
);

test(
  'A14.2 suspending and resuming go as their plans say; what waits says so in its plan',
  async () => {
    spec['suspend'] = true;
    const down = await operate({ type: 'Suspend' });
    expect(down.did, down.log).toEqual(down.said);
    const restart = await stack.belay(['restart', 'plan', '--plan']);
    expect({ code: restart.code, out: restart.out }).toMatchObject({
      code: 10,
      out: expect.stringContaining('waits    OperationInProgress: the cluster is suspended'),
    });
    spec['suspend'] = false;
    const up = await operate({ type: 'Resume' });
    expect(up.did, up.log).toEqual(up.said);
    await stack.untilReady('plan');
  },
  LONG,
);
