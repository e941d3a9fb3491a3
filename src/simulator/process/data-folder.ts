/** The data folder: who may open it, and whether its last user ended cleanly (1.4). */
import { accessSync, constants, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';

/** Why a process can't use the folder; ends it with 100. */
export class DataFolderError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'DataFolderError';
  }
}

const LOCK_FILE = 'mongod.lock';
/** The file whose kernel lock shows that the folder is in use; the lock goes with its process, however that ends. */
const GUARD_FILE = 'WiredTiger.lock';

/** A folder this process holds alone. */
export interface DataFolder {
  readonly path: string;
  /** True when the last user was killed: its lock file still has its number. */
  readonly unclean: boolean;
  /** Marks a clean stop and lets go. */
  release(): void;
}

/**
 * Takes the data folder for this process alone. Node has no flock, so the exclusive lock is SQLite's on an empty file: a
 * kernel lock, taken at once or not at all, gone with the process. `mongod.lock` then tells as usual who runs, and stays
 * non-empty when the process is killed.
 */
export async function openDataFolder(path: string): Promise<DataFolder> {
  assertFolder(path);
  const guard = await takeGuard(path);
  const lockFile = join(path, LOCK_FILE);
  const unclean = existsSync(lockFile) && readFileSync(lockFile).length > 0;
  try {
    writeFileSync(lockFile, `${process.pid}\n`, { mode: 0o600 });
  } catch (failure) {
    guard.close();
    throw cannotOpen(path, failure);
  }
  writeMetadata(path);
  return {
    path,
    unclean,
    release: () => {
      writeFileSync(lockFile, '');
      guard.close();
    },
  };
}

function assertFolder(path: string): void {
  if (!statSync(path, { throwIfNoEntry: false })?.isDirectory()) {
    throw new DataFolderError(
      `NonExistentPath: Data directory ${path} not found. Create the missing directory or specify another path using ` +
        "(1) the --dbpath command line option, or (2) by adding the 'storage.dbPath' option in the configuration file.",
    );
  }
  try {
    accessSync(path, constants.W_OK | constants.X_OK);
  } catch {
    throw new DataFolderError(
      `IllegalOperation: Attempted to create a lock file on a read-only directory: ${path}`,
    );
  }
}

async function takeGuard(path: string): Promise<DatabaseSync> {
  const { DatabaseSync } = await import('node:sqlite');
  let guard: DatabaseSync;
  try {
    guard = new DatabaseSync(join(path, GUARD_FILE), { timeout: 0 });
  } catch (failure) {
    throw cannotOpen(path, failure);
  }
  try {
    guard.exec('PRAGMA journal_mode = OFF; BEGIN EXCLUSIVE');
    return guard;
  } catch (failure) {
    guard.close();
    if (!/locked|busy/i.test(String(failure))) throw cannotOpen(path, failure);
    throw new DataFolderError(
      `DBPathInUse: Unable to lock the lock file: ${join(path, LOCK_FILE)} (Resource temporarily unavailable). ` +
        `Another mongod instance is already running on the ${path} directory`,
    );
  }
}

function cannotOpen(path: string, failure: unknown): DataFolderError {
  const reason = failure instanceof Error ? failure.message : String(failure);
  return new DataFolderError(
    `DBPathInUse: Unable to create/open the lock file: ${join(path, LOCK_FILE)} (${reason}). Ensure the user executing mongod ` +
      'is the owner of the lock file and has the appropriate permissions. Also make sure that another mongod instance is ' +
      `not already running on the ${path} directory`,
  );
}

/** What the folder was made by; the real server refuses other engines' folders by such a file too. */
function writeMetadata(path: string): void {
  mkdirSync(join(path, 'diagnostic.data'), { recursive: true });
  const file = join(path, 'simulator.json');
  if (!existsSync(file)) writeFileSync(file, `${JSON.stringify({ simulator: true, format: 1 })}\n`);
}
