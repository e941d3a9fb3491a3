/**
 * S13: Grants never exceed the availability mode; smart never becomes force; a dry run changes nothing; a refusal has a
 * reason and a time; groups are granted whole or not at all.
 *
 * Of this the world sees that nothing which takes a member down is sent without a grant for that member, and that what is
 * held of a set leaves it a majority. The rest is judged by the tests of `src/maintenance` and `src/authority`.
 */
import { disruptionsOf } from '../../clusters/index.ts';
import { type Checker, stopIsAskedFor } from '../stage.ts';
import { groupOf, quorumOf } from '../truth.ts';

export const grants: Checker = (stage) => ({
  born: (plane, provider) => {
    const { world } = stage;
    const mutable = provider as { -readonly [K in keyof typeof provider]: (typeof provider)[K] };
    const { perform } = provider;
    mutable.perform = (step, subject, context) => {
      const { uid, name } = subject.object.metadata;
      const held = plane.gate?.holds(`${uid}/`) ?? [];
      const down = disruptionsOf(step, subject.state, context.observed, subject.desired);
      const without = down.find(({ member }) => !held.includes(`${uid}/${member}`));
      if (without !== undefined)
        world.narrator.fail(
          'S13',
          `${plane.name} sends ${step.kind} in ${name} without a grant for ${without.member}`,
        );
      for (const part of new Set(down.map(({ member }) => `${uid}/${groupOf(member)}`))) {
        const hosts = quorumOf(world, part)?.voters ?? [];
        const voters = hosts.length;
        // What is still held for one that has left its set takes nothing from it.
        const inSet = new Set(
          subject.state.members
            .filter(({ address, port }) => hosts.includes(`${address}:${port}`))
            .map((member) => `${uid}/${member.name}`),
        );
        const own = held.filter((node) => groupOf(node) === part && inSet.has(node));
        const spare = Math.max(1, voters - (Math.floor(voters / 2) + 1));
        if (own.length > spare && !stopIsAskedFor(stage, part))
          world.narrator.fail(
            'S13',
            `${own.length} of ${voters} voters of ${name} are granted at once: ${own.join(', ')}`,
          );
      }
      return perform(step, subject, context);
    };
  },
});
