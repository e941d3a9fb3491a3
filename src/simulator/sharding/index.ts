/** The part of a `mongod` that belongs to a sharded cluster: config server or shard. */
import type { CommandServices } from '../commands/index.ts';
import type { CommandSpec } from '../contracts.ts';
import type { SimulatorNode } from '../process/node.ts';
import type { PeerPool } from '../replication/peer-pool.ts';
import { Balancer } from './balancer.ts';
import { configCommands } from './config-commands.ts';
import { ConfigService } from './config-service.ts';
import { configString, tellIdentities } from './config-shards.ts';
import { shardCommands } from './shard-commands.ts';
import { ShardService } from './shard-service.ts';

/** What it adds to the process. */
export interface ClusterPart {
  readonly specs: readonly CommandSpec[];
  /** Wraps the data commands. */
  guarded(spec: CommandSpec): CommandSpec;
  close(): void;
}

export interface ClusterPartOptions {
  readonly node: SimulatorNode;
  readonly services: CommandServices;
  readonly authEnabled: boolean;
  readonly role: string;
  readonly pool: PeerPool;
}

/** Opens the part for a role, `configsvr` or `shardsvr`. */
export function openClusterPart({
  node,
  services,
  authEnabled,
  role,
  pool,
}: ClusterPartOptions): ClusterPart {
  if (role === 'configsvr') {
    const config = new ConfigService(node, pool);
    const balancer = new Balancer(config);
    let told = '';
    config.onTick = async () => {
      const where = configString(config);
      if (where !== told && config.shards().length > 0) await tellIdentities(config);
      told = where;
      await balancer.round();
    };
    config.open();
    return {
      specs: configCommands(config, balancer),
      guarded: (spec) => spec,
      close: () => {
        config.close();
        pool.close();
      },
    };
  }
  const shard = new ShardService(node, services, authEnabled);
  return {
    specs: shardCommands(node, shard, pool),
    guarded: (spec) => shard.guarded(spec),
    close: () => pool.close(),
  };
}
