/** What the stand-in says about its build. It always says that it is a simulator. */
import type { Document } from 'bson';
import { MAX_DOCUMENT_BYTES } from '../wire/limits.ts';
import { isPercona, versionArrayOf } from '../wire/versions.ts';

/** The module name by which anyone can tell the stand-in from the real server. */
export const SIMULATOR_MODULE = 'belay-simulator';

const GIT_VERSION = '0000000000000000000000000000000000000000';

/** Reply of `buildInfo`. */
export function buildInfo(version: string): Document {
  return {
    version,
    ...(isPercona(version) ? { psmdbVersion: version } : {}),
    gitVersion: GIT_VERSION,
    modules: [SIMULATOR_MODULE],
    simulator: true,
    allocator: 'system',
    javascriptEngine: 'mozjs',
    sysInfo: 'deprecated',
    versionArray: versionArrayOf(version),
    openssl: {
      running: `OpenSSL ${process.versions.openssl}`,
      compiled: `OpenSSL ${process.versions.openssl}`,
    },
    buildEnvironment: buildEnvironment(),
    bits: 64,
    debug: false,
    maxBsonObjectSize: MAX_DOCUMENT_BYTES,
    storageEngines: ['devnull', 'wiredTiger'],
  };
}

/** The attr of log line 23403. */
export function buildInfoForLog(version: string): Document {
  return {
    version,
    gitVersion: GIT_VERSION,
    openSSLVersion: `OpenSSL ${process.versions.openssl}`,
    modules: [SIMULATOR_MODULE],
    allocator: 'system',
    environment: buildEnvironment(),
  };
}

const buildEnvironment = (): Document => ({
  distmod: 'simulator',
  distarch: process.arch === 'arm64' ? 'aarch64' : 'x86_64',
  target_arch: process.arch === 'arm64' ? 'aarch64' : 'x86_64',
});
