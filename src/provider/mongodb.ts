/** The provider of kind MongoDB: joins the pure brain with readings and effects. */
import { MINUTE, type Millis } from '../base/units.ts';
import {
  advance,
  applyOutcome,
  cancelStep,
  causedByUs,
  type Desired,
  type Disruption,
  desiredFrom,
  disruptionsOf,
  EFFORTS,
  eventsFor,
  guard,
  initialState,
  isInfrastructure,
  knownStatus,
  operationStatus,
  type Plan,
  plan,
  recordOf,
  type State,
  type Step,
  startStep,
  status,
  targetOf,
  underWay,
} from '../clusters/index.ts';
import { keyOf } from '../engine/informer.ts';
import type { NewEvent, StoredObject } from '../engine/ports.ts';
import type { AnyPlan, Provider, Report, Subject } from '../engine/provider.ts';
import { type MemberAsk, memberKey } from '../maintenance/index.ts';
import type { MongoDBSpec } from '../model/index.ts';
import type { EffectDeps } from './effects/work.ts';
import { perform } from './effects.ts';
import { CLUSTER_FINALIZER, OPERATION_FINALIZER, USER_FINALIZER, WARNINGS_ANNOTATION } from './names.ts';
import { basis, expecting, type ObserveDeps, observe, type Pending, type Reading } from './observe.ts';
import { askedBy, requestOf } from './operationObjects.ts';
import type { UserObject } from './userObjects.ts';
import { userStatus } from './userStatus.ts';

export interface MongoDBProvider extends Provider<Desired, State, Reading, Step> {
  /** A reading for plans and admission: hosts that carry nothing yet are part of it. */
  readonly look: (cluster: Cluster) => Promise<Reading>;
  /** The question to the maintenance authority before a member of this object is taken down. */
  readonly askOf: (metadata: StoredObject['metadata'], disruption: Disruption) => MemberAsk;
}
/** How urgent our own work is unless the installation says otherwise: people's tasks, usually 0, come first (C3.2). */
const ENGINE_PRIORITY = 100;

/** As urgent as all our work is set to be, or as what it is done for where that is more urgent. */
export const urgency = (wanted: number | undefined, own: number): number =>
  wanted === undefined ? own : Math.min(wanted, own);
/** A member that is not back after this is down in everybody's eyes, with or without our lock. */
const HOLD: Millis = 15 * MINUTE;

export type MongoDBDeps = ObserveDeps & EffectDeps & { readonly maintenancePriority?: number };
type Cluster = Subject<Desired, State>;

/** Makes the provider. `seen` is told what each pass knows, so that events can be led to clusters. */
export function mongodbProvider(deps: MongoDBDeps, seen: (cluster: Cluster) => void): MongoDBProvider {
  const askOf: MongoDBProvider['askOf'] = ({ uid, namespace, name }, { member, why, mode, priority }) => ({
    id: `${uid}/${member}`,
    node: memberKey(namespace, member),
    holder: `MongoDB ${namespace}/${name}`,
    why,
    priority: urgency(priority, deps.maintenancePriority ?? ENGINE_PRIORITY),
    mode,
    duration: HOLD,
  });
  return {
    kind: 'MongoDB',
    finalizer: CLUSTER_FINALIZER,
    desired: desiredOf,
    initialState: async (_, desired) => initialState(desired),
    stored: recordOf,
    expecting: (cluster) => expecting(deps, cluster),
    basis: (cluster) => basis(deps, cluster),
    observe: (cluster, fresh) => observe(deps, cluster, fresh),
    look: (cluster) => observe(deps, cluster, false, true),
    advance: (cluster, reading, now) => {
      const state = advance(cluster.state, cluster.desired, reading, now);
      seen({ ...cluster, state });
      return state;
    },
    plan: ({ state, desired }, reading, now) => plan(reading, desired, state, now),
    target: targetOf,
    efforts: EFFORTS,
    start,
    cancel: cancelStep,
    isOver: (step, stepId, state) =>
      isInfrastructure(step.kind) && !state.pending.some((pending) => pending.stepId === stepId),
    guard: (step, reading, { state, desired }, stepId, now) =>
      guard(step, reading, desired, state, now, stepId),
    disruptions: (step, reading, { object, state, desired }) =>
      disruptionsOf(step, state, reading, desired).map((disruption) => askOf(object.metadata, disruption)),
    askOf,
    underWay: ({ object, state, desired }) =>
      underWay(state, desired).map((member) => `${object.metadata.uid}/${member}`),
    perform: (step, cluster, context) => perform(deps, step, cluster, context),
    applyOutcome,
    report,
  };
}

/** Objects never change, so each is translated once. */
function desiredOf(object: StoredObject): Desired {
  const known = translated.get(object);
  if (known !== undefined) return known;
  const desired = desiredFrom({ metadata: object.metadata, spec: object.spec as MongoDBSpec });
  translated.set(object, desired);
  return desired;
}
const translated = new WeakMap<StoredObject, Desired>();

/** Besides what the brain remembers: where an import was sent, so that a lost answer is looked for there. */
function start(state: State, step: Step, stepId: string, now: number): State {
  const started = startStep(state, step, stepId, now);
  if (step.kind !== 'import') return started;
  const { host } = step.placement;
  const pending = started.pending.map((p): Pending => (p.stepId === stepId ? { ...p, host } : p));
  return { ...started, pending };
}

function report(
  { object, desired, state }: Cluster,
  reading: Reading,
  decided: AnyPlan<Step>,
  before: unknown,
  now: number,
): Report {
  const was = knownStatus(before);
  const planned = decided as Plan;
  const warnings = warningsOf(object);
  const input = { observed: reading, desired, state, plan: planned, now, warnings, before: was };
  const is = status(input);
  const regarding = { kind: 'MongoDB', name: desired.name, uid: object.metadata.uid };
  const events = eventsFor(was, is, now, causedByUs(input)).map(
    (draft): NewEvent => ({ namespace: desired.namespace, regarding, ...draft, at: now }),
  );
  const leaving = reading.userObjects.filter((user) => mayLeave(user, desired, state));
  return {
    status: is,
    events,
    others: [
      ...reading.userObjects
        .filter((user) => !leaving.includes(user))
        .map((user) => ({
          key: keyOf(user.object),
          uid: user.object.metadata.uid,
          value: userStatus(user, { state, desired }, planned),
        })),
      ...reading.operationObjects.map((operation) => ({
        key: keyOf(operation),
        uid: operation.metadata.uid,
        value: {
          ...operationStatus(requestOf(operation), {
            observed: reading,
            desired,
            state,
            plan: planned,
            now,
          }),
          ...askedBy(operation),
        },
      })),
    ],
    releases: [
      ...leaving.map(({ object: user }) => ({
        key: keyOf(user),
        uid: user.metadata.uid,
        finalizer: USER_FINALIZER,
      })),
      ...reading.operationObjects
        .filter((operation) => state.ended.some((ended) => ended.uid === operation.metadata.uid))
        .map((operation) => ({
          key: keyOf(operation),
          uid: operation.metadata.uid,
          finalizer: OPERATION_FINALIZER,
        })),
    ],
    secretPrefixesToDelete: leaving.flatMap((user) => user.ownedRows),
  };
}

/** A deleted document goes when the database has dropped its user, or when the whole cluster goes (B3.5). */
const mayLeave = (user: UserObject, desired: Desired, state: State): boolean =>
  user.desired.deleting &&
  user.object.metadata.finalizers.includes(USER_FINALIZER) &&
  (desired.deleting !== null || !state.users.some((applied) => applied.uid === user.desired.uid));

function warningsOf(object: StoredObject): readonly string[] {
  try {
    const list = JSON.parse(object.metadata.annotations[WARNINGS_ANNOTATION] ?? '[]') as unknown;
    return Array.isArray(list) ? list.filter((item) => typeof item === 'string') : [];
  } catch {
    return [];
  }
}
