import type { MemberStage, MemberState } from '../types.ts';

/** What a member is about while others wait for it: a stage's name alone would not say why (`healthy` does not vote yet). */
const ABOUT: Readonly<Record<MemberStage, string>> = {
  planned: 'is to be made',
  imported: 'is being made',
  deployed: 'is being started',
  healthy: 'is up and not in its set yet',
  syncing: 'copies the data and has no vote yet',
  active: 'is settled',
  reloading: 'takes another configuration',
  upgrading: 'takes another binary',
  removing: 'is being removed',
};

/** `orders-3 copies the data and has no vote yet`. */
export const busyText = ({ name, stage }: Pick<MemberState, 'name' | 'stage'>): string =>
  `${name} ${ABOUT[stage]}`;
