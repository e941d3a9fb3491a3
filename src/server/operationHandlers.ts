/** What the routes of operations do: ask for one, cancel one. */
import { BelayError } from '../base/error.ts';
import type { StoredObject } from '../engine/ports.ts';
import { DEFAULT_NAMESPACE, type Operation } from '../model/index.ts';
import {
  CANCEL_ANNOTATION,
  OPERATION_FINALIZER,
  OPERATION_TARGET_LABEL,
  REQUESTED_BY_ANNOTATION,
} from '../provider/names.ts';
import { hasEnded } from '../provider/operationObjects.ts';
import { annotationsOf } from './annotations.ts';
import type { ApiDeps } from './deps.ts';
import { changeObject } from './objects.ts';
import { type AdmittedOperation, admitOperation, completed, makeRoom } from './operationDocuments.ts';
import { planOperation } from './planning.ts';
import { presentObject } from './present.ts';
import { type Call, dryRunOf } from './routes.ts';

/** Stores what is asked for; the cluster takes it up. A dry run says whether it would, or every step of it. */
export async function askForOperation(deps: ApiDeps, call: Call): Promise<unknown> {
  const mode = dryRunOf(call);
  const document = completed(call.body, call.param('ns') || DEFAULT_NAMESPACE);
  refuseOtherPlace(document, call.param('ns'));
  const admitted = await admitOperation(deps, document);
  if (mode === 'plan') return planOperation(deps, admitted);
  const input = newOperation(admitted, call.identity?.name ?? 'somebody');
  if (mode === 'validate') return admitted.operation;
  await makeRoom(deps, admitted.cluster);
  const object = await deps.store.create(input);
  call.reply.header('etag', `"${object.metadata.resourceVersion}"`);
  return call.reply.status(201).send(presentObject(object));
}

function refuseOtherPlace(document: unknown, namespace: string): void {
  const { kind, metadata } = (document ?? {}) as { kind?: unknown; metadata?: { namespace?: unknown } };
  if (typeof document !== 'object' || document === null) return;
  if (kind === 'Operation' && metadata?.namespace === namespace) return;
  throw new BelayError('Malformed', `the document is about another kind or namespace than the path`, {
    retry: 'never',
    fix: `send an Operation of namespace ${namespace}, or leave kind and namespace out`,
  });
}

function newOperation({ operation, cluster }: AdmittedOperation, who: string) {
  const { metadata, spec, kind } = operation;
  const { annotations } = annotationsOf(operation, [], null);
  const status: NonNullable<Operation['status']> = {
    observedGeneration: 1,
    conditions: [],
    warnings: [],
    state: 'Waiting',
    message: 'taken up with the next look at the cluster',
    completedMembers: [],
    cancellable: true,
    cancelRequested: false,
    requestedBy: who,
  };
  return {
    kind,
    namespace: metadata.namespace,
    name: metadata.name,
    spec,
    labels: { ...metadata.labels, [OPERATION_TARGET_LABEL]: cluster.metadata.name },
    annotations: { ...annotations, [REQUESTED_BY_ANNOTATION]: who },
    finalizers: [OPERATION_FINALIZER],
    status,
  };
}

/** Asks that an operation be stopped; asking twice is asking once. `Refused` when it has ended. */
export async function cancelOperation(deps: ApiDeps, call: Call): Promise<unknown> {
  const key = { kind: 'Operation', namespace: call.param('ns'), name: call.param('name') };
  const who = call.identity?.name ?? 'somebody';
  const object = await changeObject(deps, key, (current) => {
    if (hasEnded(current)) throw endedAlready(current);
    const { annotations } = current.metadata;
    if (annotations[CANCEL_ANNOTATION] !== undefined) return null;
    return { annotations: { ...annotations, [CANCEL_ANNOTATION]: who } };
  });
  return call.reply.status(202).send(object === null ? undefined : presentObject(object));
}

function endedAlready({ metadata, spec, status }: StoredObject): BelayError {
  const { state, message } = status as NonNullable<Operation['status']>;
  return new BelayError('Refused', `${metadata.name} has ended: ${state}${message ? `, ${message}` : ''}`, {
    retry: 'never',
    fix: nextOf(spec as Operation['spec']),
  });
}

/** An override ends as an operation at once, and what it lets happen goes on. */
const nextOf = (spec: Operation['spec']): string =>
  spec.type === 'OverrideWindows' && spec.end !== true
    ? `let changes wait for the windows again: belay override-windows ${spec.mongodbResourceRef.name} --end`
    : 'nothing is left to cancel; ask for another operation if something is to be done again';
