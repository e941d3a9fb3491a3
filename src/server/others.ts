/** What there is, for somebody who named what is not. */
import type { ObjectKey } from '../engine/ports.ts';
import { findKind } from '../model/index.ts';
import type { ApiDeps } from './deps.ts';

/** More names than this tell a person less than where to look. */
const NAMES_TOLD = 5;

/** What else of a kind there is in a namespace; where it is more than a few, where to see all. */
export async function othersOf(
  deps: Pick<ApiDeps, 'store'>,
  { kind, namespace }: Pick<ObjectKey, 'kind' | 'namespace'>,
): Promise<string> {
  const { items } = await deps.store.list({ kind, namespace, limit: NAMES_TOLD + 1 });
  const names = items.map((o) => o.metadata.name);
  if (names.length <= NAMES_TOLD) return names.join(', ');
  const info = findKind(kind);
  const where = info?.scope === 'cluster' ? '' : ` -n ${namespace}`;
  return `${names.slice(0, NAMES_TOLD).join(', ')} and more; all: belay get ${info?.plural ?? kind}${where}`;
}
