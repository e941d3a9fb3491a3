/** YDB's maintenance service with what a client needs around it (C6.2): the calls, who may make them, and their answers. */
import { create, type DescMessage, type Message, type MessageInitShape } from '@bufbuild/protobuf';
import { type Any, anyPack, timestampFromMs } from '@bufbuild/protobuf/wkt';
import type { ServerUnaryCall, sendUnaryData, UntypedServiceImplementation } from '@grpc/grpc-js';
import type { Authority, NodeView } from '../authority/index.ts';
import { asBelayError, BelayError } from '../base/error.ts';
import type { Log } from '../engine/ports.ts';
import {
  BETTER,
  type Compat,
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
import {
  BadAction,
  groupsOf,
  managedNumbers,
  type Numbers,
  nodeMessage,
  optionsOf,
  STATUS,
  taskOf,
  timesOf,
  topologyNumbers,
} from './words.ts';

/** Who calls. */
export interface Caller {
  readonly name: string;
  readonly role: 'admin' | 'operator' | 'viewer';
}

export interface ServiceDeps {
  readonly authority: Authority;
  /** Throws `TokenUnknown`, `TokenExpired`. */
  readonly authenticate: (token: string) => Promise<Caller>;
  /** Names of all topologies, in order. */
  readonly topologies: () => readonly string[];
  readonly log: Log;
  /** Topology this endpoint speaks of, when a call names none; by default the only one, else the managed databases. */
  readonly topology?: string;
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
type Handler<Request extends Message> = (call: Call<Request>, caller: Caller) => Promise<Outcome>;

const TICKET = 'x-ydb-auth-ticket';
const DATABASE = 'x-ydb-database';
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
  const empty = packed(MaintenanceTaskResultSchema, {});
  return {
    listClusterNodes: handler(deps, 'viewer', packed(ListClusterNodesResultSchema, {}), async (call) => {
      const { numbers, views } = await placeOf(deps, call);
      const nodes = (await views()).map((v) => nodeMessage(v.node, v.state, numbers.idOf(v.node.key) ?? 0));
      return outcome('SUCCESS', [], packed(ListClusterNodesResultSchema, { nodes }));
    }),
    createMaintenanceTask: handler<CreateMaintenanceTaskRequest>(
      deps,
      'operator',
      empty,
      async (call, caller) => {
        const { numbers } = await placeOf(deps, call);
        const task = taskOf(call.request, caller.name, numbers);
        return answer(await authority.create(task, numbers.topology, options()), numbers);
      },
    ),
    refreshMaintenanceTask: handler<RefreshMaintenanceTaskRequest>(deps, 'operator', empty, async (call) => {
      const { numbers } = await placeOf(deps, call);
      return answer(await authority.refresh(call.request.taskUid), numbers);
    }),
    getMaintenanceTask: handler<GetMaintenanceTaskRequest>(
      deps,
      'viewer',
      packed(GetMaintenanceTaskResultSchema, {}),
      async (call) => {
        const { numbers } = await placeOf(deps, call);
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
      packed(ListMaintenanceTasksResultSchema, {}),
      async (call) => {
        const tasksUids = [...(await authority.list(call.request.user ?? ''))];
        return outcome('SUCCESS', [], packed(ListMaintenanceTasksResultSchema, { tasksUids }));
      },
    ),
    dropMaintenanceTask: handler<DropMaintenanceTaskRequest>(deps, 'operator', null, async (call) => {
      const reply = await authority.drop(call.request.taskUid, options());
      return outcome(reply.status, reply.issues, null);
    }),
    completeAction: handler<CompleteActionRequest>(
      deps,
      'operator',
      packed(ManageActionResultSchema, {}),
      async (call) => {
        const reply = await authority.complete(call.request.actionUids.map((uid) => uid.actionId));
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
  login: unary<LoginRequest>(deps, packed(LoginResultSchema, {}), async ({ request: { user, password } }) => {
    const caller = await authenticated(deps, password);
    if (user !== caller.name)
      throw new Refused(
        'UNAUTHORIZED',
        `Invalid user or password: the password is the API token of that name`,
      );
    return outcome('SUCCESS', [], packed(LoginResultSchema, { token: password }));
  }),
});

export const discoveryService = (deps: ServiceDeps): UntypedServiceImplementation => ({
  whoAmI: handler<WhoAmIRequest>(deps, 'viewer', packed(WhoAmIResultSchema, {}), async (call, caller) => {
    const groups = call.request.includeGroups ? [caller.role] : [];
    return outcome('SUCCESS', [], packed(WhoAmIResultSchema, { user: caller.name, groups }));
  }),
});

/** Databases: tenants of the topology, or the managed ones. */
export const cmsService = (deps: ServiceDeps): UntypedServiceImplementation => ({
  listDatabases: handler(deps, 'viewer', packed(ListDatabasesResultSchema, {}), async (call) => {
    const { numbers, views } = await placeOf(deps, call);
    const names = (await views()).flatMap(({ node }) =>
      numbers.topology === undefined ? [`/${node.cluster}`] : (node.tenant ?? []),
    );
    return outcome('SUCCESS', [], packed(ListDatabasesResultSchema, { paths: [...new Set(names)] }));
  }),
});

// ── one call ───────────────────────────────────────────────────────────────────────────────────────────────────────

const ROLES = ['admin', 'operator', 'viewer'] as const;

/** A call by somebody who is known and may make it. */
function handler<Request extends Message>(
  deps: ServiceDeps,
  role: Caller['role'],
  fallback: Any | null,
  work: Handler<Request>,
): (call: Call<Request>, done: sendUnaryData<{ operation: Operation }>) => void {
  return unary<Request>(deps, fallback, async (call) => {
    const [ticket] = call.metadata.get(TICKET);
    if (ticket === undefined) throw new Refused('UNAUTHORIZED', `Access denied: no token in ${TICKET}`);
    const caller = await authenticated(deps, String(ticket));
    if (ROLES.indexOf(caller.role) > ROLES.indexOf(role))
      throw new Refused('UNAUTHORIZED', `Access denied: '${caller.name}' is not an admin`);
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
  fallback: Any | null,
  work: (call: Call<Request>) => Promise<Outcome>,
): (call: Call<Request>, done: sendUnaryData<{ operation: Operation }>) => void {
  return (call, done) => {
    work(call).then(
      ({ status, issues, result }) => done(null, { operation: operationOf(STATUS[status], issues, result) }),
      (failure) => done(null, { operation: failedOperation(deps, failure, fallback) }),
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

/** Where a call looks: `views` are the nodes as they are now, of which most calls need no more than their numbers. */
interface Place {
  readonly numbers: Numbers;
  readonly views: () => Promise<readonly NodeView[]>;
}

/** The topology a call is about, with the numbers of its nodes. */
async function placeOf(deps: ServiceDeps, call: Call<Message>): Promise<Place> {
  const names = deps.topologies();
  const database = String(call.metadata.get(DATABASE)[0] ?? '');
  const named = names.find((name) => database === name || database.replace(/^\//, '').split('/')[0] === name);
  const only = names.length === 1 ? names[0] : undefined;
  const topology = named ?? deps.topology ?? only;
  if (topology !== undefined)
    return { numbers: topologyNumbers(topology), views: () => deps.authority.nodes(topology) };
  const views = (await deps.authority.nodes()).filter(({ node }) => node.id === undefined);
  return { numbers: managedNumbers(views.map(({ node }) => node.key)), views: async () => views };
}
