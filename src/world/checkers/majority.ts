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
import type { ControlPlane } from '../controlPlane.ts';
import { type Checker, stopIsAskedFor } from '../stage.ts';
import { groupOf, objectsOf, type Part, partOf, quorumOf, setsOf } from '../truth.ts';
import type { Watcher } from '../world.ts';

/** Heartbeats (10 s) and reports together make a death known within this. */
const KNOWN_AFTER: Millis = 15 * SECOND;
/** What a member has become is known after a look and a report. */
const BACK_AFTER: Millis = 1 * SECOND;

export const majority: Checker = (stage) => {
  const { world, troubled } = stage;
  const unhealthySince = new Map<string, Millis>();
  /** When a member last became another's secondary, or primary. */
  const changedAt = new Map<string, Millis>();
  const look = (set: Part): void => {
    const quorum = quorumOf(world, set);
    for (const host of quorum?.voters ?? []) {
      if (quorum?.healthy.includes(host)) unhealthySince.delete(host);
      else if (!unhealthySince.has(host)) unhealthySince.set(host, world.timeline.now);
    }
  };
  const listen: NonNullable<Watcher['born']> = (plane, provider) => {
    const mutable = provider as { -readonly [K in keyof typeof provider]: (typeof provider)[K] };
    const { perform } = provider;
    mutable.perform = (step, subject, context) => {
      const { uid, name } = subject.object.metadata;
      const part = 'member' in step ? `${uid}/${groupOf(step.member)}` : uid;
      const why = stopIsAskedFor(stage, part) ? null : againstItsKnowledge(plane, step, subject.state, part);
      if (why !== null) world.narrator.fail('S1', `${plane.name} sends ${step.kind} in ${name}: ${why}`);
      return perform(step, subject, context);
    };
  };
  const againstItsKnowledge = (plane: ControlPlane, step: Step, state: State, set: Part): string | null => {
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
    const byHand = world.timeline.now - stage.storm.votesChangedAt < BACK_AFTER;
    if (quorum === null || !quorum.healthy.includes(address) || back || byHand) return null;
    const others = quorum.voters.filter((voter) => voter !== address && !dead(voter));
    if (others.length >= quorum.needed) return null;
    return `it was told that only ${others.length} other voters run, ${quorum.needed} are needed`;
  };
  return {
    second: () => {
      for (const object of objectsOf(world, 'MongoDB')) for (const set of setsOf(object)) look(set);
    },
    member: (mongod, outputs) => {
      if (outputs.some(({ kind }) => kind === 'stateChanged')) changedAt.set(mongod.host, world.timeline.now);
    },
    born: (plane, provider) => listen(plane, provider),
    deed: (machine, deed) => {
      if (deed.kind !== 'stop' || deed.record?.owner == null) return;
      // It was told before, by an agent that ended meanwhile, and judged then.
      if (deed.run.process.stopping) return;
      const set = partOf(deed.record.owner);
      if (stopIsAskedFor(stage, set)) return;
      const quorum = quorumOf(world, set);
      const { host } = deed.run.process;
      if (quorum === null || !quorum.voters.includes(host) || !quorum.healthy.includes(host)) return;
      const { now } = world.timeline;
      // What was begun among voters that a person changes at this very moment.
      if (now - stage.storm.votesChangedAt < BACK_AFTER) return;
      const recently = (other: string): boolean => {
        const since = unhealthySince.get(other) ?? now;
        const fault = troubled.get(other.split('.')[0] ?? '') ?? Number.NEGATIVE_INFINITY;
        return now - since < KNOWN_AFTER || now - fault < KNOWN_AFTER;
      };
      const others = quorum.voters.filter((v) => v !== host && (quorum.healthy.includes(v) || recently(v)));
      if (others.length >= quorum.needed) return;
      const left = quorum.healthy.filter((v) => v !== host).length;
      const why = `${left} of ${quorum.voters.length} voters stay healthy, ${quorum.needed} are needed`;
      world.narrator.fail('S1', `${machine.name} stops ${host} for ${deed.why}: ${why}`);
    },
  };
};
