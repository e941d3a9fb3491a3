import type { Clock, Store } from '../engine/ports.ts';
import { invalidStoreUrl } from './errors.ts';
import { STORE_LIMITS, type StoreLimits } from './limits.ts';

export interface StoreOptions {
  readonly clock: Clock;
  /** Other limits than the usual ones, for tests. */
  readonly limits?: Partial<StoreLimits>;
}

/**
 * Opens the store a URL names and brings its schema up to date: `sqlite:PATH`, a plain path, `sqlite::memory:`,
 * or `postgres://user:password@host:port/database[?schema=belay]`.
 * `InvalidStoreUrl`, `StoreNewer`, `StoreDamaged` (never), `StoreLocked`, `StoreFull`, `StoreUnavailable` (later).
 */
export async function openStore(url: string, options: StoreOptions): Promise<Store> {
  const { SqlStore } = await import('./sql-store.ts');
  const limits = { ...STORE_LIMITS, ...options.limits };
  return await SqlStore.open(await dialectOf(url, options.clock), options.clock, limits);
}

async function dialectOf(url: string, clock: Clock) {
  const scheme = /^([a-z][a-z0-9+]*):/.exec(url)?.[1];
  switch (scheme) {
    case undefined:
    case 'sqlite':
    case 'file': {
      const path = url.replace(/^(sqlite|file):(\/\/)?/, '');
      if (path === '') throw invalidStoreUrl('there is no path in it');
      return await (await import('./sqlite.ts')).openSqlite(path, { clock });
    }
    case 'postgres':
    case 'postgresql':
      return await (await import('./postgres.ts')).openPostgres(url, { clock });
    default:
      throw invalidStoreUrl(`'${scheme}:' is not known`);
  }
}
