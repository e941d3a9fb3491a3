/**
 * What may not change in a Topology document while maintenance tasks hold something of it. A lock of a host is a lock of what
 * the document places there: a node that goes elsewhere in it, or out of it, would count as well while somebody works on it (S13).
 */
import type { Problem } from '../base/error.ts';
import { formatMoment } from '../base/units.ts';
import { listAt, mapAt, numberAt, textAt } from '../model/paths.ts';
import type { ApiDeps } from './deps.ts';

/** Problems with a document of this topology, one for each held node that is not where it was; none for a new one. */
export async function heldNodeProblems(
  { maintenance }: Pick<ApiDeps, 'maintenance'>,
  topology: string,
  document: unknown,
): Promise<readonly Problem[]> {
  const wanted = listAt(mapAt(document, 'spec'), 'nodes');
  const holders = await maintenance.topologyHolders(topology);
  return holders.flatMap(({ task, owner, until, nodes }) =>
    nodes.flatMap(({ id, host }): readonly Problem[] => {
      const place = wanted.findIndex((node) => numberAt(node, 'id') === id);
      if (place >= 0 && textAt(wanted[place], 'host') === host) return [];
      const path = place < 0 ? 'spec.nodes' : `spec.nodes[${place}].host`;
      const end = until === null ? '' : ` until ${formatMoment(until)}`;
      const held = `node ${id} on host ${host} is held by maintenance task ${task} (owner ${owner})${end}`;
      const message = `${held}, and stays where it is until then; wait, or give it back: belay maintenance drop ${task}`;
      return [{ path, message }];
    }),
  );
}
