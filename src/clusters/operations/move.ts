import { memberOf } from '../state.ts';
import { replacing } from './replace.ts';
import type { OperationRule } from './rule.ts';

/**
 * Move (A13.7): a replacement on another host, on the one that is named or on any that is not to be avoided. The host it
 * leaves is avoided in any case.
 */
export const MOVE: OperationRule = replacing(({ state }, { spec }) => {
  if (spec.type !== 'Move') return null;
  const from = memberOf(state, spec.member)?.host ?? null;
  const avoidHosts = [...new Set([...(from === null ? [] : [from]), ...spec.avoidHosts])];
  return { member: spec.member, host: spec.host ?? null, avoidHosts, because: 'Moving' };
});
