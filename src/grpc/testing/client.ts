/** A client as ydbops is one: calls with a ticket, unpacks the result before it looks at the status. */
import type { DescMessage, DescService, MessageInitShape, MessageShape } from '@bufbuild/protobuf';
import { anyUnpack } from '@bufbuild/protobuf/wkt';
import { type ChannelCredentials, Client, credentials, Metadata } from '@grpc/grpc-js';
import { definitionOf } from '../definition.ts';
import { LoginResultSchema } from '../gen/auth_pb.js';
import { AuthService } from '../gen/auth_v1_pb.js';
import { ListDatabasesResultSchema } from '../gen/cms_pb.js';
import { CmsService } from '../gen/cms_v1_pb.js';
import { WhoAmIResultSchema } from '../gen/discovery_pb.js';
import { DiscoveryService } from '../gen/discovery_v1_pb.js';
import {
  type CompleteActionRequestSchema,
  type CreateMaintenanceTaskRequestSchema,
  GetMaintenanceTaskResultSchema,
  ListClusterNodesResultSchema,
  ListMaintenanceTasksResultSchema,
  MaintenanceTaskResultSchema,
  ManageActionResultSchema,
} from '../gen/maintenance_pb.js';
import { MaintenanceService } from '../gen/maintenance_v1_pb.js';
import { type Operation, StatusCode } from '../gen/operation_pb.js';

export interface Answer<Result> {
  /** Name of the status. */
  readonly status: string;
  readonly issues: readonly string[];
  readonly result: Result;
}

export class MaintenanceClient {
  readonly #client: Client;
  token: string;
  /** Database every call names; empty: none. */
  database = '';

  constructor(port: number, token: string, channel: ChannelCredentials = credentials.createInsecure()) {
    this.#client = new Client(`localhost:${port}`, channel, {
      'grpc.max_receive_message_length': 32 * 1024 * 1024,
      'grpc.max_send_message_length': 32 * 1024 * 1024,
    });
    this.token = token;
  }

  close(): void {
    this.#client.close();
  }

  login(user: string, password: string) {
    return this.#call(AuthService, 'login', LoginResultSchema, { user, password });
  }
  whoAmI() {
    return this.#call(DiscoveryService, 'whoAmI', WhoAmIResultSchema, {});
  }
  listDatabases() {
    return this.#call(CmsService, 'listDatabases', ListDatabasesResultSchema, {});
  }
  nodes() {
    return this.#call(MaintenanceService, 'listClusterNodes', ListClusterNodesResultSchema, {});
  }
  create(request: MessageInitShape<typeof CreateMaintenanceTaskRequestSchema>) {
    return this.#call(MaintenanceService, 'createMaintenanceTask', MaintenanceTaskResultSchema, request);
  }
  refresh(taskUid: string) {
    return this.#call(MaintenanceService, 'refreshMaintenanceTask', MaintenanceTaskResultSchema, { taskUid });
  }
  get(taskUid: string) {
    return this.#call(MaintenanceService, 'getMaintenanceTask', GetMaintenanceTaskResultSchema, { taskUid });
  }
  list(user: string) {
    return this.#call(MaintenanceService, 'listMaintenanceTasks', ListMaintenanceTasksResultSchema, { user });
  }
  complete(actionUids: MessageInitShape<typeof CompleteActionRequestSchema>['actionUids']) {
    return this.#call(MaintenanceService, 'completeAction', ManageActionResultSchema, { actionUids });
  }
  async drop(taskUid: string): Promise<Answer<null>> {
    const operation = await this.#send(MaintenanceService, 'dropMaintenanceTask', { taskUid });
    return { ...head(operation), result: null };
  }

  async #call<Desc extends DescMessage>(
    service: DescService,
    name: string,
    schema: Desc,
    request: object,
  ): Promise<Answer<MessageShape<Desc>>> {
    const operation = await this.#send(service, name, request);
    const result = operation.result === undefined ? undefined : anyUnpack(operation.result, schema);
    if (result === undefined) throw new Error('invalid nil source message');
    return { ...head(operation), result };
  }

  #send(service: DescService, name: string, request: object): Promise<Operation> {
    const method = definitionOf(service)[name];
    if (method === undefined) throw new Error(`there is no ${name}`);
    const metadata = new Metadata();
    if (this.token !== '') metadata.set('x-ydb-auth-ticket', this.token);
    if (this.database !== '') metadata.set('x-ydb-database', this.database);
    return new Promise((resolve, reject) => {
      this.#client.makeUnaryRequest<object, { operation: Operation }>(
        method.path,
        method.requestSerialize as (value: object) => Buffer,
        method.responseDeserialize as (bytes: Buffer) => { operation: Operation },
        request,
        metadata,
        (failure, response) =>
          failure !== null || response === undefined ? reject(failure) : resolve(response.operation),
      );
    });
  }
}

const head = (operation: Operation): Omit<Answer<null>, 'result'> => ({
  status: StatusCode[operation.status] ?? String(operation.status),
  issues: operation.issues.map((issue) => issue.message),
});
