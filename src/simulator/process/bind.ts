/** Where a process listens: ports and addresses by role and options. */
import { join } from 'node:path';
import type { ParsedOptions } from '../contracts.ts';
import type { Listener } from '../wire/listener.ts';
import { option } from './options.ts';

/** The port asked for; shard servers and config servers have their own defaults. */
export function portOf(options: ParsedOptions): number {
  const role = option<string>(options, 'sharding.clusterRole');
  return option<number>(options, 'net.port') ?? { shardsvr: 27018, configsvr: 27019 }[role ?? ''] ?? 27017;
}

/** Addresses to bind, localhost when none is named. */
export function addressesOf(options: ParsedOptions): readonly string[] {
  const ipv6 = option<boolean>(options, 'net.ipv6') === true;
  const all = ipv6 ? ['0.0.0.0', '::'] : ['0.0.0.0'];
  if (option<boolean>(options, 'net.bindIpAll') === true) return all;
  const named = (option<string>(options, 'net.bindIp') ?? '127.0.0.1')
    .split(',')
    .map((address) => address.trim());
  const addresses = named.flatMap((address) => {
    if (address === '*') return all;
    return address === 'localhost' ? ['127.0.0.1', ...(ipv6 ? ['::1'] : [])] : [address];
  });
  return [...new Set(addresses)].filter((address) => address !== '' && !address.startsWith('/'));
}

/** What was bound. */
export interface Bound {
  readonly port: number;
  readonly addresses: readonly string[];
}

/** A port or socket that can't be had: exit 48. */
export class BindError extends Error {
  readonly reason: string;
  constructor(reason: string) {
    super(reason);
    this.name = 'BindError';
    this.reason = reason;
  }
}

/** Binds all addresses to one port, and the unix socket unless switched off. Throws BindError. */
export async function bindAll(listener: Listener, options: ParsedOptions): Promise<Bound> {
  let port = portOf(options);
  const addresses = addressesOf(options);
  try {
    for (const address of addresses) port = await listener.listen(address, port);
    if (option<boolean>(options, 'net.unixDomainSocket.enabled') === false) return { port, addresses };
    const prefix = option<string>(options, 'net.unixDomainSocket.pathPrefix') ?? '/tmp';
    const path = join(prefix, `mongodb-${port}.sock`);
    await listener.listenUnix(path, option<number>(options, 'net.unixDomainSocket.filePermissions') ?? 0o700);
    return { port, addresses: [path, ...addresses] };
  } catch (failure) {
    const code = (failure as NodeJS.ErrnoException).code;
    const known = {
      EADDRINUSE: 'Address already in use',
      EACCES: 'Permission denied',
      EADDRNOTAVAIL: 'Cannot assign requested address',
    };
    throw new BindError(known[code as keyof typeof known] ?? String(failure));
  }
}
