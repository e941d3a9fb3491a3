/**
 * S1: No step of ours takes a set below its write majority (healthy = PRIMARY or SECONDARY within the lag limit; unknown =
 * down), unless the spec allows interruption or a person approved it.
 *
 * Judged where an agent is about to stop a process because its goal changed. What went down a moment ago by itself could
 * not be known yet: such a member counts as it was. What a control plane has been told it must act on, though: that is
 * judged where it sends the effect.
 */
import { type Millis, SECOND } from '../../base/units.ts';
import type { State, Step } from '../../clusters/index.ts';
import type { Deed } from '../agent.ts';
import type { ControlPlane } from '../controlPlane.ts';
import { type Checker, type Stage, stopIsAskedFor } from '../stage.ts';
import { groupOf, objectsOf, type Part, partOf, quorumOf, setsOf } from '../truth.ts';
import { Deaths, votesJustChanged } from './known.ts';

/** What a member has become is known after a look and a report. */
const BACK_AFTER: Millis = 1 * SECOND;

export const majority: Checker = (stage) => {
  const { world } = stage;
  const deaths = new Deaths(stage);
  /** When a member last became another's secondary, or primary. */
  const changedAt = new Map<string, Millis>();
  return {
    second: () => {
      for (const set of objectsOf(world, 'MongoDB').flatMap(setsOf)) deaths.look(set);
    },
    member: (mongod, outputs) => {
      if (outputs.some(({ kind }) => kind === 'stateChanged')) changedAt.set(mongod.host, world.timeline.now);
    },
    born: (plane, provider) => {
      const mutable = provider as { -readonly [K in keyof typeof provider]: (typeof provider)[K] };
      const { perform } = provider;
      mutable.perform = (step, subject, context) => {
        const { uid, name } = subject.object.metadata;
        const part = 'member' in step ? `${uid}/${groupOf(step.member)}` : uid;
        const isAsked = stopIsAskedFor(stage, part);
        const why = isAsked ? null : againstItsKnowledge(stage, changedAt, plane, step, subject.state, part);
        if (why !== null) world.narrator.fail('S1', `${plane.name} sends ${step.kind} in ${name}: ${why}`);
        return perform(step, subject, context);
      };
    },
    deed: (machine, deed) => {
      const why = deed.kind === 'stop' ? againstTheTruth(stage, deaths, deed) : null;
      if (why !== null) world.narrator.fail('S1', `${machine.name} stops ${why}`);
    },
  };
};

/** What speaks against a step by what the control plane was told that sends it; null: nothing. */
function againstItsKnowledge(
  stage: Stage,
  changedAt: ReadonlyMap<string, Millis>,
  plane: ControlPlane,
  step: Step,
  state: State,
  set: Part,
): string | null {
  const { world } = stage;
  if (step.kind !== 'reload' && step.kind !== 'upgrade' && step.kind !== 'deleteRuntime') return null;
  const quorum = quorumOf(world, set);
  const dead = (address: string): boolean => {
    const member = state.members.find((m) => `${m.address}:${m.port}` === address);
    if (member?.host == null || member.serviceId === null) return false;
    const { host, serviceId } = member;
    const process = plane.channel?.member({ host, serviceId })?.facts.process.kind;
    return process !== undefined && process !== 'running';
  };
  const target = state.members.find(({ name }) => name === step.member);
  const address = `${target?.address}:${target?.port}`;
  // It is being stopped already: a newer goal for it takes nobody else down.
  if (world.listening.get(address)?.stopping === true) return null;
  // One that was down takes nobody along; that it has come back this moment could not be known.
  const back = world.timeline.now - (changedAt.get(address) ?? 0) < BACK_AFTER;
  const byHand = votesJustChanged(stage, BACK_AFTER);
  if (quorum === null || !quorum.healthy.includes(address) || back || byHand) return null;
  const others = quorum.voters.filter((voter) => voter !== address && !dead(voter));
  if (others.length >= quorum.needed) return null;
  return `it was told that only ${others.length} other voters run, ${quorum.needed} are needed`;
}

/** Whom an agent stops, and what speaks against it, as far as that could be known; null: nothing. */
function againstTheTruth(
  stage: Stage,
  deaths: Deaths,
  { record, run, why }: Extract<Deed, { kind: 'stop' }>,
): string | null {
  // What is stopping was told before, by an agent that ended meanwhile, and judged then.
  if (record?.owner == null || run.process.stopping) return null;
  const set = partOf(record.owner);
  if (stopIsAskedFor(stage, set)) return null;
  const quorum = quorumOf(stage.world, set);
  const { host } = run.process;
  if (quorum === null || !quorum.voters.includes(host) || !quorum.healthy.includes(host)) return null;
  // What was begun among voters that a person changes at this very moment.
  if (votesJustChanged(stage, BACK_AFTER)) return null;
  const isThere = (voter: string): boolean => quorum.healthy.includes(voter) || deaths.isNews(voter);
  if (quorum.voters.filter((voter) => voter !== host && isThere(voter)).length >= quorum.needed) return null;
  const left = quorum.healthy.filter((voter) => voter !== host).length;
  return `${host} for ${why}: ${left} of ${quorum.voters.length} voters stay healthy, ${quorum.needed} are needed`;
}
