/** Where the agent keeps what, below its data folder. */
import { join, resolve } from 'node:path';
import { makeFolder } from './files.ts';

export interface ServicePaths {
  readonly folder: string;
  readonly record: string;
  /** 0600: holds secrets. */
  readonly snapshot: string;
  readonly config: string;
  readonly certificate: string;
  readonly ca: string;
  readonly keyFile: string;
  readonly log: string;
  /** What the process says before it has a log. */
  readonly output: string;
  readonly run: string;
}

export interface Layout {
  readonly root: string;
  readonly lock: string;
  readonly fences: string;
  readonly identity: string;
  readonly operations: string;
  readonly services: string;
  readonly volumes: string;
  readonly trash: string;
  service(id: string): ServicePaths;
  volume(id: string): { readonly folder: string; readonly owner: string; readonly data: string };
  operation(id: string): string;
}

/** The paths below a data folder; makes the folders. */
export function openLayout(dataDir: string): Layout {
  const layout = layoutOf(dataDir);
  for (const folder of [layout.root, layout.operations, layout.services, layout.volumes, layout.trash])
    makeFolder(folder);
  return layout;
}

/** The paths only. */
export function layoutOf(dataDir: string): Layout {
  const root = resolve(dataDir);
  const at = (...parts: string[]): string => join(root, ...parts);
  return {
    root,
    lock: at('agent.lock'),
    fences: at('fences.json'),
    identity: at('identity', 'identity.json'),
    operations: at('operations'),
    services: at('services'),
    volumes: at('volumes'),
    trash: at('trash'),
    service: (id) => servicePaths(at('services', id)),
    volume: (id) => ({
      folder: at('volumes', id),
      owner: at('volumes', id, 'owner.json'),
      data: at('volumes', id, 'data'),
    }),
    operation: (id) => at('operations', `${encodeURIComponent(id).replaceAll('.', '%2E')}.json`),
  };
}

/** The files of one service by its folder; the readiness executable knows nothing else. */
export function servicePaths(folder: string): ServicePaths {
  return {
    folder,
    record: join(folder, 'service.json'),
    snapshot: join(folder, 'snapshot.json'),
    config: join(folder, 'mongod.conf'),
    certificate: join(folder, 'tls', 'member.pem'),
    ca: join(folder, 'tls', 'ca.pem'),
    keyFile: join(folder, 'keyfile'),
    log: join(folder, 'mongod.log'),
    output: join(folder, 'output.log'),
    run: join(folder, 'run.json'),
  };
}
