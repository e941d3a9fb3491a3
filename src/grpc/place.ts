/** What a call is about: one topology, one managed database or all of those. A guess would show, or take, nodes of another cluster. */
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
  const named = await namedBy(deps, database);
  if ('managed' in named) return managedPlace(deps, named.managed);
  const { topology } = named;
  return {
    numbers: topologyNumbers(topology),
    name: `topology ${topology}`,
    views: () => deps.authority.nodes(topology),
    foreign: foreignTo(deps, (key) => isNodeOf(key, topology)),
  };
}

/** Members keep their numbers whichever database a call names, of which it sees the members only. */
async function managedPlace(deps: PlaceDeps, database: string | null): Promise<Place> {
  const all = (await deps.authority.nodes()).filter(({ node }) => node.id === undefined);
  const views = all.filter(({ node }) => database === null || node.cluster === database);
  const others = new Set(all.filter((view) => !views.includes(view)).map(({ node }) => node.key));
  const isOurs = (key: string): boolean =>
    !others.has(key) && deps.topologies().every((name) => !isNodeOf(key, name));
  return {
    numbers: managedNumbers(all.map(({ node }) => node.key)),
    name: database === null ? 'the managed databases' : `the managed database ${database}`,
    views: async () => views,
    foreign: foreignTo(deps, isOurs),
  };
}

/** `managed`: that database, or null for all there are. */
type Named = { readonly topology: string } | { readonly managed: string | null };

async function namedBy(deps: PlaceDeps, database: string): Promise<Named> {
  const names = deps.topologies();
  const usual = deps.topology ?? (names.length === 1 ? names[0] : undefined);
  if (deps.topology !== undefined && !names.includes(deps.topology))
    throw new BadAction(`there is no topology ${deps.topology}, of which this endpoint is to speak`);
  const path = database.replace(/^\/+|\/+$/g, '');
  if (path === '' && usual === undefined && names.length === 0) return { managed: null };
  if (path === '') return { topology: usual ?? which('', names) };
  const named = names.find((name) => path === name || path.split('/')[0] === name);
  if (named !== undefined) return { topology: named };
  const nodes = (await deps.authority.nodes()).map(({ node }) => node);
  const have = new Set(
    nodes.filter(({ tenant }) => tenant?.replace(/^\/+/, '') === path).map((node) => node.cluster),
  );
  const found = names.filter((name) => have.has(name));
  const [first, ...more] = found;
  if (first !== undefined) {
    const own = usual !== undefined && have.has(usual) ? usual : null;
    return { topology: more.length === 0 ? first : (own ?? which(`${database} is in several. `, found)) };
  }
  if (nodes.some((node) => node.id === undefined && node.cluster === path)) return { managed: path };
  // The root of its databases (`/Root` of `/Root/db1`) is the cluster itself.
  const isRoot = nodes.some(
    ({ cluster, tenant }) => cluster === usual && tenant?.replace(/^\/+/, '').startsWith(`${path}/`),
  );
  if (usual !== undefined && isRoot) return { topology: usual };
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
