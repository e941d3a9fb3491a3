import type { MemberState } from '../types.ts';
import type { OperationRule } from './rule.ts';

/** It presents none; the one it has on its disk is replaced when TLS is switched on again, if it is due. */
const needsNone = ({ activated }: MemberState): boolean => activated?.tlsMode === 'disabled';

/**
 * RotateTLS (A13.5): every member gets another certificate, one at a time, by the roller. What each had at the beginning is
 * frozen; one that has another by now is done, whatever gave it.
 */
export const ROTATE_TLS: OperationRule = {
  refuse: ({ state, desired }) =>
    desired.tlsMode === 'disabled' && state.members.every((m) => m.activated?.tlsMode === 'disabled')
      ? 'TLS is disabled: there is no certificate to rotate'
      : null,
  waitFor: () => null,
  begin: ({ state }) => {
    const before = state.members.map((m) => [m.name, m.activated?.certificate?.fingerprint ?? null] as const);
    return {
      begun: {
        members: before.map(([name]) => name),
        work: { kind: 'RotateTLS', before: Object.fromEntries(before) },
      },
      state,
    };
  },
  progress: ({ state }, operation) => {
    const { work } = operation;
    const before = work.kind === 'RotateTLS' ? work.before : {};
    const completed = operation.members.filter((name) => {
      const member = state.members.find((m) => m.name === name);
      // One that left the cluster meanwhile took its certificate along.
      if (member === undefined) return true;
      const has = member.activated?.certificate?.fingerprint ?? null;
      // TLS may have been switched off meanwhile.
      return member.stage === 'active' && (has !== before[name] || needsNone(member));
    });
    const off = state.members.every(needsNone);
    const count = completed.length;
    const many = count === 1 ? '1 member has a new certificate' : `${count} members have new certificates`;
    const text = off ? 'TLS was switched off meanwhile: nobody presents a certificate any more' : many;
    const over = count === operation.members.length;
    return { completed, ended: over ? { state: 'Succeeded', message: text } : null };
  },
  // Members not reached yet keep the certificate they have; both kinds come from authorities that all members trust.
  cancel: ({ state }) => state,
  movesMembers: false,
};
