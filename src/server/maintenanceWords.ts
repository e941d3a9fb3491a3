/** What the maintenance routes take and give: one shape for tasks over REST, command line and explanations. */
import { z } from 'zod';
import type { HostView, NodeView } from '../authority/index.ts';
import { BelayError } from '../base/error.ts';
import type { Millis } from '../base/units.ts';
import type { Holder as Held } from '../engine/gate.ts';
import {
  type ActionView,
  actionDocument,
  askByOf,
  DEFAULT_DURATION,
  forceHelps,
  holdOf,
  type Scope,
  type TaskReply,
  type TaskSpec,
  taskSpecOf,
} from '../maintenance/index.ts';
import {
  AVAILABILITY_MODES,
  isDnsName,
  lineText,
  lockDuration,
  maintenanceTaskSchema,
} from '../model/index.ts';
import type { Carried } from './carried.ts';
import type { Json } from './routes.ts';

/** Most hosts or nodes one request may name in the short form. */
const NAMES_LIMIT = 10_000;

const names = (what: string) =>
  z.array(z.string().min(1)).max(NAMES_LIMIT).optional().describe(`${what}, each an action of its own.`);

/** A task in the short form (hosts, nodes) or in groups as a MaintenanceTask document has them. */
export const TASK = z.strictObject({
  name: z
    .string()
    .refine(isDnsName, { error: 'must be a DNS name' })
    .optional()
    .describe('Identity; made up when it is not given.'),
  hosts: names('Hosts'),
  nodes: names('Members or nodes'),
  together: z.boolean().default(false).describe('All of them or none, in one group.'),
  duration: lockDuration().default('5m').describe('How long each is needed, from 1s to 30d.'),
  mode: z.enum(AVAILABILITY_MODES).default('strong').describe('How much unavailability is allowed.'),
  priority: z.int().min(-100).max(100).default(0).describe('A smaller number is more urgent.'),
  reason: lineText().max(128).default('').describe('Why, for people.'),
  owner: lineText()
    .optional()
    .describe('Whose task it is; by default the token’s, and only admins may name another.'),
  maxInFlight: z.int().min(0).default(0).describe('Most actions held at a time; 0: no limit.'),
  stepDown: z
    .boolean()
    .default(false)
    .describe('Primaries among what is taken hand over before it is granted.'),
  topology: z.string().optional().describe('Topology the nodes belong to.'),
  compat: z.boolean().optional().describe('Judge it as YDB’s own service does.'),
  groups: z.array(z.unknown()).optional().describe('Groups of actions, as in a MaintenanceTask.'),
});
export type TaskRequest = z.infer<typeof TASK>;

export const COMPLETE = z.strictObject({
  ids: z.array(z.string()).optional().describe('Identities of granted actions.'),
  hosts: z.array(z.string()).optional().describe('Hosts whose actions are meant.'),
  all: z.boolean().default(false).describe('Everything the task holds.'),
});
export const EXTEND = z.strictObject({
  ...COMPLETE.shape,
  duration: lockDuration().describe('How long they are needed from now on, from 1s to 30d.'),
});
export const PROGRESS = z.strictObject({
  id: z.string().describe('Identity of the drain.'),
  percent: z.number().min(0).max(100).nullable().describe('How far it is; null: it has ended.'),
});
export const SWITCH = z.strictObject({ disabled: z.boolean().describe('Whether new grants are off.') });

/** A request as the authority takes it. `Invalid` with the fields that are wrong. */
export function taskFrom(request: TaskRequest, caller: string, dryRun: boolean): TaskSpec {
  const { hosts = [], nodes = [], duration, together } = request;
  const actions = [
    ...hosts.map((host) => ({ scope: { host }, duration })),
    ...nodes.map((node) => ({ scope: { node }, duration })),
  ];
  const short = together ? [{ actions }] : actions.map((action) => ({ actions: [action] }));
  const groups = [...(actions.length === 0 ? [] : short), ...(request.groups ?? [])];
  const { mode, priority, reason, maxInFlight, topology, stepDown } = request;
  const spec = {
    mode,
    priority,
    reason,
    maxInFlight,
    groups,
    ...(stepDown ? { stepDown } : {}),
    ...(topology === undefined ? {} : { topology }),
  };
  const parsed = maintenanceTaskSchema.shape.spec.safeParse(spec);
  if (!parsed.success) {
    throw new BelayError('Invalid', 'the task has problems', {
      retry: 'never',
      problems: parsed.error.issues.map(({ path, message }) => ({ path: path.join('.'), message })),
    });
  }
  return taskSpecOf(request.name ?? '', parsed.data, request.owner ?? caller, dryRun);
}

const iso = (at: Millis | null): string | null => (at === null ? null : new Date(at).toISOString());

/** A task as the API tells it. */
export function taskJson(
  reply: TaskReply,
  topology: string | undefined,
  carried: (scope: Scope) => Carried,
): Json {
  const { entry } = reply;
  const hold = entry === null ? null : holdOf(entry);
  return {
    name: reply.uid,
    owner: entry?.owner ?? null,
    holder: hold?.holder ?? null,
    reason: hold?.why ?? entry?.description ?? '',
    mode: entry?.mode ?? null,
    priority: entry?.priority ?? null,
    maxInFlight: entry?.maxInFlight ?? 0,
    stepDown: entry?.stepDown ?? false,
    createTime: iso(reply.createTime),
    lastRefreshTime: iso(reply.lastRefreshTime),
    retryAfter: iso(reply.retryAfter),
    askBy: entry === null || entry.pending.length === 0 ? null : iso(askByOf(entry)),
    stale: entry?.stale === true,
    groups: reply.groups.map((group) => group.map((view) => actionJson(view, reply.uid, topology, carried))),
  };
}

function actionJson(
  view: ActionView,
  task: string,
  topology: string | undefined,
  carried: (scope: Scope) => Carried,
): Json {
  const { scope, type, duration } = actionDocument(view.action, topology);
  const { members, primaries } = carried(view.action.scope);
  return {
    id: view.id,
    type,
    scope,
    duration,
    durationMillis: view.action.duration ?? DEFAULT_DURATION,
    state: view.status.toLowerCase(),
    reason: view.reason ?? 'NotTried',
    message: view.details,
    deadline: iso(view.deadline),
    retryAfter: iso(view.refusal?.retryAt ?? null),
    blockers: view.refusal?.by ?? [],
    forceHelps:
      view.refusal !== null && waitsForOthers(view.details, task) && forceHelps(view.refusal.reason),
    ...(scope.host === undefined ? {} : { members }),
    ...(primaries.length === 0 ? {} : { primaries }),
  };
}

/** What the same task takes or holds is no reason to go without the rules: it waits for its turn. */
const waitsForOthers = (message: string, task: string): boolean =>
  !message.includes('taken by this request too') && !message.includes(`of task ${task} (owner `);

export const nodeJson = ({ node, state, holders }: NodeView): Json => ({
  key: node.key,
  name: node.name,
  ...(node.id === undefined ? {} : { id: node.id }),
  cluster: node.cluster,
  host: node.host,
  kind: node.kind,
  state,
  role: node.role ?? null,
  version: node.version ?? null,
  tenant: node.tenant ?? null,
  startedAt: iso(node.startedAt),
  holders: holders.map((h) => ({ ...h, until: iso(h.until) })),
});

/** `held`: whose task holds the host as a whole. */
export const hostJson = (view: HostView, held: Held | null): Json => ({
  host: view.host,
  state: view.state,
  nodes: view.nodes.map(nodeJson),
  holders: view.holders.map((h) => ({ ...h, until: iso(h.until) })),
  held: held === null ? null : { ...held, until: iso(held.until) },
  waiting: view.waiting,
  warnings: view.warnings,
});

/** An answer that is no success, as an error with its code. */
export function throwUnlessDone(status: TaskReply['status'], issues: readonly string[]): void {
  if (status === 'SUCCESS') return;
  const message = issues.join('; ') || status;
  if (status === 'UNAVAILABLE')
    throw new BelayError('MaintenanceDisabled', message, {
      fix: 'ask again later, or have an admin switch them on: belay maintenance switch on',
    });
  if (/not found|Unknown permission/.test(message))
    throw new BelayError('NotFound', message, {
      retry: 'never',
      fix: 'see what there is: belay maintenance list',
    });
  if (/already exists/.test(message))
    throw new BelayError('AlreadyExists', message, {
      retry: 'never',
      fix: 'choose another name, or drop the task that has it',
    });
  const code = status === 'UNSUPPORTED' ? 'UnsupportedFeature' : 'Invalid';
  throw new BelayError(code, message, { retry: 'never' });
}
