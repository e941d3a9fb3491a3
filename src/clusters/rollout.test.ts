import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { TlsMode } from '../model/index.ts';
import type { Step } from './decisions.ts';
import type { MemberFacts } from './facts.ts';
import { desired, running, seen } from './fixtures.ts';
import { guard } from './guard.ts';
import { advance } from './learn.ts';
import { plan } from './plan.ts';
import { Play } from './play.ts';
import { preview } from './preview.ts';
import { nextTlsMode } from './snapshotInputs.ts';
import { withMember } from './state.ts';
import { status } from './status.ts';
import { startStep } from './steps.ts';
import { memberHost } from './topology.ts';
import type { Observed } from './types.ts';

test('A7.3 A9.1 A8.2 S3 a changed configuration: secondaries from the highest index, then a hand-over, then the old primary', () => {
  const play = new Play(desired());
  play.desired = desired({ mongodConfig: { operationProfiling: { slowOpThresholdMs: 50 } }, generation: 2 });
  expect(play.toTheEnd()).toEqual([
    'reload orders-2',
    'reload orders-1',
    'stepDown orders-0',
    'reload orders-0',
    'converged',
  ]);
  expect(play.state.members.map((m) => m.activated?.configVersion)).toEqual([2, 2, 2]);
});

test('A9.3 S12 disabled → requireTLS passes every mode on every member before the next, and back', () => {
  const play = new Play(desired({ tlsMode: 'disabled' }));
  play.desired = desired({ tlsMode: 'requireTLS' });
  const up = play.toTheEnd();
  expect(up.filter((l) => l.startsWith('reload'))).toHaveLength(9);
  expect(up.at(-1)).toBe('converged');
  play.lines.length = 0;
  play.desired = desired({ tlsMode: 'disabled' });
  expect(play.toTheEnd().filter((l) => l.startsWith('reload'))).toHaveLength(9);
  expect(play.state.members.map((m) => m.activated?.tlsMode)).toEqual(['disabled', 'disabled', 'disabled']);
});

test('A8.1 A8.2 A8.4 an upgrade needs the old FCV, changes binaries one by one and leaves FCV alone', () => {
  const play = new Play(desired({ version: '7.0.43-23' }));
  play.desired = desired({ version: '8.0.32-14' });
  play.fcv = '6.0';
  expect(play.pass()).toBe('blocked FcvTooOld');
  play.fcv = '7.0';
  expect(play.toTheEnd()).toEqual([
    'upgrade orders-2',
    'upgrade orders-1',
    'stepDown orders-0',
    'upgrade orders-0',
    'reconcileSystemUsers ',
    'converged',
  ]);
});

test('A8.1 A9.1 S2 another binary and another configuration at once: each member goes down once, and its plan says so', () => {
  for (const members of [3, 1]) {
    const old = desired({ version: '8.0.29-13', interruption: true }, members);
    const play = new Play(old);
    const config = { operationProfiling: { slowOpThresholdMs: 50 } };
    play.desired = desired({ interruption: true, mongodConfig: config, generation: 2 }, members);
    const { steps, converges } = preview(play.reading(), play.desired, play.state, 0);
    expect(converges).toBe(true);
    const effects = steps.filter((s) => s.verb !== 'stepDown');
    expect(effects.map((s) => `${s.verb} ${s.targets.join()}`)).toEqual(
      Array.from({ length: members }, (_, i) => `orders-${members - 1 - i}`).flatMap((name) => [
        `upgrade ${name}`,
        `reload ${name}`,
      ]),
    );
    expect(effects.filter((s) => s.impact === '1 member restarts').map((s) => s.verb)).toEqual(
      Array.from({ length: members }, () => 'upgrade'),
    );
    expect(effects.filter((s) => s.verb === 'reload').map((s) => s.votes)).toEqual(
      Array.from({ length: members }, () => null),
    );
  }
});

test('A8.1 S7 an upgrade whose first member never runs is put back; once one runs it is not', () => {
  const play = new Play(desired({ version: '7.0.43-23' }));
  play.fcv = '7.0';
  const upgradeFirst = (): void => {
    play.desired = desired({ version: '8.0.32-14' });
    expect(play.pass()).toBe('upgrade orders-2');
    play.desired = desired({ version: '7.0.43-23' });
  };
  upgradeFirst();
  play.crashing.add(2);
  expect(play.pass()).toBe('upgrade orders-2');
  play.crashing.delete(2);
  expect(play.toTheEnd().at(-1)).toBe('converged');
  expect(play.state.members.map((m) => m.deployedVersion)).toEqual(Array(3).fill('7.0.43-23'));
  upgradeFirst();
  expect(play.pass()).toBe('blocked VersionStep');
});

test('A8.1 A8.4 S7 a set of one whose next major fails to start is put back, since its data was never touched', () => {
  const play = new Play(desired({ version: '7.0.43-23', interruption: true }, 1));
  play.fcv = '7.0';
  expect(play.pass()).toBe('converged');
  play.crashing.add(0);
  play.desired = desired({ interruption: true, generation: 2 }, 1);
  expect([play.pass(), play.pass()]).toEqual(['upgrade orders-0', 'blocked ProcessFailing']);
  play.desired = desired({ version: '7.0.43-23', interruption: true, generation: 3 }, 1);
  const plan = preview(play.reading(), play.desired, play.state, 0);
  expect(plan.steps.map((s) => s.verb)).toEqual(['upgrade']);
  expect(play.pass()).toBe('upgrade orders-0');
  play.crashing.clear();
  expect(play.toTheEnd().at(-1)).toBe('converged');
  expect(play.state.members[0]).toMatchObject({ deployedVersion: '7.0.43-23', newestRun: '7.0' });
  expect(play.state.replicaSets[0]?.fcv).toBe('7.0');
});

/** The first member was given the next major, and the spec says the old one again. */
function halfway(members = 3): Play {
  const play = new Play(desired({ version: '7.0.43-23', interruption: true }, members));
  play.fcv = '7.0';
  expect(play.pass()).toBe('converged');
  play.desired = desired({ interruption: true, generation: 2 }, members);
  expect(play.pass()).toBe(`upgrade orders-${members - 1}`);
  return play;
}
const back = (play: Play): void => {
  play.desired = desired(
    { version: '7.0.43-23', interruption: true, generation: 3 },
    play.state.members.length,
  );
};

test('S7 A8.4 a binary that has run on its data and has ended since is not followed by an older one', () => {
  for (const members of [3, 1]) {
    const seen = halfway(members);
    seen.reading();
    seen.crashing.add(members - 1);
    back(seen);
    for (let pass = 0; pass < 3; pass++) expect(seen.pass()).toMatch(/^blocked/);
    const decided = plan(seen.reading(), seen.desired, seen.state, seen.now);
    expect([decided.act, decided.blocks.map((b) => b.by)]).toEqual([
      null,
      expect.arrayContaining(['VersionStep']),
    ]);
    // Only its agent knows: nobody saw it run, and the record says nothing.
    expect(seen.state.members.at(-1)?.newestRun).toBe('8.0');
    const blind = {
      ...seen.state,
      members: seen.state.members.map((m) => ({ ...m, newestRun: '7.0' })),
    };
    expect(plan(seen.reading(), seen.desired, blind, seen.now).act).toBeNull();
    // Only the record knows: the agent's word is lost.
    const silent = seen.reading();
    const mute = silent.members.map((m) => ({ ...m, facts: m.facts && { ...m.facts, newestRun: '7.0' } }));
    expect(plan({ ...silent, members: mute }, seen.desired, seen.state, seen.now).act).toBeNull();
    // An agent that cannot tell proves nothing.
    const old = silent.members.map(({ facts, ...m }) => {
      const { newestRun: _, ...rest } = facts ?? { newestRun: null };
      return { ...m, facts: facts === null ? null : (rest as MemberFacts) };
    });
    expect(plan({ ...silent, members: old }, seen.desired, blind, seen.now).act).toBeNull();
  }
});

test('S7 A8.4 a member under way that runs the newer binary by now is not turned back, however far it is', () => {
  const play = halfway();
  back(play);
  // It answers, and its set does not count on it yet.
  play.states[2] = 'RECOVERING';
  const o = play.reading();
  play.state = advance(play.state, play.desired, o, play.now + 1);
  expect(play.state.members[2]?.stage).toBe('upgrading');
  const decided = plan(o, play.desired, play.state, play.now + 1);
  expect([decided.act, decided.blocks.map((b) => b.by)]).toEqual([null, ['VersionStep']]);
});

test('S7 A8.4 one that is just starting may answer yet: it is waited for; the guard looks once more before the effect', () => {
  const play = halfway();
  back(play);
  play.crashing.add(2);
  const ended = play.reading();
  const starting = {
    ...ended,
    members: ended.members.map((m, i) =>
      i === 2 && m.facts !== null
        ? { ...m, facts: { ...m.facts, process: { kind: 'starting', pid: 1, since: 0 } as const } }
        : m,
    ),
  };
  play.state = advance(play.state, play.desired, starting, play.now + 1);
  const early = plan(starting, play.desired, play.state, play.now + 1);
  expect([early.act, early.blocks]).toEqual([null, []]);
  expect(early.waits.map((w) => w.detail)).toContain(
    'orders is put back to 7.0.43-23 once it is known that 8.0.32-14 does not run; once it has, there is no way back',
  );
  const told = preview(starting, play.desired, play.state, play.now + 1);
  expect(told.waits.map((w) => w.on)).toContain('ProcessStarting');
  expect([told.refusals, told.converges]).toEqual([[], true]);
  expect(told.steps[0]).toMatchObject({ verb: 'upgrade', targets: ['orders-2'] });
  const step = plan(ended, play.desired, play.state, play.now + 1).act?.steps[0] as Step;
  expect(step).toEqual({ kind: 'upgrade', member: 'orders-2', version: '7.0.43-23' });
  expect(guard(step, ended, play.desired, play.state, play.now + 1)).toBeNull();
  play.crashing.clear();
  for (const one of [step, { ...step, kind: 'deploy' } as Step])
    expect(guard(one, play.reading(), play.desired, play.state, play.now + 1)).toEqual({
      reason: 'VersionsDiffer',
      detail: '8.0 has run on the data of orders-2',
    });
});

test('S7 A8.4 a runtime that is made anew on a volume is no way round it', () => {
  const play = halfway();
  expect(play.toTheEnd().at(-1)).toBe('converged');
  const member = { stage: 'imported', activated: null, deployedVersion: null } as const;
  play.state = withMember(play.state, 'orders-2', member);
  back(play);
  const { act, blocks } = plan(play.reading(), play.desired, play.state, play.now);
  expect(act).toBeNull();
  expect(blocks.map((b) => b.fix)).toContain(
    'set spec.version to 8.0.32-14 again: no older binary opens data that 8.0 has run on',
  );
  expect(blocks.map((b) => `${b.by}: ${b.detail}`)).toContain(
    'VersionStep: orders-2 is to run 7.0.43-23, and 8.0 has run on its data',
  );
});

test('S7 skipping a major and going down across majors are refused', () => {
  const skip = new Play(desired({ version: '6.0.29-23' }));
  skip.desired = desired({ version: '8.0.32-14' });
  expect(skip.pass()).toBe('blocked VersionStep');
  const fixes = (set: Play) => plan(set.reading(), set.desired, set.state, set.now).blocks.map((b) => b.fix);
  expect(fixes(skip)).toContain('go one major at a time, upwards; put spec.version back meanwhile');
  const down = new Play(desired({ version: '8.0.32-14' }));
  down.desired = desired({ version: '7.0.43-23' });
  expect(down.pass()).toBe('blocked VersionStep');
  expect(fixes(down)).toContain(
    'set spec.version to 8.0.32-14 again: no older binary opens data that 8.0 has run on',
  );
  const patch = new Play(desired({ version: '8.0.32-14' }));
  patch.desired = desired({ version: '8.0.29-13' });
  expect(patch.toTheEnd().at(-1)).toBe('converged');
});

test('S1 no member is taken down while another is not healthy or unknown', () => {
  for (const states of [
    ['PRIMARY', 'SECONDARY', null],
    ['PRIMARY', 'RECOVERING', 'SECONDARY'],
    ['PRIMARY', 'SECONDARY', 'STARTUP2'],
  ] as const) {
    const play = new Play(desired());
    play.desired = desired({ mongodConfig: { a: 1 } });
    play.states = [...states];
    expect(play.pass(), states.join()).toMatch(/^wait /);
  }
});

test('S3 nobody restarts while an election is on: who follows may lead by now, and readings of it are to come', () => {
  const want = desired({ mongodConfig: { a: 1 }, generation: 2 });
  const before = running(desired());
  const secondaries = ['SECONDARY', 'SECONDARY', 'SECONDARY'] as const;
  const reading = (primary: string | null): Observed => seen(before, want, secondaries, { primary });
  const state = advance(before, want, reading(null), 1000);
  const reload: Step = { kind: 'reload', member: 'orders-2', configVersion: 2 };
  const [first] = state.members.map((m) => memberHost(m) ?? '');
  for (const said of [null, first ?? '']) {
    expect(plan(reading(said), want, state, 1000).act, `${said}`).toBeNull();
    expect(guard(reload, reading(said), want, state, 1000), `${said}`).toMatchObject({
      reason: 'NotSecondary',
    });
  }
  // Whom they follow may be one that nobody reports: then none of them leads.
  expect(guard(reload, reading('away:27017'), want, state, 1000)).toBeNull();
});

test('S2 A9.4 the next member waits until the one before runs its snapshot and has caught up', () => {
  const play = new Play(desired());
  play.desired = desired({ mongodConfig: { a: 1 } });
  expect(play.pass()).toBe('reload orders-2');
  play.states[2] = 'RECOVERING';
  expect(play.pass()).toMatch(/^wait/);
  play.states[2] = null;
  expect(play.pass()).toMatch(/^wait/);
  play.states[2] = 'SECONDARY';
  expect(play.pass()).toBe('reload orders-1');
});

test('S2 a death between intent and effect leaves that member first in line, and no other', () => {
  const play = new Play(desired());
  play.desired = desired({ mongodConfig: { a: 1 } });
  play.state = advance(play.state, play.desired, play.reading(), 1);
  const step = plan(play.reading(), play.desired, play.state, 1).act?.steps[0] as Step;
  play.state = startStep(play.state, step, 'lost', 1);
  expect(play.pass()).toBe('reload orders-2');
});

test('A9.2 STK-04 STK-07 a newer goal is given to the very member that could not start with the last one', () => {
  const play = new Play(desired());
  play.desired = desired({ mongodConfig: { wrong: true } });
  expect(play.pass()).toBe('reload orders-2');
  play.crashing.add(2);
  expect(play.pass()).toMatch(/^blocked ProcessFailing/);
  play.desired = desired();
  expect(play.pass()).toBe('reload orders-2');
  play.crashing.clear();
  expect(play.toTheEnd()).toEqual(['converged']);
});

test('STK-04 a TLS phase whose last member cannot start may be taken back', () => {
  const play = new Play(desired({ tlsMode: 'disabled' }));
  play.desired = desired({ tlsMode: 'allowTLS' });
  for (const line of ['reload orders-2', 'reload orders-1', 'stepDown orders-0', 'reload orders-0'])
    expect(play.pass()).toBe(line);
  play.crashing.add(0);
  play.desired = desired({ tlsMode: 'disabled' });
  expect(play.pass()).toBe('reload orders-0');
  play.crashing.clear();
  expect(play.toTheEnd().at(-1)).toBe('converged');
  expect(play.state.members.map((m) => m.activated?.tlsMode)).toEqual(['disabled', 'disabled', 'disabled']);
});

test('S1 a single member is restarted only when the spec allows the interruption', () => {
  const play = new Play(desired({}, 1));
  play.desired = desired({ mongodConfig: { a: 1 } }, 1);
  expect(play.pass()).toBe('blocked WouldInterrupt');
  play.desired = desired({ mongodConfig: { a: 1 }, interruption: true }, 1);
  expect(play.toTheEnd()).toEqual(['reload orders-0', 'converged']);
});

test('S3 a primary is not asked to hand over while nobody electable has caught up', () => {
  const play = new Play(desired());
  play.desired = desired({ mongodConfig: { a: 1 } });
  play.pass();
  play.pass();
  const o = play.reading();
  const behind: Observed = {
    ...o,
    members: o.members.map((m) =>
      m.facts?.database?.kind === 'reachable'
        ? {
            ...m,
            facts: {
              ...m.facts,
              database: {
                ...m.facts.database,
                peers: m.facts.database.peers.map((p) => ({ ...p, lagMillis: 60_000 })),
              },
            },
          }
        : m,
    ),
  };
  play.state = advance(play.state, play.desired, o, play.now);
  expect(
    guard(
      { kind: 'stepDown', replicaSet: 'orders', member: 'orders-0' },
      behind,
      play.desired,
      play.state,
      play.now,
    )?.reason,
  ).toBe('NoHeir');
  expect(plan(behind, play.desired, play.state, play.now).act).toBeNull();
});

const MODES = ['disabled', 'allowTLS', 'preferTLS', 'requireTLS'] as const;

test('A9.3 S12 from any adjacent mixture every wish is reached by single steps that keep all pairs adjacent', () => {
  fc.assert(
    fc.property(
      fc.nat(2),
      fc.array(fc.boolean(), { minLength: 1, maxLength: 7 }),
      fc.constantFrom(...MODES),
      (low, ups, wanted) => {
        let modes: TlsMode[] = ups.map((up) => MODES[low + (up ? 1 : 0)] as TlsMode);
        for (let round = 0; round < 40 && modes.some((m) => m !== wanted); round++) {
          const next = nextTlsMode(modes, wanted);
          const behind = modes.findIndex((m) => m !== next);
          modes = modes.map((m, i) => (i === behind ? next : m));
          const places = modes.map((m) => MODES.indexOf(m));
          expect(Math.max(...places) - Math.min(...places)).toBeLessThan(2);
        }
        expect(new Set(modes)).toEqual(new Set([wanted]));
      },
    ),
  );
});

test('A9.3 golden: the plan of a TLS change names every restart and hand-over before anything is touched', () => {
  const before = desired({ tlsMode: 'preferTLS' });
  const play = new Play(before);
  const after = desired({ tlsMode: 'requireTLS' });
  const lines = preview(play.reading(), after, play.state, 0).steps.map(
    (l) => `${l.verb} ${l.targets.join(',')} · ${l.detail} · ${l.impact}`,
  );
  expect(lines).toMatchInlineSnapshot(`
    [
      "reload orders-2 · orders-2 (a secondary): configuration 2, TLS preferTLS → requireTLS · 1 member restarts",
      "reload orders-1 · orders-1 (a secondary): configuration 2, TLS preferTLS → requireTLS · 1 member restarts",
      "stepDown orders-0 · orders-0 hands over; writes pause for an election · writes pause for an election",
      "reload orders-0 · orders-0 (a secondary): configuration 2, TLS preferTLS → requireTLS · 1 member restarts",
    ]
  `);
});

test('A7.4 a member that restarts for us is work in progress, one that does not come back is degraded', () => {
  const play = new Play(desired());
  play.desired = desired({ mongodConfig: { wrong: true } });
  play.pass();
  play.states[2] = 'STARTUP2';
  const phase = (): string | undefined => {
    const o = play.reading();
    return status({
      observed: o,
      desired: play.desired,
      state: play.state,
      plan: plan(o, play.desired, play.state, 1),
      now: 1,
      warnings: [],
      before: null,
    }).phase;
  };
  expect(phase()).toBe('Reconciling');
  play.crashing.add(2);
  expect(phase()).toBe('Degraded');
});

test('A3.5 a failed upgrade is tried again for the same member and version; no other member is touched meanwhile', () => {
  const play = new Play(desired({ version: '8.0.29-13' }));
  play.desired = desired({ version: '8.0.32-14' });
  play.state = advance(play.state, play.desired, play.reading(), 1000);
  const step = plan(play.reading(), play.desired, play.state, 1000).act?.steps[0] as Step;
  expect(step).toMatchObject({ kind: 'upgrade', member: 'orders-2', version: '8.0.32-14' });
  const failed: Observed = {
    ...play.reading(),
    operations: { up: { kind: 'failed', code: 'NoExecutables', message: 'no mongod 8.0.32-14 on db3' } },
  };
  play.state = advance(startStep(play.state, step, 'up', 1000), play.desired, failed, 2000);
  const waiting = plan(play.reading(), play.desired, play.state, 3000);
  expect(waiting.act).toBeNull();
  expect(waiting.blocks.concat().map((b) => b.by)).toEqual(['NoExecutables']);
  const later = plan(play.reading(), play.desired, play.state, 32_000).act?.steps;
  expect(later).toEqual([step]);
});
