/**
 * L3: Every wait has a reason and a time.
 *
 * Every plan that is not converged says what it does, waits for or is blocked by; every wait ends at a time ahead; every
 * block says what is needed and how to get it.
 */
import type { Checker } from '../stage.ts';

export const waits: Checker = ({ world }) => ({
  born: (_, provider) => {
    const mutable = provider as { -readonly [K in keyof typeof provider]: (typeof provider)[K] };
    const { plan } = provider;
    mutable.plan = (subject, observed, now) => {
      const planned = plan(subject, observed, now);
      const fail = (why: string): void =>
        world.narrator.fail('L3', `${subject.object.metadata.name}: ${why}`);
      const { act, converged } = planned;
      const silent = act === null && planned.waits.length === 0 && planned.blocks.length === 0;
      if (silent !== converged)
        fail(converged ? 'converged, and yet not' : 'nothing is done and nothing is said');
      for (const wait of planned.waits) {
        if (wait.on === '' || wait.detail === '') fail('a wait without a reason');
        if (!(wait.until > now)) fail(`a wait for ${wait.on} until ${wait.until - now} ms ago`);
      }
      for (const block of planned.blocks as readonly { by: string; detail: string; fix?: string }[]) {
        if (block.by === '' || block.detail === '' || !block.fix)
          fail(`a block without reason or way out: ${block.by}`);
      }
      if (act !== null && (act.because as string) === '') fail('an act without a reason');
      return planned;
    };
  },
});
