/** The replSet* commands of clients and administrators. */
import { randomInt } from 'node:crypto';
import { type Document, Int32, ObjectId, Timestamp } from 'bson';
import type { CommandContext, CommandSpec, Privilege } from '../contracts.ts';
import { ServerError } from '../contracts.ts';
import { normalHost } from '../member/config-parse.ts';
import { configCommitted } from '../member/leader.ts';
import { isWritable, selfConfig } from '../member/turn.ts';
import {
  describeDefaults,
  hasExplicitDefault,
  modesOf,
  storeDefaults,
  storedDefaults,
} from './default-concerns.ts';
import type { Runtime } from './runtime.ts';
import { statusDocument } from './status.ts';
import { configDocument, flag, numberOf, plain } from './values.ts';

const cluster =
  (...actions: string[]) =>
  (): readonly Privilege[] => [{ resource: { cluster: true }, actions }];

type Run = (context: CommandContext, runtime: Runtime) => Promise<Document> | Document;

/** One admin command that runs in every state. */
const spec = (runtime: Runtime, name: string, actions: readonly string[], run: Run): CommandSpec => ({
  name,
  adminOnly: true,
  auth: cluster(...actions),
  access: 'any',
  run: (context) => run(context, runtime),
});

const isDocument = (value: unknown): value is Document =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !('_bsontype' in value);

/** `getLastErrorDefaults` other than {w: 1, wtimeout: 0} is long gone. */
function hasOldDefaults(config: Document): boolean {
  const given = plain((config['settings'] as Document | undefined)?.['getLastErrorDefaults']) as
    | Document
    | undefined;
  if (given === undefined) return false;
  return (given['w'] ?? 1) !== 1 || (given['wtimeout'] ?? 0) !== 0 || given['j'] === true;
}

// ── configuration ──────────────────────────────────────────────────────────────────────────────────────────────────

async function initiate({ command, node }: CommandContext, runtime: Runtime): Promise<Document> {
  const given: unknown = command['replSetInitiate'];
  const empty = !isDocument(given) || Object.keys(given).length === 0;
  const own = runtime.state.address;
  const document = empty
    ? { _id: runtime.state.setName, version: 1, members: [{ _id: 0, host: own }] }
    : plain(given);
  if (!empty && hasOldDefaults(given)) {
    node.logger.log('F', '-', 23089, 'conn', 'Fatal assertion', { msgid: 5624101 });
    node.shutdown(14);
  }
  await runtime.command({ kind: 'initiate', document, newSetId: new ObjectId().toHexString() });
  return empty
    ? { info2: 'no configuration specified. Using a default configuration for the set', me: own }
    : {};
}

async function reconfig({ command, node, signal }: CommandContext, runtime: Runtime): Promise<Document> {
  const given: unknown = command['replSetReconfig'];
  if (!isDocument(given)) throw new ServerError(2, 'BadValue', 'no configuration specified');
  if (hasOldDefaults(given)) {
    throw new ServerError(
      5624102,
      'Location5624102',
      'Failed to reconfig: settings.getLastErrorDefaults must be unset or { w: 1, wtimeout: 0 }',
    );
  }
  const w = plain((storedDefaults(node.data)?.['defaultWriteConcern'] as Document | undefined)?.['w']);
  const maxTime = numberOf(command['maxTimeMS']) ?? 0;
  await runtime.command(
    {
      kind: 'reconfig',
      document: plain(given),
      options: {
        force: flag(command['force']),
        maxTimeMillis: maxTime > 0 ? maxTime : null,
        explicitDefault: hasExplicitDefault(node.data),
        defaultMode: typeof w === 'string' && w !== 'majority' ? w : null,
        jump: randomInt(100_000),
      },
    },
    signal,
  );
  return {};
}

function getConfig({ command, node }: CommandContext, runtime: Runtime): Document {
  const { state } = runtime;
  if (state.config === null) {
    throw new ServerError(94, 'NotYetInitialized', 'no replset config has been received');
  }
  const all = flag(command['$_internalIncludeNewlyAdded']);
  if (all && !node.testCommandsEnabled) {
    throw new ServerError(
      72,
      'InvalidOptions',
      'The $_internalIncludeNewlyAdded parameter is only allowed with test commands enabled',
    );
  }
  const asks = flag(command['commitmentStatus']);
  if (asks && state.leader === null) {
    throw new ServerError(10107, 'NotWritablePrimary', 'commitmentStatus is only supported on primary.');
  }
  return {
    config: configDocument(state.config, { forClients: !all }),
    ...(asks ? { commitmentStatus: configCommitted(state) } : {}),
  };
}

function getStatus({ command, node }: CommandContext, runtime: Runtime): Document {
  return statusDocument({
    state: runtime.state,
    now: runtime.now(),
    startedAt: node.startedAt.getTime(),
    cloning: runtime.cloning,
    withInitialSync: command['initialSync'] === undefined || flag(command['initialSync']),
  });
}

// ── roles ──────────────────────────────────────────────────────────────────────────────────────────────────────────

async function stepDown({ command, signal }: CommandContext, runtime: Runtime): Promise<Document> {
  const secs = numberOf(command['replSetStepDown']) ?? 0;
  const catchUp = command['secondaryCatchUpPeriodSecs'];
  await runtime.command(
    {
      kind: 'stepDown',
      secs: Math.trunc(secs),
      catchUpSecs: catchUp === undefined ? null : Math.trunc(numberOf(catchUp) ?? 0),
      force: flag(command['force']),
    },
    signal,
  );
  return {};
}

async function syncFrom({ command }: CommandContext, runtime: Runtime): Promise<Document> {
  const given: unknown = command['replSetSyncFrom'];
  if (typeof given !== 'string') {
    throw new ServerError(2, 'BadValue', 'replSetSyncFrom takes a host:port string');
  }
  return await runtime.command({ kind: 'syncFrom', host: hostOf(given) });
}

function hostOf(text: string): string {
  try {
    return normalHost('replSetSyncFrom', text);
  } catch (failure) {
    throw new ServerError(9, 'FailedToParse', failure instanceof Error ? failure.message : String(failure));
  }
}

function assertInitiated(runtime: Runtime): void {
  if (runtime.state.config === null) {
    throw new ServerError(94, 'NotYetInitialized', 'no replset config has been received');
  }
}

// ── default concerns ───────────────────────────────────────────────────────────────────────────────────────────────

function setDefaults({ command, node }: CommandContext, runtime: Runtime): Document {
  const write: unknown = command['defaultWriteConcern'];
  const read: unknown = command['defaultReadConcern'];
  const { state } = runtime;
  storeDefaults(
    node.data,
    { ...(isDocument(write) ? { write } : {}), ...(isDocument(read) ? { read } : {}) },
    {
      stamp: () => runtime.nextOpTime(state.term),
      now: node.now(),
      clusterTime: runtime.clusterTime,
      modes: modesOf(state),
    },
  );
  return describeDefaults(node.data, runtime.state, node.now());
}

/** All of them. */
export function adminCommands(runtime: Runtime): readonly CommandSpec[] {
  const configure = ['replSetConfigure'];
  const change = ['replSetStateChange'];
  const read = ['replSetGetStatus'];
  return [
    spec(runtime, 'replSetInitiate', configure, initiate),
    spec(runtime, 'replSetReconfig', configure, reconfig),
    spec(runtime, 'replSetGetConfig', ['replSetGetConfig'], getConfig),
    spec(runtime, 'replSetGetStatus', read, getStatus),
    spec(runtime, 'replSetGetRBID', read, () => {
      assertInitiated(runtime);
      return { rbid: new Int32(runtime.state.rbid) };
    }),
    spec(runtime, 'replSetStepDown', change, stepDown),
    spec(runtime, 'replSetFreeze', change, ({ command }) =>
      runtime.command({ kind: 'freeze', secs: Math.trunc(numberOf(command['replSetFreeze']) ?? 0) }),
    ),
    spec(runtime, 'replSetMaintenance', change, ({ command }) =>
      runtime.command({ kind: 'maintenance', on: flag(command['replSetMaintenance']) }),
    ),
    spec(runtime, 'replSetSyncFrom', change, syncFrom),
    spec(runtime, 'replSetAbortPrimaryCatchUp', change, () => runtime.command({ kind: 'abortCatchUp' })),
    spec(runtime, 'replSetStepUp', change, ({ command }) =>
      runtime.command({ kind: 'stepUp', skipDryRun: flag(command['skipDryRun']) }),
    ),
    spec(runtime, 'replSetResizeOplog', ['replSetResizeOplog'], ({ command }) => resizeOplog(command)),
    spec(runtime, 'getDefaultRWConcern', ['getDefaultRWConcern'], ({ node }) =>
      describeDefaults(node.data, runtime.state, node.now()),
    ),
    {
      ...spec(runtime, 'setDefaultRWConcern', ['setDefaultRWConcern'], setDefaults),
      access: 'write',
    },
    spec(runtime, 'appendOplogNote', ['appendOplogNote'], appendNote),
    ...testCommands(runtime),
  ];
}

/** A no-op, so that the log reaches a cluster time somebody waits for; `maxClusterTime`: only when it has not yet. */
function appendNote({ command }: CommandContext, runtime: Runtime): Document {
  const data: unknown = command['data'];
  const until: unknown = command['maxClusterTime'];
  if (!isWritable(runtime.state)) throw new ServerError(10107, 'NotWritablePrimary', 'not primary');
  runtime.appendNote(isDocument(data) ? data : {}, until instanceof Timestamp ? until : null);
  return {};
}

const MIN_OPLOG_MB = 990;

function resizeOplog(command: Document): Document {
  const size = numberOf(command['size']);
  if (size !== undefined && size < MIN_OPLOG_MB) {
    throw new ServerError(
      72,
      'InvalidOptions',
      `BSON field 'size' value must be >= ${MIN_OPLOG_MB}, actual value '${size}'`,
    );
  }
  return {};
}

/** replSetTest, only with test commands: waits for a member state. */
function testCommands(runtime: Runtime): readonly CommandSpec[] {
  return [
    spec(runtime, 'replSetTest', ['internal'], ({ node }) => {
      if (!node.testCommandsEnabled) {
        throw new ServerError(59, 'CommandNotFound', "no such command: 'replSetTest'");
      }
      return { self: selfConfig(runtime.state)?.host ?? '' };
    }),
  ];
}
