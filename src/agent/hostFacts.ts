/** What is said of this machine. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { availableParallelism, release, totalmem, type } from 'node:os';
import pkg from '../../package.json' with { type: 'json' };
import type { HostFacts } from '../clusters/facts.ts';
import { readSpace, steadySpace } from './space.ts';

export interface HostFactsOptions {
  readonly name: string;
  readonly address: string;
  readonly dataDir: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly executables: Readonly<Record<string, readonly string[]>>;
}

/** Reads the machine's facts; what was told before keeps small changes of free space from being told again. */
export function readHostFacts(options: HostFactsOptions, told: HostFacts | null): HostFacts {
  const before = told && { totalBytes: told.diskTotalBytes, freeBytes: told.diskFreeBytes };
  const space = steadySpace(before, readSpace(options.dataDir));
  return {
    name: options.name,
    address: options.address,
    agentVersion: pkg.version,
    os: `${type()} ${release()}`,
    cpus: availableParallelism(),
    memoryBytes: memoryBytes(),
    diskTotalBytes: space?.totalBytes ?? 0,
    diskFreeBytes: space?.freeBytes ?? 0,
    fingerprint: fingerprint(),
    executables: options.executables,
    labels: options.labels,
  };
}

/** A container's limit counts, not the machine it runs on. */
function memoryBytes(): number {
  const limit = process.constrainedMemory();
  return limit > 0 ? Math.min(limit, totalmem()) : totalmem();
}

/** Equal on all agents of one machine, and says nothing else about it (A15.1). */
function fingerprint(): string | null {
  try {
    const id = readFileSync('/etc/machine-id', 'utf8').trim();
    return id === '' ? null : createHash('sha256').update(`belay ${id}`).digest('hex').slice(0, 16);
  } catch {
    return null;
  }
}
