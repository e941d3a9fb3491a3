/**
 * Replacing the installation's certificate authority (S12, TLS-02): a new one is trusted besides the old one by everybody,
 * then it issues everything, then the old one is trusted no more. The next phase begins when nobody is left in the one
 * before; here is who that is.
 */
import type { Authority, State } from './types.ts';

/** `stable`: one is trusted and issues · `introduced`: two are trusted, the old one issues · `switched`: the new one issues. */
export type AuthorityPhase = 'stable' | 'introduced' | 'switched';

/** Somebody with a certificate: a member or an agent. Null: not known, which is never "has it". */
export interface AuthorityHolder {
  /** `default/orders-1`, `host db3`. */
  readonly name: string;
  readonly trust: string | null;
  readonly issuer: string | null;
  /** Given before authorities were remembered: of the only one there was, until another is introduced. */
  readonly untold?: true;
}

/** Identity of a bundle: fingerprints of what is trusted, in order. */
export const trustOf = (fingerprints: readonly string[]): string => [...fingerprints].sort().join(' ');

/** Members of one cluster that present certificates. One that is being changed has not taken what it was given yet. */
export function holdersOf(cluster: string, state: Pick<State, 'members'>): readonly AuthorityHolder[] {
  return state.members
    .filter((m) => m.activated !== null && m.activated.tlsMode !== 'disabled')
    .map(({ name, stage, activated }) => {
      const settled = stage !== 'reloading' && stage !== 'upgrading';
      const given = settled ? (activated?.certificate ?? null) : null;
      const untold = settled && given === null ? ({ untold: true } as const) : {};
      return {
        name: `${cluster}${name}`,
        trust: given?.trust ?? null,
        issuer: given?.issuer ?? null,
        ...untold,
      };
    });
}

/** Who still lacks what this phase gives; empty: the next one may begin. */
export const lackingIn = (authority: Authority, holders: readonly AuthorityHolder[]): readonly string[] =>
  holders
    .filter(({ untold }) => untold !== true || authority.rotating)
    .filter(({ trust, issuer }) => trust !== authority.trust || issuer !== authority.issuer)
    .map((holder) => holder.name);
