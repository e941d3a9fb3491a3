/** `?dryRun=plan`: the production planner over a reading of now, nothing written. */
import { type Foreseen, foresee, operationWait, type State } from '../clusters/index.ts';
import type { StoredObject } from '../engine/ports.ts';
import type { ApiDeps } from './deps.ts';
import { expectationsOf, withExpected } from './durations.ts';
import type { Applied } from './objects.ts';
import { type AdmittedOperation, sceneOf } from './operationDocuments.ts';
import { waitsForLocks } from './planLocks.ts';

type Json = Readonly<Record<string, unknown>>;

/** What would happen if this document were applied. */
export async function planDocument(
  deps: ApiDeps,
  applied: Applied,
  current: StoredObject | null,
): Promise<Json> {
  const { object, name } = applied;
  if (name === null)
    return {
      kind: 'Nothing',
      namespace: '',
      name: '',
      generation: { from: null, to: 0 },
      changes: [],
      steps: [],
      refusals: [],
      warnings: applied.warnings,
      converges: true,
    };
  const changes =
    object === null ? [] : differences(current?.spec ?? null, object.spec, 'spec').slice(0, MAX_CHANGES);
  const from = current?.metadata.generation ?? null;
  const base = {
    kind: name.kind,
    namespace: name.namespace,
    name: name.name,
    changes: current === null ? [] : changes,
    warnings: applied.warnings,
  };
  const to = from === null ? 1 : changes.length > 0 ? from + 1 : from;
  if (object === null || name.kind !== 'MongoDB') {
    const step = {
      number: 1,
      verb: 'store',
      targets: [name.name],
      detail: `${applied.outcome === 'unchanged' ? 'keep' : 'store'} this ${name.kind}`,
      impact: 'nothing goes down',
      reason: 'Requested',
    };
    return {
      ...base,
      generation: { from, to },
      steps: applied.outcome === 'unchanged' ? [] : [step],
      refusals: [],
      converges: true,
    };
  }
  return { ...base, generation: { from, to }, ...(await previewOf(deps, object, current, to)) };
}

/** What would happen if this operation were asked for now. */
export async function planOperation(deps: ApiDeps, { operation, cluster }: AdmittedOperation): Promise<Json> {
  const { desired, state, observed, now } = await sceneOf(deps, cluster);
  const request = {
    uid: 'planned',
    name: operation.metadata.name,
    spec: operation.spec,
    createdAt: now,
    cancelRequested: false,
  };
  const asked = { ...observed, requests: [...observed.requests, request] };
  const seen = foresee(asked, desired, state, now);
  const over = seen.state.ended.find((e) => e.uid === request.uid);
  const why = over === undefined ? (operationWait({ ...seen, desired, now }, request) ?? '') : '';
  const waits: Foreseen['waits'] =
    why === '' ? seen.waits : [{ on: 'OperationInProgress', detail: why }, ...seen.waits];
  return {
    kind: operation.kind,
    namespace: operation.metadata.namespace,
    name: operation.metadata.name,
    about: `${operation.spec.type} of ${cluster.metadata.namespace}/${cluster.metadata.name}`,
    generation: { from: null, to: 1 },
    changes: [],
    warnings: [],
    // What is in the way of the cluster now is nothing that this one, which has not begun, could be told of.
    ...(await told(deps, cluster, state, { ...seen, waits, refusals: why === '' ? seen.refusals : [] })),
    converges: over?.state === 'Succeeded' && seen.converges,
  };
}

/** A list of more changes than this is nothing a person reads. */
const MAX_CHANGES = 50;

async function previewOf(
  deps: ApiDeps,
  object: StoredObject,
  current: StoredObject | null,
  generation: number,
): Promise<Json> {
  const uid = current?.metadata.uid ?? 'new';
  const metadata = { ...object.metadata, uid, generation, annotations: object.metadata.annotations };
  const { observed, desired, state, now } = await sceneOf(deps, { ...object, metadata });
  return told(deps, { ...object, metadata }, state, foresee(observed, desired, state, now));
}

/**
 * The plan as it is told: with what each step is expected to take, by earlier ones here (null: there is none to judge by), and
 * with the maintenance tasks that would hold it up now.
 */
async function told(
  deps: ApiDeps,
  cluster: StoredObject,
  state: State,
  { observed: _, state: __, disruptions, ...seen }: Foreseen,
): Promise<Json> {
  const clusterUid = cluster.metadata.uid;
  const expected = expectationsOf(await deps.store.journal({ clusterUid, limit: JOURNAL_ROWS }));
  const steps = withExpected(seen.steps, expected);
  const locks = await waitsForLocks(deps, cluster, state, { disruptions });
  return { ...seen, steps, waits: [...seen.waits, ...locks] };
}

/** All that is kept of one cluster. */
const JOURNAL_ROWS = 500;

/** Leaves that differ, with their paths. */
export function differences(
  before: unknown,
  after: unknown,
  path: string,
): readonly { readonly path: string; readonly from: unknown; readonly to: unknown }[] {
  if (JSON.stringify(before) === JSON.stringify(after)) return [];
  if (!isMap(before) || !isMap(after)) return [{ path, from: before ?? null, to: after ?? null }];
  const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort();
  return keys.flatMap((key) => differences(before[key], after[key], `${path}.${key}`));
}

const isMap = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
