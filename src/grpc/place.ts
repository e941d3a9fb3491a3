/** What a call is about: one topology or the managed databases. A guess would show, or take, nodes of another cluster. */
import type { Message } from '@bufbuild/protobuf';
import type { ServerUnaryCall } from '@grpc/grpc-js';
import type { Authority, NodeView } from '../authority/index.ts';
import type { Action } from '../maintenance/index.ts';
import { BadAction, isNodeOf, managedNumbers, type Numbers, topologyNumbers } from './words.ts';

const DATABASE = 'x-ydb-database';

export interface PlaceDeps {
  readonly authority: Authority;
  /** Names of all topologies, in order. */
  readonly topologies: () => readonly string[];
  /** Topology this endpoint speaks of, when a call names none; by default the only one, else the managed databases. */
  readonly topology?: string;
}

/** `views` are the nodes as they are now, of which most calls need no more than their numbers. */
export interface Place {
  readonly numbers: Numbers;
  /** For sentences. */
  readonly name: string;
  readonly views: () => Promise<readonly NodeView[]>;
  /** The first of these that is about something of another place, in words; null: all of them can be told here. */
  readonly foreign: (actions: readonly Action[]) => Promise<string | null>;
}

/** The place a call names by its database, else the endpoint's. Throws `BadAction` where that is none, or several. */
export async function placeOf(deps: PlaceDeps, call: ServerUnaryCall<Message, unknown>): Promise<Place> {
  const database = String(call.metadata.get(DATABASE)[0] ?? '');
  const topology = await topologyOf(deps, database);
  if (topology === null) {
    const views = (await deps.authority.nodes()).filter(({ node }) => node.id === undefined);
    const numbers = managedNumbers(views.map(({ node }) => node.key));
    const isOurs = (key: string): boolean => deps.topologies().every((name) => !isNodeOf(key, name));
    return {
      numbers,
      name: 'the managed databases',
      views: async () => views,
      foreign: foreignTo(deps, isOurs),
    };
  }
  return {
    numbers: topologyNumbers(topology),
    name: `topology ${topology}`,
    views: () => deps.authority.nodes(topology),
    foreign: foreignTo(deps, (key) => isNodeOf(key, topology)),
  };
}

/** Null: the managed databases. */
async function topologyOf(deps: PlaceDeps, database: string): Promise<string | null> {
  const names = deps.topologies();
  const usual = deps.topology ?? (names.length === 1 ? names[0] : undefined);
  if (deps.topology !== undefined && !names.includes(deps.topology))
    throw new BadAction(`there is no topology ${deps.topology}, of which this endpoint is to speak`);
  const path = database.replace(/^\/+|\/+$/g, '');
  if (path === '') return usual ?? (names.length === 0 ? null : which('', names));
  const named = names.find((name) => path === name || path.split('/')[0] === name);
  if (named !== undefined) return named;
  const nodes = (await deps.authority.nodes()).map(({ node }) => node);
  const have = new Set(
    nodes.filter(({ tenant }) => tenant?.replace(/^\/+/, '') === path).map((node) => node.cluster),
  );
  const found = names.filter((name) => have.has(name));
  if (found.length === 1) return found[0] as string;
  if (found.length > 1)
    return usual !== undefined && have.has(usual) ? usual : which(`${database} is in several. `, found);
  if (nodes.some((node) => node.id === undefined && node.cluster === path)) return null;
  // The root of its databases (`/Root` of `/Root/db1`) is the cluster itself.
  const isRoot = nodes.some(
    ({ cluster, tenant }) => cluster === usual && tenant?.replace(/^\/+/, '').startsWith(`${path}/`),
  );
  if (usual !== undefined && isRoot) return usual;
  if (usual === undefined && names.length === 0) throw new BadAction(`there is no database ${database}`);
  return which(`there is no database ${database}. `, names);
}

function which(why: string, names: readonly string[]): never {
  throw new BadAction(
    `which topology? ${why}There are ${names.join(', ')}: name one, or a database of it, in ${DATABASE}, or have the endpoint speak of one (--maintenance-topology)`,
  );
}

/** A host belongs to every place that has something on it, and one with nothing on it to all. */
function foreignTo(
  { authority }: PlaceDeps,
  isOurs: (key: string) => boolean,
): (actions: readonly Action[]) => Promise<string | null> {
  return async (actions) => {
    const views = actions.some(({ scope }) => hostsOf(scope).length > 0) ? await authority.nodes() : [];
    const ours = new Set(views.filter(({ node }) => isOurs(node.key)).map(({ node }) => node.host));
    const others = new Set(views.map(({ node }) => node.host).filter((host) => !ours.has(host)));
    for (const { scope } of actions) {
      const host = hostsOf(scope).find((name) => others.has(name));
      if (host !== undefined) return `host ${host}`;
      const node = nodesOf(scope).find((key) => !isOurs(key));
      if (node !== undefined) return `node ${node}`;
    }
    return null;
  };
}

const hostsOf = (scope: Action['scope']): readonly string[] => {
  if (scope.kind === 'host') return [scope.host];
  return scope.kind === 'disks' ? scope.disks.flatMap((disk) => (disk.kind === 'path' ? disk.host : [])) : [];
};
const nodesOf = (scope: Action['scope']): readonly string[] => {
  if (scope.kind === 'node') return [scope.node];
  return scope.kind === 'disks' ? scope.disks.flatMap((disk) => (disk.kind === 'path' ? [] : disk.node)) : [];
};
