/** Effects on what an agent is given: configuration, certificates, logins. */
import {
  activatedSnapshot,
  type CommandOutcome,
  certificateNeed,
  loginsNow,
  type MemberSnapshot,
  snapshotInputs,
} from '../../clusters/index.ts';
import type { Proviso } from '../../engine/ports.ts';
import type { Effect } from '../../engine/provider.ts';
import type { SystemUsername } from '../users.ts';
import { notConfirmed, outcomeOf, run, runAs } from './commands.ts';
import { asSeen, done, member, notPlaced, ref, type Work } from './work.ts';

/** A running member takes another configuration: its process restarts, unless it has become primary meanwhile (S3). */
export const reload = (work: Work, name: string, configVersion: number): Promise<Effect> =>
  publish(work, name, configVersion, { proviso: asSeen(work, member(work, name)) });

interface Giving {
  readonly certificatesOnline?: boolean;
  readonly proviso?: Proviso;
}

export async function publish(
  work: Work,
  name: string,
  configVersion: number,
  { certificatesOnline = false, proviso = {} }: Giving = {},
): Promise<Effect> {
  const { desired, state, agents, credentials, clock } = work;
  const target = member(work, name);
  const successor = certificateNeed(state, work.reading, target, clock.now()) !== null;
  const [certificate, keyFile, logins] = await Promise.all([
    credentials.certificate(desired, state.uid, target, clock.now(), successor),
    credentials.keyFile(state.uid),
    agentLogins(work),
  ]);
  const snapshot: MemberSnapshot = {
    ...snapshotInputs(state, desired, target, configVersion),
    certificatesOnline,
    caPem: certificate.caPem,
    certificatePem: certificate.pem,
    keyFile,
    ...logins,
  };
  await agents.publish(ref(target), snapshot, work.fence, proviso);
  await credentials.promote(state.uid, name, certificate);
  return done({ snapshot: activatedSnapshot(state, desired, name, configVersion, certificate.given) });
}

/** What an agent logs in with at this moment of a rotation (A13.4, S12). */
async function agentLogins({
  state,
  credentials,
}: Work): Promise<Pick<MemberSnapshot, 'monitor' | 'nextMonitor'>> {
  const monitor = await credentials.login(state.uid, MONITOR);
  const both = loginsNow(state)?.both === true;
  return { monitor, nextMonitor: both ? await credentials.stagedLogin(state.uid, MONITOR) : null };
}
const MONITOR: SystemUsername = 'clusterMonitor';

/** The snapshot it has with other passwords: nothing in it restarts a process (CRD-11). */
export async function giveLogins(work: Work, name: string, configVersion: number): Promise<Effect> {
  const { desired, state, agents, credentials } = work;
  const target = member(work, name);
  if (target.activated === null) throw notPlaced(name);
  const [certificate, keyFile, logins] = await Promise.all([
    credentials.certificateInUse(state.uid, name),
    credentials.keyFile(state.uid),
    agentLogins(work),
  ]);
  const snapshot: MemberSnapshot = {
    ...snapshotInputs(state, desired, target, configVersion),
    certificatesOnline: true,
    caPem: certificate.caPem,
    certificatePem: certificate.pem,
    keyFile,
    ...logins,
  };
  // S12: the new one alone only where the member's own data has it; a secondary may not have got there yet.
  const proof =
    logins.nextMonitor === null ? await run(work, name, { kind: 'verifyLogin', as: logins.monitor }) : null;
  if (proof !== null && proof.kind !== 'done') return { outcome: notConfirmed(outcomeOf(proof, {})) };
  await agents.publish(ref(target), snapshot, work.fence);
  const { certificate: known, tlsMode } = target.activated;
  const { given } = certificate;
  // What an effect before left half done comes along: it is taken too, or the process would not take over the rest either.
  const comesAlong =
    tlsMode !== 'disabled' && (given.fingerprint !== known?.fingerprint || given.trust !== known.trust);
  if (!comesAlong) return done({ snapshot: activatedSnapshot(state, desired, name, configVersion, known) });
  const taken = await takeCertificate(work, name, configVersion);
  return taken.kind === 'done'
    ? done({ snapshot: activatedSnapshot(state, desired, name, configVersion, given) })
    : { outcome: outcomeOf(taken, {}) };
}

/** A9.4: given as a snapshot, so that it stays through a restart of whatever kind; then taken by the running process. */
export async function rotateCertificate(work: Work, name: string, configVersion: number): Promise<Effect> {
  const given = await publish(work, name, configVersion, { certificatesOnline: true });
  const answer = await takeCertificate(work, name, configVersion);
  if (answer.kind === 'done') return given;
  const outcome = outcomeOf(answer, {});
  const never = answer.kind === 'refused' && answer.class !== 'transient';
  return { outcome: never && outcome.kind === 'failed' ? { ...outcome, ...NOT_TAKEN } : outcome };
}

const takeCertificate = (work: Work, name: string, configVersion: number): Promise<CommandOutcome> =>
  runAs(work, name, 'clusterAdmin', (as) => ({ kind: 'rotateCertificates', as, configVersion }));

/** A definite refusal: the roller goes on with a restart. */
const NOT_TAKEN = { code: 'CertificateNotTaken', retry: 'later' } as const;
