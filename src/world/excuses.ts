/** When a block is the truth: each reason with what must really be the case for it. */
import type { StoredObject } from '../engine/ports.ts';
import { seriesOf } from '../model/index.ts';
import type { Stage } from './stage.ts';
import { membersWantedIn, partsOf, routersOf, specOf } from './truth.ts';

type Excuse = (stage: Stage, object: StoredObject) => boolean;

const wished = (stage: Stage, object: StoredObject, ...kinds: readonly string[]): boolean =>
  stage.people.wishes.some(({ cluster, what }) => cluster === object.metadata.name && kinds.includes(what));

const planOf = (stage: Stage, object: StoredObject) =>
  stage.scenario.clusters.find(({ name }) => name === object.metadata.name);

const interruptionAllowed = (object: StoredObject): boolean =>
  specOf(object).maintenance.interruption === 'Allowed';

/** Of two routers one can be spared, of two members none. */
const hasLoner = (object: StoredObject): boolean =>
  partsOf(object).some((part) => membersWantedIn(object, part) < (part === routersOf(object) ? 2 : 3));

const EXCUSES: Readonly<Record<string, Excuse>> = {
  Paused: (_, object) => specOf(object).paused,
  OwnershipConflict: (stage, object) =>
    planOf(stage, object)?.squatted === true ||
    stage.scenario.faults.some(
      (fault) => fault.kind === 'foreignVolume' && fault.cluster === object.metadata.name,
    ),
  CredentialRepairRequired: (stage) => stage.storm.meddled.has('changeAdmin'),
  // Users cannot be applied with a login that somebody changed.
  Refused: (stage) => stage.storm.meddled.has('changeAdmin'),
  KeepsFailing: (stage) => stage.storm.meddled.has('changeAdmin'),
  PortTaken: lostItsPort,
  NoExecutables: (stage, object) =>
    stage.scenario.hosts.some(({ versions }) => !versions.includes(specOf(object).version ?? '')),
  // What was taken back after it had run.
  VersionStep: ranNewer,
  SnapshotRejected: (stage, object) => wished(stage, object, 'config', 'routerConfig'),
  // One member cannot be restarted without an interruption that the spec does not allow.
  WouldInterrupt: (_, object) => hasLoner(object) && !interruptionAllowed(object),
};

/** Whether this block tells the truth about the world. */
export const excused = (stage: Stage, object: StoredObject, reason: string): boolean =>
  EXCUSES[reason]?.(stage, object) ?? false;

/** A newer series than the one that is wanted has run on a volume of this cluster. */
function ranNewer({ world }: Stage, object: StoredObject): boolean {
  const wanted = Number(seriesOf(specOf(object).version ?? '') ?? Number.POSITIVE_INFINITY);
  return [...world.machines.values()].some(({ disk }) =>
    [...disk.volumes.values()].some(
      ({ owner, newestRun }) => owner?.clusterUid === object.metadata.uid && Number(newestRun ?? 0) > wanted,
    ),
  );
}

/** A volume of ours lies on a machine without its runtime, beside a service of somebody else. */
function lostItsPort({ world, scenario }: Stage, object: StoredObject): boolean {
  const { uid } = object.metadata;
  return [...world.machines.values()].some(({ disk }) => {
    const services = [...disk.services.values()];
    const idle = [...disk.volumes.values()].some(
      ({ id, owner }) => owner?.clusterUid === uid && !services.some(({ volumeId }) => volumeId === id),
    );
    // A runtime that was taken away leaves its port to the next one, which may be of ours.
    const taken = scenario.faults.some(({ kind }) => kind === 'runtimeGone');
    return idle && services.some(({ owner }) => taken || owner?.clusterUid !== uid);
  });
}
