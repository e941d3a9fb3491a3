/**
 * What an agent does with its member's database, command by command as the real one does it over loopback: idempotent,
 * looking first, and saying `unknown` when the answer of a write was lost. All by callbacks.
 */
import { refused, whenStale } from '../agent/commands/refusals.ts';
import type {
  CommandOutcome,
  Login,
  ManagedRole,
  ManagedUser,
  MemberCommand,
  ReplSetConfig,
} from '../clusters/index.ts';
import type { Refusal } from '../simulator/member/types.ts';
import type { Change, StoredUser } from './data.ts';
import type { Answer, Mongod } from './mongod.ts';
import { essence, machineConfig, plainConfig } from './observer.ts';
import type { Timeline } from './timeline.ts';

export interface CommandContext {
  readonly mongod: Mongod;
  readonly timeline: Timeline;
  /** False once time is up or a newer epoch came: nothing more is sent. */
  readonly alive: () => boolean;
  /** Whether this member's machine reaches a member by its name. */
  readonly reaches: (host: string) => boolean;
  readonly newSetId: () => string;
  /** A planted bug: reconfigs are forced. */
  readonly forces: boolean;
}
type Done = (outcome: CommandOutcome) => void;
type Of<K extends MemberCommand['kind']> = Extract<MemberCommand, { kind: K }>;

export const done = (result: Readonly<Record<string, unknown>> = {}): CommandOutcome => ({
  kind: 'done',
  result,
});
export const unknown = (message: string): CommandOutcome => ({ kind: 'unknown', message });

export const byServer = ({ code, codeName, message }: Refusal): CommandOutcome =>
  refused(code, codeName, message);

/** The connection broke before anything was sent, or a mere look did. */
export const noServer = (codeName = 'MongoNetworkError'): CommandOutcome => ({
  kind: 'refused',
  code: null,
  codeName,
  message: 'the member does not answer',
  class: 'transient',
});

/** Runs one command; calls once. */
export function runCommand(context: CommandContext, command: MemberCommand, end: Done): void {
  if (context.mongod.phase !== 'listening') {
    end(noServer());
    return;
  }
  switch (command.kind) {
    case 'initiate':
      initiate(context, command.config, end);
      return;
    case 'createFirstUser':
      createFirstUser(context, command.user, end);
      return;
    case 'reconcileUsers':
      reconcileUsers(context, command, end);
      return;
    case 'verifyLogin':
      end(login(context.mongod, command.as) ?? done());
      return;
    case 'reconfig':
      reconfig(context, command, end);
      return;
    case 'setFcv':
      setFcv(context, command, end);
      return;
    case 'stepDown':
      stepDown(context, command, end);
      return;
    default:
      end(refused(59, 'CommandNotFound', `no such command: ${(command as { kind: string }).kind}`));
  }
}

// ── the set ────────────────────────────────────────────────────────────────────────────────────────────────────────

function initiate(context: CommandContext, config: ReplSetConfig, end: Done): void {
  const { mongod, reaches, newSetId } = context;
  const existing = judge(mongod, config);
  if (existing !== null) {
    end(existing);
    return;
  }
  const missing = config.members.find(({ host }) => !reaches(host));
  if (missing !== undefined) {
    end(refused(74, 'NodeNotFound', `${missing.host} cannot be reached from here`));
    return;
  }
  const document = machineConfig(config);
  mongod.command({ kind: 'initiate', document, newSetId: newSetId() }, (answer) => {
    if (answer.kind === 'done') end(done({ initiated: true }));
    else if (answer.kind === 'lost') end(unknown('the connection broke'));
    else if (answer.refusal.code !== 23) end(byServer(answer.refusal));
    else end(judge(mongod, config) ?? refused(109, 'ConfigurationInProgress', 'another one is under way'));
  });
}

/** Null: not a member of any set yet. */
function judge(mongod: Mongod, config: ReplSetConfig): CommandOutcome | null {
  const current = mongod.machine.config;
  if (current === null) return null;
  const hosts = (c: { readonly members: readonly { readonly host: string }[] }): string =>
    c.members
      .map((m) => m.host)
      .sort()
      .join();
  const same = current.setName === config._id && hosts(current) === hosts(config);
  return same
    ? done({ initiated: false, already: true })
    : refused(23, 'AlreadyInitialized', `already initialized as ${current.setName}`);
}

function reconfig(context: CommandContext, command: Of<'reconfig'>, end: Done): void {
  const { mongod } = context;
  const problem = login(mongod, command.as);
  if (problem !== null) {
    end(problem);
    return;
  }
  const stored = (): ReplSetConfig | null => {
    const now = mongod.machine.config === null ? null : plainConfig(mongod.machine.config);
    return now?.version === command.config.version && essence(now) === essence(command.config) ? now : null;
  };
  const before = stored();
  if (before !== null) {
    end(done({ already: true, ...termOf(before) }));
    return;
  }
  const document = machineConfig(command.config);
  const options = {
    force: context.forces,
    maxTimeMillis: command.maxTimeMillis,
    explicitDefault: false,
    defaultMode: null,
    jump: 0,
  };
  mongod.command({ kind: 'reconfig', document, options }, (answer) => {
    const { version } = command.config;
    const after = stored();
    if (answer.kind === 'done') end(done({ version, ...termOf(after) }));
    else if (answer.kind === 'lost') end(unknown('the connection broke'));
    else if (!/failed to propagate/.test(answer.refusal.message)) end(whenStale(byServer(answer.refusal)));
    else end(after === null ? unknown(answer.refusal.message) : done({ version, ...termOf(after) }));
  });
}

const termOf = (config: ReplSetConfig | null): { readonly term?: number } =>
  config?.term === undefined ? {} : { term: config.term };

function setFcv({ mongod, timeline }: CommandContext, command: Of<'setFcv'>, end: Done): void {
  const problem = notPrimary(mongod) ?? login(mongod, command.as);
  if (problem !== null) {
    end(problem);
    return;
  }
  if (mongod.data.fcv === command.version) {
    end(done({ already: true }));
    return;
  }
  mongod.write({ kind: 'fcv', version: command.version }, timeline.now + WRITE_LIMIT, (answer) => {
    if (answer.kind === 'done') end(done({ version: command.version }));
    else end(answer.kind === 'lost' ? unknown('the connection broke') : byServer(answer.refusal));
  });
}

function stepDown(context: CommandContext, command: Of<'stepDown'>, end: Done): void {
  const { mongod } = context;
  const problem = login(mongod, command.as);
  if (problem !== null) {
    end(problem);
    return;
  }
  if (!mongod.writable) {
    end(done({ already: true }));
    return;
  }
  const { forSeconds: secs, catchUpSeconds: catchUpSecs } = command;
  mongod.command({ kind: 'stepDown', secs, catchUpSecs, force: false }, (answer) => {
    if (answer.kind === 'done') end(done());
    else if (answer.kind === 'lost') end(unknown('the connection broke'));
    else if (answer.refusal.code === 10107) end(done({ already: true }));
    else end(byServer(answer.refusal));
  });
}

// ── users ──────────────────────────────────────────────────────────────────────────────────────────────────────────

const nameOf = ({ user, db }: { readonly user: string; readonly db: string }): string => `${db}.${user}`;

/** Null: the login works here, by the data this member has. */
export function login({ data, phase }: Mongod, as: Login): CommandOutcome | null {
  if (phase !== 'listening') return noServer();
  const known = data.users.get(nameOf(as));
  return known !== undefined && known.password === as.password.reveal()
    ? null
    : refused(18, 'AuthenticationFailed', 'Authentication failed.');
}

const notPrimary = (mongod: Mongod): CommandOutcome | null => {
  if (mongod.phase !== 'listening') return noServer();
  return mongod.writable ? null : refused(10107, 'NotWritablePrimary', 'this member is not the primary');
};

function createFirstUser({ mongod, timeline }: CommandContext, user: ManagedUser, end: Done): void {
  const elsewhere = notPrimary(mongod);
  if (elsewhere !== null) {
    end(elsewhere);
    return;
  }
  const check = (): void => {
    const as = { user: user.user, db: user.db, password: user.password as Login['password'] };
    end(login(mongod, as) ?? done({ created: false, already: true }));
  };
  if (mongod.data.users.size > 0) {
    check();
    return;
  }
  mongod.write({ kind: 'user', user: stored(user) }, timeline.now + WRITE_LIMIT, (answer) => {
    if (answer.kind === 'done') end(done({ created: true }));
    else if (answer.kind === 'refused') end(byServer(answer.refusal));
    else check();
  });
}

/** The driver gives up on a write's majority only with the command's own time. */
const WRITE_LIMIT = 60_000;

const stored = (user: ManagedUser): StoredUser => ({
  name: nameOf(user),
  password: user.password?.reveal() ?? null,
  roles: user.roles,
});

function reconcileUsers(context: CommandContext, command: Of<'reconcileUsers'>, end: Done): void {
  const { mongod, alive, timeline } = context;
  const problem = notPrimary(mongod) ?? login(mongod, command.as);
  if (problem !== null) {
    end(problem);
    return;
  }
  const todo = changes(mongod, command);
  const next = (): void => {
    const change = todo.shift();
    if (change === undefined) {
      end(done());
      return;
    }
    if (!alive()) {
      end(unknown('it was cut off'));
      return;
    }
    mongod.write(change, timeline.now + WRITE_LIMIT, (answer: Answer) => {
      if (answer.kind === 'done') next();
      else end(answer.kind === 'lost' ? unknown('the connection broke') : byServer(answer.refusal));
    });
  };
  next();
}

/** Only what differs is written; order of roles means nothing. */
function changes({ data }: Mongod, command: Of<'reconcileUsers'>): Change[] {
  const sorted = (list: readonly unknown[]): string =>
    JSON.stringify(list.map((x) => JSON.stringify(x)).sort());
  const roleText = (role: ManagedRole): string =>
    JSON.stringify([sorted(role.privileges), sorted(role.roles), role.authenticationRestrictions ?? []]);
  const found: Change[] = [];
  for (const role of command.roles) {
    const known = data.roles.get(`${role.db}.${role.role}`);
    if (known === undefined || roleText(known) !== roleText(role)) found.push({ kind: 'role', role });
  }
  for (const user of command.users) {
    const known = data.users.get(nameOf(user));
    const wanted = stored(user);
    const same = known?.password === wanted.password && sorted(known.roles) === sorted(wanted.roles);
    if (!same) found.push({ kind: 'user', user: wanted });
  }
  for (const user of command.drop) {
    if (data.users.has(nameOf(user))) found.push({ kind: 'dropUser', name: nameOf(user) });
  }
  return found;
}
