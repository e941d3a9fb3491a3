/** From an action to the components it locks. */
import type { Fleet, Item } from './fleet.ts';
import { refuse } from './rules/look.ts';
import type { Action, DiskRef, Refusal } from './types.ts';

/** What an action is about: nodes looked at one by one, disks, or a host that carries nothing, by its index. */
export type Target =
  | { readonly kind: 'nodes'; readonly nodes: readonly number[] }
  | { readonly kind: 'disks'; readonly disks: readonly number[]; readonly vdisks: readonly number[] }
  | { readonly kind: 'emptyHost'; readonly host: number }
  | { readonly kind: 'none'; readonly refusal: Refusal };

const none = (refusal: Refusal): Target => ({ kind: 'none', refusal });

/** Finds what an action names. What is not there is a refusal: `NoSuchHost`, `NoSuchNode`, `NoSuchDisk`, `NoSuchService`. */
export function resolve(fleet: Fleet, action: Action): Target {
  const { scope } = action;
  switch (scope.kind) {
    case 'disks':
      return resolveDisks(fleet, scope.disks);
    case 'node': {
      const n = fleet.node(scope.node);
      if (n === undefined)
        return none(refuse('NO_SUCH_HOST', 'NoSuchNode', `there is no node ${scope.node}`));
      return withService(fleet, [n], action, scope.node);
    }
    case 'host': {
      const nodes = fleet.host(scope.host);
      if (nodes === undefined)
        return none(refuse('NO_SUCH_HOST', 'NoSuchHost', `there is no host ${scope.host}`));
      // Whoever holds it holds the host itself: what is placed there later is locked with it (S2).
      if (nodes.length === 0 && action.service === undefined)
        return { kind: 'emptyHost', host: fleet.hostAt(scope.host) ?? -1 };
      return withService(fleet, nodes, action, scope.host);
    }
  }
}

function withService(fleet: Fleet, nodes: readonly number[], action: Action, name: string): Target {
  const { service } = action;
  if (service === undefined) return { kind: 'nodes', nodes };
  const running = nodes.filter((n) => (fleet.nodes[n]?.kind === 'dynamic') === (service === 'dynnode'));
  if (running.length > 0) return { kind: 'nodes', nodes: running };
  return none(refuse('NO_SUCH_SERVICE', 'NoSuchService', `${name} runs no service ${service}`));
}

function resolveDisks(fleet: Fleet, refs: readonly DiskRef[]): Target {
  const disks: number[] = [];
  const vdisks: number[] = [];
  for (const ref of refs) {
    if (ref.kind === 'vdisk') {
      const v = findVdisk(fleet, ref.group, ref.node);
      if (v === undefined) return noDisk(`vdisk of group ${ref.group} on ${ref.node}`);
      vdisks.push(v);
      continue;
    }
    const n = ref.kind === 'id' ? fleet.node(ref.node) : undefined;
    const d =
      ref.kind === 'path'
        ? fleet.diskAtPath(ref.host, ref.path)
        : n === undefined
          ? undefined
          : fleet.disk(n, ref.disk);
    if (d === undefined)
      return noDisk(
        ref.kind === 'path' ? `disk ${ref.path} on ${ref.host}` : `disk ${ref.disk} on ${ref.node}`,
      );
    disks.push(d);
  }
  return { kind: 'disks', disks, vdisks };
}

const noDisk = (what: string): Target => none(refuse('NO_SUCH_DEVICE', 'NoSuchDisk', `there is no ${what}`));

/** From its node: two topologies may have groups of one number. */
function findVdisk(fleet: Fleet, group: number, node: string): number | undefined {
  const n = fleet.node(node);
  if (n === undefined) return undefined;
  const [from, to] = fleet.vdisksOf(n);
  for (let v = from; v < to; v++) if (fleet.groupIds[fleet.vdiskGroup[v] as number] === group) return v;
  return undefined;
}

/** Everything a granted action locks. A disk fills its node's place in the limits, once. */
export function itemsOf(fleet: Fleet, target: Target): readonly Item[] {
  if (target.kind === 'none') return [];
  if (target.kind === 'emptyHost') return [{ kind: 'host', index: target.host }];
  if (target.kind === 'nodes') return target.nodes.map((index) => ({ kind: 'node', index }));
  const nodes = new Set<number>();
  for (const d of target.disks) nodes.add(fleet.diskNode[d] as number);
  for (const v of target.vdisks) nodes.add(fleet.vdiskNode[v] as number);
  return [
    ...target.disks.map((index): Item => ({ kind: 'disk', index })),
    ...target.vdisks.map((index): Item => ({ kind: 'vdisk', index })),
    ...[...nodes].map((index): Item => ({ kind: 'device', index })),
  ];
}
