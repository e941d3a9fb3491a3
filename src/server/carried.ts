/** What the hosts and members of a maintenance task carry: people think in members, not in locks. */
import type { HostView, NodeView } from '../authority/index.ts';
import type { Scope } from '../maintenance/index.ts';

export interface Carried {
  /** With their roles: `orders-0 (PRIMARY)`. */
  readonly members: readonly string[];
  /** Those of them that could hand over before they go down. */
  readonly primaries: readonly string[];
}

/** What is there by these hosts. */
export function carriedBy(hosts: readonly HostView[]): (scope: Scope) => Carried {
  const byHost = new Map(hosts.map(({ host, nodes }) => [host, nodes]));
  const byKey = new Map(hosts.flatMap(({ nodes }) => nodes.map((view) => [view.node.key, view] as const)));
  return (scope) => {
    const views = scope.kind === 'host' ? (byHost.get(scope.host) ?? []) : nodeOf(scope, byKey);
    const primaries = views.flatMap(({ node, canHandOver }) => (canHandOver ? [node.name] : []));
    return { members: views.map(memberText), primaries };
  };
}

function nodeOf(scope: Scope, byKey: ReadonlyMap<string, NodeView>): readonly NodeView[] {
  const view = scope.kind === 'node' ? byKey.get(scope.node) : undefined;
  return view === undefined ? [] : [view];
}

const memberText = ({ node }: NodeView): string =>
  node.role === undefined ? node.name : `${node.name} (${node.role})`;
