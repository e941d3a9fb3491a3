/** YDB's maintenance service with what a client needs around it (C6.2): the calls, who may make them, and their answers. */
import { create, type DescMessage, type Message, type MessageInitShape } from '@bufbuild/protobuf';
import { type Any, anyPack, timestampFromMs } from '@bufbuild/protobuf/wkt';
import type { ServerUnaryCall, sendUnaryData, UntypedServiceImplementation } from '@grpc/grpc-js';
import { asBelayError, BelayError } from '../base/error.ts';
import type { Log } from '../engine/ports.ts';
import {
  type Action,
  BETTER,
  type Compat,
  type Entry,
  type TaskOptions,
  type TaskReply,
  type TaskStatus,
} from '../maintenance/index.ts';
import { type LoginRequest, LoginResultSchema } from './gen/auth_pb.js';
import { ListDatabasesResultSchema } from './gen/cms_pb.js';
import { type WhoAmIRequest, WhoAmIResultSchema } from './gen/discovery_pb.js';
import {
  type CompleteActionRequest,
  type CreateMaintenanceTaskRequest,
  type DropMaintenanceTaskRequest,
  type GetMaintenanceTaskRequest,
  GetMaintenanceTaskResultSchema,
  ListClusterNodesResultSchema,
  type ListMaintenanceTasksRequest,
  ListMaintenanceTasksResultSchema,
  MaintenanceTaskResultSchema,
  ManageActionResultSchema,
  type RefreshMaintenanceTaskRequest,
} from './gen/maintenance_pb.js';
import { type Operation, OperationSchema } from './gen/operation_pb.js';
import { type Place, type PlaceDeps, placeOf } from './place.ts';
import {
  BadAction,
  groupsOf,
  type Numbers,
  nodeMessage,
  optionsOf,
  STATUS,
  taskOf,
  timesOf,
} from './words.ts';

/** Who calls. */
export interface Caller {
  readonly name: string;
  readonly role: 'admin' | 'operator' | 'viewer';
}

export interface ServiceDeps extends PlaceDeps {
  /** Throws `TokenUnknown`, `TokenExpired`. */
  readonly authenticate: (token: string) => Promise<Caller>;
  readonly log: Log;
  readonly compat?: Compat;
  /** Further switches of tasks. */
  readonly tasks?: TaskOptions;
}

/** Answers with an error in the operation; the transport is fine. */
class Refused extends Error {
  readonly status: TaskStatus | 'UNAUTHORIZED';
  constructor(status: TaskStatus | 'UNAUTHORIZED', message: string) {
    super(message);
    this.status = status;
  }
}

/** What a handler gives: a status with its result. The result is there on errors too: clients unpack it first. */
interface Outcome {
  readonly status: TaskStatus;
  readonly issues: readonly string[];
  readonly result: Any | null;
}
type Call<Request extends Message> = ServerUnaryCall<Request, { operation: Operation }>;
/** What stands for a result in an answer that has none: it tells at least which task was spoken of. */
type Fallback<Request> = (request: Request) => Any | null;
type Handler<Request extends Message> = (call: Call<Request>, caller: Caller) => Promise<Outcome>;

const TICKET = 'x-ydb-auth-ticket';
/** Where an issue stands on YDB's scale. */
const ERROR_SEVERITY = 1;

const packed = <Desc extends DescMessage>(schema: Desc, value: MessageInitShape<Desc>): Any =>
  anyPack(schema, create(schema, value));

const outcome = (status: TaskStatus, issues: readonly string[], result: Any | null): Outcome => ({
  status,
  issues,
  result,
});

/** All calls of the maintenance service. */
export function maintenanceService(deps: ServiceDeps): UntypedServiceImplementation {
  const { authority, compat = BETTER } = deps;
  const options = (): TaskOptions => ({ ...deps.tasks, compat });
  const answer = (reply: TaskReply, numbers: Numbers): Outcome =>
    outcome(
      reply.status,
      reply.issues,
      packed(MaintenanceTaskResultSchema, {
        taskUid: reply.uid,
        actionGroupStates: groupsOf(reply, numbers),
        ...timesOf(reply),
        ...(reply.retryAfter === null ? {} : { retryAfter: timestampFromMs(reply.retryAfter) }),
      }),
    );
  const empty = (taskUid: string): Any => packed(MaintenanceTaskResultSchema, { taskUid });
  /** The place of a call about a task. One that is about something elsewhere cannot be told, and is not touched. */
  const placeOfTask = async (call: Parameters<typeof placeOf>[1], uid: string): Promise<Place> => {
    const place = await placeOf(deps, call);
    const entry = await authority.find(uid);
    const foreign = entry === null ? null : await place.foreign(actionsOf(entry));
    if (foreign === null) return place;
    throw new Refused('BAD_REQUEST', `Task not found: ${uid} is about ${foreign}, not about ${place.name}`);
  };
  return {
    listClusterNodes: handler(
      deps,
      'viewer',
      () => packed(ListClusterNodesResultSchema, {}),
      async (call) => {
        const { numbers, views } = await placeOf(deps, call);
        const nodes = (await views()).map((v) => nodeMessage(v.node, v.state, numbers.idOf(v.node.key) ?? 0));
        return outcome('SUCCESS', [], packed(ListClusterNodesResultSchema, { nodes }));
      },
    ),
    createMaintenanceTask: handler<CreateMaintenanceTaskRequest>(
      deps,
      'operator',
      ({ taskOptions }) => empty(taskOptions?.taskUid ?? ''),
      async (call, caller) => {
        const { numbers, foreign, name } = await placeOf(deps, call);
        const task = taskOf(call.request, caller.name, numbers);
        const other = await foreign(task.groups.flat());
        if (other !== null) throw new Refused('BAD_REQUEST', `there is no ${other} in ${name}`);
        return answer(await authority.create(task, numbers.topology, options()), numbers);
      },
    ),
    refreshMaintenanceTask: handler<RefreshMaintenanceTaskRequest>(
      deps,
      'operator',
      ({ taskUid }) => empty(taskUid),
      async (call) => {
        const { numbers } = await placeOfTask(call, call.request.taskUid);
        return answer(await authority.refresh(call.request.taskUid), numbers);
      },
    ),
    getMaintenanceTask: handler<GetMaintenanceTaskRequest>(
      deps,
      'viewer',
      ({ taskUid }) => packed(GetMaintenanceTaskResultSchema, { taskOptions: { taskUid } }),
      async (call) => {
        const { numbers } = await placeOfTask(call, call.request.taskUid);
        const reply = await authority.get(call.request.taskUid);
        const result = packed(GetMaintenanceTaskResultSchema, {
          taskOptions: optionsOf(reply, compat.getForgetsOptions),
          actionGroupStates: groupsOf(reply, numbers),
          ...timesOf(reply),
        });
        return outcome(reply.status, reply.issues, result);
      },
    ),
    listMaintenanceTasks: handler<ListMaintenanceTasksRequest>(
      deps,
      'viewer',
      () => packed(ListMaintenanceTasksResultSchema, {}),
      async (call) => {
        const { foreign } = await placeOf(deps, call);
        const tasksUids: string[] = [];
        for (const uid of await authority.list(call.request.user ?? '')) {
          const entry = await authority.find(uid);
          if (entry !== null && (await foreign(actionsOf(entry))) === null) tasksUids.push(uid);
        }
        return outcome('SUCCESS', [], packed(ListMaintenanceTasksResultSchema, { tasksUids }));
      },
    ),
    dropMaintenanceTask: handler<DropMaintenanceTaskRequest>(
      deps,
      'operator',
      () => null,
      async (call, caller) => {
        await placeOfTask(call, call.request.taskUid);
        const reply = await authority.drop(call.request.taskUid, options(), caller.name);
        return outcome(reply.status, reply.issues, null);
      },
    ),
    completeAction: handler<CompleteActionRequest>(
      deps,
      'operator',
      ({ actionUids }) =>
        packed(ManageActionResultSchema, {
          actionStatuses: actionUids.map((actionUid) => ({ actionUid, status: STATUS.BAD_REQUEST })),
        }),
      async (call, caller) => {
        const { actionUids } = call.request;
        for (const uid of new Set(actionUids.map(({ taskUid }) => taskUid))) await placeOfTask(call, uid);
        const refs = actionUids.map(({ actionId: id, taskUid: task }) =>
          task === '' || compat.completeIgnoresTask ? { id } : { id, task },
        );
        const reply = await authority.complete(refs, caller.name);
        const actionStatuses = reply.actions.map(({ id, task, status }) => ({
          actionUid: { taskUid: task, actionId: id },
          status: STATUS[status],
        }));
        return outcome(reply.status, reply.issues, packed(ManageActionResultSchema, { actionStatuses }));
      },
    ),
  };
}

/**
 * A token for a name and a password. Passwords are API tokens: whoever has one has the right already, and what is given back
 * is the same token.
 */
export const authService = (deps: ServiceDeps): UntypedServiceImplementation => ({
  login: unary<LoginRequest>(
    deps,
    () => packed(LoginResultSchema, {}),
    async ({ request: { user, password } }) => {
      const caller = await authenticated(deps, password);
      if (user !== caller.name)
        throw new Refused(
          'UNAUTHORIZED',
          `Invalid user or password: the password is the API token of that name`,
        );
      return outcome('SUCCESS', [], packed(LoginResultSchema, { token: password }));
    },
  ),
});

export const discoveryService = (deps: ServiceDeps): UntypedServiceImplementation => ({
  whoAmI: handler<WhoAmIRequest>(
    deps,
    'viewer',
    () => packed(WhoAmIResultSchema, {}),
    async (call, caller) => {
      const manages = caller.role !== 'viewer';
      const me = {
        user: caller.name,
        groups: call.request.includeGroups ? [caller.role] : [],
        isAdministrationAllowed: manages,
        isMonitoringAllowed: manages,
        isViewerAllowed: true,
        isDatabaseAllowed: true,
      };
      return outcome('SUCCESS', [], packed(WhoAmIResultSchema, me));
    },
  ),
});

/** Databases: tenants of the topology, or the managed ones. */
export const cmsService = (deps: ServiceDeps): UntypedServiceImplementation => ({
  listDatabases: handler(
    deps,
    'viewer',
    () => packed(ListDatabasesResultSchema, {}),
    async (call) => {
      const { numbers, views } = await placeOf(deps, call);
      // All that there are are listed, whichever of them the call names.
      const names =
        numbers.topology === undefined
          ? (await deps.authority.nodes()).flatMap(({ node }) =>
              node.id === undefined ? [`/${node.cluster}`] : [],
            )
          : (await views()).flatMap(({ node }) => node.tenant ?? []);
      return outcome('SUCCESS', [], packed(ListDatabasesResultSchema, { paths: [...new Set(names)] }));
    },
  ),
});

/** Everything a task is about. */
const actionsOf = ({ held, pending }: Entry): readonly Action[] =>
  [...held, ...pending].map(({ action }) => action);

// ── one call ───────────────────────────────────────────────────────────────────────────────────────────────────────

const ROLES = ['admin', 'operator', 'viewer'] as const;

/** A call by somebody who is known and may make it. */
function handler<Request extends Message>(
  deps: ServiceDeps,
  role: Caller['role'],
  fallback: Fallback<Request>,
  work: Handler<Request>,
): (call: Call<Request>, done: sendUnaryData<{ operation: Operation }>) => void {
  return unary<Request>(deps, fallback, async (call) => {
    const [ticket] = call.metadata.get(TICKET);
    if (ticket === undefined) throw new Refused('UNAUTHORIZED', `Access denied: no token in ${TICKET}`);
    const caller = await authenticated(deps, String(ticket));
    if (ROLES.indexOf(caller.role) > ROLES.indexOf(role))
      throw new Refused(
        'UNAUTHORIZED',
        `Access denied: '${caller.name}' is a ${caller.role}, and this takes an ${role}`,
      );
    return work(call, caller);
  });
}

async function authenticated(deps: ServiceDeps, token: string): Promise<Caller> {
  try {
    return await deps.authenticate(token.replace(/^Bearer /i, ''));
  } catch (failure) {
    const { code, message } = asBelayError(failure);
    if (code.startsWith('Token')) throw new Refused('UNAUTHORIZED', `Access denied: ${message}`);
    throw failure;
  }
}

function unary<Request extends Message>(
  deps: ServiceDeps,
  fallback: Fallback<Request>,
  work: (call: Call<Request>) => Promise<Outcome>,
): (call: Call<Request>, done: sendUnaryData<{ operation: Operation }>) => void {
  return (call, done) => {
    work(call).then(
      ({ status, issues, result }) => done(null, { operation: operationOf(STATUS[status], issues, result) }),
      (failure) => done(null, { operation: failedOperation(deps, failure, fallback(call.request)) }),
    );
  };
}

function failedOperation(deps: ServiceDeps, failure: unknown, fallback: Any | null): Operation {
  if (failure instanceof Refused) return operationOf(STATUS[failure.status], [failure.message], fallback);
  if (failure instanceof BadAction) return operationOf(STATUS.BAD_REQUEST, [failure.message], fallback);
  const { retry, message, code } = asBelayError(failure);
  deps.log.warn('a maintenance call failed', { code, message });
  const status =
    failure instanceof BelayError && retry !== 'never' ? STATUS.UNAVAILABLE : STATUS.INTERNAL_ERROR;
  return operationOf(status, [`${code}: ${message}`], fallback);
}

const operationOf = (status: number, issues: readonly string[], result: Any | null): Operation =>
  create(OperationSchema, {
    ready: true,
    status,
    issues: issues.map((message) => ({ message, severity: ERROR_SEVERITY })),
    ...(result === null ? {} : { result }),
  });
