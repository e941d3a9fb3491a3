/**
 * The same replica set without Belay: what a careful script does with the same executables and the same files. It asks
 * often and does what it can side by side, so that it is no easy opponent.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { homedir } from 'node:os';
import path from 'node:path';
import { type Document, MongoClient } from 'mongodb';
import { processEnvironment } from '../src/agent/launch.ts';
import { SYSTEM_USERNAMES } from '../src/model/index.ts';
import { managedRoles, systemRoles } from '../src/provider/users.ts';
import { SIMULATOR_BIN } from '../test/support/stack.ts';
import { sleep, until } from './lib.ts';

/** Pauses between two looks at something that is about to come. */
const LOOK = 10;

/** Compiled code of the stand-ins is kept where `bin/belay` has its agents keep it: neither side starts colder. */
const COMPILE_CACHE =
  process.env['NODE_COMPILE_CACHE'] ??
  path.join(process.env['XDG_CACHE_HOME'] ?? path.join(homedir(), '.cache'), 'belay/compile');

/** Files of a member as Belay made them: configuration, certificate, authority, keyfile. */
export interface Template {
  readonly folder: string;
  readonly config: string;
}

/** Keeps what an agent wrote for its members, for sets of the same shape. */
export function keepTemplates(agentDir: string, into: string): readonly Template[] {
  const services = path.join(agentDir, 'services');
  return readdirSync(services).map((id) => {
    const folder = path.join(into, id);
    cpSync(path.join(services, id), folder, { recursive: true });
    const config = readFileSync(path.join(folder, 'mongod.conf'), 'utf8').replaceAll(
      path.join(services, id),
      '@FOLDER@',
    );
    return { folder, config };
  });
}

export interface Member {
  readonly port: number;
  readonly process: ChildProcess;
  readonly caFile: string;
}

export interface PlainSet {
  /** From the first file written to three healthy members and five users. */
  readonly millis: number;
  /** Moments on the way, in milliseconds from the start. */
  readonly moments: Readonly<Record<string, number>>;
  stop(): Promise<void>;
}

/** Starts a set of three and makes the system users, as fast as a script can. */
export async function plainSet(
  templates: readonly Template[],
  dir: string,
  ports: readonly number[],
  version: string,
): Promise<PlainSet> {
  const started = performance.now();
  const moments: Record<string, number> = {};
  const reached = (what: string): void => {
    moments[what] = Math.round(performance.now() - started);
  };
  const members = templates.map((template, i) =>
    startMember(template, path.join(dir, `m${i}`), ports[i] as number),
  );
  await bringUp(members, setNameOf(templates[0] as Template), version, {}, reached);
  const millis = performance.now() - started;
  return { millis, moments, stop: () => stopAll(members) };
}

/** From started processes to a healthy set with its users; gives the passwords of those. */
export async function bringUp(
  members: readonly Member[],
  set: string,
  version: string,
  extra: Document = {},
  reached: (what: string) => void = () => undefined,
): Promise<Passwords> {
  const strangers = await Promise.all(members.map((member) => firstConnection(member)));
  reached('listening');
  const hosts = members.map((member, _id) => ({ _id, host: `localhost:${member.port}` }));
  const config = { _id: set, version: 1, ...extra, members: hosts };
  await strangers[0]?.db('admin').command({ replSetInitiate: config });
  reached('initiated');
  const primary = await primaryAmong(strangers);
  reached('primary');
  const passwords = newPasswords();
  const monitor = await makeUsers(
    members[primary] as Member,
    strangers[primary] as MongoClient,
    version,
    passwords,
  );
  reached('users');
  await until('all members healthy', () => allHealthy(monitor), 60_000, LOOK);
  reached('healthy');
  await Promise.all([monitor, ...strangers].map((client) => client.close()));
  return passwords;
}

export function startMember(
  template: Template,
  folder: string,
  port: number,
  program: 'mongod' | 'mongos' = 'mongod',
  change: (config: string) => string = (config) => config,
): Member {
  cpSync(template.folder, folder, { recursive: true, filter: (file) => !/\.(log|json)$/.test(file) });
  const data = path.join(folder, 'data');
  mkdirSync(data);
  const config = path.join(folder, 'mongod.conf');
  const text = template.config
    .replaceAll('@FOLDER@', folder)
    .replace(/^( *port:).*$/m, `$1 ${port}`)
    .replace(/^( *dbPath:).*$/m, `$1 ${data}`);
  writeFileSync(config, change(text));
  const child = spawn(path.join(SIMULATOR_BIN, program), ['--config', config], {
    detached: true,
    stdio: 'ignore',
    env: processEnvironment({}, { ...process.env, NODE_COMPILE_CACHE: COMPILE_CACHE }),
  });
  return { port, process: child, caFile: path.join(folder, 'tls', 'ca.pem') };
}

export const setNameOf = ({ config }: Template): string =>
  /replSetName: *"?([^"\n]+)/.exec(config)?.[1] ?? 'rs0';

export function clientOf(
  member: Member,
  login?: { readonly user: string; readonly password: string },
): MongoClient {
  return new MongoClient(`mongodb://localhost:${member.port}/`, {
    directConnection: true,
    tls: true,
    tlsCAFile: member.caFile,
    ...(login === undefined
      ? {}
      : { auth: { username: login.user, password: login.password }, authSource: 'admin' }),
  });
}

export async function firstConnection(member: Member): Promise<MongoClient> {
  await until('a member listens', () => listens(member.port), 60_000, LOOK);
  const client = clientOf(member);
  await client.db('admin').command({ hello: 1 });
  return client;
}

function listens(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: '127.0.0.1', port });
    const end = (answer: boolean): void => {
      socket.destroy();
      resolve(answer);
    };
    socket.once('connect', () => end(true));
    socket.once('error', () => end(false));
  });
}

async function primaryAmong(clients: readonly MongoClient[]): Promise<number> {
  for (;;) {
    const replies = await Promise.all(clients.map((client) => client.db('admin').command({ hello: 1 })));
    const primary = replies.findIndex((reply) => reply['isWritablePrimary'] === true);
    if (primary >= 0) return primary;
    await sleep(LOOK);
  }
}

/** By system user. */
export type Passwords = ReadonlyMap<string, string>;

const newPasswords = (): Passwords =>
  new Map(SYSTEM_USERNAMES.map((user) => [user, randomBytes(24).toString('base64url')]));

/** The first user by the localhost exception, then roles and the other users; gives a client of the monitor's. */
async function makeUsers(
  member: Member,
  stranger: MongoClient,
  version: string,
  passwords: Passwords,
): Promise<MongoClient> {
  const login = (user: (typeof SYSTEM_USERNAMES)[number]) => ({
    user,
    password: passwords.get(user) as string,
  });
  const create = (user: (typeof SYSTEM_USERNAMES)[number]): Document => ({
    createUser: user,
    pwd: passwords.get(user),
    roles: systemRoles(user, version),
  });
  await stranger.db('admin').command(create('userAdmin'));
  const admin = clientOf(member, login('userAdmin'));
  for (const { role, privileges, roles } of managedRoles({ roles: [] })) {
    await admin.db('admin').command({ createRole: role, privileges, roles });
  }
  const others = SYSTEM_USERNAMES.filter((user) => user !== 'userAdmin');
  await Promise.all(others.map((user) => admin.db('admin').command(create(user))));
  await admin.close();
  return clientOf(member, login('clusterMonitor'));
}

async function allHealthy(monitor: MongoClient): Promise<boolean> {
  const status = await monitor.db('admin').command({ replSetGetStatus: 1 });
  const states = (status['members'] as Document[]).map((row) => `${row['stateStr']}`);
  return (
    states.filter((state) => state === 'PRIMARY').length === 1 &&
    states.every((state) => state === 'PRIMARY' || state === 'SECONDARY')
  );
}

export async function stopAll(members: readonly Member[]): Promise<void> {
  const exits = members.map((member) => new Promise((resolve) => member.process.once('exit', resolve)));
  for (const member of members) member.process.kill('SIGKILL');
  await Promise.all(exits);
}
