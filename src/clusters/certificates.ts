/**
 * The life of members' certificates (A9.4, A13.5, S12): which member needs another one, and whether its server can take it
 * without a restart. Who does it, when, and under which questions is the roller's business.
 */
import { DAY, type Millis } from '../base/units.ts';
import type { MemberView } from './interpret.ts';
import { CERTIFICATE_RENEWAL } from './limits.ts';
import { retryOf } from './state.ts';
import type { GivenCertificate, MemberState, Observed, State } from './types.ts';

/**
 * Why a member needs another certificate. `rotation`: somebody asked · `issuer`: its authority is being replaced ·
 * `trust`: it must trust another set of authorities · `renewal`: its end comes near.
 */
export type CertificateNeed = 'rotation' | 'issuer' | 'trust' | 'renewal';

/** A renewed one must live at least so much longer: an authority near its own end makes none that do (TLS-05). */
const WORTH_RENEWING: Millis = DAY;

/** Null: it has what it should. Without TLS nothing is served, and the next snapshot brings what is needed. */
export function certificateNeed(
  state: Pick<State, 'operation' | 'goal'>,
  observed: Pick<Observed, 'authority'>,
  member: MemberState,
  now: Millis,
): CertificateNeed | null {
  const { activated } = member;
  if (activated === null || activated.tlsMode === 'disabled') return null;
  const given = activated.certificate ?? null;
  if (isAskedFor(state, member)) return 'rotation';
  const { authority } = observed;
  if (authority === null) return null;
  // What was given before authorities were remembered counts as new while nothing about them changes.
  if (given === null) return authority.rotating ? 'trust' : null;
  if (given.issuer !== authority.issuer) return 'issuer';
  if (given.trust !== authority.trust) return 'trust';
  const ends = given.notAfter - now <= CERTIFICATE_RENEWAL;
  return ends && authority.notAfter - given.notAfter > WORTH_RENEWING ? 'renewal' : null;
}

/** A13.5: the running operation wants another certificate for it, and it still has the one it had then. */
export function isAskedFor({ operation }: Pick<State, 'operation'>, member: MemberState): boolean {
  if (operation?.work.kind !== 'RotateTLS') return false;
  const before = operation.work.before[member.name];
  return before !== undefined && (member.activated?.certificate?.fingerprint ?? null) === before;
}

/** Codes of a refusal after which only a restart brings the new certificate into the process. */
const NOT_ONLINE: ReadonlySet<string> = new Set(['CertificateNotTaken', 'ProtocolError']);

/** The process can take it while it runs: `rotateCertificates`, from 5.0 on, and it was not refused before. */
export function takesOnline(state: State, view: MemberView): boolean {
  const { member, database } = view;
  const major = Number(database?.binaryVersion.split('.')[0] ?? 0);
  const refused = retryOf(state, 'rotateCertificate', member.name)?.code;
  return (
    view.facts?.process.kind === 'running' &&
    major >= 5 &&
    (refused === undefined || !NOT_ONLINE.has(refused))
  );
}

/** What it presents on its port, as far as its agent tells, is what it was given. */
export function presentsItsCertificate({ member, facts }: MemberView): boolean {
  const given = member.activated?.certificate ?? null;
  const shown = facts?.certificate ?? null;
  if (given === null || shown === null || member.activated?.tlsMode === 'disabled') return true;
  return shown.fingerprint.replace(/^sha256:/, '') === given.fingerprint;
}

/** Past its end: peers refuse it already, so that waiting for healthy peers would be waiting for ever. */
export const hasExpired = (member: MemberState, now: Millis): boolean =>
  (member.activated?.certificate?.notAfter ?? Number.POSITIVE_INFINITY) <= now;

/** The version of a member's next snapshot: another one than it has, since equal versions mean equal content (A9.1). */
export const nextVersion = (state: Pick<State, 'configVersion'>, member: MemberState): number =>
  member.activated?.configVersion === state.configVersion ? state.configVersion + 1 : state.configVersion;

/** What a member has after a new snapshot, for models of what steps do: another certificate exactly when it needed one. */
export function modelCertificate(
  state: State,
  observed: Pick<Observed, 'authority'>,
  name: string,
  fingerprint: string,
  now: Millis,
): GivenCertificate | null {
  const member = state.members.find((m) => m.name === name);
  const has = member?.activated?.certificate ?? null;
  if (member === undefined) return null;
  if (member.activated !== null && certificateNeed(state, observed, member, now) === null) return has;
  const { issuer = '', trust = '', notAfter = Number.POSITIVE_INFINITY } = observed.authority ?? {};
  return { fingerprint, notAfter: Math.min(notAfter, now + MODEL_LIFE), issuer, trust };
}
const MODEL_LIFE: Millis = 365 * DAY;
