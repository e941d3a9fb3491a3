/** Which server executables this machine has, by version. */
import { execFile } from 'node:child_process';
import { accessSync, constants, readdirSync, statSync } from 'node:fs';
import { delimiter, join, resolve } from 'node:path';
import { BelayError } from '../base/error.ts';
import { VERSION_TIMEOUT } from './limits.ts';

/** A version as `--version` prints it: `db version v8.0.32-14`. */
const VERSION_LINE = /(?:db|mongos) version v(\d+\.\d+\.\d+(?:-[0-9A-Za-z.]+)?)/;
const VERSION_FOLDER = /^\d+\.\d+\.\d+(-[0-9A-Za-z.]+)?$/;

/** Programs an agent can run. */
const PRODUCTS = ['mongod', 'mongos'] as const;

export interface Executables {
  /** Product to versions found, newest look. */
  found(): Promise<Readonly<Record<string, readonly string[]>>>;
  /** Absolute path for this very version. BelayError `NoExecutables` (never) names what there is instead. */
  find(product: string, version: string): Promise<string>;
}

/**
 * Looks in `BIN_DIR/<version>/bin`, then `BIN_DIR`, then PATH. What `--version` said is remembered as long as the file
 * stays the same, so looking again is cheap; one that did not say it is asked again.
 */
export function openExecutables(
  binDir: string | null,
  path: string = process.env['PATH'] ?? '',
): Executables {
  const versions = new Map<string, Promise<string | null>>();
  const versionOf = (file: string): Promise<string | null> => {
    const { mtimeMs, size } = statSync(file);
    const key = `${file} ${mtimeMs} ${size}`;
    const known = versions.get(key) ?? askVersion(file);
    versions.set(key, known);
    // No answer is no fact about the file: a busy machine may have been too slow, a library may come yet.
    void known.then((version) => version === null && versions.delete(key));
    return known;
  };
  // Absolute: members start in folders of their own.
  const candidates = (product: string): readonly string[] =>
    [...versioned(binDir, product), ...plain(binDir, path, product)]
      .filter(isExecutable)
      .map((f) => resolve(f));
  const scan = async (product: string): Promise<ReadonlyMap<string, string>> => {
    const byVersion = new Map<string, string>();
    for (const file of candidates(product)) {
      const version = await versionOf(file);
      if (version !== null && !byVersion.has(version)) byVersion.set(version, file);
    }
    return byVersion;
  };
  return {
    found: async () => {
      const products = await Promise.all(
        PRODUCTS.map(async (product) => [product, [...(await scan(product)).keys()].sort()] as const),
      );
      return Object.fromEntries(products.filter(([, versions]) => versions.length > 0));
    },
    find: async (product, version) => {
      const byVersion = await scan(product);
      const file = byVersion.get(version);
      if (file !== undefined) return file;
      const there = [...byVersion.keys()].sort().join(', ') || 'none';
      throw new BelayError('NoExecutables', `no ${product} ${version} on this host (found: ${there})`, {
        retry: 'never',
        fix: `Install it, or put it at ${join(binDir ?? 'BIN_DIR', version, 'bin', product)}.`,
      });
    },
  };
}

function versioned(binDir: string | null, product: string): readonly string[] {
  if (binDir === null) return [];
  try {
    return readdirSync(binDir)
      .filter((name) => VERSION_FOLDER.test(name))
      .map((name) => join(binDir, name, 'bin', product));
  } catch {
    return [];
  }
}

function plain(binDir: string | null, path: string, product: string): readonly string[] {
  const own = binDir === null ? [] : [binDir, join(binDir, 'bin')];
  return [...own, ...path.split(delimiter).filter((folder) => folder !== '')].map((folder) =>
    join(folder, product),
  );
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}

function askVersion(file: string): Promise<string | null> {
  return new Promise((resolve) => {
    execFile(file, ['--version'], { timeout: VERSION_TIMEOUT }, (_error, stdout) => {
      resolve(VERSION_LINE.exec(stdout)?.[1] ?? null);
    });
  });
}
