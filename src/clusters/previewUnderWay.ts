/** What is under way as if it had come to its end, so that a plan can be read on from there. */
import type { Millis } from '../base/units.ts';
import type { Placement, Step } from './decisions.ts';
import type { ProcessFacts } from './facts.ts';
import { type MemberView, views } from './interpret.ts';
import { placeAll } from './planners/placement.ts';
import { type Model, withStarted, world } from './previewModel.ts';
import { recovered } from './previewRecovery.ts';
import { pendingOf } from './state.ts';
import type { Desired, ObservedMember, PendingOperation } from './types.ts';
import { majorStep, newestRunOf, tellsItsRuns } from './versions.ts';

/**
 * The model when all that is waited for has come: members of sets are well, pending operations of the platform have succeeded, and
 * members that were given their first configuration have started with it. Null: nothing of that can be told.
 */
export function arrived(model: Model, desired: Desired, now: Millis): Model | null {
  const well = recovered(model.observed, model.state);
  const base = well === null ? model : { ...model, observed: well };
  const come = finished(base, desired, now);
  if (come === null) return null;
  const done = withEnded(come, unproven(model, desired));
  const up = awaited(done).reduce((next, name) => withStarted(next, name, desired), done);
  return well === null && up === model ? null : up;
}

/**
 * Members with a binary of a newer series that is taken back and has not run on their data, as far as is known (S7). What their
 * plan waits for is that it does not run.
 */
const unproven = ({ state, observed }: Model, desired: Desired): readonly MemberView[] =>
  views(state, observed).filter((view) => {
    const given = pendingOf(state, view.member.name)?.version ?? view.member.deployedVersion;
    const newest = tellsItsRuns(view) ? newestRunOf(view) : null;
    return (
      given !== null &&
      newest !== null &&
      majorStep(given, desired.version) === 'down' &&
      majorStep(newest, desired.version) === 'same'
    );
  });

function withEnded(model: Model, ended: readonly MemberView[]): Model {
  if (ended.length === 0) return model;
  const process = { kind: 'exited', since: 0, exitCode: null, signal: null, failures: 1, nextStartAt: null };
  const members = model.observed.members.map((m): ObservedMember => {
    const facts = ended.find((view) => view.member.name === m.name)?.facts;
    if (!facts) return m;
    return {
      ...m,
      facts: { ...facts, process: { ...process, message: '' } as ProcessFacts, database: null },
    };
  });
  return { ...model, observed: { ...model.observed, members } };
}

/** Null: there is no place any more for what is being made. */
function finished(model: Model, desired: Desired, now: Millis): Model | null {
  const { pending } = model.state;
  const places = placesOf(model, desired, now);
  if (places === null) return null;
  return pending.reduce<Model>(
    (next, one) => world(next, stepOf(one, desired, places), one.stepId, desired),
    model,
  );
}

/** Where imports were sent is not in the record: places as they would be chosen now. */
function placesOf(
  { state, observed }: Model,
  desired: Desired,
  now: Millis,
): ReadonlyMap<string, Placement> | null {
  const sent = new Set(state.pending.filter((p) => p.action === 'import').map((p) => p.member));
  const importing = state.members.filter((m) => sent.has(m.name));
  const free = { ...state, pending: state.pending.filter((p) => !sent.has(p.member)) };
  const scene = { observed, desired, state: free, now, all: views(free, observed) };
  const places = placeAll(scene, importing);
  return places.ok && places.value.size === sent.size ? places.value : null;
}

/** The step that began it, as far as the record has it. */
function stepOf(
  { action, member, version, volumeBytes }: PendingOperation,
  desired: Desired,
  places: ReadonlyMap<string, Placement>,
): Step {
  switch (action) {
    case 'deploy':
    case 'upgrade':
      return { kind: action, member, version: version ?? desired.version };
    case 'growVolume':
      return { kind: action, member, sizeBytes: volumeBytes ?? 0 };
    case 'import':
      return { kind: action, member, placement: places.get(member) as Placement };
    default:
      return { kind: action, member };
  }
}

/** Members that have their first configuration and are not up with it yet. */
const awaited = ({ state, observed }: Model): readonly string[] =>
  views(state, observed)
    .filter((v) => v.member.stage === 'deployed' && v.member.activated !== null && v.database === null)
    .map((v) => v.member.name);
