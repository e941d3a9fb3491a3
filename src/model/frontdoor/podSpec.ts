import { isMap, type Loose, listAt, mapAt, textAt } from '../paths.ts';
import { parseBytes, parseCpuMillis } from '../quantity.ts';
import type { Conversion } from './foreign.ts';

/** The container of the public operator's pods that runs the database. */
const DATABASE_CONTAINER = 'mongodb-enterprise-database';

/**
 * Takes what means something everywhere out of a pod's settings: processors and memory of the database container and
 * the data volume. The rest is kept and reported.
 */
export function convertPodSpec(podSpec: unknown, path: string, to: string, conversion: Conversion): void {
  if (!isMap(podSpec)) return;
  const taken = [
    ...convertResources(podSpec, path, to, conversion),
    ...convertVolume(podSpec, path, to, conversion),
  ];
  const rest = leftOver(podSpec);
  if (Object.keys(rest).length === 0) return;
  const used = taken.length === 0 ? '' : `, except ${taken.join(', ')}`;
  conversion.ignored(path, podSpec, `has no meaning outside Kubernetes${used}`);
}

function leftOver(podSpec: Loose): Loose {
  const { persistence: _, ...rest } = podSpec;
  return rest;
}

function convertResources(podSpec: Loose, path: string, to: string, conversion: Conversion): string[] {
  const containers = listAt(podSpec, 'podTemplate', 'spec', 'containers');
  const index = containers.findIndex((container) => textAt(container, 'name') === DATABASE_CONTAINER);
  const at = `${path}.podTemplate.spec.containers[${index}].resources`;
  const container = mapAt(containers[index], 'resources');
  const taken: string[] = [];
  for (const name of ['cpu', 'memory'] as const) {
    const limit = container['limits'] === undefined ? undefined : mapAt(container, 'limits')[name];
    const request = mapAt(container, 'requests')[name];
    // Older documents have cpu and memory beside the template.
    const value = limit ?? request ?? podSpec[name];
    if (value === undefined) continue;
    const from =
      limit !== undefined
        ? `${at}.limits.${name}`
        : request !== undefined
          ? `${at}.requests.${name}`
          : `${path}.${name}`;
    const text = String(value);
    const valid = name === 'cpu' ? parseCpuMillis(text) : parseBytes(text);
    if (!valid.ok) {
      conversion.problem(from, valid.error);
      continue;
    }
    conversion.set(`${to}resources.${name}`, text, from);
    conversion.mapped(from, `became spec.${to}resources.${name}`);
    taken.push(name === 'cpu' ? 'processors' : name);
  }
  return taken;
}

function convertVolume(podSpec: Loose, path: string, to: string, conversion: Conversion): string[] {
  const persistence = mapAt(podSpec, 'persistence');
  const single = isMap(persistence['single']);
  const at = `${path}.persistence.${single ? 'single' : 'multiple.data'}`;
  const volume = single ? mapAt(persistence, 'single') : mapAt(persistence, 'multiple', 'data');
  if (Object.keys(persistence).length === 0) return [];
  if (to === 'mongos.') {
    conversion.ignored(`${path}.persistence`, persistence, 'routers have no volume');
    return [];
  }
  const taken: string[] = [];
  for (const [name, field] of [
    ['storage', 'size'],
    ['storageClass', 'class'],
  ] as const) {
    const value = volume[name];
    if (value === undefined) continue;
    conversion.set(`${to}storage.${field}`, value, `${at}.${name}`);
    conversion.mapped(`${at}.${name}`, `became spec.${to}storage.${field}`);
    taken.push(name === 'storage' ? 'the data volume' : 'its class');
  }
  conversion.ignored(`${at}.labelSelector`, volume['labelSelector'], 'has no meaning outside Kubernetes');
  const multiple = mapAt(persistence, 'multiple');
  for (const name of ['journal', 'logs']) {
    const reason = 'the journal and the log are kept on the data volume';
    conversion.ignored(`${path}.persistence.multiple.${name}`, multiple[name], reason);
  }
  return taken;
}
