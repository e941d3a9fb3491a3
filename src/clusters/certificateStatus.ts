/** The condition `TLSCertificate`: the earliest end in the chain, what is renewed, what waits for what (A9.4, TLS-05). */
import { DAY, formatCount, type Millis } from '../base/units.ts';
import type { Condition } from '../model/meta.ts';
import { certificateNeed } from './certificates.ts';
import type { Plan } from './decisions.ts';
import type { MemberView } from './interpret.ts';
import { CERTIFICATE_RENEWAL } from './limits.ts';
import type { Desired, Observed, State } from './types.ts';

interface Scene {
  readonly observed: Observed;
  readonly desired: Desired;
  readonly state: State;
  readonly plan: Plan;
  readonly now: Millis;
}

type Draft = Pick<Condition, 'type' | 'status' | 'reason' | 'message'>;

const draft = (status: Draft['status'], reason: string, message: string): Draft => ({
  type: 'TLSCertificate',
  status,
  reason,
  message,
});

export function certificateCondition(scene: Scene, all: readonly MemberView[]): Draft {
  const { desired, observed, now } = scene;
  if (desired.tlsMode === 'disabled')
    return draft('True', 'TLSDisabled', 'spec.security.tls.mode is disabled');
  const ends = endings(all);
  if (ends.length === 0) return draft('Unknown', 'NotReported', 'no member has reported its certificate');
  const leaf = ends.reduce((a, b) => (a.at <= b.at ? a : b));
  const work = underWay(scene, all);
  const authority = observed.authority?.notAfter ?? Number.POSITIVE_INFINITY;
  if (authority - now <= CERTIFICATE_RENEWAL && authority - leaf.at < DAY) {
    const fix = 'no certificate can outlive it: replace it with belay rotate ca';
    return ending('the certificate authority', authority, now, work ?? fix);
  }
  if (leaf.at - now <= CERTIFICATE_RENEWAL) return ending(`certificate of ${leaf.name}`, leaf.at, now, work);
  const until = `valid until ${dateOf(leaf.at)}`;
  return work === null ? draft('True', 'Valid', until) : draft('True', 'Rotating', `${until}; ${work}`);
}

/** What each member presents as its agent tells it; of a silent one, what it was given. */
function endings(all: readonly MemberView[]): readonly { readonly name: string; readonly at: Millis }[] {
  return all.flatMap(({ member, facts }) => {
    const at = facts?.certificate?.notAfter ?? member.activated?.certificate?.notAfter;
    return at === undefined ? [] : [{ name: member.name, at }];
  });
}

function ending(what: string, at: Millis, now: Millis, more: string | null): Draft {
  const days = Math.floor((at - now) / DAY);
  const left = at <= now ? 'ended' : `ends in ${formatCount(days, 'day')},`;
  const message = `${what} ${left} on ${dateOf(at)}${more === null ? '' : `; ${more}`}`;
  return draft('False', at <= now ? 'Expired' : 'ExpiresSoon', message);
}

/** Null: every member has the certificate it should have. */
function underWay({ state, observed, plan, now }: Scene, all: readonly MemberView[]): string | null {
  const lacking = all
    .map((v) => v.member)
    .filter((member) => certificateNeed(state, observed, member, now) !== null)
    .map((member) => member.name);
  if (lacking.length === 0) return null;
  const step = plan.act?.steps[0];
  const doing = step?.kind === 'rotateCertificate' ? step.member : null;
  const waiting = lacking.filter((name) => name !== doing).join(', ');
  // An operation that runs says for how long: a status that tells it would be another one at every look.
  const wait = plan.waits.find((w) => w.on !== 'OperationRunning');
  const held = plan.act === null ? (wait?.detail ?? plan.blocks[0]?.detail) : undefined;
  return [
    doing === null ? '' : `${doing} gets a new one now`,
    waiting === '' ? '' : `${waiting} to follow`,
    held === undefined ? '' : `waits: ${held}`,
  ]
    .filter((part) => part !== '')
    .join('; ');
}

const dateOf = (at: Millis): string => new Date(at).toISOString().slice(0, 10);
