/** The profiler: levels by database, and what it wrote down, readable as `<db>.system.profile`. */
import type { Document } from 'bson';
import type { CommandContext } from '../contracts.ts';
import { commandNamespace } from './namespaces.ts';

const DEFAULT_SLOW_MILLIS = 100;
/** Entries kept of one database; the oldest goes first. */
const MOST = 500;
/** The collection the entries are read from. */
export const PROFILE_COLLECTION = 'system.profile';

interface Profile {
  level: number;
  slowms: number;
  sampleRate: number;
  readonly entries: Document[];
}

/** Profiles of one process. Kept in memory, like everything about a process that is not data. */
export class Profiler {
  private readonly byDb = new Map<string, Profile>();

  /** The settings of a database before and after: a level outside 0..2 only asks. */
  set(db: string, level: number, slowms: number | undefined, sampleRate: number | undefined): Document {
    const profile = this.of(db);
    const was = { was: profile.level, slowms: profile.slowms, sampleRate: profile.sampleRate };
    if (level >= 0 && level <= 2) profile.level = level;
    profile.slowms = slowms ?? profile.slowms;
    profile.sampleRate = sampleRate ?? profile.sampleRate;
    return was;
  }

  /** Writes a finished command down where its database wants that. */
  note(context: CommandContext, millis: number): void {
    const profile = this.byDb.get(context.db);
    if (!profile || profile.level === 0 || (profile.level === 1 && millis < profile.slowms)) return;
    const { command, connection, name } = context;
    profile.entries.push({
      op: OPERATIONS[name] ?? 'command',
      ns: commandNamespace(command, context.db),
      command,
      millis,
      ts: context.node.now(),
      client: connection.remote,
      appName: connection.appName,
      allUsers: connection.users.map(({ user, db }) => ({ user, db })),
      user: connection.users.map(({ user, db }) => `${user}@${db}`).join(','),
    });
    if (profile.entries.length > MOST) profile.entries.shift();
  }

  /** What was written down for a database, oldest first. */
  entries(db: string): readonly Document[] {
    return this.byDb.get(db)?.entries ?? [];
  }

  private of(db: string): Profile {
    const present = this.byDb.get(db);
    if (present) return present;
    const profile: Profile = { level: 0, slowms: DEFAULT_SLOW_MILLIS, sampleRate: 1, entries: [] };
    this.byDb.set(db, profile);
    return profile;
  }
}

const OPERATIONS: Readonly<Record<string, string>> = {
  insert: 'insert',
  update: 'update',
  delete: 'remove',
  find: 'query',
  getMore: 'getmore',
};
