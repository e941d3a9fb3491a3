/** `?dryRun=plan`: the production planner over a reading of now, nothing written. */
import { desiredFrom, initialState, preview, type State } from '../clusters/index.ts';
import type { StoredObject } from '../engine/ports.ts';
import type { MongoDBSpec } from '../model/index.ts';
import type { ApiDeps } from './deps.ts';
import type { Applied } from './objects.ts';

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
  const desired = desiredFrom({ metadata, spec: object.spec as MongoDBSpec });
  const stored = current === null ? null : await deps.store.loadState(uid);
  const state = (stored?.value as State | undefined) ?? initialState(desired);
  const subject = { object: { ...object, metadata }, desired, state };
  const observed = await deps.provider.observe(subject, false);
  const now = deps.clock.now();
  return preview(observed, desired, state, now) as unknown as Json;
}

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
