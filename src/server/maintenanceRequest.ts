/** What is wrong with a request for maintenance as a whole, told with its fields: another's name, things named twice, a topology that is not there. */
import type { Authority, NodeView } from '../authority/index.ts';
import { BelayError, type Problem } from '../base/error.ts';
import { formatCount } from '../base/units.ts';
import { BETTER, ORIGINAL, type TaskSpec, taskSpecOf } from '../maintenance/index.ts';
import { inFlightProblem, type MaintenanceTask, type Warning } from '../model/index.ts';
import type { Identity } from './deps.ts';
import type { TaskRequest } from './maintenanceWords.ts';

/** Throws `Invalid` with all problems. */
export async function refuseUnfit(
  authority: Authority,
  request: TaskRequest,
  spec: TaskSpec,
  by: Identity | null,
): Promise<void> {
  const { topology } = request;
  const places = placesOf(request, spec);
  const nodes = await authority.nodes();
  const problems = [
    ...ownerProblems(spec.owner, by, 'owner'),
    ...(topology === undefined ? [] : topologyProblems(topology, places, nodes)),
    ...(request.compat === true ? [] : capProblems(spec)),
    // The original lets such an action wait for its own task.
    ...(request.compat === true ? [] : twice(places, nodes)),
  ];
  if (problems.length === 0) return;
  const count = formatCount(problems.length, 'problem');
  throw new BelayError('Invalid', `the task has ${count}`, { retry: 'never', problems });
}

function capProblems({ maxInFlight, groups }: TaskSpec): readonly Problem[] {
  const sizes = groups.map((group) => group.length);
  const message = inFlightProblem(maxInFlight, sizes);
  return message === null ? [] : [{ path: 'maxInFlight', message }];
}

/** A host or a node, and where the request names it. */
interface Place {
  readonly path: string;
  readonly kind: 'host' | 'node';
  /** Name of the host, or key of the node. */
  readonly name: string;
}

/** In the order of the task: hosts and nodes of the short form, then groups. */
function placesOf({ hosts = [], nodes = [] }: TaskRequest, { groups }: TaskSpec): readonly Place[] {
  const short = hosts.length + nodes.length;
  let nth = -1;
  return groups.flatMap((group, g) =>
    group.flatMap(({ scope }, a): readonly Place[] => {
      nth++;
      const path =
        nth < hosts.length
          ? `hosts.${nth}`
          : nth < short
            ? `nodes.${nth - hosts.length}`
            : `groups.${g}.actions.${a}.scope`;
      if (scope.kind === 'host') return [{ path, kind: 'host', name: scope.host }];
      return scope.kind === 'node' ? [{ path, kind: 'node', name: scope.node }] : [];
    }),
  );
}

function topologyProblems(
  topology: string,
  places: readonly Place[],
  nodes: readonly NodeView[],
): readonly Problem[] {
  const hosts = new Set(nodes.flatMap(({ node }) => (node.cluster === topology ? [node.host] : [])));
  if (hosts.size === 0) return [{ path: 'topology', message: `there is no topology ${topology}` }];
  return places.flatMap(({ path, kind, name }) =>
    kind === 'host' && !hosts.has(name)
      ? [{ path, message: `host ${name} carries nothing of topology ${topology}` }]
      : [],
  );
}

/** What is taken twice would wait for itself. */
function twice(places: readonly Place[], nodes: readonly NodeView[]): readonly Problem[] {
  const hosts = new Set(places.flatMap(({ kind, name }) => (kind === 'host' ? [name] : [])));
  const hostOf = new Map(nodes.map(({ node }) => [node.key, node.host]));
  const seen = new Set<string>();
  return places.flatMap(({ path, kind, name }) => {
    const again = seen.has(`${kind} ${name}`);
    seen.add(`${kind} ${name}`);
    if (again) return [{ path, message: `${kind} ${name} is named twice` }];
    const host = kind === 'node' ? hostOf.get(name) : undefined;
    if (host === undefined || !hosts.has(host)) return [];
    return [{ path, message: `node ${name} is on host ${host}, which is asked for as well` }];
  });
}

/** Events say who took what: nobody but an admin asks in somebody else's name. */
export function ownerProblems(owner: string, by: Identity | null, path: string): readonly Problem[] {
  if (by === null || by.role === 'admin' || owner === by.name) return [];
  const message = `must be ${by.name}, who asks: only admins ask for others; leave it out, or have an admin ask`;
  return [{ path, message }];
}

/** A document that could not be granted as things are is stored, and fails a moment later when nobody looks: said at once. */
export async function hopelessWarnings(
  authority: Authority,
  name: string,
  spec: MaintenanceTask['spec'],
): Promise<readonly Warning[]> {
  const task = taskSpecOf(name, spec, 'whoever applies it', true);
  const compat = spec.compat === true ? ORIGINAL : BETTER;
  const { status, issues } = await authority.create(task, spec.topology, { compat });
  if (status === 'SUCCESS' || status === 'UNAVAILABLE') return [];
  return [{ path: 'spec.groups', message: `can never be granted as things are: ${issues.join('; ')}` }];
}
