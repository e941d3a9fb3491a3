/** Operation documents: which of them are about a cluster and have not ended. */
import type { OperationRequest } from '../clusters/index.ts';
import type { Informer, ObjectChanged } from '../engine/informer.ts';
import type { ObjectKey, StoredObject } from '../engine/ports.ts';
import { isOperationOver, type Operation } from '../model/index.ts';
import { CANCEL_ANNOTATION, REQUESTED_BY_ANNOTATION } from './names.ts';

/** The cluster an operation is about. */
export function operationTarget(operation: StoredObject): ObjectKey {
  const { name, namespace } = (operation.spec as Operation['spec']).mongodbResourceRef;
  return { kind: 'MongoDB', namespace: namespace ?? operation.metadata.namespace, name };
}

/** Whether an operation is about this cluster, by name. */
export function isAbout(operation: StoredObject, cluster: StoredObject): boolean {
  const { namespace, name } = operationTarget(operation);
  return namespace === cluster.metadata.namespace && name === cluster.metadata.name;
}

/** Whether it is over, by its document. */
export const hasEnded = (operation: StoredObject): boolean =>
  isOperationOver((operation.status as Operation['status'])?.state);

/** What the document asks for, in the planner's terms. */
export function requestOf(operation: StoredObject): OperationRequest {
  const { uid, name, creationTimestamp, annotations, deletionTimestamp } = operation.metadata;
  return {
    uid,
    name,
    spec: operation.spec as Operation['spec'],
    createdAt: Date.parse(creationTimestamp),
    cancelRequested: annotations[CANCEL_ANNOTATION] !== undefined || deletionTimestamp !== null,
    ...askedBy(operation),
  };
}

/** The part of an operation's status that only its document knows: who asked for it. */
export function askedBy(operation: StoredObject): { readonly requestedBy?: string } {
  const who = operation.metadata.annotations[REQUESTED_BY_ANNOTATION];
  return who === undefined ? {} : { requestedBy: who };
}

/** Finds the operations of a cluster without asking anybody; those that ended are not kept. */
export class OperationIndex {
  readonly #byCluster = new Map<string, Map<string, StoredObject>>();

  constructor(informer: Informer) {
    informer.onChange((change) => this.#learn(change));
    for (const object of informer.all('Operation')) this.#learn({ before: null, after: object });
  }

  /** Oldest first. An operation older than the cluster was about another one of the same name. */
  open(cluster: StoredObject): readonly StoredObject[] {
    const { namespace, name, creationTimestamp } = cluster.metadata;
    const all = [...(this.#byCluster.get(`${namespace}/${name}`)?.values() ?? [])];
    return all.filter((o) => o.metadata.creationTimestamp >= creationTimestamp).sort(byAge);
  }

  #learn({ before, after }: ObjectChanged): void {
    const object = after ?? before;
    if (object?.kind !== 'Operation') return;
    const { namespace, name } = operationTarget(object);
    const cluster = `${namespace}/${name}`;
    const open = this.#byCluster.get(cluster) ?? new Map<string, StoredObject>();
    if (after === null || hasEnded(after)) open.delete(object.metadata.uid);
    else open.set(object.metadata.uid, after);
    if (open.size === 0) this.#byCluster.delete(cluster);
    else this.#byCluster.set(cluster, open);
  }
}

function byAge(a: StoredObject, b: StoredObject): number {
  const order = a.metadata.creationTimestamp.localeCompare(b.metadata.creationTimestamp);
  return order !== 0 ? order : a.metadata.uid.localeCompare(b.metadata.uid);
}
