/**
 * The words of the agent channel: JSON texts over one WebSocket per agent and control plane, opened by the agent.
 *
 * Agent: `hello` (everything it has), then `report` with members that changed, `operation` when one moved on.
 * Control plane: `welcome`, then requests. Requests go both ways: `ask` with an id, answered by `reply` or `error`.
 * Every request with an effect carries the fence; the agent refuses an epoch older than it has seen (S9).
 * Secrets are revealed here and nowhere else on the way: a message built by hand prints `***` instead.
 */
import { BelayError, type RetryClass } from '../base/error.ts';
import { type Secret, secret } from '../base/secret.ts';
import type { Millis } from '../base/units.ts';
import type { HostFacts, OperationFacts } from '../clusters/facts.ts';
import type { Login, ManagedUser, MemberCommand, MemberSnapshot } from '../clusters/snapshot.ts';
import type { Fence, HostOperation, Proviso } from '../engine/ports.ts';
import { type MemberItem, ownerShape } from './facts.ts';
import * as is from './shape.ts';

export interface WireError {
  readonly code: string;
  readonly message: string;
  readonly retry: RetryClass;
  readonly fix?: string;
}

/** `v` is the sender's protocol version; another one is refused with the reason. */
export interface Hello {
  readonly t: 'hello';
  readonly v: number;
  /** Changes with every start of the agent's process. */
  readonly session: string;
  readonly host: HostFacts;
  readonly members: readonly MemberItem[];
}
export type AgentMessage =
  | Hello
  | {
      readonly t: 'report';
      readonly host?: HostFacts;
      readonly members?: readonly MemberItem[];
      readonly gone?: readonly string[];
    }
  | {
      readonly t: 'operation';
      readonly id: string;
      readonly clusterUid: string | null;
      readonly facts: OperationFacts;
    }
  | RequestMessage;

export type ServerMessage =
  | { readonly t: 'welcome'; readonly v: number; readonly controlPlane: string }
  | RequestMessage;

export type RequestMessage =
  | { readonly t: 'ask'; readonly id: number; readonly method: string; readonly params: unknown }
  | { readonly t: 'reply'; readonly id: number; readonly result: unknown }
  | { readonly t: 'error'; readonly id: number; readonly error: WireError };

/** What the control plane asks an agent. */
export type AgentAsk =
  | {
      readonly method: 'publish';
      readonly serviceId: string;
      readonly snapshot: MemberSnapshot;
      readonly fence: Fence;
      readonly proviso?: Proviso;
    }
  | {
      readonly method: 'run';
      readonly serviceId: string;
      readonly command: MemberCommand;
      readonly timeoutMillis: Millis;
      readonly stepId: string;
      readonly fence: Fence;
    }
  | { readonly method: 'startOperation'; readonly operation: HostOperation; readonly fence: Fence }
  | { readonly method: 'operation'; readonly id: string; readonly fence?: Fence }
  | { readonly method: 'services' }
  /** The authority changes: it is to get another certificate and bundle by `renew`. */
  | { readonly method: 'renewIdentity' };

/** Plain data that holds revealed secrets: for the wire and for the agent's 0600 cache only. */
export type Revealed = Readonly<Record<string, unknown>>;

// ── secrets in and out ─────────────────────────────────────────────────────────────────────────────────────────────

const revealLogin = (login: Login): Revealed => ({ ...login, password: login.password.reveal() });
const revealUser = (user: ManagedUser): Revealed => ({ ...user, password: user.password?.reveal() ?? null });

/** A snapshot with its secrets in the open. */
export function revealSnapshot(snapshot: MemberSnapshot): Revealed {
  return {
    ...snapshot,
    certificatePem: snapshot.certificatePem.reveal(),
    keyFile: snapshot.keyFile.reveal(),
    monitor: revealLogin(snapshot.monitor),
    nextMonitor: snapshot.nextMonitor === null ? null : revealLogin(snapshot.nextMonitor),
  };
}

/** A command with its secrets in the open. */
export function revealCommand(command: MemberCommand): Revealed {
  switch (command.kind) {
    case 'initiate':
      return { ...command };
    case 'createFirstUser':
      return { ...command, user: revealUser(command.user) };
    case 'reconcileUsers':
      return { ...command, as: revealLogin(command.as), users: command.users.map(revealUser) };
    case 'verifyLogin':
    case 'reconfig':
    case 'rotateCertificates':
    case 'addShard':
    case 'setBalancer':
    case 'setFcv':
    case 'stepDown':
      return { ...command, as: revealLogin(command.as) };
  }
}

const login = is.object({ user: is.text, db: is.text, password: is.text });
const roleRefs = is.list(is.object({ role: is.text, db: is.text }));
const user = is.object({
  user: is.text,
  db: is.text,
  password: is.nullable(is.text),
  roles: roleRefs,
});
const config = is.object({ _id: is.text, version: is.number, members: is.list(is.map, 50) });

const snapshotShape = is.object({
  configVersion: is.number,
  clusterUid: is.text,
  cluster: is.text,
  member: is.text,
  replicaSet: is.text,
  role: is.oneOf('replicaSet', 'shardServer', 'configServer', 'router'),
  product: is.oneOf('mongod', 'mongos'),
  configServers: is.optional(is.text),
  version: is.text,
  run: is.oneOf('running', 'stopped'),
  hostname: is.text,
  port: is.port,
  bindIp: is.list(is.text),
  tlsMode: is.oneOf('disabled', 'allowTLS', 'preferTLS', 'requireTLS'),
  cacheGb: is.number,
  userConfig: is.map,
  limits: is.object({ memoryBytes: is.nullable(is.number), cpus: is.nullable(is.number) }),
  caPem: is.text,
  certificatePem: is.text,
  keyFile: is.text,
  monitor: login,
  nextMonitor: is.optional(is.nullable(login)),
  hash: is.text,
  restartToken: is.optional(is.nullable(is.text)),
  certificatesOnline: is.optional(is.truth),
});

const commandShape = is.byKind({
  initiate: is.object({ config }),
  createFirstUser: is.object({ user }),
  reconcileUsers: is.object({
    as: login,
    roles: is.list(
      is.object({
        role: is.text,
        db: is.text,
        privileges: is.list(is.anything),
        roles: roleRefs,
        authenticationRestrictions: is.optional(is.list(is.anything)),
      }),
    ),
    users: is.list(user),
    drop: is.list(is.object({ user: is.text, db: is.text })),
  }),
  verifyLogin: is.object({ as: login }),
  rotateCertificates: is.object({ as: login, configVersion: is.number }),
  reconfig: is.object({ as: login, config, maxTimeMillis: is.number, force: is.optional(is.truth) }),
  addShard: is.object({ as: login, shard: is.text }),
  setBalancer: is.object({
    as: login,
    enabled: is.truth,
    maxTimeMillis: is.number,
    autoMerge: is.optional(is.truth),
  }),
  setFcv: is.object({ as: login, version: is.text }),
  stepDown: is.object({ as: login, forSeconds: is.number, catchUpSeconds: is.number }),
});

type Open<T> =
  T extends Secret<infer V>
    ? V
    : T extends readonly (infer E)[]
      ? readonly Open<E>[]
      : T extends object
        ? { readonly [K in keyof T]: Open<T[K]> }
        : T;

const hideLogin = (open: Open<Login>): Login => ({ ...open, password: secret(open.password) });
const hideUser = (open: Open<ManagedUser>): ManagedUser => ({
  ...open,
  password: open.password === null ? null : secret(open.password),
});

/** Reads a snapshot from the wire or the cache; BelayError `ProtocolError` when it is none. */
export function hideSnapshot(value: unknown): MemberSnapshot {
  snapshotShape(value, 'snapshot');
  const open = value as Open<MemberSnapshot>;
  return {
    ...(open as unknown as MemberSnapshot),
    certificatePem: secret(open.certificatePem),
    keyFile: secret(open.keyFile),
    monitor: hideLogin(open.monitor),
    nextMonitor: open.nextMonitor == null ? null : hideLogin(open.nextMonitor),
    // A snapshot kept by an agent that did not know of restarts yet.
    restartToken: open.restartToken ?? null,
    certificatesOnline: open.certificatesOnline ?? false,
  };
}

/** Reads a command from the wire; BelayError `ProtocolError` when it is none. */
export function hideCommand(value: unknown): MemberCommand {
  commandShape(value, 'command');
  const open = value as { readonly kind: MemberCommand['kind'] };
  switch (open.kind) {
    case 'initiate':
      return open as MemberCommand;
    case 'createFirstUser': {
      const first = open as Open<Extract<MemberCommand, { kind: 'createFirstUser' }>>;
      return { kind: 'createFirstUser', user: hideUser(first.user) };
    }
    case 'reconcileUsers': {
      const all = open as Open<Extract<MemberCommand, { kind: 'reconcileUsers' }>>;
      return { ...all, as: hideLogin(all.as), users: all.users.map(hideUser) } as MemberCommand;
    }
    case 'verifyLogin':
    case 'reconfig':
    case 'rotateCertificates':
    case 'addShard':
    case 'setBalancer':
    case 'setFcv':
    case 'stepDown': {
      const plain = open as unknown as { readonly as: Open<Login> };
      return { ...plain, as: hideLogin(plain.as) } as unknown as MemberCommand;
    }
  }
}

// ── requests ───────────────────────────────────────────────────────────────────────────────────────────────────────

const fence = is.object({ lease: is.text, epoch: is.number });
const serviceSpec = is.object({
  hostname: is.text,
  host: is.nullable(is.text),
  address: is.text,
  port: is.port,
  portFixed: is.truth,
  owner: ownerShape,
  artifact: is.map,
  prepare: is.list(is.text),
  product: is.oneOf('mongod', 'mongos'),
  environment: is.record(is.text),
  readiness: is.list(is.text),
  volume: is.object({
    name: is.text,
    mountPath: is.text,
    sizeBytes: is.nullable(is.number),
    id: is.nullable(is.text),
  }),
  resources: is.object({ cpus: is.nullable(is.number), memoryBytes: is.nullable(is.number) }),
  version: is.text,
});
const operationShape = is.byKind({
  import: is.object({ id: is.text, spec: serviceSpec }),
  deploy: is.object({
    id: is.text,
    serviceId: is.text,
    spec: serviceSpec,
    unlessPrimary: is.optional(is.truth),
  }),
  growVolume: is.object({
    id: is.text,
    volumeId: is.text,
    clusterUid: is.text,
    member: is.text,
    sizeBytes: is.number,
  }),
  deleteRuntime: is.object({ id: is.text, serviceId: is.text, clusterUid: is.text }),
  deleteVolume: is.object({ id: is.text, volumeId: is.text, clusterUid: is.text, member: is.text }),
});
const paramShapes: Readonly<Record<AgentAsk['method'], is.Shape>> = {
  publish: is.object({
    serviceId: is.text,
    snapshot: is.map,
    fence,
    proviso: is.optional(is.object({ unlessPrimary: is.optional(is.truth) })),
  }),
  run: is.object({
    serviceId: is.text,
    command: is.map,
    timeoutMillis: is.number,
    stepId: is.text,
    fence,
  }),
  startOperation: is.object({ operation: operationShape, fence }),
  operation: is.object({ id: is.text, fence: is.optional(fence) }),
  services: is.anything,
  renewIdentity: is.anything,
};

/** A request's method and parameters for the wire. */
export function encodeAsk(ask: AgentAsk): { readonly method: string; readonly params: unknown } {
  const { method, ...params } = ask;
  if (ask.method === 'publish')
    return { method, params: { ...params, snapshot: revealSnapshot(ask.snapshot) } };
  if (ask.method === 'run') return { method, params: { ...params, command: revealCommand(ask.command) } };
  return { method, params };
}

/** The request as the agent sees it; BelayError `ProtocolError` for anything else, also a method it does not know. */
export function decodeAsk(method: string, params: unknown): AgentAsk {
  if (!Object.hasOwn(paramShapes, method)) return is.misfit('method', 'one this agent knows');
  paramShapes[method as AgentAsk['method']](params, method);
  const plain = params as Record<string, unknown>;
  if (method === 'publish') {
    return { ...plain, method, snapshot: hideSnapshot(plain['snapshot']) } as unknown as AgentAsk;
  }
  if (method === 'run') {
    return { ...plain, method, command: hideCommand(plain['command']) } as unknown as AgentAsk;
  }
  return { ...plain, method } as unknown as AgentAsk;
}

// ── errors ─────────────────────────────────────────────────────────────────────────────────────────────────────────

export function encodeError(error: BelayError): WireError {
  const { code, message, retry, fix } = error;
  return fix === undefined ? { code, message, retry } : { code, message, retry, fix };
}

export function decodeError(error: WireError): BelayError {
  const { code, message, retry, fix } = error;
  return new BelayError(code, message, fix === undefined ? { retry } : { retry, fix });
}

// ── messages ───────────────────────────────────────────────────────────────────────────────────────────────────────

const messages: Readonly<Record<string, is.Shape>> = {
  hello: is.object({ v: is.number, session: is.text, host: is.map, members: is.list(is.map) }),
  report: is.object({
    host: is.optional(is.map),
    members: is.optional(is.list(is.map)),
    gone: is.optional(is.list(is.text)),
  }),
  operation: is.object({ id: is.text, clusterUid: is.nullable(is.text), facts: is.map }),
  welcome: is.object({ v: is.number, controlPlane: is.text }),
  ask: is.object({ id: is.number, method: is.text }),
  reply: is.object({ id: is.number }),
  error: is.object({
    id: is.number,
    error: is.object({
      code: is.text,
      message: is.text,
      retry: is.oneOf('later', 'never', 'unknown-outcome'),
      fix: is.optional(is.text),
    }),
  }),
};

/** Parses one message; BelayError `ProtocolError` when it is none. Facts inside are checked by their readers. */
export function decodeMessage(data: string): AgentMessage | ServerMessage {
  let value: unknown;
  try {
    value = JSON.parse(data);
  } catch {
    return is.misfit('message', 'JSON');
  }
  is.map(value, 'message');
  const { t } = value as { t?: unknown };
  if (typeof t !== 'string' || !Object.hasOwn(messages, t)) return is.misfit('message.t', 'a known kind');
  (messages[t] as is.Shape)(value, t);
  return value as AgentMessage | ServerMessage;
}
