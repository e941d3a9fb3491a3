/** A sharded cluster without Belay, by a careful script: sets side by side, routers as soon as the config servers have users. */
import path from 'node:path';
import type { Document } from 'mongodb';
import { sleep } from './lib.ts';
import {
  bringUp,
  clientOf,
  firstConnection,
  keepTemplates,
  type Member,
  setNameOf,
  startMember,
  stopAll,
  type Template,
} from './plain.part.ts';

/** Files of the members by their place in the cluster. */
export interface ShardedTemplates {
  /** By set; the config servers are the one whose configuration says so. */
  readonly sets: ReadonlyMap<string, readonly Template[]>;
  readonly routers: readonly Template[];
}

/** Keeps what an agent wrote for the members of a sharded cluster. */
export function keepShardedTemplates(agentDir: string, into: string): ShardedTemplates {
  const sets = new Map<string, Template[]>();
  const routers: Template[] = [];
  for (const template of keepTemplates(agentDir, into)) {
    if (/configDB:/.test(template.config)) routers.push(template);
    else sets.set(setNameOf(template), [...(sets.get(setNameOf(template)) ?? []), template]);
  }
  return { sets, routers };
}

const isConfig = (templates: readonly Template[]): boolean =>
  /clusterRole: *"?configsvr/.test(templates[0]?.config ?? '');

/** From the first file written to routers that know both shards. */
export async function plainSharded(
  { sets, routers }: ShardedTemplates,
  dir: string,
  ports: readonly number[],
  version: string,
): Promise<{ readonly millis: number; stop(): Promise<void> }> {
  const started = performance.now();
  const free = [...ports];
  const all: Member[] = [];
  const start = (
    template: Template,
    ...more: Parameters<typeof startMember> extends [unknown, unknown, unknown, ...infer R] ? R : never
  ): Member => {
    const member = startMember(template, path.join(dir, `m${all.length}`), free.shift() as number, ...more);
    all.push(member);
    return member;
  };
  const shards: string[] = [];
  const making: Promise<unknown>[] = [];
  let front: Promise<readonly [Member, string]> | null = null;
  for (const [set, templates] of sets) {
    const members = templates.map((template) => start(template));
    const hosts = `${set}/${members.map((m) => `localhost:${m.port}`).join(',')}`;
    if (!isConfig(templates)) {
      shards.push(hosts);
      making.push(bringUp(members, set, version));
      continue;
    }
    front = bringUp(members, set, version, { configsvr: true }).then(async (passwords) => {
      const doors = routers.map((template) =>
        start(template, 'mongos', (config) => config.replace(/^( *configDB:).*$/m, `$1 ${hosts}`)),
      );
      await Promise.all(doors.map(listening));
      return [doors[0] as Member, passwords.get('clusterAdmin') as string] as const;
    });
  }
  const [[router, password]] = await Promise.all([front as NonNullable<typeof front>, ...making]);
  const admin = clientOf(router, { user: 'clusterAdmin', password });
  for (const addShard of shards) await admin.db('admin').command({ addShard });
  const listed = await admin.db('admin').command({ listShards: 1 });
  if ((listed['shards'] as Document[]).length !== shards.length) throw new Error('not every shard is there');
  const millis = performance.now() - started;
  await admin.close();
  return { millis, stop: () => stopAll(all) };
}

/** A router answers once it has reached its config servers. */
async function listening(router: Member): Promise<void> {
  const client = await firstConnection(router);
  for (;;) {
    const { msg } = await client.db('admin').command({ hello: 1 });
    if (msg === 'isdbgrid') break;
    await sleep(10);
  }
  await client.close();
}
