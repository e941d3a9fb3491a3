/** `hello` and its older names: who this process is, what it can do, and (awaited or streamed) when that changes. */
import { calculateObjectSize, type Document, Long, type ObjectId } from 'bson';
import type { CommandContext, CommandSpec } from '../contracts.ts';
import { ServerError } from '../contracts.ts';
import { asFlag, asNumber, isDocument, typeName, wrongType } from './bson.ts';
import { negotiateCompression } from './compression.ts';
import { ClientConnection } from './connection.ts';
import {
  MAX_APP_NAME_BYTES,
  MAX_CLIENT_METADATA_BYTES,
  MAX_DOCUMENT_BYTES,
  MAX_INTERNAL_CLIENT_METADATA_BYTES,
  MAX_MESSAGE_BYTES,
  MAX_WRITE_BATCH,
  SESSION_TIMEOUT_MINUTES,
} from './limits.ts';
import { atLeast, wireVersionOf } from './versions.ts';

/** What `hello` needs from the authentication part and from the process. */
export interface HelloServices {
  /** The process's id in topologyVersion of a standalone. */
  readonly processId: ObjectId;
  readonly compressors: readonly string[];
  /** Without access control members are known by their word alone. */
  readonly trustsInternalClaim: boolean;
  /** Mechanisms of a user, in the server's order; undefined when there is no such user. */
  mechanismsOf(user: string, db: string): readonly string[] | undefined;
  /** Runs a login inside hello; undefined when it fails in any way. */
  speculate(context: CommandContext, login: Document): Promise<Document | undefined>;
  onClientMetadata(connection: ClientConnection, metadata: Document, compressors: readonly string[]): void;
}

/** The spec for `hello`, `isMaster` and `ismaster`. */
export function helloSpecs(services: HelloServices): readonly CommandSpec[] {
  const run = (context: CommandContext): Promise<Document> => hello(context, services);
  return [
    { name: 'hello', auth: 'none', access: 'any', run },
    { name: 'isMaster', aliases: ['ismaster'], auth: 'none', access: 'any', run },
  ];
}

/** The next request of a streamed `hello`: the same with the version the client just learned, or null. */
export function nextHello(command: Document, reply: Document): Document | null {
  const name = Object.keys(command)[0];
  if (name !== 'hello' && name !== 'isMaster' && name !== 'ismaster') return null;
  if (command['maxAwaitTimeMS'] === undefined || asNumber(reply['ok']) !== 1) return null;
  return { ...command, topologyVersion: reply['topologyVersion'] };
}

async function hello(context: CommandContext, services: HelloServices): Promise<Document> {
  const { command, connection, node } = context;
  takeMetadata(context, services);
  await awaitChange(context, services);
  const reply: Document = {};
  const compressors = compressionOf(command, services);
  if (compressors !== undefined) reply['compression'] = compressors;
  if (asFlag(command['helloOk'])) reply['helloOk'] = true;
  Object.assign(reply, stateFields(context, services));
  if (node.options['sharding']?.['clusterRole'] === 'configsvr') reply['configsvr'] = 2;
  Object.assign(reply, {
    maxBsonObjectSize: MAX_DOCUMENT_BYTES,
    maxMessageSizeBytes: MAX_MESSAGE_BYTES,
    maxWriteBatchSize: MAX_WRITE_BATCH,
    localTime: node.now(),
    logicalSessionTimeoutMinutes: SESSION_TIMEOUT_MINUTES,
    connectionId: connection.id,
    minWireVersion: 0,
    maxWireVersion: wireVersionOf(node.version),
    readOnly: false,
  });
  await addLogin(context, services, reply);
  return reply;
}

function stateFields(context: CommandContext, services: HelloServices): Document {
  const legacyNames = context.name !== 'hello';
  const { replication } = context.node;
  if (replication !== null) return replication.helloFields({ legacyNames, sni: context.connection.sni });
  return {
    [legacyNames ? 'ismaster' : 'isWritablePrimary']: true,
    topologyVersion: { processId: services.processId, counter: Long.ZERO },
  };
}

function compressionOf(command: Document, services: HelloServices): readonly string[] | undefined {
  const wanted = command['compression'];
  return Array.isArray(wanted) ? negotiateCompression(wanted, services.compressors) : undefined;
}

async function addLogin(context: CommandContext, services: HelloServices, reply: Document): Promise<void> {
  const name = context.command['saslSupportedMechs'];
  if (name !== undefined) {
    const [db, user] = splitUserName(name);
    const mechanisms = services.mechanismsOf(user, db);
    if (mechanisms !== undefined) reply['saslSupportedMechs'] = mechanisms;
  }
  const login = context.command['speculativeAuthenticate'];
  if (login === undefined) return;
  if (!isDocument(login)) throw wrongType('hello.speculativeAuthenticate', login, 'object');
  const inner = Object.keys(login)[0];
  if (inner === undefined)
    throw new ServerError(2, 'BadValue', 'Speculative authentication document is empty');
  if (inner !== 'saslStart' && inner !== 'authenticate') {
    throw new ServerError(51769, 'Location51769', `Unknown speculative authentication command: ${inner}`);
  }
  const answer = await services.speculate(context, login);
  if (answer !== undefined) reply['speculativeAuthenticate'] = answer;
}

function splitUserName(name: unknown): [string, string] {
  const text = isDocument(name) ? `${name['db']}.${name['user']}` : name;
  const dot = typeof text === 'string' ? text.indexOf('.') : -1;
  if (typeof text !== 'string' || dot < 0) {
    throw new ServerError(2, 'BadValue', "UserName must contain a '.' separated database.user pair");
  }
  return [text.slice(0, dot), text.slice(dot + 1)];
}

// ── client metadata ────────────────────────────────────────────────────────────────────────────────────────────────

function takeMetadata(context: CommandContext, services: HelloServices): void {
  const { connection, command } = context;
  if (!(connection instanceof ClientConnection)) return;
  const metadata = command['client'];
  const first = !connection.greeted;
  if (metadata !== undefined) {
    if (connection.clientMetadata !== undefined || !first) {
      throw new ServerError(
        186,
        'ClientMetadataCannotBeMutated',
        'The client metadata document may only be sent in the first hello',
      );
    }
    const limit =
      command['internalClient'] === undefined
        ? MAX_CLIENT_METADATA_BYTES
        : MAX_INTERNAL_CLIENT_METADATA_BYTES;
    assertMetadata(metadata, limit);
    connection.clientMetadata = metadata as Document;
    services.onClientMetadata(connection, metadata as Document, compressionOf(command, services) ?? []);
  }
  connection.greeted = true;
  connection.helloOk = asFlag(command['helloOk']);
  if (command['internalClient'] !== undefined && services.trustsInternalClaim) connection.internal = true;
}

function assertMetadata(metadata: unknown, limit: number): void {
  if (!isDocument(metadata)) {
    throw new ServerError(
      14,
      'TypeMismatch',
      `The client metadata document must be an object, found ${typeName(metadata)}`,
    );
  }
  if (calculateObjectSize(metadata) > limit) {
    throw new ServerError(
      185,
      'ClientMetadataDocumentTooLarge',
      `The client metadata document must be less then or equal to ${limit} bytes`,
    );
  }
  const name = (metadata['application'] as Document | undefined)?.['name'];
  if (typeof name === 'string' && Buffer.byteLength(name) > MAX_APP_NAME_BYTES) {
    throw new ServerError(
      184,
      'ClientMetadataAppNameTooLarge',
      `The 'application.name' field must be less then or equal to ${MAX_APP_NAME_BYTES} bytes in length`,
    );
  }
  for (const [section, fields] of [
    ['driver', ['name', 'version']],
    ['os', ['type']],
  ] as const) {
    const part = metadata[section];
    if (!isDocument(part)) throw missingMetadata(section);
    for (const field of fields)
      if (typeof part[field] !== 'string') throw missingMetadata(`${section}.${field}`);
  }
}

const missingMetadata = (field: string): ServerError =>
  new ServerError(
    183,
    'ClientMetadataMissingField',
    `Missing required field '${field}' in the client metadata document`,
  );

// ── awaiting a change ──────────────────────────────────────────────────────────────────────────────────────────────

async function awaitChange(context: CommandContext, services: HelloServices): Promise<void> {
  const { command, node } = context;
  const known = command['topologyVersion'];
  const wait = command['maxAwaitTimeMS'];
  if (known === undefined && wait === undefined) return;
  if (wait === undefined)
    throw new ServerError(
      31368,
      'Location31368',
      "A request with a 'topologyVersion' must include 'maxAwaitTimeMS'",
    );
  if (known === undefined)
    throw new ServerError(
      31368,
      'Location31368',
      "A request with 'maxAwaitTimeMS' must include a 'topologyVersion'",
    );
  const maxWait = waitOf(wait, node.version);
  if (!isDocument(known)) throw wrongType('hello.topologyVersion', known, 'object');
  const counter = known['counter'];
  if (!Long.isLong(counter)) throw wrongType('hello.topologyVersion.counter', counter, 'long');
  if (counter.isNegative())
    throw new ServerError(31372, 'Location31372', 'Received a negative topology version counter');
  const current = node.replication?.topologyVersion() ?? {
    processId: services.processId,
    counter: Long.ZERO,
  };
  if (!current.processId.equals(known['processId'])) return;
  if (node.replication === null) {
    if (!counter.isZero())
      throw new ServerError(
        51764,
        'Location51764',
        'Received a topology version counter that differs from the one of this standalone',
      );
    await pause(maxWait, context.signal);
    return;
  }
  if (counter.greaterThan(current.counter)) {
    throw new ServerError(
      31382,
      'Location31382',
      `Received a topology version with counter: ${counter} which is greater than the server topology version counter: ${current.counter}`,
    );
  }
  if (counter.equals(current.counter))
    await node.replication.awaitTopologyChange(counter, maxWait, context.signal);
}

function waitOf(value: unknown, version: string): number {
  const wait = asNumber(value);
  if (wait === undefined) throw wrongType('hello.maxAwaitTimeMS', value, 'long');
  if (wait >= 0) return wait;
  const message = `BSON field 'maxAwaitTimeMS' value must be >= 0, actual value '${wait}'`;
  throw atLeast(version, '8.2')
    ? new ServerError(2, 'BadValue', message)
    : new ServerError(51024, 'Location51024', message);
}

function pause(millis: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, millis);
    signal.addEventListener('abort', done, { once: true });
  });
}
