/** Between the desk's entries and MaintenanceTask objects: an object's spec and status hold everything an entry is. */
import { HOUR, MINUTE, type Millis, SECOND } from '../base/units.ts';
import { DEFAULT_NAMESPACE, type MaintenanceTask, parseDuration } from '../model/index.ts';
import { DEFAULT_DURATION } from './limits.ts';
import { askByOf } from './patience.ts';
import { isFinal, isReason } from './reasons.ts';
import type { TaskSpec } from './tasks.ts';
import type { Action, Blocker, DiskRef, Entry, Pending, Permission, Refusal, Scope } from './types.ts';

type Spec = MaintenanceTask['spec'];
type Status = NonNullable<MaintenanceTask['status']>;
type ActionDocument = Spec['groups'][number]['actions'][number];
type ActionState = Status['actions'][number];

/** Whose blockers are written down; the sentence names them for all. */
const BLOCKERS_KEPT = 100;

const iso = (at: Millis): string => new Date(at).toISOString();
const millis = (text: string): Millis => Date.parse(text);

// ── names ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Key of a node in the fleet: of a topology by its number, of a managed database by namespace and name. */
export function nodeKeyOf(text: string, topology: string | undefined): string {
  if (topology !== undefined) return `${topology}/${text}`;
  return text.includes('/') ? text : `${DEFAULT_NAMESPACE}/${text}`;
}

/** A node's key as a document names it. */
export const nodeTextOf = (key: string, topology: string | undefined): string =>
  topology !== undefined && key.startsWith(`${topology}/`) ? key.slice(topology.length + 1) : key;

// ── actions ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** An action of a document in the desk's words. */
export function actionOf(document: ActionDocument, topology: string | undefined): Action {
  const duration = parseDuration(document.duration);
  return {
    type: document.type,
    scope: scopeOf(document.scope, topology),
    duration: duration.ok ? duration.value : null,
  };
}

function scopeOf(scope: ActionDocument['scope'], topology: string | undefined): Scope {
  if (scope.host !== undefined) return { kind: 'host', host: scope.host };
  if (scope.node !== undefined) return { kind: 'node', node: nodeKeyOf(scope.node, topology) };
  const { node = '', host = '', id, path } = scope.disk ?? {};
  const disk: DiskRef =
    path === undefined
      ? { kind: 'id', node: nodeKeyOf(node, topology), disk: Number(id) }
      : { kind: 'path', host, path };
  return { kind: 'disks', disks: [disk] };
}

/** An action as a document has it; a duration that nobody gave is the default. */
export function actionDocument(action: Action, topology: string | undefined): ActionDocument {
  const { type, scope, duration } = action;
  return {
    type,
    scope: scopeDocument(scope, topology),
    duration: durationWords(duration ?? DEFAULT_DURATION),
  };
}

/** As people write it: `1h30m`, `90s`. */
function durationWords(duration: Millis): string {
  let rest = Math.max(0, duration);
  const parts = UNITS.map(([unit, name]) => {
    const count = Math.floor(rest / unit);
    rest -= count * unit;
    return count === 0 ? '' : `${count}${name}`;
  });
  return parts.join('') || '0s';
}
const UNITS = [
  [HOUR, 'h'],
  [MINUTE, 'm'],
  [SECOND, 's'],
  [1, 'ms'],
] as const;

function scopeDocument(scope: Scope, topology: string | undefined): ActionDocument['scope'] {
  if (scope.kind === 'host') return { host: scope.host };
  if (scope.kind === 'node') return { node: nodeTextOf(scope.node, topology) };
  const [disk] = scope.disks;
  if (disk?.kind === 'path') return { disk: { host: disk.host, path: disk.path } };
  if (disk?.kind === 'id') return { disk: { node: nodeTextOf(disk.node, topology), id: disk.disk } };
  return { disk: {} };
}

// ── tasks ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/** What a document asks for. `owner` is who is signed in, unless the document names somebody. */
export const taskSpecOf = (name: string, spec: Spec, owner: string, dryRun = false): TaskSpec => ({
  uid: spec.uid ?? name,
  owner: spec.owner ?? owner,
  description: spec.reason,
  mode: spec.mode,
  priority: spec.priority,
  dryRun,
  maxInFlight: spec.maxInFlight,
  ...(spec.stepDown === true ? { stepDown: true } : {}),
  groups: spec.groups.map((group) => group.actions.map((action) => actionOf(action, spec.topology))),
});

/** The document of a task that came by another way; `name` of its object, when the identity is no name. */
export const specDocument = (
  task: TaskSpec,
  topology: string | undefined,
  name: string,
  compat = false,
): Spec => ({
  ...(compat ? { compat } : {}),
  mode: task.mode ?? 'strong',
  priority: task.priority,
  owner: task.owner,
  reason: task.description,
  maxInFlight: task.maxInFlight,
  ...(task.stepDown === true ? { stepDown: true } : {}),
  ...(topology === undefined ? {} : { topology }),
  ...(task.uid === name ? {} : { uid: task.uid }),
  groups: task.groups.map((group) => ({ actions: group.map((action) => actionDocument(action, topology)) })),
});

/** Status of a task: what it holds and what it waits for, with everything that cannot be found out again. */
export function statusDocument(entry: Entry, generation: number): Status {
  const actions = [
    ...entry.held.map((p) => heldState(p, entry.priority)),
    // Who is to hand over is told by the blockers, so those are always kept.
    ...entry.pending.map((p, i) =>
      pendingState(p, i < BLOCKERS_KEPT || p.refusal?.reason === 'PrimaryStepsDown'),
    ),
  ];
  const waits = entry.pending.find((p) => p.refusal !== null)?.refusal?.message;
  const phase = entry.pending.length === 0 ? 'Ready' : entry.held.length === 0 ? 'Pending' : 'Reconciling';
  const message = `${entry.held.length} granted, ${entry.pending.length} waiting${waits === undefined ? '' : `: ${waits}`}`;
  return {
    observedGeneration: generation,
    phase,
    message,
    conditions: [],
    warnings: [],
    request: entry.id,
    owner: entry.owner,
    actions,
    createTime: iso(entry.createdAt),
    lastRefreshTime: iso(entry.refreshedAt),
    ...(entry.pending.length === 0
      ? {}
      : { askBy: iso(askByOf(entry)), ...(entry.stale === true ? { stale: true } : {}) }),
  };
}

const heldState = (p: Permission, priority: number): ActionState => ({
  id: p.id,
  group: p.at[0],
  action: p.at[1],
  state: p.progress === undefined ? 'performed' : 'inProgress',
  reason: 'OK',
  message: '',
  ...(p.deadline === null ? {} : { deadline: iso(p.deadline) }),
  grantedAt: iso(p.grantedAt),
  durationMillis: p.duration,
  ...(p.priority === priority ? {} : { priority: p.priority }),
  ...(p.progress === undefined ? {} : { progress: p.progress }),
  blockers: [],
});

const pendingState = ({ at, refusal }: Pending, whole: boolean): ActionState => ({
  group: at[0],
  action: at[1],
  state: 'pending',
  reason: refusal?.reason ?? 'NotTried',
  message: refusal?.message ?? '',
  ...(refusal === null || refusal.retryAt === null ? {} : { retryAfter: iso(refusal.retryAt) }),
  blockers: whole ? (refusal?.by.map((b) => ({ ...b })) ?? []) : [],
});

/** The entry of a stored task; null when nobody has decided on it yet, or it has ended. */
export function entryOf(name: string, spec: Spec, status: Status | null): Entry | null {
  if (status?.request === undefined || status.actions.length === 0) return null;
  const { topology, groups } = spec;
  const actionAt = (a: ActionState): Action | null => {
    const document = groups[a.group ?? 0]?.actions[a.action ?? 0];
    return document === undefined ? null : actionOf(document, topology);
  };
  const held: Permission[] = [];
  const pending: Pending[] = [];
  for (const state of status.actions) {
    const action = actionAt(state);
    if (action === null) continue;
    if (state.state === 'pending') pending.push({ action, at: atOf(state), refusal: refusalOf(state) });
    else held.push(permissionOf(state, action, status, spec.priority));
  }
  const composite = groups.length === 1 && (groups[0]?.actions.length ?? 0) > 1;
  return {
    id: status.request,
    uid: spec.uid ?? name,
    owner: status.owner ?? spec.owner ?? '',
    description: spec.reason,
    mode: spec.mode,
    priority: spec.priority,
    partial: !composite,
    maxInFlight: composite ? 0 : spec.maxInFlight,
    duration: null,
    ignoreTenants: false,
    evict: false,
    ...(spec.stepDown === true ? { stepDown: true } : {}),
    ...(spec.compat === true ? { compat: true } : {}),
    createdAt: millis(status.createTime ?? ''),
    refreshedAt: millis(status.lastRefreshTime ?? ''),
    ...(status.askBy === undefined ? {} : { askBy: millis(status.askBy) }),
    ...(status.stale === true ? { stale: true } : {}),
    pending,
    held,
  };
}

const atOf = (state: ActionState): readonly [number, number] => [state.group ?? 0, state.action ?? 0];

const permissionOf = (state: ActionState, action: Action, status: Status, priority: number): Permission => ({
  id: state.id ?? '',
  entry: status.request ?? '',
  owner: status.owner ?? '',
  priority: state.priority ?? priority,
  action,
  grantedAt: millis(state.grantedAt ?? ''),
  deadline: state.deadline === undefined ? null : millis(state.deadline),
  duration: state.durationMillis ?? 0,
  at: atOf(state),
  ...(state.progress === undefined ? {} : { progress: state.progress }),
});

const refusalOf = (state: ActionState): Refusal | null =>
  isReason(state.reason)
    ? {
        code: isFinal(state.reason) ? 'DISALLOW' : 'DISALLOW_TEMP',
        reason: state.reason,
        message: state.message,
        by: state.blockers as unknown as readonly Blocker[],
        retryAt: state.retryAfter === undefined ? null : millis(state.retryAfter),
      }
    : null;
