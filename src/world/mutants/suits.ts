/** What a scenario must have for a bug to show. */
import type { Edit } from '../edits.ts';
import type { FaultKind } from '../faults.ts';
import type { Scenario } from '../scenario.ts';

type Suits = (scenario: Scenario) => boolean;

/** Somebody wants one of these. */
export const wants =
  (...kinds: readonly Edit['kind'][]): Suits =>
  ({ edits }) =>
    edits.some(({ kind }) => kinds.includes(kind));

/** One of these goes wrong. */
export const suffers =
  (...kinds: readonly FaultKind['kind'][]): Suits =>
  ({ faults }) =>
    faults.some(({ kind }) => kinds.includes(kind));

/** Several control planes, of which one may be late. */
export const rivals: Suits = ({ planes, rates, faults }) =>
  planes > 1 && (rates.held > 0 || faults.some(({ kind }) => kind === 'planeStall'));

/** The same, with messages that are held up for long. */
export const lateRivals: Suits = (scenario) => {
  const { planes, rates } = scenario;
  return (
    planes > 1 && rates.held > 0.03 && (rates.deaths > 0.3 || suffers('planeStall', 'planeKill')(scenario))
  );
};

/** A member falls while another one is about to be taken down. */
export const ambushed: Suits = (scenario) =>
  scenario.rates.ambushes > 0.3 && wants('config', 'tls', 'memory', 'version', 'operation')(scenario);

export const both =
  (a: Suits, b: Suits): Suits =>
  (scenario) =>
    a(scenario) && b(scenario);
