import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import path from 'node:path';

export interface FoundExecutables {
  readonly binDir: string;
  readonly versions: readonly string[];
}

/** Looks for `VERSION/bin/mongod` or `mongod` in a folder, or for mongod on PATH. Null: none that runs. */
export function findExecutables(binDir: string | undefined): FoundExecutables | null {
  const folders =
    binDir === undefined ? (process.env['PATH'] ?? '').split(path.delimiter) : [path.resolve(binDir)];
  for (const folder of folders) {
    const nested = binDir === undefined ? [] : nestedVersions(folder);
    const plain = existsSync(path.join(folder, 'mongod')) ? versionOf(path.join(folder, 'mongod')) : null;
    const versions = [...nested, ...(plain === null ? [] : [plain])];
    if (versions.length > 0) return { binDir: folder, versions };
  }
  return null;
}

function nestedVersions(folder: string): readonly string[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder).filter((name) => existsSync(path.join(folder, name, 'bin', 'mongod')));
}

/** `mongod --version` prints `db version v8.0.32-14` first. */
function versionOf(file: string): string | null {
  try {
    const text = execFileSync(file, ['--version'], {
      encoding: 'utf8',
      timeout: 20_000,
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    return /version v?(\d+\.\d+\.\d+(?:-\d+)?)/.exec(text)?.[1] ?? null;
  } catch {
    return null;
  }
}
